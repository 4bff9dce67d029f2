"""Comparisons, logic, bits, and what is chosen by them. Operands are promoted, results of comparisons are bool."""

from __future__ import annotations

import math

from legato.arith.expr import Expr as DimExpr
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Value
from legato.frontend.torch.operators._operands import as_bool, combined, larger, smaller
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

# ------------------------------------------------------------------ comparisons


@aten("eq")
def eq(b: Emitter, self: Value, other: Value) -> Expr:
    return b.equal(*b.promoted(self, other))


@aten("ne")
def ne(b: Emitter, self: Value, other: Value) -> Expr:
    return b.not_equal(*b.promoted(self, other))


@aten("lt")
def lt(b: Emitter, self: Value, other: Value) -> Expr:
    return b.less(*b.promoted(self, other))


@aten("le")
def le(b: Emitter, self: Value, other: Value) -> Expr:
    return b.less_equal(*b.promoted(self, other))


@aten("gt")
def gt(b: Emitter, self: Value, other: Value) -> Expr:
    return b.greater(*b.promoted(self, other))


@aten("ge")
def ge(b: Emitter, self: Value, other: Value) -> Expr:
    return b.greater_equal(*b.promoted(self, other))


# ------------------------------------------------------------------ logic and bits


@aten("logical_and")
def logical_and(b: Emitter, self: Expr, other: Expr) -> Expr:
    return b.logical_and(as_bool(b, self), as_bool(b, other))


@aten("logical_or")
def logical_or(b: Emitter, self: Expr, other: Expr) -> Expr:
    return b.logical_or(as_bool(b, self), as_bool(b, other))


@aten("logical_xor")
def logical_xor(b: Emitter, self: Expr, other: Expr) -> Expr:
    return b.logical_xor(as_bool(b, self), as_bool(b, other))


@aten("bitwise_and")
def bitwise_and(b: Emitter, self: Value, other: Value) -> Expr:
    return combined(b, b.bitwise_and, self, other)


@aten("bitwise_or")
def bitwise_or(b: Emitter, self: Value, other: Value) -> Expr:
    return combined(b, b.bitwise_or, self, other)


@aten("bitwise_xor")
def bitwise_xor(b: Emitter, self: Value, other: Value) -> Expr:
    return combined(b, b.bitwise_xor, self, other)


@aten("bitwise_left_shift", "__lshift__")
def bitwise_left_shift(b: Emitter, self: Value, other: Value) -> Expr:
    """Nothing is left by a count below 0 or beyond the width."""
    return combined(b, lambda x, n: b.where(_in_width(b, n), b.left_shift(x, n), b.like(0, x)), self, other)


@aten("bitwise_right_shift", "__rshift__")
def bitwise_right_shift(b: Emitter, self: Value, other: Value) -> Expr:
    """The sign is left by a count below 0 or beyond the width."""

    def shifted(x: Expr, n: Expr) -> Expr:
        dtype = b.dtype(x)
        rest = b.right_shift(x, b.like(dtype.bits - 1, x)) if dtype.is_signed else b.like(0, x)
        return b.where(_in_width(b, n), b.right_shift(x, n), rest)

    return combined(b, shifted, self, other)


def _in_width(b: Emitter, n: Expr) -> Expr:
    dtype = b.dtype(n)
    if not dtype.is_int:
        raise UnsupportedError(f"a shift of {dtype}", hint="convert to an integer dtype before")
    return b.logical_and(b.greater_equal(n, b.like(0, n)), b.less(n, b.like(dtype.bits, n)))


# ------------------------------------------------------------------ choice


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(b: Emitter, condition: Expr, self: Value, other: Value) -> Expr:
    return b.where(as_bool(b, condition), *b.promoted(self, other))


@aten("clamp", "clip")
def clamp(b: Emitter, self: Expr, min: Value | None = None, max: Value | None = None) -> Expr:
    """Not below `min`, then not above `max`; NaN where any of the three is."""
    bounds = tuple(x for x in (min, max) if x is not None)
    dtype = b.result_dtype(self, *bounds)
    if dtype.is_float and not any(isinstance(x, Expr | DimExpr) for x in bounds):
        return _clipped(b, b.to(self, dtype), min, max)
    above, below = larger(b, dtype), smaller(b, dtype)
    functions = (below,) if min is None else (above, below)

    def between(x: Expr, *found: Expr) -> Expr:
        for f, bound in zip(functions, found, strict=False):
            x = f(x, bound)
        return x

    return combined(b, between, self, *bounds)


@aten("clamp_min")
def clamp_min(b: Emitter, self: Expr, min: Value) -> Expr:
    return clamp(b, self, min=min)


@aten("clamp_max")
def clamp_max(b: Emitter, self: Expr, max: Value) -> Expr:
    return clamp(b, self, max=max)


def _clipped(b: Emitter, x: Expr, low: Value | None, high: Value | None) -> Expr:
    """Floats between numbers."""
    least = float(low) if isinstance(low, int | float) else -math.inf
    most = float(high) if isinstance(high, int | float) else math.inf
    if math.isnan(least) or math.isnan(most):
        return b.zeros_of(b.dims_of(x), b.dtype(x), math.nan)
    return b.clip(x, a_min=least, a_max=most)
