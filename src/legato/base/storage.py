"""Arrays of dtypes that only store: what their codes stand for, and the codes of numbers."""

from __future__ import annotations

from functools import cache
from math import copysign, inf, nan
from typing import Any

import numpy as np

from legato.base.dtype import DType, dtype, float32, int32
from legato.base.formats import FORMATS, FloatFormat, IntFormat, PowerFormat

__all__ = ["bits_of", "carrier", "code_of", "decoded", "encoded", "largest", "number_of", "numbers_of", "reinterpreted",
           "to_odd", "whole"]  # fmt: skip

Array = np.ndarray[Any, Any]


def whole(x: Array, least: int, most: int, kind: np.dtype[Any]) -> Array:
    """Floats as integers from `least` to `most`: they are truncated and saturate, NaN gives 0."""
    wide = x.astype(np.float64)
    inside = np.where(np.isnan(wide), 0.0, np.trunc(wide))
    below, above = inside <= float(least), inside >= float(most)
    exact = np.where(below | above, 0.0, inside).astype(kind)
    found: Array = np.where(below, kind.type(least), np.where(above, kind.type(most), exact)).astype(kind)
    return found


def carrier(kind: DType) -> DType:
    """The dtype that has every number of a dtype of storage."""
    return int32 if isinstance(kind.format, IntFormat) else float32


def decoded(x: Array) -> Array:
    """The numbers that codes stand for, of the dtype that has them all; other arrays as they are."""
    return numbers_of(x.view(np.uint8), dtype(x.dtype)) if x.dtype.name in FORMATS else x


def numbers_of(codes: Array, kind: DType) -> Array:
    """The numbers that bytes stand for, of the dtype that has them all."""
    made = kind.format
    bits = np.bitwise_and(codes, (1 << made.width) - 1, dtype=np.uint8)
    if isinstance(made, IntFormat):
        least = np.uint8(-made.min)  # the bit of the sign
        found: Array = np.subtract(bits ^ least, least, dtype=np.int32)
        return found
    return np.asarray(_numbers(made)[bits])


def largest(kind: DType) -> float:
    """The largest number of a float format."""
    found = kind.format
    assert not isinstance(found, IntFormat)
    return float(decoded(np.array(found.largest, np.uint8).view(kind.numpy)))


def encoded(x: Array, kind: DType) -> Array:
    """Numbers as codes: of floats the nearest, half to even; of integers the last bits, and of floats as integers the
    whole part, within bounds."""
    if x.dtype == kind.numpy:
        return x
    numbers, made = decoded(x), kind.format
    if isinstance(made, IntFormat):
        given = dtype(numbers.dtype)
        small = whole(numbers, made.min, made.max, np.dtype(np.int8)) if given.is_float else numbers.astype(np.int8)
        return small.astype(kind.numpy)
    with np.errstate(all="ignore"):
        return (to_odd(numbers) if numbers.dtype == np.float64 else numbers).astype(kind.numpy)


def to_odd(x: Array) -> Array:
    """float64 as float32, rounded to odd, so that a second rounding is a correct single one."""
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32) - (np.abs(back) > np.abs(x)) | ((back != x) & ~np.isnan(x))
    odd: Array = bits.astype(np.int32).view(np.float32)
    return odd


def reinterpreted(x: Array, kind: DType) -> Array:
    """The same bits as elements of a dtype of the same width; a byte as a bool is True unless it is 0."""
    bits = x.view(np.uint8) if x.dtype == np.bool_ else x
    found: Array = np.asarray(bits.view(np.uint8) != 0) if kind.is_bool else bits.view(kind.numpy)
    return found


def number_of(code: Any) -> Any:
    """What one code stands for: a Python integer, or a float32."""
    found = decoded(np.asarray(code))[()]
    return int(found) if found.dtype.kind == "i" else found


def bits_of(value: Any, source: DType, target: DType) -> Any:
    """The bits of one value of dtype `source` as a Python integer or bool, or as a NumPy scalar."""
    found = reinterpreted(np.asarray(value, source.numpy), target)[()]
    return found if target.is_float or target.is_storage else found.item()


def code_of(number: Any, source: DType, target: DType) -> Any:
    """The code of one number of dtype `source`."""
    return encoded(np.asarray(number, source.numpy), target)[()]


@cache
def _numbers(made: FloatFormat | PowerFormat) -> Array:
    """The number of each code."""
    codes = range(1 << made.width)
    if isinstance(made, PowerFormat):
        return np.array([np.nan if c == made.nan else 2.0 ** (c - made.bias) for c in codes], np.float32)
    return np.array([_number(c, made) for c in codes], np.float32)


def _number(code: int, made: FloatFormat) -> float:
    size = code & (made.sign - 1)
    if size > made.largest or (made.one_zero and code == made.sign):
        is_infinite = size == made.infinity != made.nan
        return copysign(inf if is_infinite else nan, _sign(code, made))
    exponent, rest = size >> made.mantissa, size & ((1 << made.mantissa) - 1)
    whole_part = (1 << made.mantissa) if exponent else 0
    return _sign(code, made) * (whole_part + rest) * 2.0 ** (max(exponent, 1) - made.bias - made.mantissa)


def _sign(code: int, made: FloatFormat) -> float:
    return -1.0 if code & made.sign else 1.0
