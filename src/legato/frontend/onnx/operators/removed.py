"""Operators that ONNX had on trial until operator set 10, and that old files have: as ONNX Runtime has them."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Const, const, expr
from legato.arith.simplify import simplify
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators.norm import mean_variance_normalization_9
from legato.frontend.onnx.operators.shape import slice_10
from legato.frontend.onnx.tensors import element_count, element_type
from legato.ir.expr import Expr
from legato.ir.types import Dim

# ------------------------------------------------------------------ elementwise


def affine(b: Emitter, x: Expr, *, alpha: float = 1.0, beta: float = 0.0) -> Expr:
    """alpha · x + beta."""
    wide = b.wide(x)
    return b.to(b.add(b.multiply(wide, b.like(alpha, wide)), b.like(beta, wide)), b.dtype(x))


def scale(b: Emitter, x: Expr, *, scale: float = 1.0) -> Expr:
    return b.multiply(x, b.like(scale, x))


def scaled_tanh(b: Emitter, x: Expr, *, alpha: float = 1.0, beta: float = 1.0) -> Expr:
    """alpha · tanh(beta · x)."""
    wide = b.wide(x)
    return b.to(b.multiply(b.like(alpha, wide), b.tanh(b.multiply(b.like(beta, wide), wide))), b.dtype(x))


def parametric_softplus(b: Emitter, x: Expr, *, alpha: float = 1.0, beta: float = 1.0) -> Expr:
    """alpha · ln(exp(beta · x) + 1)."""
    wide = b.wide(x)
    return b.to(b.multiply(b.like(alpha, wide), b.nn.softplus(b.multiply(b.like(beta, wide), wide))), b.dtype(x))


# ------------------------------------------------------------------ images (N, C, H, W)


def image_scaler(b: Emitter, x: Expr, *, bias: tuple[float, ...] = (), scale: float = 1.0) -> Expr:
    """scale · x + bias, which is a number for each channel."""
    channels = _image(b, x)[1]
    if not bias:
        return b.multiply(x, b.like(scale, x))
    b.require(channels, const(len(bias)), "the number of channels, and of biases,")
    own = b.constant(np.array(bias).reshape(len(bias), 1, 1), b.dtype(b.wide(x)))
    return b.to(b.add(b.multiply(b.wide(x), b.like(scale, own)), own), b.dtype(x))


def crop(b: Emitter, x: Expr, *, border: tuple[int, ...], scale: tuple[int, ...] = ()) -> Expr:
    """Without the borders left, top, right, bottom; with `scale` so many rows and columns behind those left and top."""
    *_, height, width = _image(b, x)
    if len(border) != 4 or len(scale) not in (0, 2) or min(*border, *scale) < 0:
        raise ImportModelError(f"border is {list(border)} and scale {list(scale)}, wanted 4 and 0 or 2 extents")
    left, top, right, bottom = border
    rows, columns = scale or (simplify(height - top - bottom), simplify(width - left - right))
    for extent, least in (
        (height, top + (scale[0] if scale else bottom)),
        (width, left + (scale[1] if scale else right)),
    ):
        b.require_least(extent, const(least), "an extent that is cropped")
    end = tuple(_literal(first + size) for first, size in ((top, rows), (left, columns)))
    return b.strided_slice(x, begin=(top, left), end=end, strides=(1, 1), axes=(2, 3))


def _image(b: Emitter, x: Expr) -> tuple[Dim, ...]:
    if b.rank(x) != 4:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted 4")
    return b.dims_of(x)


def _literal(d: Dim | int) -> Dim | int:
    d = simplify(expr(d))
    return int(d.value) if isinstance(d, Const) else d


def mean_variance_normalization(
    b: Emitter, x: Expr, *, across_channels: bool = False, normalize_variance: bool = True
) -> Expr:
    """Over the batch and the spatial dims, with `across_channels` over channels, too."""
    _image(b, x)
    axes = (0, 1, 2, 3) if across_channels else (0, 2, 3)
    if normalize_variance:
        return mean_variance_normalization_9(b, x, axes=axes)
    wide = b.wide(x)
    return b.to(b.subtract(wide, b.mean(wide, axis=axes, keepdims=True)), b.dtype(x))


# ------------------------------------------------------------------ constants and slices


def constant_fill(
    b: Emitter,
    given: Expr | None = None,
    *,
    dtype: int = 1,
    extra_shape: tuple[int, ...] = (),
    input_as_shape: bool = False,
    shape: tuple[int, ...] = (),
    value: float = 0.0,
) -> Expr:
    """A tensor of one value, of the shape of an input, or that an input or `shape` says, and more dims behind."""
    return b.full(b.constant(value, element_type(dtype, "the result")),
                  shape=_extents(b, given, shape, extra_shape, input_as_shape))  # fmt: skip


def given_tensor_fill(
    b: Emitter,
    given: Expr | None = None,
    *,
    extra_shape: tuple[int, ...] = (),
    input_as_shape: bool = False,
    shape: tuple[int, ...] = (),
    values: tuple[float, ...] = (),
) -> Expr:
    """The same of many values."""
    found = b.constant(np.array(values, np.float32))
    return b.reshape(found, newshape=_extents(b, given, shape, extra_shape, input_as_shape), allowzero=True)


def _extents(
    b: Emitter, given: Expr | None, shape: tuple[int, ...], extra: tuple[int, ...], input_as_shape: int
) -> tuple[Dim, ...]:
    """The shape of what is filled."""
    if given is None:
        first: tuple[Dim, ...] = tuple(map(const, shape))
    elif shape:
        raise ImportModelError("a shape by an attribute and by an input")
    else:
        first = b.dims(given, "the shape") if input_as_shape else b.dims_of(given)
    if any(d < 0 for d in (*shape, *extra)):
        raise ImportModelError(f"shape is {list(shape)} and extra_shape {list(extra)}, wanted extents")
    element_count((*shape, *extra), "the result")
    return (*first, *map(const, extra))


def dynamic_slice(b: Emitter, x: Expr, starts: Expr, ends: Expr, axes: Expr | None = None) -> Expr:
    return slice_10(b, x, starts, ends, axes)
