"""`relay.vm.compile` and `VMCompiler`: modules of several functions for `legato.runtime.vm.VirtualMachine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.base.errors import CompileError, RunError
from legato.base.target import Target
from legato.relay.build_module import Executor, optimize, with_params
from legato.relay.module import IRModule
from legato.runtime import vm
from legato.runtime.executable import Executable
from legato.target import as_target

__all__ = ["VMCompiler", "VMExecutable", "compile"]


class VMExecutable(vm.Executable):
    """A module, compiled: each of its functions when it is first asked for."""

    def __init__(self, mod: IRModule, target: Target, packed: Mapping[str, object] | None = None) -> None:
        self.mod = mod
        self._executor = Executor("vm", mod, target, packed)
        self._entries: dict[str, Executable] = {}

    @property
    def globals(self) -> tuple[str, ...]:
        """The functions that can be called."""
        return tuple(gv.name for gv, _ in self.mod.module.graph_functions())

    def entry(self, name: str) -> Executable:
        """The compiled function `name`; RunError if there is none, CompileError where it cannot be compiled."""
        if name not in self._entries:
            if name not in self.globals:
                raise RunError(f"the program has no function {name!r}; it has {', '.join(self.globals)}")
            self._entries[name] = self._executor.evaluate(self.mod.get_global_var(name))
        return self._entries[name]


def compile(
    mod: Any,
    target: Any = None,
    target_host: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    packed: Mapping[str, object] | None = None,
) -> VMExecutable:
    """The module with `params` bound, compiled: @main now, if there is one, other functions when they are called."""
    found = VMExecutable(with_params(mod, params), as_target(target, target_host), packed)
    if "main" in found.globals:
        found.entry("main")
    return found


class VMCompiler:
    """The steps of `compile` one by one: `set_params`, `lower`, `codegen`, `get_exec`."""

    def __init__(self) -> None:
        self._params: dict[str, Any] = {}
        self._exec: VMExecutable | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Parameters of @main that are constants."""
        self._params.update(params)

    def get_params(self) -> dict[str, Any]:
        """Those that were set."""
        return dict(self._params)

    def lower(self, mod: Any, target: Any = None, target_host: Any = None) -> None:
        """Takes a module, to be compiled for a target."""
        self._exec = VMExecutable(with_params(mod, self._params), as_target(target, target_host))

    def codegen(self) -> None:
        """Compiles @main."""
        found = self.get_exec()
        if "main" in found.globals:
            found.entry("main")

    def optimize(
        self, mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
    ) -> tuple[IRModule, dict[str, Any]]:
        """As `relay.optimize`."""
        as_target(target, target_host)
        return optimize(mod, target, params={**self._params, **(params or {})})

    def get_exec(self) -> VMExecutable:
        """The executable; CompileError before `lower`."""
        if self._exec is None:
            raise CompileError("nothing was compiled yet", hint="compiler.lower(mod, target) comes first")
        return self._exec
