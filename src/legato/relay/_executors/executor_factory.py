"""What `relay.build` gives: an executable that is also (graph, lib, params), and a factory of executors.

lib = relay.build(mod, "llvm")
y = lib(x)                                            the compiled program, called with arrays
m = graph_executor.GraphModule(lib["default"](dev))   the same with inputs and outputs held
graph, lib, params = relay.build(mod, "llvm")         as older scripts unpack it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from legato.base.errors import RunError
from legato.driver import CompileOptions
from legato.ir.module import Module as Program
from legato.relay._executors.debug_session import DebugSession
from legato.relay._executors.graph_json import graph_json
from legato.relay.module import IRModule
from legato.runtime.executable import Executable
from legato.runtime.module import Module

__all__ = ["ExecutorFactoryModule", "GraphExecutorFactoryModule"]


class ExecutorFactoryModule(Module):
    """The compiled program of a module, with the module that it is of."""

    __slots__ = ("_options", "_program_of")

    _program_of: Program
    _options: CompileOptions

    @classmethod
    def made(cls, exe: Executable, program: Program, options: CompileOptions) -> ExecutorFactoryModule:
        """What `build` gives for the executable of a module, compiled with these options."""
        found = cls.of(exe)
        found._program_of, found._options = program, options
        return found

    @property
    def ir_mod(self) -> IRModule:
        """The module that was compiled."""
        return IRModule(self._program_of)

    @property
    def module(self) -> Module:
        """The compiled program as a library."""
        return Module.of(self)

    @property
    def libmod_name(self) -> str:
        """What the library is called."""
        return self.module_name

    def get_lib(self) -> Module:
        """The compiled program as a library."""
        return self.module

    def get_params(self) -> dict[str, Any]:
        """The parameters that are not in the library: none, since weights are."""
        return {}

    def get_executor_config(self) -> str:
        """The graph of kernels as JSON: see `graph_json`."""
        return self.get_graph_json()

    def get_graph_json(self) -> str:
        """The graph of kernels as JSON: see `graph_json`."""
        return graph_json(self._program_of, self._options)

    def __iter__(self) -> Iterator[Any]:
        """As `graph, lib, params = relay.build(…)` takes it apart."""
        yield self.get_graph_json()
        yield self.module
        yield self.get_params()

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """ "default" opens a session, "debug_create" one that has every intermediate tensor; the rest are facts."""
        match name:
            case "debug_create":
                return self._debug_create
            case "get_graph_json" | "get_executor_config":
                return self.get_graph_json
            case "get_params":
                return self.get_params
            case _:
                return super().__getitem__(name)

    def _debug_create(self, module_name: str, *devices: Any) -> DebugSession:
        if module_name not in ("default", self.module_name):
            raise RunError(f"the library has no module {module_name!r}; it has {self.module_name}")
        return self.debug_session(list(devices))

    def debug_session(self, devices: list[Any] | None = None) -> DebugSession:
        """A session that has every intermediate tensor."""
        return DebugSession(self, self._program_of, self._options, devices)


GraphExecutorFactoryModule = ExecutorFactoryModule
