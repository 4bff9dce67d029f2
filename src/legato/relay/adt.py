"""Algebraic data types: constructors, patterns, match, and what visits patterns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legato.base.span import Span
from legato.ir import clauses as ic
from legato.ir import expr as ir
from legato.ir.clauses import Pattern, PatternVar, PatternWildcard
from legato.ir.types import GlobalTypeVar, Type
from legato.relay._names import Named
from legato.relay.expr import as_expr
from legato.relay.ty import TypeData

__all__ = ["Clause", "Constructor", "Match", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar",
           "PatternWildcard", "TypeData"]  # fmt: skip


class Constructor(ir.Constructor, metaclass=Named):
    """`Constructor(name_hint, inputs, belong_to)`; call it to make a value: `cons(x, nil())`.

    Its `tag` is -1 until its TypeData is made, then its position there.
    """

    @staticmethod
    def build(name_hint: str, inputs: Iterable[Type], belong_to: GlobalTypeVar) -> ir.Constructor:
        return ir.Constructor(name_hint, tuple(inputs), belong_to, tag=-1)


class PatternConstructor(ic.PatternConstructor, metaclass=Named):
    """`PatternConstructor(constructor, patterns=None)`."""

    @staticmethod
    def build(constructor: ir.Constructor, patterns: Iterable[Pattern] | None = None) -> ic.PatternConstructor:
        return ic.PatternConstructor(constructor, tuple(patterns or ()))


class PatternTuple(ic.PatternTuple, metaclass=Named):
    """`PatternTuple(patterns=None)`."""

    @staticmethod
    def build(patterns: Iterable[Pattern] | None = None) -> ic.PatternTuple:
        return ic.PatternTuple(tuple(patterns or ()))


class Clause(ic.Clause, metaclass=Named):
    """`Clause(lhs, rhs)`: a pattern and what to evaluate where it matches."""

    @staticmethod
    def build(lhs: Pattern, rhs: Any) -> ic.Clause:
        return ic.Clause(lhs, as_expr(rhs))


class Match(ir.Match, metaclass=Named):
    """`Match(data, clauses, complete=True)`; `complete` promises that a clause always matches."""

    @staticmethod
    def build(data: Any, clauses: Iterable[ic.Clause], complete: bool = True, span: Span | None = None) -> ir.Match:
        return ir.Match(as_expr(data), tuple(clauses), complete, span=span)
