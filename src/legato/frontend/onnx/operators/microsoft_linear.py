"""ONNX Runtime's own forms of attention by a state, and of the convolution before it."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.simplify import simplify
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.dims import channels_first
from legato.frontend.dims import channels_last as by_channel
from legato.frontend.onnx.causal import causal_conv
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import linear_attention as standard
from legato.ir.expr import Expr
from legato.ir.types import Dim

DOMAIN = "com.microsoft"

_WINDOW = "states of several steps (state_window)"
_HINT = "export the model with state_window=0"


def linear_attention(
    b: Emitter,
    query: Expr,
    key: Expr,
    value: Expr,
    past_state: Expr | None = None,
    decay: Expr | None = None,
    beta: Expr | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    state_window: int = 0,
    update_rule: str = "gated_delta",
) -> tuple[Expr, Expr]:
    if state_window:
        raise UnsupportedError(_WINDOW, hint=_HINT)
    return standard.linear_attention(b, query, key, value, past_state, decay, beta, kv_num_heads=kv_num_heads,
                                     q_num_heads=q_num_heads, scale=scale, update_rule=update_rule)  # fmt: skip


def causal_conv_with_state(
    b: Emitter,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    past_state: Expr | None = None,
    *,
    activation: str = "none",
    channels_last: bool = False,
    dilation: int = 1,
    input_channel_offset: int = 0,
    input_channels: int = 0,
    ndim: int = 1,
    state_channels_last: int = -1,
    state_length: int = 0,
    state_update_capacity: int = 0,
    state_window: int = 0,
) -> tuple[Expr, Expr]:
    """With `channels_last` of [batch, length, channels…], and so the state."""
    if state_window:
        raise UnsupportedError(_WINDOW, hint=_HINT)
    if ndim != 1:
        raise UnsupportedError(f"a causal convolution along {ndim} dims: one is possible")
    if input_channel_offset or input_channels or state_channels_last != -1 or state_length or state_update_capacity:
        raise UnsupportedError(
            "attributes of CausalConvWithState that ONNX Runtime has for CUDA alone",
            hint="export the decoder for the CPU",
        )
    if not channels_last:
        return causal_conv(b, x, weight, bias, past_state, activation=activation, dilation=dilation)
    past = None if past_state is None else _in_one(b, past_state)
    y, state = causal_conv(b, _in_one(b, x), weight, bias, past, activation=activation, dilation=dilation)
    channels = b.dims_of(x)[2:]
    return _apart(b, y, channels), _apart(b, state, channels)


def _in_one(b: Emitter, x: Expr) -> Expr:
    """[batch, channels, length], from [batch, length, channels…]."""
    if b.rank(x) < 3:
        raise ImportModelError(f"the input is {x.ty}, wanted batch, length and channels")
    n, length, *channels = b.dims_of(x)
    return channels_first(b, b.reshape(x, newshape=(n, length, simplify(b.product(channels))), allowzero=True))


def _apart(b: Emitter, x: Expr, channels: Sequence[Dim]) -> Expr:
    """`_in_one` undone."""
    x = by_channel(b, x)
    return b.reshape(x, newshape=(*b.dims_of(x)[:2], *channels), allowzero=True)


def linear_attention_gate(
    b: Emitter, a: Expr, dt_bias: Expr, decay_scale: Expr, update: Expr | None = None
) -> tuple[Expr, ...]:
    """What LinearAttention takes: decays, scale · softplus(a + bias), and rates, the sigmoids of `update`."""
    total = b.add(b.wide(a), b.wide(dt_bias))
    decay = b.to(b.multiply(b.nn.softplus(total), b.wide(decay_scale)), b.dtype(a))
    return (decay,) if update is None else (decay, b.to(b.sigmoid(b.wide(update)), b.dtype(update)))
