"""exp, log and what is made of them, as vector code without calls.

Reductions and formulas are those of fdlibm (Sun Microsystems, 1993): eˣ = 2ⁿ·eʳ with |r| ≤ ln 2 / 2, and
ln x = k·ln 2 + ln(1 + f) through s = f / (2 + f). The polynomials are our own (tools/fit_polynomials.py).
"""

from __future__ import annotations

import math

from legato.codegen import coefficients
from legato.codegen.floats import Floats
from legato.codegen.value import Value

__all__ = ["acosh", "asinh", "atanh", "cosh", "erf", "exp", "log", "reduced_exp", "scale", "sinh", "tanh"]

# ln 2 in two parts, the first with so many trailing zeros that its product with an exponent is exact.
_LN2 = ((0.693359375, -2.12194440e-4), (6.93147180369123816490e-01, 1.90821492927058770002e-10))


def _reduce(m: Floats, x: Value) -> tuple[Value, Value, Value]:
    """n as a float and as an integer, and r, with x = n·ln 2 + r."""
    n, integer = m.nearest_product(x, m.const(1 / math.log(2)))
    high, low = _LN2[m.wide]
    r = m.fma(n, m.const(-high), x)
    return n, integer, m.fma(n, m.const(-low), r)


def scale(m: Floats, p: Value, n: Value, integer: Value, shift: int = 0) -> Value:
    """p·2^(n + shift), rounded once; n is given as a float and as an integer."""
    lanes = 8 if m.wide else 16
    if "avx512f" in m.target.features and max(p.lanes, n.lanes) == lanes:
        if shift:
            n = m.add(n, m.const(float(shift)))
        full, kind, mask = f"<{lanes} x {m.ty}>", "pd" if m.wide else "ps", f"i{lanes} -1"
        operands = f"{full} {m.b.vec(p, lanes)}, {full} {m.b.vec(n, lanes)}, {full} zeroinitializer, {mask}, i32 4"
        return m.b.inline(f"call {full} @llvm.x86.avx512.mask.scalef.{kind}.512({operands})", m.ty, lanes)
    if shift:
        integer = m.ints("add", integer, m.int(shift))
    # In two steps: a subnormal result is rounded by the second product only.
    half = m.ints("ashr", integer, m.int(1))
    rest = m.ints("sub", integer, half)
    return m.mul(m.mul(p, m.power_of_two(half)), m.power_of_two(rest))


def reduced_exp(m: Floats, r: Value) -> Value:
    """eʳ for |r| ≤ ln 2 / 2."""
    return m.add(m.one, _reduced_expm1(m, r))


def _reduced_expm1(m: Floats, r: Value) -> Value:
    q = m.polynomial(coefficients.EXP, r)
    return m.fma(m.mul(r, r), q, r)


def exp(m: Floats, x: Value) -> Value:
    """eˣ.

    Where the result is zero nothing may underflow on the way: that takes Intel's processors over a hundred cycles,
    and attention with a mask is full of such lanes.
    """
    zero = m.const(0.0)
    far = m.compare("olt", x, m.pick(-104.0, -746.0))
    x = m.select(far, zero, m.at_most(x, m.pick(89.0, 710.0)))
    n, integer, r = _reduce(m, x)
    return m.select(far, zero, scale(m, reduced_exp(m, r), n, integer))


def _half_exp(m: Floats, x: Value) -> Value:
    """eˣ / 2 for x ≥ 0, without overflow before the result's."""
    n, integer, r = _reduce(m, m.at_most(x, m.pick(90.0, 711.0)))
    return scale(m, reduced_exp(m, r), n, integer, -1)


def _small_expm1(m: Floats, x: Value) -> Value:
    """eˣ − 1 where 2ⁿ and its inverse are normal numbers by far."""
    _, integer, r = _reduce(m, x)
    power = m.power_of_two(integer)
    return m.fma(power, _reduced_expm1(m, r), m.sub(power, m.one))


def tanh(m: Floats, x: Value) -> Value:
    """−t / (2 + t) with t = e^(−2|x|) − 1: no cancellation anywhere."""
    size = m.at_most(m.abs(x), m.pick(9.5, 20.0))
    t = _small_expm1(m, m.mul(size, m.const(-2.0)))
    return m.copysign(m.div(t, m.add(t, m.const(2.0))), x)


def sinh(m: Floats, x: Value) -> Value:
    """A polynomial below 1, (eˣ − e⁻ˣ) / 2 above."""
    size = m.abs(x)
    z = m.mul(size, size)
    small = m.fma(m.mul(size, z), m.polynomial(coefficients.SINH, z), size)
    e = _half_exp(m, size)
    large = m.sub(e, m.div(m.const(0.25), e))
    return m.copysign(m.select(m.compare("olt", size, m.one), small, large), x)


def cosh(m: Floats, x: Value) -> Value:
    """(eˣ + e⁻ˣ) / 2."""
    e = _half_exp(m, m.abs(x))
    return m.add(e, m.div(m.const(0.25), e))


def erf(m: Floats, x: Value) -> Value:
    """An odd polynomial below 1, 1 − e^(−x² + p(x)) above."""
    size = m.abs(x)
    small = m.mul(size, m.polynomial(coefficients.ERF, m.mul(size, size)))
    bounded = m.at_most(size, m.pick(4.0, 6.0))
    exponent = m.sub(m.polynomial(coefficients.ERFC, bounded), m.mul(bounded, bounded))
    # Where the polynomial is not meant the exponent is still small.
    _, integer, r = _reduce(m, exponent)
    tail = m.mul(reduced_exp(m, r), m.power_of_two(integer))
    return m.copysign(m.select(m.compare("olt", size, m.one), small, m.sub(m.one, tail)), x)


# -------------------------------------------------------------------------------------------------- logarithms


def log_parts(m: Floats, x: Value) -> tuple[Value, Value]:
    """k (a float) and f with x = 2ᵏ·(1 + f), 1 + f in [√½, √2), for positive finite x."""
    tiny = m.compare("olt", x, m.const(2.0 ** (1 - m.bias)))
    digits = m.mantissa + 2
    x = m.select(tiny, m.mul(x, m.const(2.0**digits)), x)
    edge = (m.bias - 1 << m.mantissa) + (0x6A09E667F3BCD if m.wide else 0x3504F3)
    k = m.ints("ashr", m.ints("sub", m.bits(x), m.int(edge)), m.int(m.mantissa))
    near_one = m.from_bits(m.ints("sub", m.bits(x), m.ints("shl", k, m.int(m.mantissa))))
    whole = m.b.unary("sitofp", m.b.unary("trunc", k, "i32") if m.wide else k, m.ty)
    whole = m.add(whole, m.select(tiny, m.const(-float(digits)), m.const(0.0)))
    return whole, m.sub(near_one, m.one)


def _log_core(m: Floats, x: Value, correction: Value | None) -> Value:
    """ln x + correction, for x ≥ 0 or NaN."""
    k, f = log_parts(m, x)
    s = m.div(f, m.add(f, m.const(2.0)))
    z = m.mul(s, s)
    tail = m.mul(z, m.polynomial(coefficients.LOG, z))
    half_square = m.mul(m.mul(f, f), m.const(0.5))
    high, low = _LN2[m.wide]
    small = m.mul(k, m.const(low))
    if correction is not None:
        small = m.add(small, correction)
    inner = m.fma(s, m.add(half_square, tail), small)
    result = m.fma(k, m.const(high), m.sub(f, m.sub(half_square, inner)))
    result = m.select(m.compare("olt", x, m.inf), result, x)
    result = m.select(m.compare("oeq", x, m.const(0.0)), m.const(-math.inf), result)
    return m.select(m.compare("olt", x, m.const(0.0)), m.nan, result)


def log(m: Floats, x: Value) -> Value:
    """ln x; −∞ at 0, NaN below."""
    return _log_core(m, x, None)


def _log1p(m: Floats, u: Value) -> Value:
    """ln(1 + u): what is lost in 1 + u comes back as a correction."""
    y = m.add(m.one, u)
    lost = m.select(m.compare("ogt", u, m.one), m.sub(m.one, m.sub(y, u)), m.sub(u, m.sub(y, m.one)))
    lost = m.select(m.compare("olt", u, m.inf), m.div(lost, y), m.const(0.0))
    return _log_core(m, y, lost)


def _doubled_when_large(m: Floats, x: Value, moderate: Value) -> Value:
    """ln(1 + moderate), or ln 2x where x is so large that x² might overflow."""
    large = m.compare("oge", x, m.const(2.0 ** (m.mantissa + 2)))
    result = _log1p(m, m.select(large, x, moderate))
    return m.select(large, m.add(result, m.const(math.log(2))), result)


def asinh(m: Floats, x: Value) -> Value:
    """ln(1 + |x| + x² / (1 + √(1 + x²)))."""
    size = m.abs(x)
    square = m.mul(size, size)
    extra = m.div(square, m.add(m.one, m.sqrt(m.add(m.one, square))))
    return m.copysign(_doubled_when_large(m, size, m.add(size, extra)), x)


def acosh(m: Floats, x: Value) -> Value:
    """ln(1 + t + √(2t + t²)) with t = x − 1; NaN below 1."""
    t = m.sub(x, m.one)
    root = m.sqrt(m.fma(t, t, m.add(t, t)))
    return m.select(m.compare("olt", x, m.one), m.nan, _doubled_when_large(m, x, m.add(t, root)))


def atanh(m: Floats, x: Value) -> Value:
    """ln(1 + 2|x| / (1 − |x|)) / 2; ±∞ at ±1, NaN beyond."""
    size = m.abs(x)
    u = m.div(m.add(size, size), m.sub(m.one, size))
    return m.copysign(m.mul(_log1p(m, u), m.const(0.5)), x)
