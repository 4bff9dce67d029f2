"""The value of an expression for given variables: what the simplifier must preserve."""

from __future__ import annotations

from collections.abc import Mapping

from legato.arith.expr import Binary, Const, Expr, Select, Var
from legato.arith.fold import fold
from legato.arith.substitute import nodes
from legato.base.errors import InternalError

__all__ = ["evaluate"]


def evaluate(e: Expr, values: Mapping[Var, int]) -> int | bool:
    """The value of `e`, an expression of integers, index or bool, where variables have `values`.

    InternalError for a variable without a value, a float, or a node of another layer (a Load has no fixed value).
    """
    found: dict[Expr, int | bool] = {}
    for node in nodes(e):
        found[node] = _value(node, values, found)
    return found[e]


def _value(node: Expr, values: Mapping[Var, int], found: Mapping[Expr, int | bool]) -> int | bool:
    if isinstance(node, Const) and not isinstance(node.value, float):
        return node.value
    if isinstance(node, Var) and node in values:
        return values[node]
    if isinstance(node, Select):
        return found[node.a] if found[node.cond] else found[node.b]
    if isinstance(node, Binary):
        value = fold(node.op, found[node.a], found[node.b], node.a.dtype)
        if value is not None and not isinstance(value, float):
            return value
    raise InternalError(f"{node} has no integer value here")
