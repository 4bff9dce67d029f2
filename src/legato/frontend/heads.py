"""Heads of attention, its scale, and its weights: what the operators that attend have in common."""

from __future__ import annotations

import math

import numpy as np

from legato.arith.expr import Const, const, max_
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.dims import cut
from legato.frontend.emitter import Emitter
from legato.ir.expr import Expr

__all__ = ["attended", "capped", "head_scale", "heads_of", "joined", "past_of", "scores_of", "softmax_weights"]


def heads_of(b: Emitter, x: Expr, heads: int | None) -> Expr:
    """(batch, heads, length, size), from that or from (batch, length, heads · size)."""
    if b.rank(x) == 4:
        return x
    if b.rank(x) != 3 or heads is None or heads < 1:
        raise ImportModelError(f"{heads} heads of an input of rank {b.rank(x)}, wanted 1 or more, and rank 3 or 4")
    return b.transpose(cut(b, x, heads), axes=(0, 2, 1, 3))


def joined(b: Emitter, y: Expr) -> Expr:
    """(batch, length, heads · size), from (batch, heads, length, size)."""
    n, heads, length, size = b.dims_of(y)
    return b.reshape(b.transpose(y, axes=(0, 2, 1, 3)), newshape=(n, length, heads * size), allowzero=True)


def past_of(key: Expr | None, value: Expr | None) -> tuple[Expr, Expr] | None:
    """Keys and values from before, of which there are both or none."""
    if (key is None) != (value is None):
        raise ImportModelError("past keys without past values, or these without those")
    return None if key is None or value is None else (key, value)


def head_scale(b: Emitter, q: Expr, scale: float | None = None) -> Expr:
    """`scale` if there is one, else 1 / √size of the heads, in the dtype of `q`."""
    if scale is not None:
        return b.like(scale, q)
    size = b.dims_of(q)[-1]
    if isinstance(size, Const):
        return b.like(1 / math.sqrt(size.value), q)
    return b.to(b.divide(b.constant(1.0, dt.float64), b.sqrt(b.extent(size, dt.float64))), b.dtype(q))


def scores_of(b: Emitter, q: Expr, k: Expr, scale: float | None = None) -> Expr:
    """The products of each query with each key of its head, scaled."""
    return _by_head(b, b.multiply(q, head_scale(b, q, scale)), b.transpose(k, axes=(0, 1, 3, 2)))


def capped(b: Emitter, scores: Expr, most: float) -> Expr:
    """Scores that tanh holds within ± `most`; where that is not above 0, they stay."""
    if most <= 0:
        return scores
    limit = b.like(most, scores)
    return b.multiply(b.tanh(b.divide(scores, limit)), limit)


def attended(b: Emitter, weights: Expr, v: Expr) -> Expr:
    """The sums of the values by their weights, in the dtype of the values."""
    return _by_head(b, b.to(weights, b.dtype(v)), v)


def _by_head(b: Emitter, x: Expr, y: Expr) -> Expr:
    """x [batch, heads, length, …] times matrices y [batch, heads, …], each of which several heads may share: then their
    rows are those of one product."""
    (n, heads, length, width), own = b.dims_of(x), b.dims_of(y)[1]
    if prove_equal(heads, own):
        return b.matmul(x, y)
    times = simplify(heads // max_(own, const(1)))
    if provably_different(times * own, heads):
        raise ImportModelError(f"{heads} heads of queries cannot share {own} of keys and values")
    b.require(simplify(times * own), heads, "queries share the heads of keys and values")
    if not isinstance(times, Const) or not isinstance(own, Const):
        return b.matmul(x, b.repeat(y, repeats=int(times.value) if isinstance(times, Const) else times, axis=1))
    z = b.matmul(b.reshape(x, newshape=(n, own, simplify(times * length), width), allowzero=True), y)
    return b.reshape(z, newshape=(n, heads, length, b.dims_of(y)[3]), allowzero=True)


def softmax_weights(b: Emitter, scores: Expr, *, masked: bool) -> Expr:
    """Softmax over the keys; `masked`: a query that may see none, whose scores all are -∞, has weights of zero."""
    weights = b.nn.softmax(scores, axis=-1)
    if not masked:
        return weights
    peak = b.max(scores, axis=(-1,), keepdims=True)
    return b.where(b.equal(peak, b.like(-np.inf, scores)), b.like(0, weights), weights)
