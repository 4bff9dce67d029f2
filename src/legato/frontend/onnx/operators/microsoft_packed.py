"""Attention of rows of different lengths, of which only the tokens are there, and what packs them so.

`token_offset` [batch, length] lists where tokens stand among all places of the batch, and behind them those of padding.
"""

from __future__ import annotations

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import microsoft_attention
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def remove_padding(b: Emitter, x: Expr, counts: Expr) -> tuple[Expr, ...]:
    """The tokens of x [batch, length, hidden size], of which each row has some first; where they were; where each row
    begins among them, with their number behind; and the largest number of a row."""
    n, length, hidden = b.dims_of_rank(x, 3, "rows of tokens")
    b.dims_of_rank(counts, 1, "numbers of tokens")
    places = b.arange(start=const(0), stop=length, step=1, dtype=dt.int64)
    is_padding = b.greater_equal(places, b.expand_dims(b.to(counts, dt.int64), axis=1))
    flat = b.reshape(b.cast(is_padding, dtype=dt.int32), newshape=(simplify(n * length),), allowzero=True)
    order = b.argsort(flat, axis=0, dtype=dt.int64)
    total = b.dim(b.sum(counts, axis=(0,)), "the number of tokens")
    b.require_least(simplify(n * length - total), const(0), "the number of tokens")
    rows = b.reshape(x, newshape=(simplify(n * length), hidden), allowzero=True)
    kept = b.strided_slice(order, begin=(0,), end=(total,), strides=(1,), axes=(0,))
    begins = b.concatenate(b.zeros(shape=(1,), dtype=b.dtype(counts)), b.cumsum(counts, axis=0), axis=0)
    offsets = b.to(b.reshape(order, newshape=(n, length), allowzero=True), b.dtype(counts))
    return b.take(rows, kept, axis=0, mode="fast"), offsets, begins, b.max(counts, axis=(0,), keepdims=True)


def restore_padding(b: Emitter, x: Expr, token_offset: Expr) -> Expr:
    """Tokens [tokens, hidden size] as [batch, length, hidden size]; elsewhere 0."""
    n, length = b.dims_of_rank(token_offset, 2, "token_offset")
    tokens, hidden = b.dims_of_rank(x, 2, "tokens")
    whole = b.zeros(shape=(simplify(n * length), hidden), dtype=b.dtype(x))
    where = b.expand_dims(_offsets(b, token_offset, x), axis=0)
    b.require_least(simplify(n * length - tokens), const(0), "the number of tokens")
    return b.reshape(b.scatter_nd(whole, where, x), newshape=(n, length, hidden), allowzero=True)


def _offsets(b: Emitter, token_offset: Expr, x: Expr) -> Expr:
    """Where the tokens `x` stand."""
    n, length = b.dims_of(token_offset)
    flat = b.reshape(b.to(token_offset, dt.int64), newshape=(simplify(n * length),), allowzero=True)
    return b.strided_slice(flat, begin=(0,), end=(b.dims_of(x)[0],), strides=(1,), axes=(0,))


def _packed_again(b: Emitter, y: Expr, token_offset: Expr, x: Expr) -> Expr:
    """The tokens of y [batch, length, hidden size]."""
    n, length, hidden = b.dims_of(y)
    rows = b.reshape(y, newshape=(simplify(n * length), hidden), allowzero=True)
    return b.take(rows, _offsets(b, token_offset, x), axis=0)


def _lengths(b: Emitter, begins: Expr) -> Expr:
    """How many tokens each row has."""
    (count,) = b.dims_of_rank(begins, 1, "cumulative_sequence_length")
    ends = b.strided_slice(begins, begin=(1,), end=(count,), strides=(1,), axes=(0,))
    return b.subtract(ends, b.strided_slice(begins, begin=(0,), end=(simplify(count - 1),), strides=(1,), axes=(0,)))


def packed_attention(
    b: Emitter,
    x: Expr,
    weights: Expr,
    bias: Expr,
    token_offset: Expr,
    cumulative_sequence_length: Expr,
    attention_bias: Expr | None = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: tuple[int, ...] = (),
    scale: float | None = None,
) -> Expr:
    """Attention of tokens, each among those of its row."""
    batch, _ = b.dims_of_rank(token_offset, 2, "token_offset")
    lengths = _lengths(b, cumulative_sequence_length)
    b.require(b.dims_of(lengths)[0], batch, "rows of the batch")
    mask, whole = _as_mask(b, lengths, token_offset), restore_padding(b, x, token_offset)
    y = microsoft_attention.attention(b, whole, weights, bias, mask, None, attention_bias, num_heads=num_heads,
                                      qkv_hidden_sizes=qkv_hidden_sizes, scale=scale)[0]  # fmt: skip
    return _packed_again(b, y, token_offset, x)


def _as_mask(b: Emitter, lengths: Expr, token_offset: Expr) -> Expr:
    """Which places of each row are tokens, int32[batch, length]."""
    places = b.arange(start=const(0), stop=b.dims_of(token_offset)[1], step=1, dtype=dt.int64)
    return b.cast(b.less(places, b.expand_dims(b.to(lengths, dt.int64), axis=1)), dtype=dt.int32)


def packed_multi_head_attention(
    b: Emitter,
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    bias: Expr | None = None,
    token_offset: Expr | None = None,
    cumulative_sequence_length: Expr | None = None,
    attention_bias: Expr | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float | None = None,
) -> Expr:
    """The same of queries, keys and values, which one tensor [tokens, heads, 3, size] may hold."""
    if token_offset is None or cumulative_sequence_length is None:
        raise ImportModelError("PackedMultiHeadAttention lacks token_offset or cumulative_sequence_length")
    if b.rank(query) == 4:
        if key is not None or value is not None:
            raise ImportModelError(f"keys or values beside {query.ty}, which has them")
        tokens, heads, count, size = b.dims_of(query)
        b.require(count, const(3), "what one tensor holds of queries, keys and values")
        parts = [b.take(query, b.constant(n, "int64"), axis=2, mode="fast") for n in range(3)]
        parts = [b.reshape(p, newshape=(tokens, simplify(heads * size)), allowzero=True) for p in parts]
    elif key is None or value is None:
        raise ImportModelError(f"queries {query.ty} without keys or values")
    else:
        parts = [query, key, value]
    batch, _ = b.dims_of_rank(token_offset, 2, "token_offset")
    lengths = _lengths(b, cumulative_sequence_length)
    b.require(b.dims_of(lengths)[0], batch, "rows of the batch")
    mask = _as_mask(b, lengths, token_offset)
    q, k, v = (restore_padding(b, p, token_offset) for p in parts)
    y = microsoft_attention.multi_head_attention(b, q, k, v, bias, mask, attention_bias, num_heads=num_heads,
                                                 mask_filter_value=mask_filter_value, scale=scale)[0]  # fmt: skip
    return _packed_again(b, y, token_offset, query)
