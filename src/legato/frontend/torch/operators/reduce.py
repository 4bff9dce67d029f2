"""Sums, products, means, truth values and norms over axes. Integers sum to int64, 16-bit floats in float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from legato.arith.expr import Const
from legato.base.dtype import DType, bool_, int64, uint8
from legato.frontend.torch.emitter import Emitter, Number, Size
from legato.frontend.torch.operators._operands import as_bool, number_of, wide_float
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

Axes = Sequence[Size] | None


def _summed(b: Emitter, x: Expr, dtype: DType | None) -> Expr:
    """What is added or multiplied: of the dtype asked for, integers and truth values as int64."""
    return b.to(x, dtype or (b.dtype(x) if b.dtype(x).is_float else int64))


@aten("sum")
def sum_(b: Emitter, self: Expr, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Expr:
    if dtype is not None and dtype.is_bool:
        return b.any(as_bool(b, self), axis=b.axes_of(dim, b.rank(self)), keepdims=keepdim)
    return b.sum(_summed(b, self, dtype), axis=b.axes_of(dim, b.rank(self)), keepdims=keepdim)


@aten("prod")
def prod(b: Emitter, self: Expr, dim: Size | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Expr:
    if dtype is not None and dtype.is_bool:
        return b.all(as_bool(b, self), axis=b.axes_of(dim, b.rank(self)), keepdims=keepdim)
    return b.prod(_summed(b, self, dtype), axis=b.axes_of(dim, b.rank(self)), keepdims=keepdim)


@aten("mean")
def mean(b: Emitter, self: Expr, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Expr:
    x = self if dtype is None else b.to(self, dtype)
    return b.mean(x, axis=b.axes_of(dim, b.rank(self)), keepdims=keepdim)


@aten("any")
def any_(b: Emitter, self: Expr, dim: Size | Axes = None, keepdim: bool = False) -> Expr:
    return _holds(b, b.any, self, dim, keepdim)


@aten("all")
def all_(b: Emitter, self: Expr, dim: Size | Axes = None, keepdim: bool = False) -> Expr:
    return _holds(b, b.all, self, dim, keepdim)


def _holds(b: Emitter, f: Callable[..., Expr], x: Expr, dim: Size | Axes, keepdim: bool) -> Expr:
    """Of bytes the result is a byte. An empty list names no axis here, while it means all in a sum."""
    axes = () if dim == () else b.axes_of(dim, b.rank(x))
    found = f(as_bool(b, x), axis=axes, keepdims=keepdim)
    return b.to(found, uint8 if b.dtype(x) == uint8 else bool_)


# ------------------------------------------------------------------ variances


@aten("var.correction")
def var(b: Emitter, self: Expr, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False) -> Expr:
    return b.to(_variance(b, self, dim, correction, keepdim)[0], b.dtype(self))


@aten("var_mean.correction")
def var_mean(
    b: Emitter, self: Expr, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False
) -> tuple[Expr, Expr]:
    found, middle = _variance(b, self, dim, correction, keepdim)
    return b.to(found, b.dtype(self)), b.to(middle, b.dtype(self))


def _variance(b: Emitter, x: Expr, dim: Axes, correction: Number | None, keepdim: bool) -> tuple[Expr, Expr]:
    """The variance and the mean over axes: squares are divided by their number less the `correction`, at least 0."""
    axes, wide = b.axes_of(dim, b.rank(x)), b.wide(x)
    middle = b.mean(wide, axis=axes, keepdims=True)
    returned = middle if keepdim or not axes else b.squeeze(middle, axis=axes)
    lacks = 1.0 if correction is None else number_of(correction)
    count = b.product([b.dims_of(x)[n] for n in axes])
    if lacks == 0 or (lacks == 1 and isinstance(count, Const) and count.value > 1):
        return b.variance(wide, middle, axis=axes, keepdims=keepdim, unbiased=lacks == 1), returned
    off = b.subtract(wide, middle)
    total = b.sum(b.multiply(off, off), axis=axes, keepdims=keepdim)
    return b.divide(total, b.maximum(b.subtract(b.extent(count, b.dtype(wide)), lacks), 0.0)), returned


# ------------------------------------------------------------------ norms


@aten("linalg_vector_norm")
def vector_norm(
    b: Emitter, self: Expr, ord: Number = 2, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Expr:
    """(Σ |x|^ord)^(1/ord): the largest for ∞, the smallest for −∞, how many are not 0 for 0."""
    axes, power = b.axes_of(dim, b.rank(self)), number_of(ord)
    x = wide_float(b, self, dtype)
    return b.to(_norm(b, b.abs(x), power, axes, keepdim), dtype or b.dtype(self))


def _norm(b: Emitter, x: Expr, power: float, axes: tuple[int, ...], keepdim: bool) -> Expr:
    if math.isinf(power):
        return b.call("max" if power > 0 else "min", x, axis=axes, keepdims=keepdim)
    if power == 0:
        return b.sum(b.to(b.not_equal(x, b.like(0, x)), b.dtype(x)), axis=axes, keepdims=keepdim)
    if power == 1:
        return b.sum(x, axis=axes, keepdims=keepdim)
    if power == 2:
        return b.sqrt(b.sum(b.multiply(x, x), axis=axes, keepdims=keepdim))
    total = b.sum(b.power(x, b.like(power, x)), axis=axes, keepdims=keepdim)
    return b.power(total, b.like(1 / power, x))


@aten("dist")
def dist(b: Emitter, self: Expr, other: Expr, p: Number = 2) -> Expr:
    x, y = b.promoted(self, other)
    return vector_norm(b, b.subtract(x, y), p)


@aten("logsumexp")
def logsumexp(b: Emitter, self: Expr, dim: Axes, keepdim: bool = False) -> Expr:
    """log Σ eˣ = m + log Σ e^(x − m), with the maximum m where it is finite."""
    axes, x = b.axes_of(dim, b.rank(self)), wide_float(b, self)
    peak = b.max(x, axis=axes, keepdims=True)
    m = b.where(b.isfinite(peak), peak, b.like(0, x))
    total = b.log(b.sum(b.exp(b.subtract(x, m)), axis=axes, keepdims=keepdim))
    found = b.add(total, m if keepdim or not axes else b.squeeze(m, axis=axes))
    return b.to(found, b.dtype(self)) if b.dtype(self).is_float else found
