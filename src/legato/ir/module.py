"""A module: functions by global variable, data types by global type variable, attributes. Immutable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, VerifyError
from legato.base.immutable import Immutable
from legato.base.scripts import picture_of, print_script, script_of
from legato.ir.expr import Expr, Function, GlobalVar
from legato.ir.types import GlobalTypeVar, TypeData
from legato.tir.stmt import Func

__all__ = ["GlobalFunc", "Module"]

GlobalFunc = Function | Func


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, repr=False)
class Module(Immutable):
    """Functions (graph-level and loop-level), data types, attributes; `constants`: named arrays of host functions."""

    functions: Mapping[GlobalVar, GlobalFunc] = field(default_factory=dict)
    types: Mapping[GlobalTypeVar, TypeData] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "functions", MappingProxyType(dict(self.functions)))
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))
        names: set[str] = set()
        for gv in self.functions:
            if gv.name in names:
                raise VerifyError(f"two functions are called @{gv.name}")
            names.add(gv.name)

    @staticmethod
    def from_expr(expr: Expr, name: str = "main") -> Module:
        """A module whose function `name` is `expr` (a Function, or an expression without free variables)."""
        func = expr if isinstance(expr, Function) else Function((), expr)
        return Module({GlobalVar(name): func})

    def var(self, name: str) -> GlobalVar:
        """The global variable called `name`; CompileError if there is none."""
        for gv in self.functions:
            if gv.name == name:
                return gv
        known = ", ".join(f"@{gv.name}" for gv in self.functions) or "none"
        raise CompileError(f"the module has no function @{name}", hint=f"it has {known}")

    def __getitem__(self, key: str | GlobalVar) -> GlobalFunc:
        return self.functions[self.var(key) if isinstance(key, str) else key]

    def __contains__(self, key: str | GlobalVar) -> bool:
        if isinstance(key, GlobalVar):
            return key in self.functions
        return any(gv.name == key for gv in self.functions)

    def graph_functions(self) -> Iterator[tuple[GlobalVar, Function]]:
        """The functions of the language (not loop-level ones)."""
        return ((gv, f) for gv, f in self.functions.items() if isinstance(f, Function))

    def with_function(self, gv: GlobalVar, func: GlobalFunc) -> Module:
        """This module with `gv` defined as `func`; the same object where it is so already."""
        if self.functions.get(gv) is func:
            return self
        return replace(self, functions={**self.functions, gv: func})

    def with_functions(self, functions: Mapping[GlobalVar, GlobalFunc]) -> Module:
        """This module with exactly these functions; the same object where nothing differs."""
        same = len(functions) == len(self.functions) and all(self.functions.get(k) is v for k, v in functions.items())
        return self if same else replace(self, functions=functions)

    def script(self, constants: MutableMapping[str, Any] | None = None) -> str:
        """This module as a script; see `legato.script.show`."""
        return script_of(self, constants)

    def show(self) -> None:
        """Prints this module as a script: in colours on a terminal."""
        print_script(self)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return picture_of(self)

    def __str__(self) -> str:
        from legato.ir.printer import show  # the printer walks the classes defined here

        return show(self)

    def __repr__(self) -> str:
        return f"<Module {', '.join('@' + gv.name for gv in self.functions)}>"
