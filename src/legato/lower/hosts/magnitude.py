"""Sizes that machine integers could not hold: memory is asked for, and sizes are equal, only where they are right.

Sizes of a program's own dims are computed before a call, in Python. What is computed while it runs could be too large
for 64 bits, and then be anything: `k * k * k * k` floats for k = 65536 would be none. So the size is also computed in
float64, where it cannot turn small, and compared with the most that memory may have. Nor are sizes equal because
a product has lost bits: a tensor without elements would be taken for one of `k * k * k * k`.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, add, const, eq, land, le, max_, min_, mul, truediv
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.tir.buffer import Buffer
from legato.tir.expr import cast

__all__ = ["MAX_BYTES", "buffer_fits", "fits", "held", "same_size"]

MAX_BYTES: Final = 1 << 46
MAX_EXACT: Final = 1 << 62  # what rounding in float64 cannot take for less than int64 holds


def fits(size: Expr) -> Expr:
    """The condition that `size`, in bytes, is what it is meant to be, and no more than memory may have."""
    return le(_magnitude(size), const(float(MAX_BYTES), dt.float64))


def buffer_fits(buffer: Buffer) -> Expr:
    """The condition that the size of `buffer` is what it is meant to be, and no more than memory may have."""
    total: Expr = const(float(buffer.dtype.bytes), dt.float64)
    for n, extent in enumerate(buffer.shape):
        around = sum(buffer.layout.halo_of(n)) + buffer.layout.pad_of(n)
        total = mul(total, add(_magnitude(extent), const(float(around), dt.float64)))
    return le(total, const(float(MAX_BYTES), dt.float64))


def same_size(a: Expr, b: Expr) -> Expr:
    """The condition that two sizes are equal: products that machine integers do not hold are equal to none."""
    return reduce(land, [*_held(a), *_held(b)], eq(a, b))


def held(size: Expr) -> Expr | None:
    """The condition that machine integers hold the products in `size`; None if it has none."""
    return reduce(land, found) if (found := _held(size)) else None


def _held(size: Expr) -> list[Expr]:
    most = const(float(MAX_EXACT), dt.float64)
    return [le(bound, most) for n, bound in _magnitudes(size).items() if isinstance(n, Binary) and n.op is Op.MUL]


def _magnitude(e: Expr) -> Expr:
    return _magnitudes(e)[e]


def _magnitudes(e: Expr) -> dict[Expr, Expr]:
    """At least the absolute values that machine integers give for `e` and its parts, in float64."""
    found: dict[Expr, Expr] = {}
    for node in nodes(e):
        match node:
            case _ if node.dtype != dt.index:
                pass  # a condition
            case Binary():
                found[node] = _bound(node.op, node.a, node.b, found)
            case Select():
                found[node] = max_(found[node.a], found[node.b])
            case _:
                found[node] = _leaf(node)
    return found


def _leaf(e: Expr) -> Expr:
    return const(float(abs(int(e.value))), dt.float64) if isinstance(e, Const) else cast(e, dt.float64)


def _is_natural(e: Expr) -> bool:
    """Whether `e` is a number or variable that is not negative: what is computed may be, when bits were lost."""
    return e.value >= 0 if isinstance(e, Const) else isinstance(e, Var) and e.lo is not None and e.lo >= 0


def _bound(op: Op, a: Expr, b: Expr, known: dict[Expr, Expr]) -> Expr:
    x, y = known[a], known[b]
    match op:
        case Op.ADD | Op.SUB:
            return add(x, y)
        case Op.MUL:
            return mul(x, y)
        case Op.MIN if _is_natural(a) or _is_natural(b):  # no more than the other one, whose sign it may have
            return min_(x, y) if _is_natural(a) and _is_natural(b) else y if _is_natural(a) else x
        case Op.MIN | Op.MAX:
            return max_(x, y)  # of the smaller, too: it may be negative
        case Op.FLOORDIV:
            return add(truediv(x, y) if isinstance(b, Const) else x, const(1.0, dt.float64))  # towards minus infinity
        case _:
            return add(x, y)
