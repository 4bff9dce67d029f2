"""The functions of a module, while its script is read."""

from __future__ import annotations

from collections.abc import Mapping

from legato.base.errors import TypeCheckError
from legato.ir.expr import GlobalVar
from legato.script.modules.evaluate import Namespace
from legato.tir.stmt import Func

__all__ = ["Members", "ModuleNames"]


class Members:
    """The functions of a module by their names in the script; `programs` are its tensor programs, of which calls may
    add some."""

    def __init__(self, functions: Mapping[str, GlobalVar]) -> None:
        self.functions = dict(functions)
        self.programs: dict[GlobalVar, Func] = {}
        self._made: dict[object, GlobalVar] = {}

    def made(self, key: object, hint: str) -> tuple[GlobalVar, bool]:
        """The global variable of the program that stands for `key`, and whether it is new; called like `hint`."""
        known = self._made.get(key)
        if known is not None:
            return known, False
        taken = {gv.name for gv in (*self.functions.values(), *self._made.values())}
        name, count = hint, 1
        while name in taken:
            name, count = f"{hint}_{count}", count + 1
        self._made[key] = GlobalVar(name)
        return self._made[key], True


class ModuleNames(Namespace):
    """The functions of a module, as a script names them through its class."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def __getattr__(self, name: str) -> GlobalVar:
        found = self._members.functions.get(name)
        if found is None:
            known = ", ".join(self._members.functions)
            raise TypeCheckError(f"the module has no function {name}", hint=f"it has {known}")
        return found
