"""A compiled program as a function of tensors, as a graph's callers have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from legato.frontend.torch.graphs import GraphFace
from legato.runtime.executable import Executable
from legato.torch.tensors import as_array, as_tensor

__all__ = ["GraphProgram"]

_Taken = Callable[[Any, Sequence[Any]], Any]  # of the next result of the program, and the graph's inputs
_COMPUTED = ("tensor", "size", "float")


class GraphProgram:
    """An executable called with the inputs of a graph; gives its outputs, each a tensor of the strides that PyTorch
    traced, or a number.

    eager: runs the graph where an integer of the call is negative, which no dim is; None: that is a RunError.
    """

    def __init__(self, executable: Executable, face: GraphFace, eager: Callable[..., Any] | None = None) -> None:
        self.executable = executable
        self.face = face
        self.eager = eager
        self._results = [_taken(kind, value) for kind, value in face.results]
        self._is_single = sum(kind in _COMPUTED for kind, _ in face.results) == 1

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The outputs for the graph's inputs, in order."""
        given = [inputs[n] for n in self.face.given]
        if self.eager is not None and any(type(value) is int and value < 0 for value in given):
            return tuple(self.eager(*inputs))
        found: Any = self.executable(*[_value(value) for value in given])
        outputs = iter((found,) if self._is_single else found)
        return tuple([take(outputs, inputs) for take in self._results])


def _value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return as_array(value, "an input of the graph")
    return np.array(value, np.float64) if isinstance(value, float) else (int(value),)


def _taken(kind: str, value: Any) -> _Taken:
    """What gives an output of that kind."""
    if kind == "constant":
        return lambda outputs, inputs: value
    if kind == "input":
        return lambda outputs, inputs: inputs[value]
    if kind == "size":
        return lambda outputs, inputs: int(next(outputs))
    if kind == "float":
        return lambda outputs, inputs: float(next(outputs))
    if value is None:
        return lambda outputs, inputs: as_tensor(next(outputs))
    return partial(_laid_out, value, sorted(range(len(value)), key=value.__getitem__))


def _laid_out(order: Sequence[int], back: Sequence[int], outputs: Any, inputs: Sequence[Any]) -> torch.Tensor:
    """A copy whose axes lie in memory in `order`, from the outermost on."""
    return as_tensor(next(outputs)).permute(*order).contiguous().permute(*back)
