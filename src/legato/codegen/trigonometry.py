"""sin, cos, tan and their inverses, as vector code.

Arguments are reduced in float64, for float32 too: by π/2 in four parts up to 2^19 (Cody and Waite 1980), beyond by a
call of `legato.reduce` (outlined.py), which a branch on "any lane is large" guards.
"""

from __future__ import annotations

import math

from legato.codegen import coefficients
from legato.codegen.floats import Floats
from legato.codegen.value import Value, vector_type

__all__ = ["REDUCE", "acos", "asin", "atan", "cos", "sin", "tan"]

REDUCE = "legato.reduce"
_LARGE = 2.0**19
# π/2: three parts of 33 bits, whose products with up to 2^20 are exact, and the rest.
_PARTS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)


def _two_difference(m: Floats, a: Value, b: Value) -> tuple[Value, Value]:
    """a − b and its rounding error (Knuth)."""
    s = m.sub(a, b)
    other = m.sub(s, a)
    return s, m.sub(m.sub(a, m.sub(s, other)), m.add(b, other))


def _reduced(m: Floats, x: Value) -> tuple[Value, Value, Value]:
    """High and low part of x mod π/2 in [−π/4, π/4], and the quadrant (an i64), for a double x."""
    n, quadrant = m.nearest_product(x, m.const(2 / math.pi))
    rest = m.sub(x, m.mul(n, m.const(_PARTS[0])))
    rest, error = _two_difference(m, rest, m.mul(n, m.const(_PARTS[1])))
    rest, error2 = _two_difference(m, rest, m.mul(n, m.const(_PARTS[2])))
    low = m.sub(m.add(error, error2), m.mul(n, m.const(_PARTS[3])))
    high = m.add(rest, low)
    low = m.add(m.sub(rest, high), low)
    large = m.compare("oge", m.abs(x), m.const(_LARGE))
    far = _far(m, x, large)
    return m.select(large, far[0], high), m.select(large, far[1], low), m.select(large, far[2], quadrant)


def _far(m: Floats, x: Value, large: Value) -> tuple[Value, Value, Value]:
    """The same for large x, by the outlined function, if any lane is large."""
    b, lanes = m.b, x.lanes
    buffer = b.name()
    b.allocas.append(f"{buffer} = alloca [{32 * lanes} x i8], align 64")
    slow, join, before = b.label("far"), b.label("near"), b.block
    b.line(f"br i1 {b.any_lane(large).text}, label %{slow}, label %{join}")
    b.start(slow)
    b.line(f"store {vector_type('double', lanes)} {x.text}, ptr {buffer}, align 8")
    b.line(f"call void @{REDUCE}(ptr {buffer}, i64 {lanes})")
    loaded = []
    for n, ty in ((1, "double"), (2, "double"), (3, "i64")):
        place = b.effect(f"getelementptr i8, ptr {buffer}, i64 {8 * n * lanes}", "ptr", 1)
        loaded.append(b.effect(f"load {vector_type(ty, lanes)}, ptr {place.text}, align 8", ty, lanes))
    b.line(f"br label %{join}")
    b.start(join)
    high, low, quadrant = [
        b.effect(f"phi {vector_type(v.ty, lanes)} [ poison, %{before} ], [ {v.text}, %{slow} ]", v.ty, lanes)
        for v in loaded
    ]
    return high, low, quadrant


def _sine(m: Floats, r: Value, low: Value | None, z: Value) -> Value:
    """sin(r + low) for |r| ≤ π/4, z = r²."""
    tail = m.mul(m.mul(z, r), m.polynomial(coefficients.SIN, z))
    if low is not None:
        tail = m.add(tail, m.mul(low, m.fma(z, m.const(-0.5), m.one)))
    return m.add(r, tail)


def _cosine(m: Floats, r: Value, low: Value | None, z: Value) -> Value:
    """cos(r + low) for |r| ≤ π/4, z = r²."""
    half = m.mul(z, m.const(0.5))
    leading = m.sub(m.one, half)
    tail = m.mul(m.mul(z, z), m.polynomial(coefficients.COS, z))
    if low is not None:
        tail = m.sub(tail, m.mul(r, low))
    return m.add(leading, m.add(m.sub(m.sub(m.one, leading), half), tail))


def _sine_and_cosine(m: Floats, x: Value) -> tuple[Value, Value, Value]:
    """sin and cos of the reduced argument, and the quadrant as an integer of the type's width."""
    wide = m.as_double()
    if m.wide:
        r, low, quadrant = _reduced(m, x)
        z = m.mul(r, r)
        return _sine(m, r, low, z), _cosine(m, r, low, z), quadrant
    high, _, quadrant = _reduced(wide, m.b.unary("fpext", x, "double"))
    r = m.b.unary("fptrunc", high, "float")
    z = m.mul(r, r)
    return _sine(m, r, None, z), _cosine(m, r, None, z), m.b.unary("trunc", quadrant, "i32")


def _odd(m: Floats, quadrant: Value) -> Value:
    return m.b.binary("icmp ne", m.ints("and", quadrant, m.int(1)), m.int(0), "i1")


def _with_sign(m: Floats, size: Value, quadrant: Value) -> Value:
    """Negated in quadrants 2 and 3."""
    top = m.ints("shl", m.ints("and", quadrant, m.int(2)), m.int(62 if m.wide else 30))
    return m.from_bits(m.ints("xor", m.bits(size), top))


def _keeps_zero(m: Floats, x: Value, result: Value) -> Value:
    return m.select(m.compare("oeq", x, m.const(0.0)), x, result)


def sin(m: Floats, x: Value) -> Value:
    """sin x; NaN at ±∞."""
    s, c, quadrant = _sine_and_cosine(m, x)
    return _keeps_zero(m, x, _with_sign(m, m.select(_odd(m, quadrant), c, s), quadrant))


def cos(m: Floats, x: Value) -> Value:
    """cos x; NaN at ±∞."""
    s, c, quadrant = _sine_and_cosine(m, x)
    return _with_sign(m, m.select(_odd(m, quadrant), s, c), m.ints("add", quadrant, m.int(1)))


def tan(m: Floats, x: Value) -> Value:
    """sin / cos, or −cos / sin in odd quadrants."""
    s, c, quadrant = _sine_and_cosine(m, x)
    odd = _odd(m, quadrant)
    ratio = m.div(m.select(odd, m.neg(c), s), m.select(odd, s, c))
    return _keeps_zero(m, x, ratio)


# -------------------------------------------------------------------------------------------------- inverses


def _pi(m: Floats, factor: float) -> tuple[Value, Value]:
    """π · factor (a power of two) in two parts of the type."""
    high, low = (math.pi, 1.2246467991473532e-16) if m.wide else (3.1415927410125732, -8.742277657347586e-08)
    return m.const(high * factor), m.const(low * factor)


def _arcsine(m: Floats, x: Value, z: Value) -> Value:
    """asin x for z = x² ≤ 1/4."""
    return m.fma(m.mul(x, z), m.polynomial(coefficients.ASIN, z), x)


def _folded(m: Floats, x: Value) -> tuple[Value, Value]:
    """Whether |x| > 1/2, and asin|x| or, there, asin √((1 − |x|)/2)."""
    size = m.abs(x)
    large = m.compare("ogt", size, m.const(0.5))
    z = m.select(large, m.mul(m.sub(m.one, size), m.const(0.5)), m.mul(size, size))
    return large, _arcsine(m, m.select(large, m.sqrt(z), size), z)


def asin(m: Floats, x: Value) -> Value:
    """asin x = π/2 − 2·asin √((1 − x)/2) above 1/2; NaN outside [−1, 1]."""
    large, part = _folded(m, x)
    high, low = _pi(m, 0.5)
    folded = m.sub(high, m.sub(m.add(part, part), low))
    return m.copysign(m.select(large, folded, part), x)


def acos(m: Floats, x: Value) -> Value:
    """acos x; NaN outside [−1, 1]."""
    large, part = _folded(m, x)
    twice = m.add(part, part)
    negative = m.compare("olt", x, m.const(0.0))
    high, low = _pi(m, 1.0)
    folded = m.select(negative, m.sub(high, m.sub(twice, low)), twice)
    half, half_low = _pi(m, 0.5)
    signed = m.copysign(part, x)
    return m.select(large, folded, m.sub(half, m.sub(signed, half_low)))


def atan(m: Floats, x: Value) -> Value:
    """atan x = π/2 − atan(1/x) above 1."""
    size = m.abs(x)
    large = m.compare("ogt", size, m.one)
    t = m.select(large, m.div(m.one, size), size)
    z = m.mul(t, t)
    part = m.fma(m.mul(t, z), m.polynomial(coefficients.ATAN, z), t)
    high, low = _pi(m, 0.5)
    return m.copysign(m.select(large, m.sub(high, m.sub(part, low)), part), x)
