"""The clauses of a match, `expr.Match`, and their patterns.

clause  = Clause(pattern, body)
pattern = PatternWildcard | PatternVar(var) | PatternConstructor(constructor, patterns) | PatternTuple(patterns)
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from legato.base.dataclass import dataclass
from legato.base.immutable import Immutable
from legato.base.span import Span

if TYPE_CHECKING:
    from legato.ir.expr import Constructor, Expr, Var

__all__ = ["Clause", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar", "PatternWildcard"]


@dataclass(frozen=True, eq=False, slots=True)
class Pattern(Immutable):
    """A pattern of a match clause."""

    span: Span | None = field(default=None, kw_only=True)

    def children(self) -> tuple[Pattern, ...]:
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class PatternWildcard(Pattern):
    """Matches anything."""


@dataclass(frozen=True, eq=False, slots=True)
class PatternVar(Pattern):
    """Matches anything and binds it."""

    var: Var


@dataclass(frozen=True, eq=False, slots=True)
class PatternConstructor(Pattern):
    """Matches a value built by `constructor`."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()

    def children(self) -> tuple[Pattern, ...]:
        return self.patterns


@dataclass(frozen=True, eq=False, slots=True)
class PatternTuple(Pattern):
    """Matches a tuple field by field."""

    patterns: tuple[Pattern, ...]

    def children(self) -> tuple[Pattern, ...]:
        return self.patterns


@dataclass(frozen=True, eq=False, slots=True)
class Clause(Immutable):
    """One arm of a match."""

    pattern: Pattern
    body: Expr

    @property
    def lhs(self) -> Pattern:
        """`pattern`, as Relay calls it."""
        return self.pattern

    @property
    def rhs(self) -> Expr:
        """`body`, as Relay calls it."""
        return self.body
