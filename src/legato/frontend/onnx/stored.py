"""Numbers as codes of at most 8 bits, as ONNX makes them: what is too large is the largest number there is, or none."""

from __future__ import annotations

import math

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import ImportModelError
from legato.base.formats import FloatFormat, Format, IntFormat, PowerFormat
from legato.base.storage import largest
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

__all__ = ["converted"]

_LEAST = 2.0**-127  # of float8e8m0


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
    """The power of two next to |x|. A cast gives the nearest: from there one step up or down, where that is asked for.

    Without `saturate`, what is less than all of them is NaN. (What a negative number becomes is not said.)
    """
    if round_mode not in ("up", "down", "nearest"):
        raise ImportModelError(f"round_mode is {round_mode!r}, wanted up, down or nearest")
    size = b.abs(x)
    if saturate:
        size = b.clip(size, a_min=_LEAST, a_max=largest(dtype))
    else:
        size = b.where(b.less(size, b.like(_LEAST, size)), b.like(math.nan, size), size)
    nearest = b.to(size, dtype)
    if round_mode == "nearest":
        return nearest
    power = b.to(nearest, dt.float32)
    is_beyond = b.less(power, size) if round_mode == "up" else b.greater(power, size)
    return b.to(b.where(is_beyond, b.multiply(power, b.like(2.0 if round_mode == "up" else 0.5, size)), power), dtype)
