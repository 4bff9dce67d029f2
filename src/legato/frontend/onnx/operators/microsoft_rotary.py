"""Positions of tokens in ONNX Runtime's own domain: rotary embeddings, and biases by distance."""

from __future__ import annotations

import math

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.dims import halves
from legato.frontend.heads import heads_of
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.rotary import angles_at, heads_by_table, places_from, turned
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"
_MOST = 1 << 16  # columns of tables of three positions


def rotary_embedding(
    b: Emitter,
    x: Expr,
    position_ids: Expr,
    cos: Expr,
    sin: Expr,
    *,
    interleaved: bool = False,
    is_packed_batching: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Expr:
    """Pairs of elements of each head, turned by the angle of their position; one position alone is that of the first
    token. `scale` changes nothing, in ONNX Runtime neither."""
    heads = heads_by_table(b, x, num_heads, cos, rotary_embedding_dim)
    positions = position_ids
    if b.rank(position_ids) < 2:
        begin = b.reshape(b.single(position_ids, "the first position"), newshape=(1, 1))
        positions = places_from(b, begin, b.dims_of(heads)[2])
    tables = [angles_at(b, table, positions) for table in (cos, sin)]
    y = turned(b, heads, *tables, interleaved=interleaved, count=rotary_embedding_dim)
    return _like(b, y, x)


def _like(b: Emitter, y: Expr, x: Expr) -> Expr:
    """Heads as `x` has them."""
    return b.reshape(b.transpose(y, axes=(0, 2, 1, 3)), newshape=b.dims_of(x), allowzero=True) if b.rank(x) == 3 else y


def m_rotary_embedding(
    b: Emitter,
    x: Expr,
    position_ids: Expr,
    cos: Expr,
    sin: Expr,
    *,
    interleaved: bool = False,
    is_packed_batching: bool = False,
    mrope_layout: int = 0,
    mrope_section: tuple[int, ...],
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Expr:
    """The same of tokens with three positions each, [3, batch, length]: which of them a column of the tables is read at
    `mrope_section` says, as three runs of columns, or of every third."""
    if len(mrope_section) != 3 or min(mrope_section) < 0 or mrope_layout not in (0, 1):
        raise ImportModelError(f"mrope_section is {list(mrope_section)} and mrope_layout {mrope_layout}, wanted three "
                               "numbers, and 0 or 1")  # fmt: skip
    if sum(mrope_section) > _MOST:
        raise ImportModelError(f"mrope_section is {list(mrope_section)}: at most {_MOST} columns are accepted")
    b.require(b.dims_of_rank(position_ids, 3, "positions")[0], const(3), "positions of a token")
    b.require(b.dims_of_rank(cos, 2, "the table of cosines")[1], const(sum(mrope_section)), "columns of the tables")
    which = np.repeat(np.arange(3), mrope_section)
    if mrope_layout:
        which = np.zeros(sum(mrope_section), np.int64)
        for n in (1, 2):
            which[n : mrope_section[n] * 3 : 3] = n
    tables = []
    for table in (cos, sin):
        each = angles_at(b, table, position_ids)  # [3, batch, length, columns]
        parts = [b.take(each, b.constant(n, "int64"), axis=0, mode="fast") for n in range(3)]
        found = parts[0]
        for n in (1, 2):
            found = b.where(b.constant(which == n), parts[n], found)
        tables.append(found)
    heads = heads_by_table(b, x, num_heads, cos, rotary_embedding_dim)
    return _like(b, turned(b, heads, *tables, interleaved=interleaved, count=rotary_embedding_dim), x)


def gemma_rotary_embedding(b: Emitter, angles: Expr, q: Expr, q_rot: Expr, k: Expr, k_rot: Expr) -> tuple[Expr, Expr]:
    """Queries and keys times the cosines of angles [batch, length, size], and what they are when turned by a right
    angle times the sines."""
    cos, sin = (b.expand_dims(b.to(f(angles), b.dtype(q)), axis=1) for f in (b.cos, b.sin))
    first = b.add(b.multiply(q, cos), b.multiply(q_rot, sin))
    return first, b.add(b.multiply(k, cos), b.multiply(k_rot, sin))


def relative_position_bias(
    b: Emitter, table: Expr, query_length: Expr, key_length: Expr, *, is_bidirectional: bool = False, max_distance: int
) -> Expr:
    """[1, heads, queries, keys]: rows of the table [buckets, heads] by the distance of a key from a query, of which the
    larger share buckets, as in T5."""
    rows, columns = b.dim(query_length, "queries"), b.dim(key_length, "keys")
    buckets = b.known(b.dims_of_rank(table, 2, "buckets")[0], "the number of buckets")
    sides = 2 if is_bidirectional else 1
    if buckets < 2 * sides or max_distance <= buckets // (2 * sides):
        raise ImportModelError(f"{buckets} buckets of distances up to {max_distance}")
    key, query = (b.arange(start=const(0), stop=d, step=1, dtype=dt.int64) for d in (columns, rows))
    ahead = b.subtract(key, b.expand_dims(query, axis=1))
    zero, own = b.constant(0, dt.int64), buckets // sides
    if sides == 1:
        bucket = _bucket(b, b.maximum(b.negative(ahead), zero), own, max_distance)
    else:
        side = b.multiply(b.cast(b.greater(ahead, zero), dtype=dt.int64), b.constant(own, dt.int64))
        bucket = b.add(side, _bucket(b, b.abs(ahead), own, max_distance))
    return b.expand_dims(b.transpose(b.take(table, bucket, axis=0), axes=(2, 0, 1)), axis=0)


def _bucket(b: Emitter, distance: Expr, buckets: int, most: int) -> Expr:
    """The bucket of each distance: half of them have one distance each, the others, up to `most`, ever more."""
    exact = buckets // 2
    far = b.cast(b.maximum(distance, b.constant(1, dt.int64)), dtype=dt.float32)
    steps = b.divide(b.log(b.divide(far, b.constant(float(exact)))), b.constant(math.log(most / exact)))
    more = b.cast(b.multiply(steps, b.constant(float(buckets - exact))), dtype=dt.int64)
    shared = b.minimum(b.add(more, b.constant(exact, dt.int64)), b.constant(buckets - 1, dt.int64))
    return b.where(b.less(distance, b.constant(exact, dt.int64)), distance, shared)


def gated_relative_position_bias(
    b: Emitter,
    query: Expr,
    query_bias: Expr,
    rel_pos: Expr,
    weight: Expr,
    bias: Expr,
    eco_a: Expr,
    token_offset: Expr | None = None,
    *,
    num_heads: int,
) -> Expr:
    """`rel_pos` times a gate of each query, two sigmoids of halves of a product: u · (r · eco_a - 1) + 2."""
    if token_offset is not None:
        raise ImportModelError("queries without padding (token_offset): give them with it")
    heads = heads_of(b, b.add(b.wide(query), b.wide(query_bias)), num_heads)
    z = b.add(b.matmul(heads, b.wide(weight)), b.wide(bias))
    u, r = (b.sigmoid(b.sum(half, axis=(3,), keepdims=True)) for half in halves(b, z))
    gate = b.add(b.multiply(u, b.subtract(b.multiply(r, b.wide(eco_a)), b.like(1, r))), b.like(2, r))
    return b.to(b.multiply(gate, b.wide(rel_pos)), b.dtype(query))
