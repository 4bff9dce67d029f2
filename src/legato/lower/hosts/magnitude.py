"""Sizes that machine integers could not hold: memory is asked for only where its size is known to be right.

Sizes of a program's own dims are computed before a call, in Python. What is computed while it runs could be too large
for 64 bits, and then be anything: `k * k * k * k` floats for k = 65536 would be none. So the size is also computed in
float64, where it cannot turn small, and compared with the most that memory may have.
"""

from __future__ import annotations

from typing import Final

from legato.arith.expr import Binary, Const, Expr, Op, Select, add, const, le, max_, min_, mul, truediv
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.tir.buffer import Buffer
from legato.tir.expr import cast

__all__ = ["MAX_BYTES", "buffer_fits", "fits"]

MAX_BYTES: Final = 1 << 46


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


def _magnitude(e: Expr) -> Expr:
    """At least the absolute value that machine integers give for `e`, in float64."""
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
    return found[e]


def _leaf(e: Expr) -> Expr:
    return const(float(abs(int(e.value))), dt.float64) if isinstance(e, Const) else cast(e, dt.float64)


def _bound(op: Op, a: Expr, b: Expr, known: dict[Expr, Expr]) -> Expr:
    x, y = known[a], known[b]
    match op:
        case Op.ADD | Op.SUB:
            return add(x, y)
        case Op.MUL:
            return mul(x, y)
        case Op.MIN:
            return min_(x, y)
        case Op.MAX:
            return max_(x, y)
        case Op.FLOORDIV:
            return add(truediv(x, y) if isinstance(b, Const) else x, const(1.0, dt.float64))  # towards minus infinity
        case _:
            return add(x, y)
