"""Codes of quantised operators: their parameters, the numbers that they stand for, sums of their products."""

from __future__ import annotations

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.windows import kernel_windows, within
from legato.ir.expr import Expr

__all__ = ["Along", "centred", "codes", "convolved", "flat", "multiplied", "needed", "numbers", "of_first", "of_rows",
           "parameters", "requantized", "scales_along", "zero_or"]  # fmt: skip

# ------------------------------------------------------------------ parameters


def zero_or(b: Emitter, zero: Expr | None, dtype: DType) -> Expr:
    """A zero point, where none is given 0."""
    return b.constant(0, dtype) if zero is None else zero


@dataclass(frozen=True, slots=True)
class Along:
    """How scales lie along a tensor: each for one index of `axis`, or for a block of so many; 0: there are none."""

    axis: int
    block_size: int

    def laid(self, b: Emitter, p: Expr, x: Expr) -> Expr:
        """A parameter as it broadcasts against `x`."""
        if self.block_size:
            whole = b.repeat(p, repeats=self.block_size, axis=self.axis)
            return b.strided_slice(whole, begin=(0,), end=(b.dims_of(x)[self.axis],), strides=(1,), axes=(self.axis,))
        p = flat(b, p)
        ones = (1,) * (b.rank(x) - 1 - self.axis)
        return p if b.rank(p) != 1 else b.reshape(p, newshape=(*b.dims_of(p), *ones), allowzero=True)


def scales_along(b: Emitter, x: Expr, scale: Expr, axis: int, block_size: int = 0) -> Along:
    """How scales lie along `x`: blocks of a size that is not given have the one that their number says. A single scale
    lies along nothing, and of a vector the only axis is meant, whatever `axis` says: exporters leave 1 there."""
    if b.rank(scale) <= 1:
        is_single = b.rank(scale) == 0 or b.is_one(b.dims_of(scale)[0]) or b.rank(x) <= 1
        return Along(0 if is_single else b.axis(axis, b.rank(x)), 0)
    at, blocks = b.axis(axis, b.rank(x)), b.dims_of_rank(scale, b.rank(x), "scales of blocks")
    if block_size < 0:
        raise ImportModelError(f"block_size is {block_size}, wanted a positive number, or 0: it is not said")
    if not block_size:
        size = b.known(b.dims_of(x)[at], "the blocked dimension")
        block_size = -(-size // max(b.known(blocks[at], "the number of blocks"), 1))
    return Along(at, block_size)


def needed(x: Expr | None, name: str) -> Expr:
    """An input that must be given, though one before it need not be."""
    if x is None:
        raise ImportModelError(f"the input {name} is missing")
    return x


def flat(b: Emitter, p: Expr) -> Expr:
    """A parameter of one element as a scalar."""
    return b.squeeze(p, axis=(0,)) if b.rank(p) == 1 and b.is_one(b.dims_of(p)[0]) else p


def of_first(b: Emitter, p: Expr, rank: int) -> Expr:
    """A scalar, or a vector along the first of `rank` dims, so laid out."""
    p = flat(b, p)
    return p if b.rank(p) != 1 else b.reshape(p, newshape=(*b.dims_of(p), *(1,) * (rank - 1)), allowzero=True)


def of_rows(b: Emitter, p: Expr, rank: int) -> Expr:
    """A parameter that has, if it is a vector, one number for each row of matrices, laid out in `rank` dims."""
    p = flat(b, p)
    return p if b.rank(p) != 1 else b.reshape(p, newshape=(*(1,) * (rank - 2), *b.dims_of(p), 1), allowzero=True)


def centred(b: Emitter, x: Expr, zero: Expr | None) -> Expr:
    """Codes without their zero point, which broadcasts, as int32."""
    wide = b.cast(x, dtype=dt.int32)
    return wide if zero is None else b.subtract(wide, b.cast(zero, dtype=dt.int32))


def requantized(b: Emitter, x: Expr, scales: tuple[Expr, Expr, Expr], zero: Expr, axis: int) -> Expr:
    """int32 sums as codes: times the scales of the operands, by that of the result, `scales` in this order.

    The scale of the second operand may be a vector along `axis`. Factors and products are float32.
    """
    left, right, result = (b.to(flat(b, s), dt.float32) for s in scales)
    return b.qnn.requantize(x, b.multiply(left, right), 0, result, flat(b, zero), axis=axis, rounding="TONEVEN",
                            compute_dtype="float32", out_dtype=b.dtype(zero))  # fmt: skip


# ------------------------------------------------------------------ sums of products


def convolved(
    b: Emitter, x: Expr, w: Expr, zero: Expr | None, zeros: Expr | None, auto_pad: str, dilations: tuple[int, ...],
    group: int, kernel_shape: tuple[int, ...], pads: tuple[int, ...], strides: tuple[int, ...],
) -> Expr:  # fmt: skip
    """The int32 sums of a convolution of codes; zero points are scalars, that of the weight may be one a channel."""
    w, windows = kernel_windows(b, x, w, kernel_shape, strides, dilations, pads, auto_pad)
    rank, zero = len(windows.kernel), None if zero is None else flat(b, zero)
    if rank != 2 or not windows.is_plain:
        x, zero = centred(b, x, zero), None
    x, around = within(b, x, windows)
    how = {"strides": windows.strides, "padding": around, "dilation": windows.dilations, "groups": group}
    if rank != 2:
        kernel = centred(b, w, None if zeros is None else of_first(b, zeros, rank + 2))
        return b.call(f"nn.conv{rank}d", x, kernel, out_dtype=dt.int32, **how)
    one = b.constant(1.0, dt.float32)
    return b.qnn.conv2d(x, w, zero_or(b, zero, b.dtype(x)), zero_or(b, zeros, b.dtype(w)), one, one, **how)


def multiplied(b: Emitter, x: Expr, y: Expr, zero: Expr | None, zeros: Expr | None) -> Expr:
    """The int32 product of matrices of codes; a vector of zero points has one for each row of `x`, column of `y`."""
    left = centred(b, x, None if zero is None else of_rows(b, zero, 2))
    return b.matmul(left, centred(b, y, None if zeros is None else flat(b, zeros)), out_dtype=dt.int32)


# ------------------------------------------------------------------ one scale for all


def numbers(b: Emitter, x: Expr, scale: Expr, zero: Expr | None) -> Expr:
    """What codes stand for; one scale for all."""
    return b.qnn.dequantize(x, *parameters(b, x, scale, zero), axis=0, out_dtype=b.dtype(scale))


def codes(b: Emitter, y: Expr, scale: Expr, zero: Expr | None, like: Expr) -> Expr:
    """The codes of numbers, in the dtype of `like`."""
    return b.qnn.quantize(y, *parameters(b, like, scale, zero), axis=0, out_dtype=b.dtype(like))


def parameters(b: Emitter, x: Expr, scale: Expr, zero: Expr | None) -> tuple[Expr, Expr]:
    """The scale and the zero point of the codes `x` as scalars."""
    return flat(b, scale), flat(b, zero_or(b, zero, b.dtype(x)))
