"""Patterns by the names that they are written with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.ir._own_ops import operator_named
from legato.ir.expr import Expr
from legato.ir.types import Dim, Type, dims
from legato.patterns.pattern import (
    AttrPattern,
    ConstantPattern,
    DataTypePattern,
    DominatorPattern,
    ExprPattern,
    IfPattern,
    LetPattern,
    Pattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    as_pattern,
)

__all__ = ["dominates", "has_attr", "has_dtype", "has_shape", "has_type", "is_constant", "is_expr", "is_if", "is_let",
           "is_op", "is_tuple", "is_tuple_get_item", "is_var", "wildcard"]  # fmt: skip


def wildcard() -> WildcardPattern:
    """Any expression."""
    return WildcardPattern()


def is_var(name: str = "") -> VarPattern:
    """A local variable, called `name` if that is given."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """An expression that is alpha-equal to `expr`."""
    return ExprPattern(expr)


def is_op(name: str) -> ExprPattern:
    """The operator `name`; CompileError if there is none."""
    return ExprPattern(operator_named(name))


def is_tuple(fields: Sequence[Pattern] | None = None) -> TuplePattern:
    """A tuple of these fields; None: of any."""
    return TuplePattern(None if fields is None else tuple(fields))


def is_tuple_get_item(value: Pattern, index: int | None = None) -> TupleGetItemPattern:
    """Field `index` of a tuple; None: any field."""
    return TupleGetItemPattern(value, index)


def is_if(cond: Pattern, then: Pattern, orelse: Pattern) -> IfPattern:
    """`if (cond) { then } else { orelse }`."""
    return IfPattern(cond, then, orelse)


def is_let(var: Pattern, value: Pattern, body: Pattern) -> LetPattern:
    """`let var = value; body`."""
    return LetPattern(var, value, body)


def has_type(ty: Type, pattern: Pattern | None = None) -> TypePattern:
    """What of `pattern` (None: of anything) has type `ty`."""
    return TypePattern(_any(pattern), ty)


def has_dtype(dtype: DType | str, pattern: Pattern | None = None) -> DataTypePattern:
    """What of `pattern` (None: of anything) is a tensor of this dtype."""
    return DataTypePattern(_any(pattern), dt.dtype(dtype))


def has_shape(shape: Sequence[Dim | int], pattern: Pattern | None = None) -> ShapePattern:
    """What of `pattern` (None: of anything) is a tensor of this shape."""
    return ShapePattern(_any(pattern), dims(shape))


def has_attr(attrs: Mapping[str, Any], pattern: Pattern | None = None) -> AttrPattern:
    """What of `pattern` (None: of anything) has these attributes."""
    return AttrPattern(_any(pattern), attrs)


def dominates(parent: Pattern, path: Pattern, child: Pattern) -> DominatorPattern:
    """`child`, where all paths from `parent` lead to it, over what matches `path`."""
    return DominatorPattern(parent, path, child)


def _any(pattern: Pattern | None) -> Pattern:
    return WildcardPattern() if pattern is None else as_pattern(pattern)
