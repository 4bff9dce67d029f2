"""The functions of a module, while its script is read."""

from __future__ import annotations

from collections.abc import Mapping

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.expr import Constructor, GlobalVar
from legato.ir.types import TypeData
from legato.script.modules.evaluate import Namespace
from legato.tir.stmt import Func

__all__ = ["Constructors", "DataType", "Members", "ModuleNames"]


@dataclass(frozen=True, slots=True)
class DataType:
    """A data type of the module; constructors: by their names in the script."""

    data: TypeData
    constructors: Mapping[str, Constructor]


class Members:
    """The functions and data types of a module by their names in the script; `programs` are its tensor programs."""

    def __init__(self, functions: Mapping[str, GlobalVar], types: Mapping[str, DataType] | None = None) -> None:
        self.functions = dict(functions)
        self.types = {name: found.data for name, found in (types or {}).items()}
        self.constructors = {name: found.constructors for name, found in (types or {}).items()}
        self.headers = {data.header.name: data.header for data in self.types.values()}
        self.programs: dict[GlobalVar, Func] = {}


class ModuleNames(Namespace):
    """What a module has, as a script names it through its class."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def __getattr__(self, name: str) -> GlobalVar | Constructors:
        found = self._members.functions.get(name)
        if found is not None:
            return found
        if name in self._members.types:
            return Constructors(name, self._members.constructors[name])
        known = ", ".join((*self._members.functions, *self._members.types))
        raise TypeCheckError(f"the module has no function {name}", hint=f"it has {known}")


class Constructors(Namespace):
    """The constructors of a data type, by their names in the script: `cls.List.Cons`."""

    def __init__(self, name: str, constructors: Mapping[str, Constructor]) -> None:
        self._name = name
        self._constructors = constructors

    def __getattr__(self, name: str) -> Constructor:
        if name.startswith("_") or name not in self._constructors:
            raise TypeCheckError(
                f"{self._name} has no constructor {name}", hint=f"it has {', '.join(self._constructors)}"
            )
        return self._constructors[name]
