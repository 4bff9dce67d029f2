"""Dims cut into equal parts, and dims in another order: what operators of several families begin or end with."""

from __future__ import annotations

from legato.arith.expr import const
from legato.arith.prove import provably_different
from legato.arith.simplify import simplify
from legato.base.errors import ImportModelError
from legato.frontend.emitter import Emitter
from legato.ir.expr import Expr

__all__ = ["channels_first", "channels_last", "cut", "halves"]


def halves(b: Emitter, x: Expr) -> tuple[Expr, Expr]:
    """The two halves of the last dim, which must be even."""
    extent = b.dim_of(x, -1)
    half = simplify(extent // 2)
    b.require(simplify(half * 2), extent, "two halves")
    return b.columns(x, const(0), half), b.columns(x, half, extent)


def cut(b: Emitter, x: Expr, heads: int) -> Expr:
    """(batch, length, heads, size), from (batch, length, heads · size)."""
    n, length, hidden = b.dims_of_rank(x, 3, "heads in one dim")
    size = simplify(hidden // heads)
    if provably_different(size * heads, hidden):
        raise ImportModelError(f"a hidden size of {hidden} does not divide into {heads} heads")
    return b.reshape(x, newshape=(n, length, heads, size), allowzero=True)


def channels_first(b: Emitter, x: Expr) -> Expr:
    """[batch, channels, …], from [batch, …, channels]."""
    if b.rank(x) < 3:
        raise ImportModelError(f"the input is {x.ty}, wanted batch, spatial dims and channels")
    return b.transpose(x, axes=(0, b.rank(x) - 1, *range(1, b.rank(x) - 1)))


def channels_last(b: Emitter, x: Expr) -> Expr:
    """[batch, …, channels], from [batch, channels, …]."""
    return b.transpose(x, axes=(0, *range(2, b.rank(x)), 1))
