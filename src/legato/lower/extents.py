"""Extents that could be negative: what symbolic dims may make of the size of a window's result is checked at run time.

y = max_pool2d(x) over windows of 3:  Tensor[(n, c, h - 2, w - 2)]      requires  0 <= h - 2  and  0 <= w - 2
"""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Const, Expr, const, le, max_
from legato.arith.prove import prove
from legato.base.node import post_order
from legato.ir import expr as ir
from legato.ir.constraint import Constraint
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type

__all__ = ["with_extent_checks"]


def with_extent_checks(func: ir.Function) -> ir.Function:
    """`func` (typed) with a constraint for each extent in it that is not provably 0 or more.

    A constraint is an equality, so `0 <= d` is written `d == max(d, 0)`.
    """
    found: dict[Expr, Constraint] = {}
    for node in post_order([func.body]):
        if not isinstance(node, ir.Call) or not isinstance(node.op, Op):
            continue
        for d in _extents(node.ty):
            if not isinstance(d, Const) and d not in found and not _is_natural(d):
                found[d] = Constraint(d, max_(d, const(0)), f"{node.op.name}: an extent of the result", node.span)
    if not found:
        return func
    given = func.attrs.get("constraints", ())
    return replace(func, attrs={**func.attrs, "constraints": (*given, *found.values())})


def _is_natural(d: Expr) -> bool:
    return prove(le(const(0), d))


def _extents(ty: Type | None) -> tuple[Expr, ...]:
    if isinstance(ty, TensorType):
        return ty.shape
    if isinstance(ty, TupleType):
        return tuple(d for f in ty.fields for d in _extents(f))
    return ()
