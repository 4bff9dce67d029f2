"""Patterns of dataflow: expressions are matched, rewritten, and cut out as functions.

x, w = wildcard(), wildcard()
pattern = is_op("nn.relu")(is_op("nn.dense")(x, w))
found = match(pattern, expr)               # found[x] is what x stands for, None where nothing matches
"""

from __future__ import annotations

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
from legato.patterns.equation import Equation, rule
from legato.patterns.match import Match, match
from legato.patterns.partition import partition
from legato.patterns.pattern import FunctionPattern, Pattern
from legato.patterns.rewrite import Callback, Rule, rewrite

__all__ = ["Callback", "Equation", "FunctionPattern", "Match", "Pattern", "Rule", "counting", "dominates",
           "has_attr", "has_dtype", "has_shape", "has_type", "is_constant", "is_expr", "is_if", "is_let", "is_op",
           "is_tuple", "is_tuple_get_item", "is_var", "match", "partition", "rewrite", "rule",
           "wildcard"]  # fmt: skip
