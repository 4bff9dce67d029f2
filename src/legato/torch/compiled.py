"""A module compiled ahead of time from what `torch.export` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from legato.base.errors import CompileError, RunError
from legato.frontend.torch.exported import Argument, Interface, Result, import_program
from legato.frontend.torch.signature import Converter
from legato.ir.module import Module
from legato.runtime.executable import Executable
from legato.torch.tensors import as_array, as_tensor

__all__ = ["CompiledModule", "compile_module"]


class CompiledModule:
    """A module of PyTorch as a native program: takes and returns tensors, in the structure of the module's `forward`.

    `executable` is the program; `state` has the tensors that calls change (buffers) or that may be changed without
    compiling again (all weights, where they are not frozen), by their names in the module. No gradients flow through
    it.
    """

    def __init__(self, executable: Executable, interface: Interface, state: Mapping[str, torch.Tensor]) -> None:
        self.executable = executable
        self.interface = interface
        self.state = dict(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`forward` of the module; RunError where the arguments are of another structure than those it was compiled
        for."""
        leaves = self._leaves(args, kwargs)
        values = [self._value(a, leaves) for a in self.interface.arguments]
        found = self.executable(*values)
        outputs = iter(found if isinstance(found, tuple) else (found,))
        results = [self._returned(r, outputs, leaves) for r in self.interface.results]
        given = [v for r, v in zip(self.interface.results, results, strict=True) if r.kind not in ("state", "input")]
        return pytree.tree_unflatten(given, self.interface.out_spec)

    def load_state_dict(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Replaces weights by tensors of the same shape and dtype; RunError for those that are constants of the
        program."""
        for name, tensor in tensors.items():
            own = self.state.get(name)
            if own is None:
                raise RunError(f"{name} is a constant of the program: compile with frozen=False")
            if own.shape != tensor.shape or own.dtype != tensor.dtype:
                raise RunError(f"{name}: {tensor.dtype}{list(tensor.shape)}, wanted {own.dtype}{list(own.shape)}")
        self.state.update({name: tensor.detach() for name, tensor in tensors.items()})

    def _leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        spec = self.interface.in_spec
        names = spec.child(1).context if hasattr(spec, "child") else spec.children_specs[1].context
        if set(kwargs) != set(names):
            raise RunError(f"the keyword arguments are {', '.join(kwargs) or 'none'}, wanted "
                           f"{', '.join(names) or 'none'}")  # fmt: skip
        leaves, given = pytree.tree_flatten((args, {name: kwargs[name] for name in names}))
        if given != spec:
            raise RunError(f"the arguments are {given}, wanted {spec}")
        for place, wanted in self.interface.fixed.items():
            if leaves[place] != wanted:
                raise RunError(f"argument {place} is {leaves[place]!r}: the module was compiled for {wanted!r}")
        return leaves

    def _value(self, argument: Argument, leaves: Sequence[Any]) -> Any:
        if argument.kind == "size":
            return (int(leaves[argument.place]),)
        tensor = self.state[argument.target] if argument.kind == "state" else leaves[argument.place]
        if not isinstance(tensor, torch.Tensor):
            raise RunError(f"argument {argument.name} is a {type(tensor).__name__}, wanted a tensor")
        return as_array(tensor, f"argument {argument.name}")

    def _returned(self, result: Result, outputs: Any, leaves: Sequence[Any]) -> Any:
        if result.kind == "constant":
            return result.value
        array = np.asarray(next(outputs))
        if result.kind == "size":
            return int(array)
        tensor = as_tensor(array)
        if result.kind == "state":
            self.state[result.target] = tensor
        elif result.kind == "input":
            place = next(a.place for a in self.interface.arguments if a.name == result.target)
            leaves[place].copy_(tensor)
        return tensor


def compile_module(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    *,
    dynamic_shapes: Any,
    custom: Mapping[str, Converter] | None,
    frozen: bool,
    build: Callable[[Module], Executable],
) -> CompiledModule:
    """A module, or an ExportedProgram, compiled by `build`; CompileError where a module comes without arguments."""
    if not isinstance(model, torch.export.ExportedProgram):
        if not args and not kwargs:
            raise CompileError("a module of PyTorch is compiled for example arguments", hint="args=(x,)")
        model = torch.export.export(model, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    mod, interface = import_program(model, custom=custom, frozen=frozen)
    tensors = {**model.state_dict, **model.constants}
    state = {a.target: tensors[a.target].detach() for a in interface.arguments if a.kind == "state"}
    return CompiledModule(build(mod), interface, state)
