"""The pattern language of Relay: `from legato.relay.dataflow_pattern import is_op, wildcard`.

    x, w, b = wildcard(), wildcard(), wildcard()
    pattern = is_op("nn.bias_add")(is_op("nn.conv2d")(x, w), b).optional(lambda y: is_op("nn.relu")(y))
    assert pattern.match(expr)
    new = pattern.partition(expr)

Patterns are those of `legato.patterns`: immutable, and `match` gives what their parts stand for, or None. What differs
from the original:

* patterns match what is written, but for the order of the operands of `add` and `multiply`: a quotient of a product is
  no product with a quotient, whose rounding is another;
* between parent and child of a dominator pattern, all operands count: those that do not lead to the parent are
  variables or constants;
* a value that is used outside of a match is never computed twice, not even where that leads back into the match;
* what stands in a function, a branch or a let belongs to the function that `partition` makes of it, so it is not
  computed before the branch is chosen; nor is anything cut out whose effects would come in another order;
* dims of `has_shape` and `has_type` may be symbolic: they are equal where they are proven to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from legato import patterns
from legato.base.errors import CompileError
from legato.ir.expr import Expr
from legato.ir.module import Module
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
from legato.patterns.pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    Pattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from legato.relay.expr import as_expr
from legato.relay.module import IRModule

__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DFPatternCallback",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "FunctionPattern",
    "IfPattern",
    "LetPattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
    "dominates",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "match",
    "partition",
    "rewrite",
    "wildcard",
]  # fmt: skip

DFPattern = Pattern
NodeMap = Mapping[Pattern, Sequence[Expr]]


def match(pattern: Pattern, expr: Expr) -> bool:
    """Whether `expr` matches."""
    return pattern.match(expr) is not None


def partition(
    pattern: Pattern,
    expr: Expr,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Expr], bool] = lambda e: True,
) -> Expr:
    """`expr` with functions called for what matches `pattern` and passes `check`; their attributes are `attrs` and
    PartitionedFromPattern."""
    return pattern.partition(expr, attrs, check)


class DFPatternCallback:
    """What is replaced by what: a subclass sets `self.pattern` and has a method `callback`.

    require_type: expressions have types when `callback` is called. rewrite_once: in the first round only.
    """

    pattern: Pattern

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Expr) -> Expr:
        """`expr` with this applied until nothing changes."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        """What `pre`, which matches, is replaced by.

        `post` is `pre` with new operands; `node_map` has a list of what it stands for for each part of the pattern.
        """
        raise CompileError(
            f"{type(self).__name__} has no callback", hint="write a method callback(pre, post, node_map)"
        )


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Expr, mod: IRModule | Module | None = None
) -> Expr:
    """`expr`, a part of `mod`, with callbacks applied until nothing changes; see `legato.patterns.rewrite`."""
    given = [callbacks] if isinstance(callbacks, DFPatternCallback) else callbacks
    return patterns.rewrite(list(map(_rule, given)), expr, mod.module if isinstance(mod, IRModule) else mod)


def _rule(callback: DFPatternCallback) -> patterns.Rule:
    name = type(callback).__name__
    if not isinstance(getattr(callback, "pattern", None), Pattern):
        raise CompileError(f"{name} has no pattern", hint="set self.pattern in its __init__")

    def build(old: Expr, now: Expr, found: patterns.Match) -> Expr:
        return as_expr(callback.callback(old, now, {part: list(es) for part, es in found.found.items()}))

    return patterns.Callback(
        callback.pattern, build, name=name, once=callback.rewrite_once, needs_types=callback.require_type
    )


_NOT_HERE: Final[Mapping[str, str]] = {
    "register_df_node": "patterns are Python objects: nothing is registered",
    "ffi": "patterns are Python objects: there is no other language behind them",
}


def __getattr__(name: str) -> Any:
    why = _NOT_HERE.get(name)
    raise AttributeError(f"relay.dataflow_pattern has no {name}" + (f": {why}" if why else ""))
