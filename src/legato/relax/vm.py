"""`relax.build` and `relax.VirtualMachine`: compiled modules under Relax's names, with its ways to call them.

    ex = relax.build(mod, target="llvm")
    vm = relax.VirtualMachine(ex, relax.cpu())
    y = vm["main"](x, w).numpy()

Functions are native code; nothing is interpreted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.dtype import dtype
from legato.base.errors import CompileError, RunError, UnsupportedError
from legato.base.target import Target
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.relax.nd import wrapped
from legato.relax.params import bound_params
from legato.relay._targets import as_target, require_cpu
from legato.relay.build_module import Executor
from legato.relay.module import IRModule
from legato.runtime.executable import Executable

__all__ = ["BenchmarkResult", "VMExecutable", "VirtualMachine", "build"]


class VMExecutable:
    """A module, compiled: each of its functions, when it is first asked for."""

    def __init__(self, mod: Module, target: Target, packed: Mapping[str, object] | None = None) -> None:
        self.module = mod
        self._executor = Executor("vm", IRModule(mod), target, packed)
        self._entries: dict[str, Executable] = {}

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that can be called."""
        return tuple(gv.name for gv, _ in self.module.graph_functions())

    def entry(self, name: str) -> Executable:
        """The compiled function `name`; RunError if there is none, CompileError where it cannot be compiled."""
        if name not in self._entries:
            if name not in self.functions:
                raise RunError(f"the program has no function {name!r}; it has {', '.join(self.functions)}")
            self._entries[name] = self._executor.evaluate(self.module.var(name))
        return self._entries[name]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return VirtualMachine(self)[name]

    def jit(self) -> VMExecutable:
        """This: it is machine code already."""
        return self

    def export_library(self, path: str | Path, **options: object) -> None:
        """Writes function main to an artifact, which `legato.load` reads; VirtualMachine takes what that gives."""
        if options:
            raise CompileError(f"export_library has no option {', '.join(options)}", hint="an artifact is one file")
        self.entry("main").save(path)


def build(
    mod: Any,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "bytecode",
    *,
    system_lib: bool | None = None,
    packed: Mapping[str, object] | None = None,
) -> VMExecutable:
    """The module, compiled for `target` (None: this machine): function main, or the first; the others on use.

    params: values of parameters of main, by name. relax_pipeline: a pass that comes first; "default" and None: none.
    exec_mode: "bytecode" and "compiled" are the same. packed: as for `legato.compile`. CompileError for what is not
    followed.
    """
    module = getattr(mod, "module", mod)
    if not isinstance(module, Module):
        raise CompileError(f"relax.build takes a module, got a {type(mod).__name__}")
    if tir_pipeline not in ("default", None) or system_lib:
        raise UnsupportedError("schedules are derived, and code is linked by itself",
                               hint="leave out tir_pipeline and system_lib")  # fmt: skip
    if exec_mode not in ("bytecode", "compiled"):
        raise CompileError(f"there is no exec_mode {exec_mode!r}", hint="bytecode, or compiled, which is the same")
    if params:
        module = bound_params(infer(module), "main", params)
    if callable(relax_pipeline):
        found = relax_pipeline(module)
        module = getattr(found, "module", found)
    elif relax_pipeline not in ("default", "zero", None):
        raise CompileError(f"there is no pipeline {relax_pipeline!r}", hint="a pass, or None")
    made = VMExecutable(module, as_target(target), packed)
    if not made.functions:
        raise CompileError("the module has no function of the graph", hint="a tensor program is called by one")
    made.entry("main" if "main" in made.functions else made.functions[0])
    return made


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Seconds per call, one number for each repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The average."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The median."""
        return float(np.median(self.results))

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.std(self.results))

    @property
    def min(self) -> float:
        """The least."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The largest."""
        return max(self.results)


class VirtualMachine:
    """Calls the functions of a compiled module (`relax.build`), or of a loaded artifact (`legato.load`)."""

    NAIVE_ALLOCATOR, POOLED_ALLOCATOR = 1, 2

    def __init__(self, rt_mod: Any, device: Any = None, memory_cfg: object = None) -> None:
        for one in device if isinstance(device, list | tuple) else (device,):
            require_cpu(one)
        if not isinstance(rt_mod, VMExecutable | Executable):
            raise RunError(f"a virtual machine of a {type(rt_mod).__name__}, wanted what relax.build gives")
        self._program = rt_mod
        self._functions: dict[str, _Function] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}
        self._saved: dict[str, Callable[[], Any]] = {}

    def _function(self, name: str) -> _Function:
        if name not in self._functions:
            self._functions[name] = _Function.of(name, self._program.entry(name))
        return self._functions[name]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function `name`, of arrays in order, or by name; or what `save_function` kept."""
        return self._saved[name] if name in self._saved else self._function(name)

    def set_input(self, func_name: str, *args: Any, **keywords: Any) -> None:
        """The arguments of the next `invoke_stateful`."""
        self._inputs[func_name] = self._function(func_name).ordered(args, keywords)

    def invoke_stateful(self, func_name: str) -> None:
        """Calls a function with the arguments that were set. RunError where none were."""
        if func_name not in self._inputs:
            raise RunError(f"the inputs of {func_name} are not set: vm.set_input comes first")
        self._outputs[func_name] = self[func_name](*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """What the last `invoke_stateful` gave. RunError where there was none."""
        if func_name not in self._outputs:
            raise RunError(f"{func_name} has no outputs yet: vm.invoke_stateful computes them")
        return self._outputs[func_name]

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **keywords: Any
    ) -> None:
        """Keeps a call with its arguments as function `saved_name` of none."""
        function = self._function(func_name)
        given = function.ordered(args, keywords)
        self._saved[saved_name] = (lambda: function(*given)) if include_return else (lambda: _drop(function(*given)))

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0, **rest: object
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """A function of the arguments that says how long calls take: the average of `number` calls, `repeat` times.

        `number` grows until they take `min_repeat_ms`. (`legato.bench` compares programs.)
        """
        require_cpu(dev)
        if number < 1 or repeat < 1:
            raise RunError(f"{number} calls, {repeat} times: at least one of each")
        function = self[func_name]

        def evaluate(*args: Any) -> BenchmarkResult:
            function(*args)
            count = number
            results: list[float] = []
            while len(results) < repeat:
                seconds = _seconds(function, args, count)
                if seconds * 1e3 < min_repeat_ms:
                    count *= 2
                else:
                    results.append(seconds / count)
            return BenchmarkResult(tuple(results))

        return evaluate

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Calls what a function of this machine gives."""
        return closure(*args)

    def set_instrument(self, instrument: object) -> NoReturn:
        """Not here: programs are native code, and call no instruments."""
        raise UnsupportedError("programs are native code, and call no instruments", hint="legato profile shows kernels")


def _drop(_: object) -> None:
    """What nobody asked for."""


def _seconds(function: Callable[..., Any], args: Sequence[Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function(*args)
    return time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class _Function:
    """A compiled function, with the names of its arguments and the dtypes of those that are tensors."""

    name: str
    entry: Executable
    names: tuple[str, ...]
    dtypes: tuple[str | None, ...]

    @staticmethod
    def of(name: str, entry: Executable) -> _Function:
        """The function `name`, which is `entry`."""
        takes = entry.arguments
        return _Function(name, entry, tuple(a.name for a in takes), tuple(getattr(a, "dtype", None) for a in takes))

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        return wrapped(self.entry(*self.ordered(args, named)))

    def ordered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments in order. RunError where names are none, or given twice; the call checks the rest."""
        rest = self.names[len(args) :]
        if named and (named.keys() - set(rest) or len(named) != len(rest)):
            given = f"{len(args)} arguments and {', '.join(named)}"
            raise RunError(f"{self.name} takes {', '.join(self.names)}, got {given}")
        return self._leaves((*args, *(named[key] for key in rest)) if named else args)

    def _leaves(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What tuples and lists hold, in a row, where numbers are scalars of the dtype that is wanted there."""
        found: list[Any] = []
        stack = list(reversed(args))
        while stack:
            value = stack.pop()
            if isinstance(value, tuple | list):
                stack += reversed(value)
            else:
                found.append(value)
        if len(found) != len(self.dtypes):
            return tuple(found)  # the call says what is missing
        return tuple(map(_scalar, found, self.dtypes))


def _scalar(value: Any, wanted: str | None) -> Any:
    if not isinstance(value, bool | int | float) or wanted is None:
        return value
    kind = dtype(wanted)
    if kind.is_bool != isinstance(value, bool) or (isinstance(value, float) and not kind.is_float):
        raise RunError(f"got {value!r}, wanted a number of {wanted}")
    if kind.is_int and not kind.min <= value <= kind.max:
        raise RunError(f"{value} does not fit into {wanted}")
    return np.asarray(value, kind.numpy)
