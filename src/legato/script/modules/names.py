"""The functions of a module, while its script is read."""

from __future__ import annotations

from collections.abc import Mapping

from legato.base.errors import TypeCheckError
from legato.ir.expr import GlobalVar
from legato.tir.stmt import Func

__all__ = ["ModuleNames", "global_of", "programs_of"]


class ModuleNames:
    """The functions of a module, as a script names them through its class; `programs` are the tensor programs, of which
    calls may add some."""

    def __init__(self, functions: Mapping[str, GlobalVar]) -> None:
        self._functions = dict(functions)
        self._programs: dict[GlobalVar, Func] = {}

    def __getattr__(self, name: str) -> GlobalVar:
        found = self._functions.get(name)
        if found is None:
            known = ", ".join(self._functions)
            raise TypeCheckError(f"the module has no function {name}", hint=f"it has {known}")
        return found


def programs_of(names: ModuleNames) -> dict[GlobalVar, Func]:
    """The tensor programs of a module, to be added to."""
    return names._programs


def global_of(names: ModuleNames, name: str) -> GlobalVar:
    """The global variable called `name`; a new one where there is none."""
    return names._functions.setdefault(name, GlobalVar(name))
