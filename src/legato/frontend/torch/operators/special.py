"""Functions that are made of others with care for their digits: near 0, and where intermediates overflow."""

from __future__ import annotations

import math

from legato.frontend.torch.emitter import Emitter, Value
from legato.frontend.torch.operators._operands import combined, is_negative, widened
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("expm1")
def expm1(b: Emitter, self: Expr) -> Expr:
    """e^x − 1: near 0 by 2t/(1 − t) with t = tanh(x/2), which loses no digits there."""

    def near(x: Expr) -> Expr:
        t = b.tanh(b.multiply(x, 0.5))
        small = b.divide(b.multiply(t, 2.0), b.subtract(b.like(1, x), t))
        return b.where(b.less(b.abs(x), 0.5), small, b.subtract(b.exp(x), 1.0))

    return widened(b, near, self)


@aten("log1p")
def log1p(b: Emitter, self: Expr) -> Expr:
    return widened(b, lambda x: _log1p(b, x), self)


def _log1p(b: Emitter, x: Expr) -> Expr:
    """log(1 + x), of which the digits that 1 + x loses are a factor: log(u)·x/(u − 1) with u = 1 + x."""
    u = b.add(x, 1.0)
    off = b.subtract(u, 1.0)
    exact = b.logical_or(b.equal(off, x), b.isinf(u))
    scale = b.divide(x, b.where(b.equal(off, 0.0), b.like(1, x), off))
    return b.where(b.equal(off, 0.0), x, b.where(exact, b.log(u), b.multiply(b.log(u), scale)))


@aten("atan2")
def atan2(b: Emitter, self: Value, other: Value) -> Expr:
    """The angle of (other, self): of the smaller by the larger of the two, turned into its octant."""

    def angle(y: Expr, x: Expr) -> Expr:
        ay, ax, zero = b.abs(y), b.abs(x), b.like(0, x)
        most, least = b.maximum(ay, ax), b.minimum(ay, ax)
        both = b.logical_and(b.isinf(ay), b.isinf(ax))
        ratio = b.divide(least, b.where(b.equal(most, zero), b.like(1, x), most))
        part = b.atan(b.where(both, b.like(1, x), ratio))
        part = b.where(b.greater(ay, ax), b.subtract(b.like(math.pi / 2, x), part), part)
        part = b.where(is_negative(b, x), b.subtract(b.like(math.pi, x), part), part)
        signed = b.where(is_negative(b, y), b.negative(part), part)
        return b.where(b.logical_or(b.isnan(x), b.isnan(y)), b.add(x, y), signed)

    return combined(b, angle, self, other, to_float=True, steps=True)
