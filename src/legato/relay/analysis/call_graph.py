"""Which functions of a module name which."""

from __future__ import annotations

from typing import Any

from legato.base.errors import CompileError
from legato.base.node import post_order
from legato.ir.expr import GlobalVar
from legato.ir.module import Module

__all__ = ["CallGraph"]


class CallGraph:
    """`CallGraph(mod)`: for each function of a module, the functions that it names, each once."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._module: Module = getattr(module, "module", module)
        self._named: dict[GlobalVar, tuple[GlobalVar, ...]] = dict.fromkeys(self._module.functions, ())
        for gv, func in self._module.graph_functions():
            found = dict.fromkeys(node for node in post_order([func.body]) if isinstance(node, GlobalVar))
            self._named[gv] = tuple(found)

    def __getitem__(self, var: str | GlobalVar) -> tuple[GlobalVar, ...]:
        """The functions that a function names. CompileError for one that the module does not have."""
        return self._named[self._var(var)]

    def _var(self, var: Any) -> GlobalVar:
        found = self._module.var(var) if isinstance(var, str) else var
        if found not in self._named:
            raise CompileError(f"the module has no function {found}", hint=f"it has {', '.join(map(str, self._named))}")
        assert isinstance(found, GlobalVar)
        return found

    def ref_count(self, var: str | GlobalVar) -> int:
        """How many functions name this one, itself among them."""
        wanted = self._var(var)
        return sum(wanted in named for named in self._named.values())

    def global_call_count(self, var: str | GlobalVar) -> int:
        """How many functions this one names."""
        return len(self[var])

    def is_recursive(self, var: str | GlobalVar) -> bool:
        """Whether a function names itself."""
        return self._var(var) in self[var]

    def print_var(self, var: str | GlobalVar) -> str:
        """One function and those that it names, as text."""
        head = f"@{self._var(var).name} (named by {self.ref_count(var)})"
        return "\n".join((head, *(f"  names @{callee.name}" for callee in self[var])))

    def __str__(self) -> str:
        return "\n".join(self.print_var(gv) for gv in sorted(self._named, key=lambda gv: gv.name))
