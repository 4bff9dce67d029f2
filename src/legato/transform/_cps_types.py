"""Types in continuation-passing style: functions take what is to be done with their result, and give its answer.

    fn (int32) -> bool          =>      fn (int32, fn (bool) -> A) -> A

Data types that hold functions have the type of the answer for their last parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from legato.base.node import post_order
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple
from legato.ir.expr import Constructor
from legato.ir.types import FuncType, GlobalTypeVar, Type, TypeCall, TypeData, TypeVar, walk

__all__ = ["DataTypes", "continuation"]


def continuation(result: Type, answer: TypeVar) -> FuncType:
    """The type of what takes a result."""
    return FuncType((result,), answer)


class DataTypes:
    """The data types of a module in the new style, and all other types."""

    def __init__(self, old: Mapping[GlobalTypeVar, TypeData]) -> None:
        self._holders = _holders(old)
        self._constructors: dict[Constructor, Constructor] = {}
        self.types = {header: self._data(data) if header in self._holders else data for header, data in old.items()}

    def holds_function(self, ty: Type) -> bool:
        """Whether a value of this type is a function or may hold one."""
        return any(isinstance(part, FuncType) or part in self._holders for part in walk(ty))

    def type(self, ty: Type, answer: TypeVar) -> Type:
        """`ty` with functions that give `answer`."""
        if not self.holds_function(ty):
            return ty
        new: dict[int, Type] = {}
        for part in post_order([ty]):
            kids = tuple(new[id(kid)] for kid in part.children())
            found = part.with_children(kids) if kids else part
            if isinstance(found, FuncType):
                found = FuncType((*found.params, continuation(found.ret, answer)), answer, found.type_params)
            elif isinstance(found, GlobalTypeVar) and found in self._holders:
                found = TypeCall(found, (answer,))
            elif isinstance(found, TypeCall) and isinstance(found.func, TypeCall):
                found = TypeCall(found.func.func, (*found.args, answer))
            new[id(part)] = found
        return new[id(ty)]

    def constructor(self, con: Constructor) -> Constructor:
        """`con` of the new data type."""
        return self._constructors.get(con, con)

    def pattern(self, pattern: Pattern) -> Pattern:
        """`pattern` with constructors of the new data types (patterns nest shallowly)."""
        if not isinstance(pattern, PatternConstructor | PatternTuple):
            return pattern
        parts = tuple(map(self.pattern, pattern.patterns))
        if isinstance(pattern, PatternConstructor):
            return replace(pattern, constructor=self.constructor(pattern.constructor), patterns=parts)
        return replace(pattern, patterns=parts)

    def _data(self, data: TypeData) -> TypeData:
        answer = TypeVar("Answer")
        for con in data.constructors:
            self._constructors[con] = replace(con, inputs=tuple(self.type(ty, answer) for ty in con.inputs))
        made = tuple(map(self.constructor, data.constructors))
        return replace(data, type_vars=(*data.type_vars, answer), constructors=made)


def _holders(types: Mapping[GlobalTypeVar, TypeData]) -> frozenset[Type]:
    """The data types that hold functions, in others as well."""
    parts = {
        header: {part for con in data.constructors for ty in con.inputs for part in walk(ty)}
        for header, data in types.items()
    }
    found = {header for header, inside in parts.items() if any(isinstance(part, FuncType) for part in inside)}
    todo = list(found)
    while todo:
        last = todo.pop()
        more = [header for header, inside in parts.items() if last in inside and header not in found]
        found.update(more)
        todo += more
    return frozenset(found)
