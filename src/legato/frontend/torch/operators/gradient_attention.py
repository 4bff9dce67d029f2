"""The backward operator of attention. The weights are formed again from queries and keys."""

from __future__ import annotations

from legato.base.errors import UnsupportedError
from legato.frontend.heads import head_scale
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.operators.attention import exchanged, weights_of
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_for_cpu_backward(
    b: Emitter, grad_out: Expr, query: Expr, key: Expr, value: Expr, out: Expr, logsumexp: Expr, dropout_p: float,
    is_causal: bool, *, attn_mask: Expr | None = None, scale: float | None = None,
) -> tuple[Expr, Expr, Expr]:  # fmt: skip
    """Of weights w = softmax(scale · q · kᵀ): dv = wᵀ · dy, and ds = w · (dy · vᵀ − Σ dy · y), times k or q."""
    if dropout_p > 0:
        raise UnsupportedError(f"attention with dropout_p={dropout_p}", hint="call eval() before, or set it to 0")
    q, k, v, dy, y = (b.wide(x) for x in (query, key, value, grad_out, out))
    weights, _ = weights_of(b, q, k, attn_mask, is_causal, scale)
    mean = b.sum(b.multiply(dy, y), axis=(-1,), keepdims=True)
    ds = b.multiply(weights, b.subtract(b.matmul(dy, exchanged(b, v)), mean))
    ds = b.multiply(ds, head_scale(b, q, scale))
    found = b.matmul(ds, k), b.matmul(exchanged(b, ds), q), b.matmul(exchanged(b, weights), dy)
    dq, dk, dv = (b.to(g, b.dtype(x)) for g, x in zip(found, (query, key, value), strict=True))
    return dq, dk, dv
