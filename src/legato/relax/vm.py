"""`relax.build` and `relax.VirtualMachine`: compiled modules under Relax's names, with its ways to call them.

    ex = relax.build(mod, target="llvm")
    vm = relax.VirtualMachine(ex, relax.cpu())
    y = vm["main"](x, w).numpy()

Functions are native code; nothing is interpreted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from legato.base.errors import CompileError, RunError, UnsupportedError
from legato.base.target import Target
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.relax.params import bound_params
from legato.relay import vm
from legato.relay.module import IRModule
from legato.runtime.entry import Entry
from legato.runtime.executable import Executable
from legato.runtime.ndarray import require_cpu
from legato.runtime.timing import BenchmarkResult, time_evaluator
from legato.target import as_target

__all__ = ["BenchmarkResult", "VMExecutable", "VirtualMachine", "build"]


class VMExecutable(vm.VMExecutable):
    """A module, compiled: each of its functions, when it is first asked for."""

    def __init__(self, mod: Module, target: Target, packed: Mapping[str, object] | None = None) -> None:
        super().__init__(IRModule(mod), target, packed)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that can be called."""
        return self.globals

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


class VirtualMachine:
    """Calls the functions of a compiled module (`relax.build`), or of a loaded artifact (`legato.load`)."""

    NAIVE_ALLOCATOR, POOLED_ALLOCATOR = 1, 2

    def __init__(self, rt_mod: Any, device: Any = None, memory_cfg: object = None) -> None:
        for one in device if isinstance(device, list | tuple) else (device,):
            require_cpu(one)
        if not isinstance(rt_mod, VMExecutable | Executable):
            raise RunError(f"a virtual machine of a {type(rt_mod).__name__}, wanted what relax.build gives")
        self._program = rt_mod
        self._functions: dict[str, Entry] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}
        self._saved: dict[str, Callable[[], Any]] = {}

    def _function(self, name: str) -> Entry:
        if name not in self._functions:
            self._functions[name] = Entry.of(name, self._program.entry(name))
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
        return time_evaluator(self[func_name], number, repeat, min_repeat_ms)

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Calls what a function of this machine gives."""
        return closure(*args)

    def set_instrument(self, instrument: object) -> NoReturn:
        """Not here: programs are native code, and call no instruments."""
        raise UnsupportedError("programs are native code, and call no instruments", hint="legato profile shows kernels")


def _drop(_: object) -> None:
    """What nobody asked for."""
