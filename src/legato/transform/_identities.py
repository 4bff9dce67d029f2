"""Identities that hold bit for bit: of casts, bounds and constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, constant
from legato.ir.types import TensorType
from legato.ops.binary import add, divide, multiply
from legato.ops.select import cast, clip
from legato.ops.unary import sqrt

__all__ = [
    "cast_twice",
    "clip_twice",
    "neutral",
    "reciprocal_root",
    "with_constants",
    "within_bounds",
]  # fmt: skip

Array = np.ndarray[Any, Any]
_DIGITS: Final[Mapping[DType, int]] = {dt.bfloat16: 8, dt.float16: 11, dt.float32: 24, dt.float64: 53}
_SCALES: Final[Mapping[DType, int]] = {dt.bfloat16: 8, dt.float16: 5, dt.float32: 8, dt.float64: 11}  # exponents' bits


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether each value of one dtype is one of the other; that is not known of dtypes that only store."""
    if wide.is_storage or narrow.is_storage:
        return False
    if wide.is_float:
        digits = _DIGITS[wide]
        if narrow.is_float:
            return digits >= _DIGITS[narrow] and _SCALES[wide] >= _SCALES[narrow]
        return narrow.max <= 1 << digits and (wide is not dt.float16 or narrow.bits <= 8)
    return not narrow.is_float and not wide.is_bool and wide.min <= narrow.min and narrow.max <= wide.max


def cast_twice(call: Call) -> Expr | None:
    """cast(cast(x)) = cast(x), where the first one loses nothing.

    Integers that a dtype does not have wrap, floats are clamped: of integers as floats it has to have all.
    """
    inner = call.args[0]
    if not isinstance(inner, Call) or inner.op is not cast:
        return None
    x = inner.args[0]
    if not all(isinstance(e.ty, TensorType) for e in (x, inner, call)) or not _holds(_dtype(inner), _dtype(x)):
        return None
    source, wide, target = _dtype(x), _dtype(inner), _dtype(call)
    if wide.is_float and not (source.is_float or target.is_float or target.is_bool) and not _holds(target, source):
        return None
    return x if x.ty == call.ty else Builder(span=call.span).call(cast, x, dtype=_dtype(call).name)


def _dtype(e: Expr) -> DType:
    assert isinstance(e.ty, TensorType)
    return e.ty.dtype


def clip_twice(call: Call) -> Expr | None:
    """clip(clip(x, a, b), c, d) = clip(x, max(a, c), min(b, d)), where these are bounds in order.

    Zeros of both signs among the bounds are told apart by nobody, so 0 is no bound here for floats.
    """
    inner, outer = call.args[0], call.attrs
    if not isinstance(inner, Call) or inner.op is not clip:
        return None
    low, high = max(inner.attrs.a_min, outer.a_min), min(inner.attrs.a_max, outer.a_max)
    bounds = (inner.attrs.a_min, outer.a_min, inner.attrs.a_max, outer.a_max)
    if not max(bounds[:2]) <= min(bounds[2:]) or (_dtype(call).is_float and 0 in bounds):
        return None
    if not _dtype(call).is_float and any(math.isfinite(v) and v != int(v) for v in bounds):
        return None  # bounds of integers are rounded inwards
    return replace(inner, attrs=replace(outer, a_min=low, a_max=high), span=call.span)


def within_bounds(call: Call) -> Expr | None:
    """clip(x) = x for integers that are all within the bounds."""
    d = _dtype(call)
    is_void = not d.is_float and call.attrs.a_min <= d.min and call.attrs.a_max >= d.max
    return call.args[0] if is_void else None


def neutral(call: Call) -> Expr | None:
    """x·1, 1·x, x/1, x + 0, 0 + x and x − 0, where the type stays; of floats, −0.0 is what can be added."""
    for place in (1, 0) if call.op is add or call.op is multiply else (1,):
        x, c = call.args[1 - place], call.args[place]
        if isinstance(c, Constant) and x.ty == call.ty and _is_neutral(call.op, c):
            return x
    return None


def _is_neutral(op: Expr, c: Constant) -> bool:
    if op is multiply or op is divide:
        return bool((c.data == 1).all())
    is_zero = bool((c.data == 0).all())
    if not is_zero or not _dtype(c).is_float:
        return is_zero and not _dtype(c).is_bool
    signs = np.signbit(c.data)
    return bool(signs.all() if op is add else not signs.any())


def reciprocal_root(call: Call) -> Expr | None:
    """1 / √x = rsqrt(x), which is formed so; floats of 16 bits are rounded twice here, and once there."""
    one, root = call.args
    if not isinstance(one, Constant) or not isinstance(root, Call) or root.op is not sqrt or root.ty != call.ty:
        return None
    is_one = _dtype(call).bits >= 32 and bool((one.data == 1).all())
    return Builder(span=call.span).op("rsqrt")(root.args[0]) if is_one else None


def with_constants(call: Call) -> Expr | None:
    """(x + c) + d = x + (c + d) and (x·c)·d = x·(c·d) for integers, which wrap."""
    found, inner = _and_constant(call), None
    if found is None or _dtype(call).is_float or _dtype(call).is_bool:
        return None
    x, d = found
    inner = _and_constant(x) if isinstance(x, Call) and x.op is call.op else None
    if inner is None or inner[0].ty != call.ty:
        return None
    with np.errstate(over="ignore"):
        both = np.asarray((np.add if call.op is add else np.multiply)(inner[1], d))
    if both.size > max(inner[1].size, d.size):
        return None
    return Builder(span=call.span).call(call.op, inner[0], constant(both, _dtype(call)))


def _and_constant(call: Call) -> tuple[Expr, Array] | None:
    """The operands of which one is a constant, that one last."""
    a, b = call.args
    if isinstance(a, Constant):
        a, b = b, a
    return (a, b.data) if isinstance(b, Constant) and not isinstance(a, Constant) else None
