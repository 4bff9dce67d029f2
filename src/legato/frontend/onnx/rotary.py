"""Rotary embeddings: pairs of elements of each head, turned by the angle of their position."""

from __future__ import annotations

from legato.arith.expr import const, gt, max_
from legato.arith.prove import provably_different, prove, prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.heads import heads_of
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["angles_at", "heads_by_table", "places_from", "turned"]


def turned(b: Emitter, x: Expr, cos: Expr, sin: Expr, *, interleaved: bool, count: int = 0) -> Expr:
    """x [batch, heads, length, size] by tables [batch or 1, length, half of what is turned]: the first `count` elements
    of each head, 0 for all. Pairs are neighbours if `interleaved`, else an element of each half."""
    cos, sin = (b.expand_dims(b.wide(table), axis=1, num_newaxis=1) for table in (cos, sin))
    size = b.dims_of(x)[3]
    whole: Dim = const(count) if count else size
    half = simplify(whole // 2)
    if provably_different(half * 2, whole) or prove(gt(whole, size)):
        raise ImportModelError(f"{whole} elements of a head of {size} cannot be turned in pairs")
    b.require(simplify(half * 2), whole, "elements of a head in pairs")
    b.require_least(size, whole, "elements of a head that are turned")
    part, rest = b.columns(x, 0, whole), b.columns(x, whole, size)
    bounds = ((0, whole, 2), (1, whole, 2)) if interleaved else ((0, half, 1), (half, whole, 1))
    first, second = (b.wide(b.columns(part, *bound)) for bound in bounds)
    real = b.subtract(b.multiply(cos, first), b.multiply(sin, second))
    imaginary = b.add(b.multiply(sin, first), b.multiply(cos, second))
    if interleaved:
        found = b.reshape(b.stack(real, imaginary, axis=4), newshape=b.dims_of(part), allowzero=True)
    else:
        found = b.concatenate(real, imaginary, axis=3)
    part = b.to(found, b.dtype(x))
    return part if prove_equal(whole, size) else b.concatenate(part, rest, axis=3)


def angles_at(b: Emitter, table: Expr, positions: Expr) -> Expr:
    """The rows of a table [positions, …] at `positions` [batch, length]."""
    return b.take(table, positions, axis=0, mode="fast")


def heads_by_table(b: Emitter, x: Expr, heads: int, cos: Expr, count: int) -> Expr:
    """(batch, heads, length, size) of `x`; without a number of heads each is as long as the table turns."""
    if b.rank(x) == 4 or (heads and count):
        return heads_of(b, x, heads)
    n, length, hidden = b.dims_of_rank(x, 3, "heads in one dim")
    width = simplify(b.dims_of_rank(cos, 2, "the table of cosines")[1] * 2)
    own = simplify(hidden // max_(width, const(1)))
    if provably_different(own * width, hidden):
        raise ImportModelError(f"a hidden size of {hidden} in heads of {width} elements, which the tables turn")
    b.require(simplify(own * width), hidden, "heads that the tables turn")
    return b.transpose(b.reshape(x, newshape=(n, length, own, width), allowzero=True), axes=(0, 2, 1, 3))


def places_from(b: Emitter, begin: Expr, length: Dim) -> Expr:
    """Positions begin, begin + 1, … of rows that begin at `begin` [batch, 1]."""
    return b.add(b.to(begin, dt.int64), b.arange(start=const(0), stop=length, step=1, dtype=dt.int64))
