"""Patterns of dataflow: expressions are matched, rewritten, and cut out as functions.

x, w = wildcard(), wildcard()
pattern = is_op("nn.relu")(is_op("nn.dense")(x, w))
found = match(pattern, expr)               # found[x] is what x stands for, None where nothing matches
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.base.tally import counting
from legato.patterns.build import (
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from legato.patterns.match import Match, match
from legato.patterns.partition import partition
from legato.patterns.pattern import FunctionPattern, Pattern
from legato.patterns.rewrite import Callback, Rule, rewrite

if TYPE_CHECKING:
    from legato.patterns.equation import Equation, rule

__all__ = ["Callback", "Equation", "FunctionPattern", "Match", "Pattern", "Rule", "counting", "dominates",
           "has_attr", "has_dtype", "has_shape", "has_type", "is_constant", "is_expr", "is_if", "is_let", "is_op",
           "is_tuple", "is_tuple_get_item", "is_var", "match", "partition", "rewrite", "rule",
           "wildcard"]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in ("Equation", "rule"):
        raise AttributeError(f"legato.patterns has no {name}")
    from legato.patterns import equation  # on use: it reads texts, which the compiler's own rules are not

    return getattr(equation, name)
