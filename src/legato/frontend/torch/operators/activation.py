"""Activations, and softmax with its logarithm."""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.expr import const
from legato.base.dtype import float32
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Number, Size
from legato.frontend.torch.operators._operands import number_of, widened
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("relu")
def relu(b: Emitter, self: Expr) -> Expr:
    return b.nn.relu(self)


@aten("hardtanh")
def hardtanh(b: Emitter, self: Expr, min_val: Number = -1, max_val: Number = 1) -> Expr:
    low, high = number_of(min_val), number_of(max_val)
    if b.dtype(self).is_float:
        return b.clip(self, a_min=low, a_max=high)
    dtype = b.dtype(self)
    return b.minimum(b.maximum(self, b.number(low, dtype)), b.number(high, dtype))


@aten("relu6")
def relu6(b: Emitter, self: Expr) -> Expr:
    return hardtanh(b, self, 0, 6)


@aten("leaky_relu")
def leaky_relu(b: Emitter, self: Expr, negative_slope: Number = 0.01) -> Expr:
    return b.nn.leaky_relu(self, alpha=number_of(negative_slope))


@aten("rrelu_with_noise")
def rrelu_with_noise(
    b: Emitter, self: Expr, noise: Expr, lower: Number = 1 / 8, upper: Number = 1 / 3, training: bool = False
) -> Expr:
    """When nothing is trained, the mean slope."""
    if training:
        raise UnsupportedError("random slopes", hint="module.eval()")
    return leaky_relu(b, self, (number_of(lower) + number_of(upper)) / 2)


@aten("rrelu_with_noise_functional")
def rrelu_with_noise_functional(
    b: Emitter, self: Expr, noise: Expr, lower: Number = 1 / 8, upper: Number = 1 / 3, training: bool = False
) -> tuple[Expr, Expr]:
    return rrelu_with_noise(b, self, noise, lower, upper, training), noise


@aten("rrelu_with_noise_backward")
def rrelu_with_noise_backward(
    b: Emitter,
    grad_output: Expr,
    self: Expr,
    noise: Expr,
    lower: Number,
    upper: Number,
    training: bool,
    self_is_result: bool,
) -> Expr:
    """When nothing is trained, that of the mean slope: of a positive one the result has the sign of what it was made
    of."""
    if training:
        raise UnsupportedError("random slopes", hint="module.eval()")
    slope = (number_of(lower) + number_of(upper)) / 2
    if self_is_result and slope <= 0:
        raise UnsupportedError(f"the result of slope {slope} does not say what it was made of")
    return b.where(b.greater(self, b.like(0, self)), grad_output, b.multiply(grad_output, b.like(slope, grad_output)))


@aten("elu")
def elu(b: Emitter, self: Expr, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Expr:
    """scale·x above 0, and below scale·alpha·(e^(input_scale·x) − 1)."""
    rise, outer, inner = (number_of(v) for v in (alpha, scale, input_scale))
    if outer == inner == 1:
        return b.nn.elu(self, alpha=rise)

    def general(x: Expr) -> Expr:
        below = b.nn.elu(b.minimum(b.multiply(x, inner), 0.0), alpha=rise)
        return b.multiply(b.where(b.less_equal(x, 0.0), below, x), outer)

    return widened(b, general, self)


@aten("selu")
def selu(b: Emitter, self: Expr) -> Expr:
    return b.nn.selu(self)


@aten("celu")
def celu(b: Emitter, self: Expr, alpha: Number = 1.0) -> Expr:
    return b.nn.celu(self, alpha=number_of(alpha))


@aten("gelu")
def gelu(b: Emitter, self: Expr, *, approximate: str = "none") -> Expr:
    return b.nn.gelu(self, approximate=approximate)


@aten("silu")
def silu(b: Emitter, self: Expr) -> Expr:
    return b.nn.silu(b.as_float(self))


@aten("mish")
def mish(b: Emitter, self: Expr) -> Expr:
    return b.nn.mish(self)


@aten("hardswish")
def hardswish(b: Emitter, self: Expr) -> Expr:
    return b.nn.hard_swish(self)


@aten("hardsigmoid")
def hardsigmoid(b: Emitter, self: Expr) -> Expr:
    return b.nn.hard_sigmoid(self, alpha=1 / 6, beta=0.5)


@aten("softplus")
def softplus(b: Emitter, self: Expr, beta: Number = 1, threshold: Number = 20) -> Expr:
    """log(1 + e^(beta·x))/beta; x itself where beta·x is above the threshold, which shows only in few digits."""
    slope, above = number_of(beta), number_of(threshold)
    if (above >= 17 and b.wide(self) is not self) or (above >= 17 and b.dtype(self) == float32):
        return b.nn.softplus(self, beta=slope)

    def bent(x: Expr) -> Expr:
        return b.where(b.greater(b.multiply(x, slope), above), x, b.nn.softplus(x, beta=slope))

    return widened(b, bent, self)


# ------------------------------------------------------------------ softmax


@aten("_softmax")
def softmax(b: Emitter, self: Expr, dim: Size, half_to_float: bool) -> Expr:
    return _along(b, b.nn.softmax, self, dim, half_to_float)


@aten("_log_softmax")
def log_softmax(b: Emitter, self: Expr, dim: Size, half_to_float: bool) -> Expr:
    return _along(b, b.nn.log_softmax, self, dim, half_to_float)


def _along(b: Emitter, f: Callable[..., Expr], x: Expr, dim: Size, half_to_float: bool) -> Expr:
    if not b.dtype(x).is_float:
        raise UnsupportedError(f"softmax of {b.dtype(x)}", hint="give dtype=torch.float32")
    x = b.to(x, float32) if half_to_float else x
    axis = b.axis_of(dim, b.rank(x))
    if b.rank(x):
        return f(x, axis=axis)
    return b.reshape(f(b.reshape(x, newshape=(const(1),)), axis=0), newshape=())
