"""Convolutions along time, of each channel alone, that see no later place and go on from what was before."""

from __future__ import annotations

from legato.arith.expr import Const, const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["causal_conv"]

_ACTIVATIONS = ("none", "silu", "swish")


def causal_conv(
    b: Emitter, x: Expr, weight: Expr, bias: Expr | None, past: Expr | None, *, activation: str, dilation: int = 1
) -> tuple[Expr, Expr]:
    """x [batch, channels, length] by weight [channels, 1, k], and the last places that the next call begins with.

    Before the first place are those of `past`, or zeros. 16-bit floats are rounded once.
    """
    if activation not in _ACTIVATIONS or dilation < 1:
        raise ImportModelError(f"activation is {activation!r} and dilation {dilation}, wanted one of "
                               f"{', '.join(_ACTIVATIONS)}, and 1 or more")  # fmt: skip
    if b.rank(x) != 3 or b.rank(weight) != 3:
        raise ImportModelError(f"an input {x.ty} and a weight {weight.ty}, wanted both of rank 3")
    n, channels, length = b.dims_of(x)
    b.require(b.dims_of(weight)[0], channels, "channels of the weight")
    b.require(b.dims_of(weight)[1], const(1), "channels that one is made of")
    count = simplify((b.dims_of(weight)[2] - 1) * dilation)
    if past is None:
        past = b.zeros(shape=(n, channels, count), dtype=b.dtype(x))
    padded = b.concatenate(past, x, axis=2)
    b.require(b.dims_of(past)[2], count, "places before the first")
    y = b.wide(_convolved(b, padded, weight, dilation, length))
    if bias is not None:
        y = b.nn.bias_add(y, b.to(bias, b.dtype(y)), axis=1)
    y = y if activation == "none" else b.nn.silu(y)
    state = b.strided_slice(padded, begin=(length,), end=(simplify(length + count),), strides=(1,), axes=(2,))
    return b.to(y, b.dtype(x)), state


def _convolved(b: Emitter, x: Expr, weight: Expr, dilation: int, length: Dim) -> Expr:
    """The convolution proper; where channels or taps are only known in a call, the sum over windows."""
    channels, _, taps = b.dims_of(weight)
    if isinstance(channels, Const) and isinstance(taps, Const):
        return b.nn.conv1d(x, weight, strides=(1,), padding=(0, 0), dilation=(dilation,), groups=int(channels.value),
                           out_dtype=b.sum_dtype(x, goes_on=True))  # fmt: skip
    begin = b.expand_dims(b.arange(start=const(0), stop=length, step=1, dtype=dt.int64), axis=1)
    steps = b.arange(start=const(0), stop=taps, step=1, dtype=dt.int64)
    places = b.add(begin, b.multiply(steps, b.constant(dilation, dt.int64)))
    return b.sum(b.multiply(b.wide(b.take(x, places, axis=2, mode="fast")), b.wide(weight)), axis=(3,))
