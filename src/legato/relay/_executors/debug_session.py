"""A session with every intermediate tensor: what TVM's debug executor is to a script."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from legato.base.errors import RunError
from legato.base.kinds import integer
from legato.compare.tensors import Step, Tensors, every_tensor
from legato.driver import CompileOptions
from legato.ir.module import Module
from legato.runtime.executable import Executable
from legato.runtime.ndarray import wrapped
from legato.runtime.session import Session

__all__ = ["DebugSession"]


class DebugSession(Session):
    """A session whose calls keep the result of every kernel.

    The program is compiled once more, so that it returns them: see `compare.tensors`.
    """

    def __init__(self, program: Executable, mod: Module, options: CompileOptions, device: Any = None) -> None:
        super().__init__(program, device)
        self._mod, self._options = mod, options
        self._tensors: dict[str, np.ndarray[Any, Any]] = {}

    @cached_property
    def _whole(self) -> Tensors:
        return every_tensor(self._mod, self._options)

    def set_output_zero_copy(self, index: int, value: Any) -> None:
        """RunError: the program that keeps every tensor has outputs of its own."""
        raise RunError(
            "a debug session writes no output into an array\n"
            "  hint: get_output(n, out) copies; a GraphModule writes outputs into arrays"
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that have tensors, in order."""
        return self._whole.steps

    def run(self) -> None:
        """Calls the program, keeping every tensor. RunError where an input was not set."""
        outputs, self._tensors = self._whole(self.given)
        self._outputs = [wrapped(value) for value in outputs.values()]

    @property
    def tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """The tensors of the last call by name, in order. RunError before the first."""
        if not self._outputs:
            raise RunError("there are no tensors yet: run computes them")
        return self._tensors

    def value_of(self, node: str | int) -> Any:
        """The tensor of a step of this name or number, or the input of this name; RunError for others."""
        if isinstance(node, str) and self.get_input_index(node) >= 0:
            return self.get_input(node)
        names = [t.name for step in self.steps for t in step.outputs]
        number = integer(node)
        name = names[number] if number is not None and 0 <= number < len(names) else node
        if not isinstance(name, str) or name not in self.tensors:
            raise RunError(f"there is no tensor {node!r}; there are {', '.join(names) or 'none'}")
        return wrapped(self.tensors[name])
