"""What quantised operators share: codes and the numbers that they stand for, roundings, fixed-point factors.

    number = (code − zero point) · scale            code = saturate(round(number / scale) + zero point)

A scale and a zero point are scalars, or vectors along one axis of the data. Codes are integers of 8, 16 or 32 bits;
zero points of those of at most 16 bits are within ±2^30, and those beyond count as that.
Each rule is written twice, on arrays for the references and on expressions for programs, with the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Constant, Expr
from legato.ir.op import Relation
from legato.ir.types import TensorType, Type
from legato.ops._gradients import dtype_of, shape_of
from legato.ops._rules import FLOAT, is_one, normalize_axis, require_dtype, stretch, tensor
from legato.ops._tensors import Array, accumulator, converted

__all__ = ["CODES", "COMPUTE_DTYPES", "ROUNDINGS", "along", "centred", "centred_array", "check_parameters",
           "clamped", "clamped_array", "codes", "codes_array", "is_constant", "is_known", "numbers", "numbers_array",
           "ratio", "ratio_array", "reach", "rescaled", "rescaled_array", "spread_array"]  # fmt: skip

ROUNDINGS: Final = ("UPWARD", "TONEAREST", "TONEVEN")
COMPUTE_DTYPES: Final = ("int64", "float32", "float64")
_LARGEST: Final = 29  # a quotient of scales is at most 2 to this power
_SMALLEST: Final = -31  # and has bits of its own from this power of 2 on
_FAR: Final = 1 << 30  # zero points of codes of at most 16 bits are within ± this
_PLAIN: Final = 3 << 30  # integers below this, times a fixed-point factor and rounded, have less than 64 bits


def CODES(d: DType) -> bool:
    """Integers of up to 32 bits."""
    return d.is_int and d.bits <= 32


CODES.__name__ = "an integer of at most 32 bits"

# ------------------------------------------------------------------------------- parameters


def check_parameters(
    rel: Relation, data: TensorType, scale: Type, zero: Type, axis: int | None = None, what: str = ""
) -> None:
    """Requires a scale of floats and a zero point of codes: scalars, or vectors along `axis` of `data`."""
    for name, given, test in (("scale", scale, FLOAT), ("zero point", zero, CODES)):
        name = f"{what} {name}".lstrip()
        ty = tensor(rel, given, name)
        require_dtype(rel, ty, test, name)
        if ty.rank > 1:
            raise rel.fail(f"the {name} is {ty}, wanted a scalar" + (" or a vector" if axis is not None else ""))
        for d in ty.shape:
            if axis is None:
                rel.same(d, const(1), f"the {name}, one number")
            else:
                at = normalize_axis(rel, axis, data.rank)
                stretch(rel, d, data.shape[at], f"the {name} along axis {at}")


def spread_array(p: Array, rank: int, axis: int) -> Array:
    """A parameter as it broadcasts against data of `rank`: a vector lies along `axis`, of a scalar it is one number."""
    if p.ndim != 1:
        return p
    return p.reshape(()) if p.size == 1 or not rank else p.reshape(-1, *(1,) * (rank - 1 - axis % rank))


def along(b: Builder, p: Expr, rank: int, axis: int) -> Expr:
    """`spread_array` in programs; of a constant another constant."""
    if isinstance(p, Constant):
        return b.constant(spread_array(p.data, rank, axis))
    shape = shape_of(p)
    if len(shape) != 1:
        return p
    if is_one(shape[0]):
        return b.squeeze(p, axis=(0,))
    if not rank:
        return b.reshape(p, newshape=())
    after = rank - 1 - axis % rank
    return b.expand_dims(p, axis=1, num_newaxis=after) if after else p


def is_constant(*values: Expr) -> bool:
    """Whether all are constants."""
    return all(isinstance(v, Constant) for v in values)


def is_known(p: Expr, value: float) -> bool:
    """Whether `p` is a constant, all of which is `value`."""
    return isinstance(p, Constant) and bool((p.data == value).all())


# ------------------------------------------------------------------------------- codes and numbers


def _widths(dtype: DType) -> tuple[DType, float]:
    """An integer dtype in which codes of `dtype` are added to without overflow, and how far from 0 numbers may be
    that are converted to it: farther ones saturate whatever the zero point is."""
    return (dt.int32, float(1 << 18)) if dtype.bits <= 16 else (dt.int64, float(1 << 33))


def clamped_array(x: Array, dtype: DType) -> Array:
    """Integers as `dtype`, saturated."""
    return np.clip(x, dtype.min, dtype.max).astype(dtype.numpy)


def clamped(b: Builder, x: Expr, dtype: DType) -> Expr:
    """`clamped_array` in programs."""
    return x if dtype_of(x) == dtype else b.cast(b.clip(x, a_min=float(dtype.min), a_max=float(dtype.max)), dtype=dtype)


def _placed_array(rounded: Array, zero: Array, dtype: DType) -> Array:
    """Rounded numbers as codes around `zero`; NaN is the zero point."""
    wide, reach = _widths(dtype)
    whole = converted(np.clip(rounded, -reach, reach), wide)
    return clamped_array(whole + _zero_array(zero, dtype, wide), dtype)


def _placed(b: Builder, rounded: Expr, zero: Expr, dtype: DType) -> Expr:
    wide, reach = _widths(dtype)
    whole = b.cast(b.clip(rounded, a_min=-reach, a_max=reach), dtype=wide)
    if not is_known(zero, 0):
        whole = b.add(whole, _zero(b, zero, dtype, wide))
    return b.cast(b.clip(whole, a_min=float(dtype.min), a_max=float(dtype.max)), dtype=dtype)


def codes_array(x: Array, scale: Array, zero: Array, dtype: DType) -> Array:
    """The codes of numbers; quotients in the accumulation dtype of the data, halves to the even integer."""
    kind = _real(dt.dtype(x.dtype), dt.dtype(scale.dtype)).numpy
    return _placed_array(np.rint(x.astype(kind) / scale.astype(kind)), zero, dtype)


def codes(b: Builder, x: Expr, scale: Expr, zero: Expr, dtype: DType) -> Expr:
    """`codes_array` in programs."""
    kind = _real(dtype_of(x), dtype_of(scale))
    return _placed(b, b.round(b.divide(_as(b, x, kind), _as(b, scale, kind))), zero, dtype)


def _real(data: DType, scale: DType) -> DType:
    """The dtype in which numbers of `data`, which may be integers, are divided by scales."""
    return accumulator(data if data.is_float else scale)


def numbers_array(x: Array, scale: Array, zero: Array, dtype: DType) -> Array:
    """The numbers that codes stand for, formed in the accumulation dtype of `dtype`."""
    kind = accumulator(dtype).numpy
    return np.asarray(centred_array(x, zero).astype(kind) * scale.astype(kind)).astype(dtype.numpy)


def numbers(b: Builder, x: Expr, scale: Expr, zero: Expr, dtype: DType) -> Expr:
    """`numbers_array` in programs."""
    kind = accumulator(dtype)
    found = b.multiply(_as(b, centred(b, x, zero), kind), _as(b, scale, kind))
    return _as(b, found, dtype)


def _as(b: Builder, x: Expr, dtype: DType) -> Expr:
    """`x` as `dtype`; of a constant another constant."""
    if isinstance(x, Constant) and not x.data.shape:
        return b.constant(x.data.astype(dtype.numpy))
    return x if dtype_of(x) == dtype else b.cast(x, dtype=dtype)


def centred_array(x: Array, zero: Array, dtype: DType | None = None) -> Array:
    """Codes without their zero point: in `dtype`, else int32, or int64 for codes of 32 bits."""
    kind = dtype or (dt.int64 if x.dtype.itemsize > 2 else dt.int32)
    return np.asarray(x.astype(kind.numpy) - _zero_array(zero, dt.dtype(x.dtype), kind))


def centred(b: Builder, x: Expr, zero: Expr, dtype: DType | None = None) -> Expr:
    """`centred_array` in programs; the codes themselves where the zero point is known to be 0."""
    if is_known(zero, 0):
        return x
    kind = dtype or (dt.int64 if dtype_of(x).bits > 16 else dt.int32)
    return b.subtract(_as(b, x, kind), _zero(b, zero, dtype_of(x), kind))


def _zero_array(zero: Array, codes: DType, kind: DType) -> Array:
    """A zero point of codes, within its bounds, as `kind`."""
    wide = zero.astype(np.int64)
    return (np.clip(wide, -_FAR, _FAR) if codes.bits <= 16 else wide).astype(kind.numpy)


def _zero(b: Builder, zero: Expr, codes: DType, kind: DType) -> Expr:
    """`_zero_array` in programs."""
    if isinstance(zero, Constant):
        return b.constant(_zero_array(zero.data, codes, kind))
    if codes.bits <= 16 < dtype_of(zero).bits:
        zero = b.clip(_as(b, zero, dt.int64), a_min=-float(_FAR), a_max=float(_FAR))
    return _as(b, zero, kind)


def reach(x: Expr, zero: Expr) -> int:
    """The farthest from 0 that codes without their zero point may be."""
    codes, of = dtype_of(x), dtype_of(zero)
    ends = [of.min, of.max]
    if isinstance(zero, Constant) and zero.data.size:
        ends = [int(zero.data.min()), int(zero.data.max())]
    if codes.bits <= 16:
        ends = [min(max(end, -_FAR), _FAR) for end in ends]
    return max(codes.max - ends[0], ends[1] - codes.min)


# ------------------------------------------------------------------------------- other scales


def ratio_array(above: Array, below: Array) -> Array:
    """The quotient of scales, in float64."""
    return np.asarray(above.astype(np.float64) / below.astype(np.float64))


def ratio(b: Builder, above: Expr, below: Expr) -> Expr:
    """`ratio_array` in programs."""
    if isinstance(above, Constant) and isinstance(below, Constant):
        with np.errstate(all="ignore"):
            return b.constant(ratio_array(above.data, below.data))
    return b.divide(_as(b, above, dt.float64), _as(b, below, dt.float64))


def rescaled_array(v: Array, factor: Array, zero: Array, rounding: str, compute: str, dtype: DType) -> Array:
    """Integers times float64 factors, rounded, as codes around `zero`."""
    if compute == "int64":
        multiplier, shift = _fixed_array(factor)
        found = _split(_ARRAYS, v.astype(np.int64), multiplier, shift, rounding)
        return clamped_array(found + _zero_array(zero, dtype, dt.int64), dtype)
    kind = dt.dtype(compute).numpy
    return _placed_array(_rounded_array(v.astype(kind) * factor.astype(kind), rounding), zero, dtype)


def rescaled(
    b: Builder,
    v: Expr,
    factor: Expr,
    zero: Expr,
    rounding: str,
    compute: str,
    dtype: DType,
    far: int | None = None,
) -> Expr:
    """`rescaled_array` in programs; a factor that is known to be 1 costs nothing where that changes nothing.

    `far`: the farthest from 0 that elements of `v` may be, where their dtype does not say it.
    """
    is_whole = compute != "float32" or dtype_of(v).bits <= 16  # larger integers are rounded in float32
    if is_whole and is_known(factor, 1):
        wide = v if is_known(zero, 0) else b.add(_as(b, v, dt.int64), _zero(b, zero, dtype, dt.int64))
        return clamped(b, wide, dtype)
    if compute == "int64":
        multiplier, shift = _fixed(b, factor)
        made = _whole if (far or dtype_of(v).max) < _PLAIN else _split
        found = made(_Program(b), _as(b, v, dt.int64), multiplier, shift, rounding)
        return clamped(b, found if is_known(zero, 0) else b.add(found, _zero(b, zero, dtype, dt.int64)), dtype)
    kind = dt.dtype(compute)
    return _placed(b, _rounded(b, b.multiply(_as(b, v, kind), _as(b, factor, kind)), rounding), zero, dtype)


def _rounded_array(x: Array, rounding: str) -> Array:
    if rounding == "TONEVEN":
        return np.rint(x)
    whole = np.floor(x if rounding == "UPWARD" else np.abs(x))
    up = ((x if rounding == "UPWARD" else np.abs(x)) - whole) >= 0.5
    found = whole + up.astype(x.dtype)
    return np.asarray(found if rounding == "UPWARD" else np.where(x < 0, -found, found), x.dtype)


def _rounded(b: Builder, x: Expr, rounding: str) -> Expr:
    """x + 1/2 would be rounded itself: what is left over the floor is compared with 1/2 instead."""
    if rounding == "TONEVEN":
        return b.round(x)
    size = x if rounding == "UPWARD" else b.abs(x)
    whole = b.floor(size)
    found = b.add(whole, b.cast(b.greater_equal(b.subtract(size, whole), 0.5), dtype=dtype_of(x)))
    return found if rounding == "UPWARD" else b.where(b.less(x, 0.0), b.negative(found), found)


def _fixed_array(factor: Array) -> tuple[Array, Array]:
    """(m, s) with factor ≈ m / 2^s: m has 31 bits, but for factors below 2^-31, and s is 1 to 62."""
    bounded = np.clip(np.nan_to_num(factor), 0.0, 2.0**_LARGEST)
    _, exponent = np.frexp(bounded)
    shift = 31 - np.maximum(exponent, _SMALLEST).astype(np.int64)
    return np.floor(np.ldexp(bounded, shift) + 0.5).astype(np.int64), shift


def _fixed(b: Builder, factor: Expr) -> tuple[Expr, Expr | Array]:
    """`_fixed_array` in programs; of a constant the shift is an array.

    The exponent is how many powers of 2 do not exceed the factor.
    """
    if isinstance(factor, Constant):
        multiplier, shift = _fixed_array(factor.data)
        return b.constant(multiplier), shift
    powers = np.ldexp(1.0, np.arange(_SMALLEST, _LARGEST + 1))
    bounded = b.clip(factor, a_min=0.0, a_max=2.0**_LARGEST)
    reached = b.greater_equal(b.expand_dims(bounded, axis=-1), b.constant(powers))
    count = b.sum(b.cast(reached, dtype=dt.int64), axis=(-1,))
    scale = b.take(b.constant(np.ldexp(1.0, 62 - np.arange(len(powers) + 1))), count, axis=0)
    return b.cast(b.floor(b.add(b.multiply(bounded, scale), 0.5)), dtype=dt.int64), b.subtract(62, count)


class _Arrays:
    """Integer operations by name, on arrays."""

    def __call__(self, name: str, x: Any, y: Any) -> Array:
        return np.asarray(getattr(np, name)(x, y))

    def power(self, exponent: Array) -> Array:
        """2^exponent."""
        return self("left_shift", np.int64(1), exponent)

    def borrow(self, x: Array) -> Array:
        """-1 where an element is below 0, else 0."""
        return -(x < 0).astype(np.int64)


class _Program:
    """The same in programs; of arrays alone they are arrays."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __call__(self, name: str, x: Any, y: Any) -> Any:
        return self.b.op(name)(x, y) if isinstance(x, Expr) or isinstance(y, Expr) else _ARRAYS(name, x, y)

    def power(self, exponent: Any) -> Any:
        """2^exponent."""
        return self("left_shift", self.b.constant(1, dt.int64) if isinstance(exponent, Expr) else np.int64(1), exponent)

    def borrow(self, x: Expr) -> Expr:
        """-1 where an element is below 0, else 0."""
        return self.b.negative(self.b.cast(self.b.less(x, 0), dtype=dt.int64))


_ARRAYS: Final = _Arrays()


def _whole(of: Any, v: Any, multiplier: Any, shift: Any, rounding: str) -> Any:
    """v · multiplier / 2^shift, rounded, for integers below `_PLAIN`."""
    product = of("multiply", v, multiplier)
    return _nearest(of, v, lambda more: of("right_shift", _plus(of, product, more), shift), shift, rounding)


def _split(of: Any, v: Any, multiplier: Any, shift: Any, rounding: str) -> Any:
    """`_whole` of any integers below 2^62: the upper bits and the lower 31 are multiplied apart.

    What is so large that its codes saturate is made smaller first.
    """
    most = of.power(of("minimum", of("add", shift, 4), 62))
    v = of("maximum", of("minimum", v, most), of("multiply", most, -1))
    low = of("multiply", of("bitwise_and", v, (1 << 31) - 1), multiplier)
    high = of("multiply", of("right_shift", v, 31), multiplier)
    high = of("left_shift", high, of("maximum", of("subtract", 31, shift), 0))
    first, then = of("minimum", shift, 31), of("maximum", of("subtract", shift, 31), 0)

    def scaled(more: Any) -> Any:
        return of("right_shift", of("add", high, of("right_shift", _plus(of, low, more), first)), then)

    return _nearest(of, v, scaled, shift, rounding)


def _plus(of: Any, x: Any, more: Any) -> Any:
    return x if more is None else of("add", x, more)


def _nearest(of: Any, v: Any, scaled: Callable[[Any], Any], shift: Any, rounding: str) -> Any:
    """A product of `v` that is divided by 2^shift: rounded, halves upwards, away from 0, or to the even integer.

    `scaled` gives the integer below the quotient, of the product and what it is given (None: of the product alone).
    """
    half = of.power(of("subtract", shift, 1))
    if rounding == "UPWARD":
        return scaled(half)
    if rounding == "TONEAREST":
        return scaled(of("add", of.borrow(v), half))
    odd = of("bitwise_and", scaled(None), 1)
    return scaled(of("add", odd, of("subtract", half, 1)))
