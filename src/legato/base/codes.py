"""Numbers that NumPy has no dtype for, as codes and back: bfloat16, and what only stores.

With ml_dtypes its arrays are such codes; without it they are records (`DType.codes`), and NumPy alone converts them.

What codes stand for is one table for both (`base.storage`). Codes of numbers are made in two ways, which tests hold
equal: by ml_dtypes where it is installed, since floats of a format then take a third of the time (7 ms against 24 ms
of CPU for 2^20 numbers; bfloat16 0.4 against 2.2), and here, where it is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.base.dtype import BY_NAME, DType, bfloat16, dtype
from legato.base.formats import FloatFormat, IntFormat, PowerFormat
from legato.base.storage import encoded, numbers_of, to_odd, whole
from legato.base.strings import as_stored

__all__ = ["as_kind", "decode", "encode", "has_codes", "is_nameless", "restored", "stored"]

Array = np.ndarray[Any, Any]


def has_codes(kind: DType) -> bool:
    """Whether NumPy has no dtype for it."""
    return kind.is_storage or kind is bfloat16


def as_kind(x: Array, kind: DType) -> Array:
    """Codes in the other form in the form that `kind.numpy` is; other arrays as they are."""
    return x.view(kind.numpy) if has_codes(kind) and x.dtype == kind.codes else x


def is_nameless(x: Array) -> bool:
    """Whether an array is of bytes that say nothing of what they are: what NumPy's files have for codes."""
    return bool(x.dtype == np.dtype((np.void, x.itemsize)))


def stored(x: Array, what: str) -> Array:
    """An array as NumPy's files have it without pickles: codes as bytes, strings as text (`as_stored`, whose error
    begins with `what`). Others as they are."""
    if is_nameless(x):
        return x
    return x.view(f"V{x.itemsize}") if has_codes(dtype(x.dtype)) else as_stored(x, what)


def restored(x: Array, kind: DType | None = None) -> Array:
    """Bytes of such a file as the codes of `kind` that they are; where nobody says which, two bytes are bfloat16's.
    Others as they are."""
    if not is_nameless(x):
        return x
    if kind is None and x.itemsize == bfloat16.bytes:
        kind = bfloat16
    return x.view(kind.numpy) if kind is not None and has_codes(kind) and x.itemsize == kind.bytes else x


def decode(x: Array) -> Array:
    """The numbers that codes stand for, float32, or int32 of integers; other arrays as they are.

    >>> decode(encode(np.float32([1.001, 3.0]), "bfloat16"))
    array([1., 3.], dtype=float32)
    """
    names = x.dtype.names
    kind = BY_NAME.get(names[0] if names else x.dtype.name)
    if kind is None or not has_codes(kind) or x.dtype not in (kind.numpy, kind.codes):
        return x
    if kind is bfloat16:
        return np.asarray((x.view(np.uint16).astype(np.uint32) << 16).view(np.float32))
    return numbers_of(x.view(np.uint8), kind)


def encode(x: Any, kind: DType | str) -> Array:
    """Numbers as an array of dtype `kind`, to the nearest, half to even; what NumPy has a dtype for is cast to it.

    TypeCheckError for a dtype that there is not.
    """
    kind = dtype(kind)
    x = decode(np.asarray(x))
    with np.errstate(all="ignore"):
        if not has_codes(kind):
            return np.asarray(x, kind.numpy)
        if kind is bfloat16:
            return _bfloat16(x).view(kind.numpy)
        if kind.numpy != kind.codes:
            return encoded(x, kind)
        return _codes(x, kind).view(kind.numpy)


def _bfloat16(x: Array) -> Array:
    """Bits of bfloat16: the upper half of float32's, rounded."""
    near = x.astype(np.float32) if x.dtype.kind == "f" and x.dtype.itemsize <= 4 else to_odd(x.astype(np.float64))
    bits = near.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    quiet = (bits >> 16) & 0x8000 | 0x7FC0
    found: Array = np.where(np.isnan(near), quiet, rounded).astype(np.uint16)
    return found


def _codes(x: Array, kind: DType) -> Array:
    """Codes of a format, one to a byte."""
    made = kind.format
    if isinstance(made, IntFormat):
        small = whole(x, made.min, made.max, np.dtype(np.int8)) if x.dtype.kind == "f" else x.astype(np.int8)
        return np.bitwise_and(small.view(np.uint8), (1 << made.width) - 1, dtype=np.uint8)
    wide = x.astype(np.float64)
    size = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    fraction, exponent = np.frexp(size)  # fraction · 2^exponent, from ½ to 1
    if isinstance(made, PowerFormat):
        power = exponent - 1 + (fraction >= 0.75)
        code = np.where(size <= 2.0**-made.bias, 0, np.maximum(power + made.bias, 1))
        is_none = ~np.isfinite(wide) | (wide <= 0) | (code > made.largest)
        return np.where(is_none, made.nan, code).astype(np.uint8)
    return _float_codes(wide, size, exponent, made)


def _float_codes(wide: Array, size: Array, exponent: Array, made: FloatFormat) -> Array:
    """Codes of floats, of which the finite `size`s and their exponents are known."""
    least = np.maximum(exponent - 1, 1 - made.bias)  # of the unit before the point; subnormal numbers share one
    steps = np.rint(np.ldexp(size, made.mantissa - least)).astype(np.int64)
    code = np.where(steps == 0, 0, ((least.astype(np.int64) + made.bias - 1) << made.mantissa) + steps)
    beyond = made.largest if made.infinity is None else made.infinity
    code = np.where((code > made.largest) | np.isinf(wide), beyond, code)
    code = np.where(np.isnan(wide), made.nan or 0, code)
    is_negative = np.signbit(wide) & ~((code == 0) & made.one_zero)
    found: Array = np.where(is_negative, code | made.sign, code).astype(np.uint8)
    return found
