"""Functions that are made of others with care for their digits: near 0, and where intermediates overflow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from legato.base.dtype import float64
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
    return widened(b, lambda x: log_of_one_and(b, x), self)


def log_of_one_and(b: Emitter, x: Expr) -> Expr:
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


# ------------------------------------------------------------------ of the error function, in float64

# log(erfc(z)·e^(z²)/t) for t = 2/(2 + z) by Chebyshev's polynomials of 2t − 1; of float32 twelve of them do.
_ERFC = (
    -0.6513268598908547, 0.6419697923564902, 0.019476473204185836, -0.009561514786808632, -0.0009465953444820369,
    0.00036683949785276145, 4.252332480690777e-05, -2.0278578112534242e-05, -1.6242900046470254e-06,
    1.3036558355805232e-06, 1.5626441722066142e-08, -8.523809591492654e-08, 6.5290544390988515e-09,
    5.059343495551469e-09, -9.91364156493033e-10, -2.273651222931836e-10, 9.646791102015527e-11,
    2.3940380830391146e-12, -6.886027526497553e-12, 8.944879273090725e-13, 3.130921399342958e-13,
    -1.1270822361367252e-13, 3.810905255189232e-16, 7.106097613609237e-15, -1.5230282014571043e-15,
)  # fmt: skip


@aten("erfc")
def erfc(b: Emitter, self: Expr) -> Expr:
    """1 − erf(x), with all its digits where it is small."""
    terms = _ERFC if b.dtype(self) == float64 else _ERFC[:12]

    def small(x: Expr) -> Expr:
        z = b.abs(x)
        t = b.divide(b.like(2, x), b.add(z, 2.0))
        power = b.subtract(_chebyshev(b, b.subtract(b.multiply(t, 2.0), 1.0), terms), b.multiply(z, z))
        found = b.multiply(t, b.exp(power))
        found = b.where(b.isinf(x), b.like(0, x), found)
        return b.where(b.less(x, 0.0), b.subtract(b.like(2, x), found), found)

    return _in_float64(b, small, self)


def _chebyshev(b: Emitter, y: Expr, terms: Sequence[float]) -> Expr:
    """Σ terms[n]·Tₙ(y), by Clenshaw's recurrence."""
    twice = b.multiply(y, 2.0)
    now: Expr = b.like(0, y)
    last = now
    for term in reversed(terms[1:]):
        now, last = b.add(b.subtract(b.multiply(twice, now), last), term), now
    return b.add(b.subtract(b.multiply(y, now), last), terms[0])


@aten("erfinv")
def erfinv(b: Emitter, self: Expr) -> Expr:
    """Winitzki's approximation, and three steps of Newton's method towards the root of erf(x) − y."""

    def inverse(y: Expr) -> Expr:
        logs = b.log(b.subtract(b.like(1, y), b.multiply(y, y)))
        half = b.add(b.multiply(logs, 0.5), 2 / (math.pi * 0.147))
        size = b.sqrt(b.subtract(b.sqrt(b.subtract(b.multiply(half, half), b.multiply(logs, 1 / 0.147))), half))
        x = b.where(b.less(y, 0.0), b.negative(size), size)
        for _ in range(3):
            slope = b.multiply(b.exp(b.negative(b.multiply(x, x))), 2 / math.sqrt(math.pi))
            x = b.subtract(x, b.divide(b.subtract(b.erf(x), y), slope))
        return b.where(b.equal(b.abs(y), 1.0), b.multiply(y, math.inf), x)

    return _in_float64(b, inverse, self)


# ------------------------------------------------------------------ of the gamma function, in float64

# Of Stirling's series: B₂ₖ/(2k·(2k − 1)), and B₂ₖ/(2k).
_LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_FAR = 8  # from here on Stirling's series has all digits


@aten("lgamma")
def lgamma(b: Emitter, self: Expr) -> Expr:
    """log |Γ(x)|: by Stirling's series of x + 8, below 1/2 by reflection."""

    def logarithm(x: Expr) -> Expr:
        reflects = b.less(x, 0.5)
        z = b.where(reflects, b.subtract(b.like(1, x), x), x)
        product = z
        for n in range(1, _FAR):
            product = b.multiply(product, b.add(z, float(n)))
        far = b.add(z, float(_FAR))
        main = b.subtract(b.multiply(b.subtract(far, 0.5), b.log(far)), far)
        found = b.add(b.add(main, math.log(2 * math.pi) / 2), b.multiply(_even_powers(b, far, _LOG_GAMMA), far))
        found = b.subtract(found, b.log(product))
        sine = b.abs(b.sin(b.multiply(b.subtract(x, b.round(x)), math.pi)))
        turned = b.subtract(b.negative(b.log(b.multiply(sine, 1 / math.pi))), found)
        found = b.where(reflects, turned, found)
        far_out = b.logical_or(b.isinf(x), b.greater(z, 1e36))
        return b.where(far_out, b.where(b.isinf(x), b.like(math.inf, x), main), found)

    return _in_float64(b, logarithm, self)


@aten("digamma")
def digamma(b: Emitter, self: Expr) -> Expr:
    """The derivative of log Γ: by its series at x + 8, below 1/2 by reflection; NaN at −1, −2, …"""

    def derivative(x: Expr) -> Expr:
        reflects = b.less(x, 0.5)
        z = b.where(reflects, b.subtract(b.like(1, x), x), x)
        before = b.divide(b.like(1, x), z)
        for n in range(1, _FAR):
            before = b.add(before, b.divide(b.like(1, x), b.add(z, float(n))))
        far = b.add(z, float(_FAR))
        tail = b.add(b.divide(b.like(0.5, x), far), _even_powers(b, far, _DIGAMMA))
        found = b.subtract(b.subtract(b.log(far), tail), before)
        slope = b.divide(b.like(math.pi, x), b.tan(b.multiply(b.subtract(x, b.round(x)), math.pi)))
        found = b.where(reflects, b.subtract(found, slope), found)
        zero = b.like(0, x)
        pole = b.logical_and(b.less(x, zero), b.equal(x, b.floor(x)))
        found = b.where(pole, b.like(math.nan, x), found)
        return b.where(b.equal(x, zero), b.divide(b.like(-1, x), x), found)

    return _in_float64(b, derivative, self)


def _even_powers(b: Emitter, x: Expr, terms: Sequence[float]) -> Expr:
    """Σ terms[n]/x^(2n + 2)."""
    square = b.divide(b.like(1, x), b.multiply(x, x))
    total: Expr = b.like(terms[-1], x)
    for term in reversed(terms[:-1]):
        total = b.add(b.multiply(total, square), term)
    return b.multiply(total, square)


def _in_float64(b: Emitter, f: Callable[[Expr], Expr], x: Expr) -> Expr:
    """`f` of floats in float64; integers give floats."""
    dtype = b.dtype(x) if b.dtype(x).is_float else b.float_dtype
    return b.to(f(b.to(x, float64)), dtype)
