"""Activation functions and softmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from legato.base import dtype as dt
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

_SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def relu(b: Emitter, x: Expr) -> Expr:
    return b.nn.relu(x)


def leaky_relu(b: Emitter, x: Expr, *, alpha: float = 0.01) -> Expr:
    return b.nn.leaky_relu(x, alpha=alpha)


def prelu_7(b: Emitter, x: Expr, slope: Expr) -> Expr:
    """A slope for each channel, or anything else that broadcasts."""
    rank, dims = b.rank(x), b.dims_of(slope)
    per_channel = rank > 1 and len(dims) == rank - 1 and [b.is_one(d) for d in dims] == [False] + [True] * (rank - 2)
    if per_channel and b.dtype(x).is_float:
        return b.nn.prelu(x, b.reshape(slope, newshape=(-1,)), axis=1)
    return b.where(b.less(x, b.like(0, x)), b.multiply(x, slope), x)


def elu(b: Emitter, x: Expr, *, alpha: float = 1.0) -> Expr:
    return b.nn.elu(x, alpha=alpha)


def selu_6(b: Emitter, x: Expr, *, alpha: float = _SELU[0], gamma: float = _SELU[1]) -> Expr:
    if np.allclose((alpha, gamma), _SELU, rtol=1e-6):
        return b.nn.selu(x)
    wide = b.wide(x)
    return b.to(b.multiply(b.nn.elu(wide, alpha=alpha), b.like(gamma, wide)), b.dtype(x))


def celu(b: Emitter, x: Expr, *, alpha: float = 1.0) -> Expr:
    return b.nn.celu(x, alpha=alpha)


def gelu(b: Emitter, x: Expr, *, approximate: str = "none") -> Expr:
    return b.nn.gelu(x, approximate=approximate)


def mish(b: Emitter, x: Expr) -> Expr:
    return b.nn.mish(x)


def hard_sigmoid(b: Emitter, x: Expr, *, alpha: float = 0.2, beta: float = 0.5) -> Expr:
    return b.nn.hard_sigmoid(x, alpha=alpha, beta=beta)


def hard_swish(b: Emitter, x: Expr) -> Expr:
    return b.nn.hard_swish(x)


def swish(b: Emitter, x: Expr, *, alpha: float = 1.0) -> Expr:
    if alpha == 1.0:
        return b.nn.silu(x)
    wide = b.wide(x)
    return b.to(b.multiply(wide, b.sigmoid(b.multiply(wide, b.like(alpha, wide)))), b.dtype(x))


def softplus(b: Emitter, x: Expr) -> Expr:
    return b.nn.softplus(x)


def softsign(b: Emitter, x: Expr) -> Expr:
    return b.nn.softsign(x)


def thresholded_relu(b: Emitter, x: Expr, *, alpha: float = 1.0) -> Expr:
    return b.nn.thresholded_relu(x, alpha=alpha)


def shrink(b: Emitter, x: Expr, *, bias: float = 0.0, lambd: float = 0.5) -> Expr:
    """Below -lambd x + bias, else, above lambd, x - bias: for lambd < 0 a number is both, and counts as below.

    Integers are computed in float64, since `bias` and `lambd` need not be integers, and truncated.
    """
    dtype = b.dtype(x)
    x = x if dtype.is_float else b.to(x, dt.float64)
    above = b.where(b.greater(x, b.like(lambd, x)), b.subtract(x, b.like(bias, x)), b.like(0, x))
    return b.to(b.where(b.less(x, b.like(-lambd, x)), b.add(x, b.like(bias, x)), above), dtype)


# ------------------------------------------------------------------ softmax
# Before operator set 13 the axes from `axis` on were one; since then it is one axis.


def softmax(b: Emitter, x: Expr, *, axis: int = 1) -> Expr:
    return _on_rows(b, x, axis, b.nn.softmax)


def softmax_13(b: Emitter, x: Expr, *, axis: int = -1) -> Expr:
    return b.nn.softmax(x, axis=b.axis(axis, b.rank(x)))


def log_softmax(b: Emitter, x: Expr, *, axis: int = 1) -> Expr:
    return _on_rows(b, x, axis, b.nn.log_softmax)


def log_softmax_13(b: Emitter, x: Expr, *, axis: int = -1) -> Expr:
    return b.nn.log_softmax(x, axis=b.axis(axis, b.rank(x)))


def hardmax(b: Emitter, x: Expr, *, axis: int = 1) -> Expr:
    return _on_rows(b, x, axis, lambda y, axis: hardmax_13(b, y, axis=axis))


def hardmax_13(b: Emitter, x: Expr, *, axis: int = -1) -> Expr:
    """One where the first largest element along `axis` is, else zero."""
    axis = b.axis(axis, b.rank(x))
    depth, place = b.dims_of(x)[axis], b.argmax(x, axis=(axis,))
    return b.one_hot(place, b.like(1, x), b.like(0, x), depth=depth, axis=axis, dtype=b.dtype(x))


def _on_rows(b: Emitter, x: Expr, axis: int, f: Callable[..., Expr]) -> Expr:
    rank = b.rank(x)
    axis = axis % rank if -rank <= axis < rank else b.axis(axis, rank + 1)
    if axis == rank - 1:
        return f(x, axis=axis)
    shape = b.dims_of(x)
    rows = b.reshape(x, newshape=(b.product(shape[:axis]), b.product(shape[axis:])), allowzero=True)
    return b.reshape(f(rows, axis=1), newshape=shape, allowzero=True)
