"""Nested patterns that together fit every value of a type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import Constructor
from legato.ir.types import GlobalTypeVar, TupleType, Type, TypeData
from tests.programs.choices import Choices
from tests.programs.kinds import family

if TYPE_CHECKING:
    from tests.programs.writer import Writer

__all__ = ["cover", "pattern"]

Types = Mapping[GlobalTypeVar, TypeData]


@dataclass(frozen=True, slots=True)
class Split:
    """A pattern without its variables: a constructor (None: a tuple) and the fields' patterns (None: anything)."""

    constructor: Constructor | None
    fields: tuple[Split | None, ...]


Case = Split | None


def cover(choose: Choices, ty: Type, types: Types) -> list[Case]:
    """Disjoint cases that cover `ty`; or some of them, and one for all the others. Others may come first, so that a
    clause is come to in several ways."""
    if choose.chance(3):
        first = [case for case in _cases(choose, ty, types, 3) if case is not None]
        return [*first[choose.below(3) :: 3], *_cover(choose, ty, types)]
    return _cover(choose, ty, types)


def _cover(choose: Choices, ty: Type, types: Types) -> list[Case]:
    cases = _cases(choose, ty, types, 2)
    if len(cases) > 1 and choose.chance(3):
        return [*cases[: 1 + choose.below(len(cases) - 1)], None]
    return cases


def _cases(choose: Choices, ty: Type, types: Types, depth: int) -> list[Case]:
    if depth == 0:
        return [None]
    if isinstance(ty, TupleType):
        return [Split(None, fields) for fields in _fields(choose, ty.fields, types, depth)]
    found = family(ty, types)
    if found is None:
        return [None]
    return [
        Split(con, fields)
        for con in found.data.constructors
        for fields in _fields(choose, found.fields(con), types, depth)
    ]


def _fields(choose: Choices, tys: tuple[Type, ...], types: Types, depth: int) -> list[tuple[Case, ...]]:
    """Cases for several fields, of which at most one is looked into."""
    if not tys or not choose.chance(2):
        return [(None,) * len(tys)]
    at = choose.below(len(tys))
    inner = _cases(choose, tys[at], types, depth - 1)
    return [tuple(case if n == at else None for n in range(len(tys))) for case in inner]


def pattern(case: Case, ty: Type, writer: Writer) -> Pattern:
    """The pattern of a case; its variables come into the writer's scope."""
    if case is None:
        if writer.choose.chance(4):
            return PatternWildcard()
        var = writer.var(ty)
        writer.scope.bind(var, ty)
        return PatternVar(var)
    if case.constructor is None:
        assert isinstance(ty, TupleType)
        return PatternTuple(tuple(pattern(c, t, writer) for c, t in zip(case.fields, ty.fields, strict=True)))
    found = family(ty, writer.types)
    assert found is not None
    fields = found.fields(case.constructor)
    inner = tuple(pattern(c, t, writer) for c, t in zip(case.fields, fields, strict=True))
    return PatternConstructor(case.constructor, inner)
