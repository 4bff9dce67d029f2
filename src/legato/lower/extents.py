"""Extents that could be negative, and sizes that 64 bits could not hold: what symbolic dims may make of the results of
operators is checked when the program runs.

y = max_pool2d(x) over windows of 3:  Tensor[(n, c, h - 2, w - 2)]      requires  0 <= h - 2  and  0 <= w - 2
y = ones(shape=[n * m])               Tensor[(n * m)]                   requires  n * m * 4 < 2^63
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from legato.arith.expr import Binary, Const, Expr, Op, const, le, max_, mul
from legato.arith.prove import prove
from legato.arith.substitute import nodes
from legato.base.node import post_order
from legato.base.span import Span
from legato.ir import expr as ir
from legato.ir.constraint import Constraint
from legato.ir.op import Op as Operator
from legato.ir.types import TensorType, TupleType, Type

__all__ = ["with_extent_checks", "with_size_checks"]

_SMALL: Final = 1 << 16  # bytes for each unit of a dim


def with_extent_checks(func: ir.Function) -> ir.Function:
    """`func` (typed) with a constraint for each extent in it that is not provably 0 or more.

    A constraint is an equality, so `0 <= d` is written `d == max(d, 0)`.
    """
    found: dict[Expr, Constraint] = {}
    for node in post_order([func.body]):
        if not isinstance(node, ir.Call) or not isinstance(node.op, Operator):
            continue
        for d in _extents(node.ty):
            if not isinstance(d, Const) and d not in found and not _is_natural(d):
                found[d] = Constraint(d, max_(d, const(0)), f"{node.op.name}: an extent of the result", node.span)
    return _with(func, found.values())


def with_size_checks(func: ir.Function) -> ir.Function:
    """`func` (typed) with a constraint for each size of a tensor in it, in bytes, that 64 bits may not hold.

    Whoever checks that `size == size` has to compute it. Of tensors with the same symbolic extents the largest counts.
    """
    largest: dict[tuple[Expr, ...], tuple[int, str, Span | None]] = {}
    for node in post_order([func.body]):
        if not isinstance(node, ir.Call) or not isinstance(node.op, Operator):
            continue
        for ty in _tensors(node.ty):
            unknown = tuple(sorted((d for d in ty.shape if not isinstance(d, Const)), key=str))
            literal = math.prod([max(1, int(d.value)) for d in ty.shape if isinstance(d, Const)]) * ty.dtype.bytes
            if unknown and not _is_small(unknown, literal) and literal > largest.get(unknown, (0,))[0]:
                largest[unknown] = literal, node.op.name, node.span
    found = []
    for unknown, (literal, name, span) in largest.items():
        size: Expr = const(literal)
        for extent in unknown:
            size = mul(size, extent)
        if any(isinstance(e, Binary) and e.op is Op.MUL for e in nodes(size)):
            found.append(Constraint(size, size, f"{name}: the size of the result", span))
    return _with(func, found)


def _is_small(unknown: Sequence[Expr], literal: int) -> bool:
    """Whether a size is linear in dims, which a call has of 2^46 at most, with factors that leave room for that."""
    if len(unknown) > 1 or literal > _SMALL:
        return False
    return not any(
        isinstance(e, Binary) and e.op is Op.MUL and not (isinstance(e.a, Const) or isinstance(e.b, Const))
        for e in nodes(unknown[0])
    )


def _with(func: ir.Function, constraints: Collection[Constraint]) -> ir.Function:
    if not constraints:
        return func
    given = func.attrs.get("constraints", ())
    return replace(func, attrs={**func.attrs, "constraints": (*given, *constraints)})


def _is_natural(d: Expr) -> bool:
    return prove(le(const(0), d))


def _extents(ty: Type | None) -> tuple[Expr, ...]:
    return tuple(d for tensor in _tensors(ty) for d in tensor.shape)


def _tensors(ty: Type | None) -> tuple[TensorType, ...]:
    if isinstance(ty, TensorType):
        return (ty,)
    return tuple(t for f in ty.fields for t in _tensors(f)) if isinstance(ty, TupleType) else ()
