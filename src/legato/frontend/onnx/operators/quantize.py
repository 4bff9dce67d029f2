"""Quantised operators: numbers to codes and back, and convolutions and products of codes.

ONNX rounds halves to the even integer and scales in float32; where it leaves the rounding of steps open, steps are
those of ONNX Runtime.
"""

from __future__ import annotations

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.formats import IntFormat
from legato.frontend.onnx.codes import (
    Along,
    convolved,
    flat,
    multiplied,
    of_rows,
    requantized,
    scales_along,
    zero_or,
)
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.stored import converted
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr

# ------------------------------------------------------------------ numbers and codes


def _quantized(
    b: Emitter, x: Expr, scale: Expr, zero: Expr | None, dtype: DType, how: Along, saturate: bool = True
) -> Expr:
    """Codes of integers around a zero point; of small floats, which have none, the numbers nearest to the quotients."""
    if not dtype.is_storage:
        own = zero_or(b, zero, dtype)
        return b.qnn.quantize(x, scale, own, axis=how.axis, block_size=how.block_size, out_dtype=dtype)
    if isinstance(dtype.format, IntFormat):
        kind = dt.int8 if dtype.format.signed else dt.uint8
        found = _quantized(b, x, scale, None if zero is None else b.cast(zero, dtype=kind), kind, how)
        return b.cast(b.clip(found, a_min=float(dtype.min), a_max=float(dtype.max)), dtype=dtype)
    quotient = b.divide(b.wide(x), how.laid(b, b.wide(scale), x))
    return converted(b, quotient, dtype, saturate=saturate)


def _dequantized(b: Emitter, x: Expr, scale: Expr, zero: Expr | None, dtype: DType, how: Along) -> Expr:
    """Numbers of codes; small integers are those of more bits."""
    kind = b.dtype(x)
    if kind.is_storage and not isinstance(kind.format, IntFormat):
        numbers = b.multiply(b.cast(x, dtype=dt.float32), how.laid(b, b.to(scale, dt.float32), x))
        return b.to(numbers, dtype)
    if kind.is_storage:
        wide = dt.int8 if kind.min < 0 else dt.uint8
        x, zero = b.cast(x, dtype=wide), None if zero is None else b.cast(zero, dtype=wide)
    own = zero_or(b, zero, b.dtype(x))
    return b.qnn.dequantize(x, scale, own, axis=how.axis, block_size=how.block_size, out_dtype=dtype)


def quantize_linear_10(b: Emitter, x: Expr, scale: Expr, zero: Expr | None = None) -> Expr:
    return quantize_linear_13(b, x, scale, zero)


def quantize_linear_13(b: Emitter, x: Expr, scale: Expr, zero: Expr | None = None, *, axis: int = 1) -> Expr:
    return quantize_linear_19(b, x, scale, zero, axis=axis)


def quantize_linear_19(
    b: Emitter, x: Expr, scale: Expr, zero: Expr | None = None, *, axis: int = 1, saturate: bool = True
) -> Expr:
    dtype = dt.uint8 if zero is None else b.dtype(zero)
    return _quantized(b, x, scale, zero, dtype, scales_along(b, x, scale, axis), saturate)


def quantize_linear_21(
    b: Emitter,
    x: Expr,
    scale: Expr,
    zero: Expr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: bool = True,
) -> Expr:
    """`precision` is the dtype in which the quotient is formed, the data's or the scale's where it is not said."""
    dtype = dt.uint8 if zero is None else b.dtype(zero)
    if output_dtype and zero is None:
        dtype = element_type(output_dtype, "output_dtype")
    if precision:
        kind = element_type(precision, "precision")
        x, scale = b.to(x, kind), b.to(scale, kind)
    return _quantized(b, x, scale, zero, dtype, scales_along(b, x, scale, axis, block_size), saturate)


def dequantize_linear_10(b: Emitter, x: Expr, scale: Expr, zero: Expr | None = None) -> Expr:
    return dequantize_linear_13(b, x, scale, zero)


def dequantize_linear_13(b: Emitter, x: Expr, scale: Expr, zero: Expr | None = None, *, axis: int = 1) -> Expr:
    return dequantize_linear_21(b, x, scale, zero, axis=axis)


def dequantize_linear_21(
    b: Emitter,
    x: Expr,
    scale: Expr,
    zero: Expr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Expr:
    dtype = element_type(output_dtype, "output_dtype") if output_dtype else b.dtype(scale)
    return _dequantized(b, x, scale, zero, dtype, scales_along(b, x, scale, axis, block_size))


def dynamic_quantize_linear(b: Emitter, x: Expr) -> tuple[Expr, Expr, Expr]:
    """Codes of uint8 for the range of the data, 0 always in it; the scale and the zero point that follow from it."""
    axes = tuple(range(b.rank(x)))
    low, high = b.minimum(b.min(x, axis=axes), b.like(0, x)), b.maximum(b.max(x, axis=axes), b.like(0, x))
    spread = b.divide(b.subtract(high, low), b.like(255, x))
    scale = b.let("scale", b.where(b.equal(spread, b.like(0, x)), b.like(1, x), spread))
    place = b.clip(b.round(b.subtract(b.like(0, x), b.divide(low, scale))), a_min=0.0, a_max=255.0)
    zero = b.let("zero_point", b.cast(place, dtype=dt.uint8))
    return b.qnn.quantize(x, scale, zero, out_dtype=dt.uint8), scale, zero


# ------------------------------------------------------------------ convolutions


def conv_integer(
    b: Emitter,
    x: Expr,
    w: Expr,
    zero: Expr | None = None,
    zeros: Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    return convolved(b, x, w, zero, zeros, auto_pad, dilations, group, kernel_shape, pads, strides)


def q_linear_conv(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    w: Expr,
    w_scale: Expr,
    w_zero: Expr,
    y_scale: Expr,
    y_zero: Expr,
    bias: Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    y = convolved(b, x, w, x_zero, w_zero, auto_pad, dilations, group, kernel_shape, pads, strides)
    y = y if bias is None else b.nn.bias_add(y, bias, axis=1)
    return requantized(b, y, (x_scale, w_scale, y_scale), y_zero, 1)


# ------------------------------------------------------------------ products


def mat_mul_integer(b: Emitter, x: Expr, y: Expr, zero: Expr | None = None, zeros: Expr | None = None) -> Expr:
    return multiplied(b, x, y, zero, zeros)


def q_linear_mat_mul(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    y: Expr,
    y_scale: Expr,
    y_zero: Expr,
    scale: Expr,
    zero: Expr,
) -> Expr:
    found = multiplied(b, x, y, x_zero, y_zero)
    rank = b.rank(found)
    x_scale, y_scale, scale = (flat(b, s) for s in (x_scale, y_scale, scale))
    if b.rank(x_scale) == 0 and b.rank(y_scale) <= 1 and b.rank(scale) == 0:
        return requantized(b, found, (x_scale, y_scale, scale), zero, rank - 1)
    left, right, result = (b.to(s, dt.float32) for s in (of_rows(b, x_scale, rank), y_scale, of_rows(b, scale, rank)))
    numbers = b.multiply(b.cast(found, dtype=dt.float32), b.divide(b.multiply(left, right), result))
    return b.qnn.quantize(numbers, b.like(1, numbers), of_rows(b, zero, rank), out_dtype=b.dtype(zero))
