"""Elementwise arithmetic, comparisons, logic, bits and conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.stored import converted
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr

_LARGEST = float(np.finfo(np.float32).max)

# ------------------------------------------------------------------ of one tensor


def abs_(b: Emitter, x: Expr) -> Expr:
    return b.abs(x)


def neg(b: Emitter, x: Expr) -> Expr:
    return b.negative(x)


def sign(b: Emitter, x: Expr) -> Expr:
    return b.sign(x)


def floor(b: Emitter, x: Expr) -> Expr:
    return b.floor(x)


def ceil(b: Emitter, x: Expr) -> Expr:
    return b.ceil(x)


def round_(b: Emitter, x: Expr) -> Expr:
    return b.round(x)


def reciprocal(b: Emitter, x: Expr) -> Expr:
    return b.divide(b.like(1, x), x)


def sqrt(b: Emitter, x: Expr) -> Expr:
    return b.sqrt(x)


def exp(b: Emitter, x: Expr) -> Expr:
    return b.exp(x)


def log(b: Emitter, x: Expr) -> Expr:
    return b.log(x)


def erf(b: Emitter, x: Expr) -> Expr:
    return b.erf(x)


def sin(b: Emitter, x: Expr) -> Expr:
    return b.sin(x)


def cos(b: Emitter, x: Expr) -> Expr:
    return b.cos(x)


def tan(b: Emitter, x: Expr) -> Expr:
    return b.tan(x)


def asin(b: Emitter, x: Expr) -> Expr:
    return b.asin(x)


def acos(b: Emitter, x: Expr) -> Expr:
    return b.acos(x)


def atan(b: Emitter, x: Expr) -> Expr:
    return b.atan(x)


def sinh(b: Emitter, x: Expr) -> Expr:
    return b.sinh(x)


def cosh(b: Emitter, x: Expr) -> Expr:
    return b.cosh(x)


def tanh(b: Emitter, x: Expr) -> Expr:
    return b.tanh(x)


def asinh(b: Emitter, x: Expr) -> Expr:
    return b.asinh(x)


def acosh(b: Emitter, x: Expr) -> Expr:
    return b.acosh(x)


def atanh(b: Emitter, x: Expr) -> Expr:
    return b.atanh(x)


def sigmoid(b: Emitter, x: Expr) -> Expr:
    return b.sigmoid(x)


def is_nan(b: Emitter, x: Expr) -> Expr:
    return b.isnan(x)


def is_inf(b: Emitter, x: Expr, *, detect_negative: bool = True, detect_positive: bool = True) -> Expr:
    if detect_negative and detect_positive:
        return b.isinf(x)
    if (detect_negative or detect_positive) and b.dtype(x).is_float:
        return b.equal(x, b.like(-np.inf if detect_negative else np.inf, x))
    return b.not_equal(b.cast(x, dtype="bool"), b.cast(x, dtype="bool"))


# ------------------------------------------------------------------ of two tensors, or more


def add_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.add(x, y)


def sub_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.subtract(x, y)


def mul_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.multiply(x, y)


def div_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.divide(x, y)


def mod(b: Emitter, x: Expr, y: Expr, *, fmod: bool = False) -> Expr:
    return b.mod(x, y) if fmod else b.floor_mod(x, y)


def pow_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    """The dtypes may differ: the result has the base's, and is computed in one that holds both."""
    if b.is_scalar(y, 2) and b.rank(y) <= b.rank(x):
        return b.multiply(x, x)
    base, common = b.dtype(x), _power_dtype(b, x, y)
    return b.to(b.power(b.to(x, common), b.to(y, common)), base)


def _power_dtype(b: Emitter, x: Expr, y: Expr) -> DType:
    """The base's where that has every exponent; else the wider one, or float64, which has all integers up to 2⁵³."""
    base, exponent = b.dtype(x), b.dtype(y)
    if base.is_float and exponent.is_float:
        return base if base.bits >= exponent.bits else exponent
    if not base.is_float and exponent.is_float:
        return dt.float64
    known = b.array(y)
    has_all = known is not None and bool((known.astype(base.numpy).astype(known.dtype) == known).all())
    if base == exponent or has_all:
        return base
    if base.is_float:
        return dt.float64
    return base if base.bits == 64 else dt.int64


def _fold(f: Callable[[Expr, Expr], Expr], xs: tuple[Expr, ...]) -> Expr:
    if not xs:
        raise ImportModelError("no input")
    return reduce(f, xs)


def max_(b: Emitter, *xs: Expr) -> Expr:
    return _fold(b.maximum, xs)


def min_(b: Emitter, *xs: Expr) -> Expr:
    return _fold(b.minimum, xs)


def sum_(b: Emitter, *xs: Expr) -> Expr:
    return b.to(_fold(b.add, tuple(map(b.wide, xs))), b.dtype(xs[0])) if len(xs) > 2 else _fold(b.add, xs)


def mean(b: Emitter, *xs: Expr) -> Expr:
    if len(xs) < 2:
        return _fold(b.add, xs)
    total = _fold(b.add, tuple(map(b.wide, xs)))
    return b.to(b.divide(total, b.like(len(xs), total)), b.dtype(xs[0]))


def clip_6(b: Emitter, x: Expr, *, min: float = -_LARGEST, max: float = _LARGEST) -> Expr:
    """Without bounds infinities become the largest numbers of float32."""
    return b.clip(x, a_min=min, a_max=max)


def clip_11(b: Emitter, x: Expr, lo: Expr | None = None, hi: Expr | None = None) -> Expr:
    low = np.array(-np.inf) if lo is None else b.array(lo)
    high = np.array(np.inf) if hi is None else b.array(hi)
    if b.dtype(x).is_float and low is not None and high is not None and low.size == high.size == 1:
        return b.clip(x, a_min=float(low.reshape(())), a_max=float(high.reshape(())))
    x = x if lo is None else b.maximum(x, lo)
    return x if hi is None else b.minimum(x, hi)


def where(b: Emitter, condition: Expr, x: Expr, y: Expr) -> Expr:
    return b.where(condition, x, y)


# ------------------------------------------------------------------ comparisons and logic


def equal_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.equal(x, y)


def greater_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.greater(x, y)


def greater_or_equal(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.greater_equal(x, y)


def less_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.less(x, y)


def less_or_equal(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.less_equal(x, y)


def and_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.logical_and(x, y)


def or_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.logical_or(x, y)


def xor_7(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.logical_xor(x, y)


def not_(b: Emitter, x: Expr) -> Expr:
    return b.logical_not(x)


# ------------------------------------------------------------------ bits


def bitwise_and(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.bitwise_and(x, y)


def bitwise_or(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.bitwise_or(x, y)


def bitwise_xor(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.bitwise_xor(x, y)


def bitwise_not(b: Emitter, x: Expr) -> Expr:
    return b.bitwise_not(x)


def bit_shift(b: Emitter, x: Expr, y: Expr, *, direction: str) -> Expr:
    """A count below 0 or beyond the width leaves nothing but, of a negative number shifted right, its sign."""
    if direction not in ("LEFT", "RIGHT"):
        raise ImportModelError(f"direction is {direction!r}, wanted LEFT or RIGHT")
    dtype, is_left = b.dtype(x), direction == "LEFT"
    zero, last = b.like(0, y), b.like(dtype.bits - 1, y)
    within = b.logical_and(b.greater_equal(y, zero), b.less_equal(y, last))
    shifted = b.left_shift(x, y) if is_left else b.right_shift(x, y)
    nothing = b.right_shift(x, last) if dtype.is_signed and not is_left else b.like(0, x)
    return b.where(within, shifted, nothing)


# ------------------------------------------------------------------ conversions


def cast_6(b: Emitter, x: Expr, *, to: int, saturate: bool = True, round_mode: str = "up") -> Expr:
    return converted(b, x, element_type(to, "the result"), saturate=saturate, round_mode=round_mode)


def cast_like(b: Emitter, x: Expr, like: Expr, *, saturate: bool = True, round_mode: str = "up") -> Expr:
    return converted(b, x, b.dtype(like), saturate=saturate, round_mode=round_mode)


def bit_cast(b: Emitter, x: Expr, *, to: int) -> Expr:
    dtype = element_type(to, "the result")
    if b.dtype(x).width != dtype.width:
        raise ImportModelError(f"bits of {b.dtype(x)}, of {b.dtype(x).width} each, as {dtype}, of {dtype.width}")
    return b.reinterpret(x, dtype=dtype)


def identity(b: Emitter, x: Expr) -> tuple[Expr]:
    return (x,)  # one value, also where it is a sequence


def dropout_7(b: Emitter, x: Expr, *, ratio: float = 0.5) -> Expr | tuple[Expr, Expr]:
    """Nothing is dropped when a model runs; the mask says so."""
    return (x, b.full_like(x, 1)) if b.outputs > 1 else x


def dropout_10(b: Emitter, x: Expr, *, ratio: float = 0.5) -> Expr | tuple[Expr, Expr]:
    return (x, b.full_like(b.cast(x, dtype="bool"), True)) if b.outputs > 1 else x
