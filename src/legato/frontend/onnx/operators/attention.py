"""Attention and what goes with it in language models, written out in simpler operators."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.heads import attended, capped, heads_of, joined, past_of, scores_of, softmax_weights
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.rotary import angles_at, turned
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr
from legato.ir.types import Dim


def attention(
    b: Emitter,
    q: Expr,
    k: Expr,
    v: Expr,
    mask: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    nonpad_kv_seqlen: Expr | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Expr, ...]:
    """softmax(q · kᵀ · scale + bias) · v; further outputs: keys and values with the past, the scores at some stage.
    Below 0, `softcap` caps nothing, as 0."""
    is_flat, dtype = b.rank(q) == 3, b.dtype(q)
    q, k, v = heads_of(b, q, q_num_heads), heads_of(b, k, kv_num_heads), heads_of(b, v, kv_num_heads)
    past, old = None, past_of(past_key, past_value)
    if old is not None:
        past = b.dims_of_rank(old[0], 4, "past keys")[2]
        k, v = b.concatenate(old[0], k, axis=2), b.concatenate(old[1], v, axis=2)
    present = (k, v)
    q, k, v = b.wide(q), b.wide(k), b.wide(v)
    raw = scores_of(b, q, k, scale)
    limited = capped(b, raw, softcap)
    allowed = _window(b, q, k, past, nonpad_kv_seqlen, is_causal, left_window_size, right_window_size)
    biased = _biased(b, limited, mask, allowed)
    weights = _weights(b, biased, softmax_precision, biased is not limited)
    y = b.to(attended(b, weights, v), dtype)
    y = joined(b, y) if is_flat else y
    stages = (raw, limited, biased, weights)
    if not 0 <= qk_matmul_output_mode < len(stages):
        raise ImportModelError(f"qk_matmul_output_mode is {qk_matmul_output_mode}, wanted 0 to 3")
    return (y, *present, b.to(stages[qk_matmul_output_mode], dtype))


def _window(
    b: Emitter, q: Expr, k: Expr, past: Dim | None, nonpad: Expr | None, causal: bool, left: int, right: int
) -> Expr | None:
    """Which keys each query may see, as a bool tensor that broadcasts to the scores; None: all."""
    rows, columns = b.dims_of(q)[2], b.dims_of(k)[2]
    key = b.arange(start=0, stop=columns, step=1, dtype="int64")
    row = b.expand_dims(b.arange(start=0, stop=rows, step=1, dtype="int64"), axis=1, num_newaxis=1)
    found: list[Expr] = []
    if nonpad is not None:
        valid = b.reshape(b.to(nonpad, dt.int64), newshape=(-1, 1, 1, 1))
        found.append(b.less(key, valid))
        row = row if past is not None else b.add(row, b.subtract(valid, b.extent(rows, dt.int64)))
    if past is not None:
        row = b.add(row, b.extent(past, dt.int64))
    if causal:
        found.append(b.less_equal(key, row))
    if left >= 0:
        found.append(b.greater_equal(key, b.subtract(row, b.like(left, row))))
    if right >= 0:
        found.append(b.less_equal(key, b.add(row, b.like(right, row))))
    allowed = found[0] if found else None
    for more in found[1:]:
        allowed = b.logical_and(allowed, more)
    return allowed


def _biased(b: Emitter, scores: Expr, mask: Expr | None, allowed: Expr | None) -> Expr:
    """Scores with the mask applied: a bool one excludes, a float one is added."""
    if mask is not None:
        missing = b.dim_of(scores, -1) - b.dim_of(mask, -1)  # one column is not stretched over all keys either
        if missing is not const(0):
            fill = b.like(0 if b.dtype(mask).is_bool else -np.inf, mask)
            mask = b.concatenate(mask, b.full(fill, shape=(*b.dims_of(mask)[:-1], missing)), axis=-1)
        if b.dtype(mask).is_bool:
            allowed = mask if allowed is None else b.logical_and(allowed, mask)
        else:
            scores = b.add(scores, b.to(mask, b.dtype(scores)))
    return scores if allowed is None else b.where(allowed, scores, b.like(-np.inf, scores))


def _weights(b: Emitter, scores: Expr, precision: int | None, is_masked: bool) -> Expr:
    """Softmax over the keys; a query that may see none has weights of zero."""
    if precision is not None:
        scores = b.to(scores, element_type(precision, "softmax_precision"))
    return softmax_weights(b, scores, masked=is_masked)


def rotary_embedding(
    b: Emitter,
    x: Expr,
    cos: Expr,
    sin: Expr,
    positions: Expr | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Expr:
    """Pairs of elements of each head, turned by the angle of their position."""
    is_flat, flat = b.rank(x) == 3, b.dims_of(x)
    x = heads_of(b, x, num_heads)
    if positions is not None:
        cos, sin = (angles_at(b, table, positions) for table in (cos, sin))
    y = turned(b, x, cos, sin, interleaved=interleaved, count=rotary_embedding_dim)
    return b.reshape(b.transpose(y, axes=(0, 2, 1, 3)), newshape=flat, allowzero=True) if is_flat else y


def swi_glu(b: Emitter, gate: Expr, x: Expr, *, alpha: float = 1.0) -> Expr:
    wide = b.wide(gate)
    swish = b.nn.silu(wide) if alpha == 1.0 else b.multiply(wide, b.sigmoid(b.multiply(wide, b.like(alpha, wide))))
    return b.to(b.multiply(swish, b.wide(x)), b.dtype(x))
