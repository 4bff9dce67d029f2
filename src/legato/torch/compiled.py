"""A module compiled ahead of time from what `torch.export` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch.utils import _pytree as pytree

from legato.base.errors import CompileError, LegatoError, RunError
from legato.driver import operators
from legato.frontend.torch.exported import Argument, Interface, Result, import_program
from legato.frontend.torch.signature import Converter
from legato.generators.external import engine_of
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ops._by_reference import ByReference
from legato.runtime.engines import Engine
from legato.runtime.executable import Executable
from legato.runtime.executable import load as load_executable
from legato.torch.saved import read, write
from legato.torch.tensors import as_array, as_tensor

__all__ = ["CompiledModule", "compile_module", "load"]


class CompiledModule:
    """A module of PyTorch as a native program: takes and returns tensors, in the structure of the module's `forward`.

    `executable` is the program, which can be saved as such; `state` has the tensors that calls change (buffers) or that
    may be changed without compiling again (all weights, where they are not frozen), by their names in the module.
    Buffers that calls change are the program's own: calls write into them, one at a time. No gradients flow through
    it. Thread-safe.
    """

    def __init__(self, executable: Executable, interface: Interface, state: Mapping[str, torch.Tensor]) -> None:
        self.executable = executable
        self.interface = interface
        self.changed = changed_state(interface)
        self.state = {name: _own(t) if name in self.changed else t.detach() for name, t in state.items()}
        self._lock = Lock()
        self._lost = ""
        self._names = _keywords(interface.in_spec)
        self._plain = _plain_inputs(interface, self._names)
        self._is_leaf = interface.out_spec.is_leaf()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`forward` of the module; RunError where the arguments are of another structure than those it was compiled
        for, or of other shapes or dtypes."""
        leaves = self._leaves(args, kwargs)
        if self.changed:
            with self._lock:
                given = self._run(leaves)
        else:
            given = self._run(leaves)
        return given[0] if self._is_leaf else pytree.tree_unflatten(given, self.interface.out_spec)

    def load_state_dict(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Replaces weights by tensors of the same shape and dtype, without copying those that calls do not change;
        RunError for those that are constants of the program."""
        for name, tensor in tensors.items():
            own = self.state.get(name)
            if own is None:
                raise RunError(f"{name} is a constant of the program: compile with frozen=False")
            if own.shape != tensor.shape or own.dtype != tensor.dtype:
                raise RunError(f"{name}: {tensor.dtype}{list(tensor.shape)}, wanted {own.dtype}{list(own.shape)}")
        with self._lock:
            self.state.update({n: _own(t) if n in self.changed else t.detach() for n, t in tensors.items()})
            self._lost = "" if self.changed <= tensors.keys() else self._lost

    def save(self, path: str | Path) -> None:
        """Writes the program, how it is called, and its state into one file that `legato.torch.load` reads;
        ArtifactError if that fails, or for structures that PyTorch cannot write."""
        with self._lock:
            self._require_state()
            write(Path(path), self.executable, self.interface, self.state)

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        """What the call gives, in order; the state is new, and inputs that the module changes are changed."""
        self._require_state()
        values = [self._value(a, leaves) for a in self.interface.arguments]
        try:
            found: Any = self.executable(*values)
        except (LegatoError, KeyboardInterrupt) as error:
            if self.changed and getattr(error, "begun", True):
                self._lost = str(error) or type(error).__name__
            raise
        outputs = iter(found if isinstance(found, tuple) else (found,))
        results = [self._returned(r, outputs, leaves) for r in self.interface.results]
        return [v for r, v in zip(self.interface.results, results, strict=True) if r.kind not in ("state", "input")]

    def _require_state(self) -> None:
        if self._lost:
            raise RunError(f"the state of the module was lost in a call that failed: {self._lost}; load_state_dict "
                           f"has to give {', '.join(sorted(self.changed))}")  # fmt: skip

    def _leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        spec, names = self.interface.in_spec, self._names
        if len(args) == self._plain and len(kwargs) == len(names) and all(name in kwargs for name in names):
            leaves = [*args, *(kwargs[name] for name in names)]
            if all(isinstance(leaf, torch.Tensor) for leaf in leaves):
                return leaves  # as PyTorch would flatten them, which takes it 50 microseconds
        if set(kwargs) != set(names):
            raise RunError(f"the keyword arguments are {', '.join(kwargs) or 'none'}, wanted "
                           f"{', '.join(names) or 'none'}")  # fmt: skip
        leaves, given = pytree.tree_flatten((args, {name: kwargs[name] for name in names}))
        if given != spec:
            raise RunError(f"the arguments are {given}, wanted {spec}")
        for place, wanted in self.interface.fixed.items():
            own = leaves[place]
            if type(own) is not type(wanted) or (own != wanted and (own == own or wanted == wanted)):  # NaN is NaN
                raise RunError(f"argument {place} is {own!r}: the module was compiled for {wanted!r}")
        return leaves

    def _value(self, argument: Argument, leaves: Sequence[Any]) -> Any:
        value = self.state[argument.target] if argument.kind == "state" else leaves[argument.place]
        if argument.kind == "size":
            if type(value) is not int:
                raise RunError(f"argument {argument.name} is a {type(value).__name__}, wanted an integer")
            return (value,)
        if not isinstance(value, torch.Tensor):
            raise RunError(f"argument {argument.name} is a {type(value).__name__}, wanted a tensor")
        return as_array(value, argument.name)

    def _returned(self, result: Result, outputs: Any, leaves: Sequence[Any]) -> Any:
        if result.kind == "constant":
            return result.value
        array = next(outputs)
        if result.kind == "size":
            return int(array)
        tensor = as_tensor(array)
        if result.kind == "state":
            self.state[result.target] = tensor
        elif result.kind == "input":
            place = next(a.place for a in self.interface.arguments if a.name == result.target)
            leaves[place].copy_(tensor)
        return tensor


def changed_state(interface: Interface) -> frozenset[str]:
    """The names of the tensors of a module that calls change."""
    return frozenset(result.target for result in interface.results if result.kind == "state")


def _own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _keywords(spec: Any) -> tuple[str, ...]:
    """The names of the keyword arguments in the tree of a module's arguments."""
    keywords = spec.child(1) if hasattr(spec, "child") else spec.children_specs[1]
    return tuple(keywords.context)


def _plain_inputs(interface: Interface, names: Sequence[str]) -> int:
    """How many arguments there are by position, where all of these and those by name are tensors; -1: they are not."""
    count = sum(a.kind == "input" for a in interface.arguments)
    in_order = [a.place for a in interface.arguments if a.kind != "state"] == list(range(count))
    _, spec = pytree.tree_flatten(((0,) * (count - len(names)), dict.fromkeys(names, 0)))
    return count - len(names) if in_order and not interface.fixed and spec == interface.in_spec else -1


def load(
    path: str | Path,
    *,
    threads: int | None = None,
    memory_limit: int = 0,
    ops: Iterable[Op] = (),
    packed: Mapping[str, object] | None = None,
    generators: Iterable[Any] = (),
) -> CompiledModule:
    """The module in a file of `CompiledModule.save`; the arguments, and the errors of the program in it, as for
    `legato.load`. ArtifactError for other files."""
    own = tuple(ops)

    def compiled(generator: Any, symbol: str, data: bytes) -> Engine:
        return engine_of(generator, symbol, data, operators(own))

    def load_program(file: str) -> Executable:
        return load_executable(file, threads=threads, memory_limit=memory_limit, host_ops=ByReference(own),
                               packed=packed, generators=generators, compiled=compiled)  # fmt: skip

    return CompiledModule(*read(Path(path), load_program))


def compile_module(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    *,
    dynamic_shapes: Any,
    custom: Mapping[str, Converter] | None,
    frozen: bool,
    build: Callable[[Module, tuple[str, ...]], Executable],
) -> CompiledModule:
    """A module, or an ExportedProgram, compiled by `build`, which is told what inputs calls give up.

    CompileError where a module comes without arguments.
    """
    if not isinstance(model, torch.export.ExportedProgram):
        if not args and not kwargs:
            raise CompileError("a module of PyTorch is compiled for example arguments", hint="args=(x,)")
        model = torch.export.export(model, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    mod, interface = import_program(model, custom=custom, frozen=frozen)
    changed = changed_state(interface)
    donated = tuple(a.name for a in interface.arguments if a.kind == "state" and a.target in changed)
    tensors = {**model.state_dict, **model.constants}
    state = {a.target: tensors[a.target] for a in interface.arguments if a.kind == "state"}
    return CompiledModule(build(mod, donated), interface, state)
