"""Attention: products of queries and keys, softmax, sums of values. 16-bit floats are computed in float32 inside."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import const
from legato.base.dtype import bool_
from legato.base.errors import UnsupportedError
from legato.frontend.heads import attended, head_scale, scores_of, softmax_weights
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("scaled_dot_product_attention")
def scaled_dot_product_attention(
    b: Emitter, query: Expr, key: Expr, value: Expr, attn_mask: Expr | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Expr:  # fmt: skip
    """softmax(q · kᵀ · scale + mask) · v."""
    return _attention(b, (query, key, value), attn_mask, dropout_p, is_causal, scale, shared=enable_gqa)[0]


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(
    b: Emitter, query: Expr, key: Expr, value: Expr, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Expr | None = None, scale: float | None = None,
) -> tuple[Expr, Expr]:  # fmt: skip
    """The same, and of each query the logarithm of the sum of what softmax divides by."""
    y, scores = _attention(b, (query, key, value), attn_mask, dropout_p, is_causal, scale)
    peak = b.max(scores, axis=(-1,), keepdims=True)
    total = b.sum(b.exp(b.subtract(scores, peak)), axis=(-1,))
    return y, b.add(b.squeeze(peak, axis=(-1,)), b.log(total))


def _attention(
    b: Emitter, qkv: tuple[Expr, Expr, Expr], mask: Expr | None, dropout_p: float, is_causal: bool, scale: float | None,
    shared: bool = False,
) -> tuple[Expr, Expr]:  # fmt: skip
    """What is attended, and the scores that softmax gets. `shared`: several heads of queries have the same keys."""
    if dropout_p > 0:
        raise UnsupportedError(f"attention with dropout_p={dropout_p}", hint="call eval() before, or set it to 0")
    q, k, v = (b.wide(x) for x in qkv)
    if shared and not b.rank(q) == b.rank(k) == b.rank(v) == 4:
        raise UnsupportedError(f"enable_gqa with queries {q.ty}", hint="give tensors of rank 4: batch, heads, …")
    weights, scores = weights_of(b, q, k, mask, is_causal, scale, shared)
    y = attended(b, weights, v) if shared else b.matmul(weights, v)
    return b.to(y, b.dtype(qkv[0])), scores


def weights_of(
    b: Emitter, q: Expr, k: Expr, mask: Expr | None, is_causal: bool, scale: float | None, shared: bool = False
) -> tuple[Expr, Expr]:
    """The weights of keys for each query, zeros for one that may see none, and the scores that they come from."""
    product = scores_of if shared else _scores
    plain = product(b, q, k, scale)
    scores = _masked(b, plain, mask, is_causal)
    masked = (mask is not None or is_causal) and b.dims_of(scores)[-1] is not const(0)
    return softmax_weights(b, scores, masked=masked), scores


def _scores(b: Emitter, q: Expr, k: Expr, scale: float | None) -> Expr:
    return b.matmul(b.multiply(q, head_scale(b, q, scale)), exchanged(b, k))


def exchanged(b: Emitter, x: Expr) -> Expr:
    """`x` with its last two dims exchanged."""
    rank = b.rank(x)
    return b.transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def _masked(b: Emitter, scores: Expr, mask: Expr | None, is_causal: bool) -> Expr:
    """Scores of which a bool mask leaves out some, to which another is added; causal ones are of no later key."""
    never = b.like(-np.inf, scores)
    if is_causal:
        rows, columns = (b.arange(start=const(0), stop=d, step=1, dtype="int64") for d in b.dims_of(scores)[-2:])
        scores = b.where(b.less_equal(columns, b.expand_dims(rows, axis=1)), scores, never)
    if mask is None:
        return scores
    if b.dtype(mask) == bool_:
        return b.where(mask, scores, never)
    return b.add(scores, b.to(mask, b.dtype(scores)))
