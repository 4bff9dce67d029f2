"""Numbers as codes of at most 8 bits, as ONNX makes them: what is too large is the largest number there is, or none."""

from __future__ import annotations

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import ImportModelError
from legato.base.formats import FloatFormat, Format, IntFormat, PowerFormat
from legato.base.storage import largest
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

__all__ = ["converted"]

# Of float32, in bits: 2^-127, 2^127 and infinity; and what rounds the exponent of a float8e8m0, in its last place.
_LEAST, _LAST, _INFINITY = 0x00400000, 0xFE << 23, 0xFF << 23
_ADDED = {"up": (1 << 23) - 1, "down": 0, "nearest": 1 << 22}
_NONE = 0xFF  # the code of NaN


def converted(b: Emitter, x: Expr, dtype: DType, *, saturate: bool = True, round_mode: str = "up") -> Expr:
    """`x` as `dtype` by the rules of Cast; `saturate` and `round_mode` speak of 8-bit floats only."""
    if b.dtype(x) == dtype:
        return x
    made: Format | None = dtype.format if dtype.is_storage else None
    if isinstance(made, PowerFormat):
        return _power(b, b.to(x, dt.float32), dtype, saturate, round_mode)
    if isinstance(made, FloatFormat) and made.infinity is not None and saturate:
        if not b.dtype(x).is_float:
            x = b.to(x, dt.float32)
        x = b.clip(x, a_min=-largest(dtype), a_max=largest(dtype))
    if isinstance(made, IntFormat) and not b.dtype(x).is_int:
        x = b.to(x, dt.int32)  # whose last bits are kept, as in the cases of the standard, which says nothing of it
    return b.to(x, dtype)


def _power(b: Emitter, x: Expr, dtype: DType, saturate: bool, round_mode: str) -> Expr:
    """The exponent of |x|, in bits, for floats may count as 0 below 2^-126. Where the mantissa is not 0 it is one more,
    by `up`, or where it is 1.5 at least, by `nearest`. (What a negative number becomes is not said.)

    With `saturate` what is out of range becomes the least or the largest; without, NaN.
    """
    if round_mode not in _ADDED:
        raise ImportModelError(f"round_mode is {round_mode!r}, wanted {', '.join(_ADDED)}")
    size = b.bitwise_and(b.reinterpret(x, dtype="int32"), b.constant(0x7FFFFFFF, dt.int32))
    least, last, infinity = (b.constant(bits, dt.int32) for bits in (_LEAST, _LAST, _INFINITY))
    none = b.constant(_NONE, dt.int32)
    if saturate:
        is_none = b.greater(size, infinity)
        size = b.minimum(b.maximum(size, least), last)
    else:
        is_none = b.logical_or(b.less(size, least), b.greater_equal(size, infinity))
    exponent = b.right_shift(b.add(size, b.constant(_ADDED[round_mode], dt.int32)), b.constant(23, dt.int32))
    exponent = b.where(b.equal(size, least), b.constant(0, dt.int32), exponent)
    return b.reinterpret(b.to(b.where(is_none, none, exponent), dt.uint8), dtype=dtype)
