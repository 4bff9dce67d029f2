"""Transcendental functions of few multiplications and additions, with stated errors.

    eˣ = P(x/256)^256        tanh x = x·P(x²)/Q(x²)        erf x = x·P(x²)/Q(x²)

within intervals, at whose ends the functions stay what they are there. The coefficients have the smallest largest error
relative to the function (weighted least squares, the weights raised where the error is large).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import pi, sqrt
from typing import Any, Final

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, max_, min_
from legato.base.dataclass import dataclass
from legato.ops._families import Array, unary

__all__ = ["EXP", "fast_erf", "fast_exp", "fast_tanh"]

Number = Any  # an Expr, or an array

_POWER: Final = (0.4999946669448501, 0.16667182701725686, 0.04186447786503902, 0.008301804253095731)
_SQUARINGS: Final = 8
_TANH_FORM: Final = (
    (0.999999796935056, 0.12715690189425927, 0.002699848108737289, 7.188334039675897e-06, -6.188798605959583e-09),
    (1.0, 0.4604885919849035, 0.022864939464401927, 0.00019718693552089517),
)
_ERF_FORM: Final = (
    (1.1283789087345262, 0.33307681173459625, 0.06786030858216113, 0.00894240565223622, 0.0002311602128403468,
     -1.385277740078604e-06),
    (1.0, 0.6285075265049479, 0.16968089243334464, 0.025365963456664135, 0.0021092034038364075),
)  # fmt: skip

Lift = Callable[[float], Number]


def _polynomial(coefficients: Sequence[float], x: Number, lift: Lift) -> Number:
    """Σ cₖ·xᵏ, by Horner's rule."""
    total = lift(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + lift(c)
    return total


def _exp(x: Number, lift: Lift) -> Number:
    r = x * lift(1 / (1 << _SQUARINGS))
    power = (_polynomial(_POWER, r, lift) * r + lift(1)) * r + lift(1)
    for _ in range(_SQUARINGS):
        power = power * power
    return power


def _ratio(above: Sequence[float], below: Sequence[float], x: Number, lift: Lift) -> Number:
    square = x * x
    return x * _polynomial(above, square, lift) / _polynomial(below, square, lift)


@dataclass(frozen=True, slots=True)
class _Fast:
    """A function within [low, high], on scalars and on arrays."""

    f: Callable[[Number, Lift], Number]
    low: float
    high: float

    def scalar(self, x: Expr) -> Expr:
        """For tensor expressions."""
        inside = max_(min_(x, te.literal(self.high, x)), te.literal(self.low, x))
        return self.f(inside, lambda c: te.literal(c, x))  # type: ignore[no-any-return]  # of an Expr

    def reference(self, x: Array) -> Array:
        """In the arithmetic of the array's dtype."""
        return np.asarray(self.f(np.clip(x, self.low, self.high), x.dtype.type), x.dtype)


EXP: Final = _Fast(_exp, -87.0, 88.0)
_TANH: Final = _Fast(partial(_ratio, *_TANH_FORM), -8.0, 8.0)
_ERF: Final = _Fast(partial(_ratio, *_ERF_FORM), -3.75, 3.75)

# The gradients are those of the functions meant, and as exact as these are.
fast_exp = unary(
    "fast_exp", EXP.reference, EXP.scalar, rtol=1e-4, grad=lambda b, x, y, dy: b.multiply(dy, y),
    doc="e to the power x with a relative error below 6e-5; below -87 and above 88 what it is there.",
)  # fmt: skip
fast_tanh = unary(
    "fast_tanh", _TANH.reference, _TANH.scalar,
    grad=lambda b, x, y, dy: b.multiply(dy, b.subtract(1, b.multiply(y, y))),
    doc="Hyperbolic tangent with a relative error below 1e-6.",
)  # fmt: skip
fast_erf = unary(
    "fast_erf", _ERF.reference, _ERF.scalar,
    grad=lambda b, x, y, dy: b.multiply(dy, b.multiply(b.fast_exp(b.negative(b.multiply(x, x))), 2 / sqrt(pi))),
    doc="The error function with a relative error below 1e-6.",
)  # fmt: skip
