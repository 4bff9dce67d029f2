"""IRModule: functions and data types under names, which may be set and replaced.

The compiler's modules are immutable values (`legato.ir.module.Module`). An IRModule holds one, in `module`, and each
change puts another in its place, so whoever kept the old one still has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from legato.base.errors import CompileError
from legato.base.scripts import picture_of
from legato.ir.expr import Constructor, Function, GlobalVar
from legato.ir.module import GlobalFunc, Module
from legato.ir.printer import show
from legato.ir.types import GlobalTypeVar, TypeData
from legato.ir.visit import free_vars, rename_globals
from legato.relay.analysis.types import free_type_vars
from legato.relay.expr import as_expr, require_closed
from legato.tir.stmt import Func

__all__ = ["IRModule"]

Functions = Mapping[GlobalVar | str, Any]


class IRModule:
    """`IRModule({gv: function}, {type_var: type_data})`, `IRModule.from_expr(expr)`, or around a Module."""

    def __init__(
        self,
        functions: Functions | Module | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(functions, Module):
            if type_definitions or attrs:
                raise CompileError("a Module has its own data types and attributes", hint="see IRModule.with_attrs")
            self.module = functions
            return
        self.module = Module({}, dict(type_definitions or {}), dict(attrs or {}))
        for key, func in (functions or {}).items():
            self[key] = func

    @staticmethod
    def from_expr(
        expr: Any, functions: Functions | None = None, type_defs: Mapping[GlobalTypeVar, TypeData] | None = None
    ) -> IRModule:
        """A module whose @main is `expr`: a function, or an expression whose free variables become parameters."""
        mod = IRModule(functions, type_defs)
        body = as_expr(expr)
        if isinstance(body, Function):
            name = str(body.attrs.get("global_symbol", "main"))
            func = body
        else:
            name, func = "main", Function(free_vars(body), body, type_params=tuple(free_type_vars(body, mod)))
        mod[name] = func
        return mod

    # ------------------------------------------------------------------ functions and types

    @property
    def functions(self) -> Mapping[GlobalVar, GlobalFunc]:
        """The functions by global variable."""
        return self.module.functions

    @property
    def type_definitions(self) -> Mapping[GlobalTypeVar, TypeData]:
        """The data types by global type variable."""
        return self.module.types

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the module."""
        return self.module.attrs

    def __getitem__(self, var: str | GlobalVar | GlobalTypeVar) -> Any:
        """The function of a global variable or name, or the definition of a global type variable."""
        if isinstance(var, GlobalTypeVar):
            return self.module.types[var]
        return self.module[self.get_global_var(var) if isinstance(var, str) else var]

    def __setitem__(self, var: str | GlobalVar | GlobalTypeVar, val: Any) -> None:
        """Defines a function (an expression becomes one without parameters), a tensor program, or a data type.

        VerifyError for a function that uses variables which it does not bind, and for a second function of one name.
        """
        if isinstance(var, GlobalTypeVar):
            self.module = replace(self.module, types={**self.module.types, var: val})
            return
        if isinstance(val, Func):
            key = self._var(var)
            self.module = self.module.with_function(key, replace(val, name=key.name))
            return
        found = as_expr(val)
        func = found if isinstance(found, Function) else Function((), found)
        name = var if isinstance(var, str) else var.name
        require_closed(func, f"function @{name}")
        self.module = self.module.with_function(self._var(var), func)

    def _var(self, var: str | GlobalVar) -> GlobalVar:
        """The variable under which `var` is defined: of a name, the one that has it already, or a new one."""
        if isinstance(var, GlobalVar):
            return var
        return self.module.var(var) if var in self.module else GlobalVar(var)

    def __delitem__(self, var: str | GlobalVar) -> None:
        gone = self.get_global_var(var) if isinstance(var, str) else var
        self.module = self.module.with_functions({k: f for k, f in self.module.functions.items() if k != gone})

    def __contains__(self, var: str | GlobalVar | GlobalTypeVar) -> bool:
        return var in self.module.types if isinstance(var, GlobalTypeVar) else var in self.module

    def __len__(self) -> int:
        return len(self.module.functions)

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.module.functions)

    def update(self, other: IRModule | Functions) -> None:
        """Takes the functions and data types of `other`, which replace those of the same names.

        Where both have a function of one name, the names in the functions of `other` mean the one that stays.
        """
        if not isinstance(other, IRModule):
            other = IRModule(other)
        renamed = {gv: self.module.var(gv.name) if gv.name in self.module else gv for gv in other.functions}
        for data in other.type_definitions.values():
            self[data.header] = data
        changed = {gv: new for gv, new in renamed.items() if gv != new}
        functions = {renamed[gv]: rename_globals(f, changed) for gv, f in other.functions.items()}
        self.module = replace(self.module, functions={**self.module.functions, **functions})

    def update_func(self, var: GlobalVar, func: Any) -> None:
        """Defines `var` as `func`."""
        self[var] = func

    def replace_global_vars(self, replacements: Mapping[Any, Any]) -> IRModule:
        """A module in which global variables (or names) have others."""
        new = {k if isinstance(k, GlobalVar) else self.get_global_var(k): v for k, v in replacements.items()}
        by_var = {k: v if isinstance(v, GlobalVar) else GlobalVar(v) for k, v in new.items()}
        functions = {by_var.get(gv, gv): rename_globals(f, by_var) for gv, f in self.functions.items()}
        return IRModule(replace(self.module, functions=functions))

    def clone(self) -> IRModule:
        """A module of its own with the same content."""
        return IRModule(self.module)

    def import_from_std(self, file_to_import: str) -> None:
        """Takes the definitions of a file of the library: "prelude.rly", "nat.rly", "gradient.rly", "core.rly"."""
        from legato.prelude import library  # read on use

        self.update(IRModule(library(file_to_import.removesuffix(".rly"))))

    # ------------------------------------------------------------------ questions

    def get_global_var(self, name: str) -> GlobalVar:
        """The global variable called `name`; CompileError if there is none."""
        return self.module.var(name)

    def get_global_vars(self) -> tuple[GlobalVar, ...]:
        """The global variables, in order of definition."""
        return tuple(self.module.functions)

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """The global type variable called `name`; CompileError if there is none."""
        for header in self.module.types:
            if header.name == name:
                return header
        known = ", ".join(h.name for h in self.module.types) or "none"
        raise CompileError(f"the module has no data type {name}", hint=f"it has {known}")

    def get_global_type_vars(self) -> tuple[GlobalTypeVar, ...]:
        """The global type variables, in order of definition."""
        return tuple(self.module.types)

    def get_constructor(self, tag: int) -> Constructor:
        """The constructor of position `tag` in its data type.

        Positions are per data type here: CompileError where several types have one (use `get_type`). (In Relay a tag
        also had the hash of the type's name in it.)
        """
        found = [c for data in self.module.types.values() for c in data.constructors if c.tag == tag]
        if len(found) != 1:
            raise CompileError(f"{len(found)} constructors of the module have tag {tag}", hint="use get_type(name)")
        return found[0]

    def get_type(self, name: str) -> tuple[GlobalTypeVar | Constructor, ...]:
        """The global type variable called `name`, then its constructors."""
        header = self.get_global_type_var(name)
        return (header, *self.module.types[header].constructors)

    def functions_items(self) -> list[tuple[GlobalVar, GlobalFunc]]:
        """The functions with their variables, by name."""
        return sorted(self.module.functions.items(), key=lambda pair: pair[0].name)

    # ------------------------------------------------------------------ attributes

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """A module like this with an attribute."""
        return self.with_attrs({attr_key: attr_value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """A module like this with attributes."""
        return IRModule(replace(self.module, attrs={**self.module.attrs, **attr_map}))

    def without_attr(self, attr_key: str) -> IRModule:
        """A module like this without an attribute."""
        return IRModule(replace(self.module, attrs={k: v for k, v in self.module.attrs.items() if k != attr_key}))

    def get_attr(self, attr_key: str) -> Any:
        """The attribute, or None."""
        return self.module.attrs.get(attr_key)

    # ------------------------------------------------------------------ text

    def astext(self, show_meta_data: bool = True) -> str:
        """The module as text, which `relay.parse` reads back; without the metadata, constants are only named."""
        return show(self.module, metadata=show_meta_data, inline=None)

    def show(self) -> None:
        """Prints the module, without the values of its constants."""
        print(self)

    def script(self) -> str:
        """The module as text in Relay's format, as `astext` gives it. (TVM had another format, TVMScript, for this.)"""
        return self.astext()

    def __str__(self) -> str:
        return self.astext(show_meta_data=False)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return picture_of(self.module)

    def __repr__(self) -> str:
        return f"<IR{repr(self.module)[1:]}"
