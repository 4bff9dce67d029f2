"""pow, floor division and remainder of floats.

pow is e^(y·ln|x|). The logarithm carries twice the precision: float32 goes through float64, float64 through pairs of
doubles (Dekker 1971), because an error in it is multiplied by up to 745 in the result.
"""

from __future__ import annotations

from legato.codegen import coefficients
from legato.codegen.exponential import exp, log, log_parts, reduced_exp, scale
from legato.codegen.floats import Floats
from legato.codegen.value import Value

__all__ = ["FMOD", "floor_divide", "power", "remainder"]

FMOD = "legato.fmod"
Pair = tuple[Value, Value]  # a sum of two doubles, the second below half a unit of the first's last place
_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.1612227229362532e-26)
_THIRD = (1 / 3, 1.850371707708594e-17)
_SPLIT = 134217729.0  # 2^27 + 1
_LIMIT = 800.0  # e^x is 0 or infinite well before


def power(m: Floats, x: Value, y: Value) -> Value:
    """xʸ with the special cases of C's pow."""
    if m.wide:
        size = _power_wide(m, m.abs(x), y)
    else:
        wide = m.as_double()
        base, exponent = (m.b.unary("fpext", v, "double") for v in (m.abs(x), y))
        size = m.b.unary("fptrunc", exp(wide, wide.mul(exponent, log(wide, base))), "float")
    size = m.select(m.b.binary("or", m.compare("oeq", y, m.const(0.0)), m.compare("oeq", x, m.one)), m.one, size)
    # |x| = 1 to an infinite power is 1, and 0·∞ in the exponent otherwise.
    unit = m.b.binary("and", m.compare("oeq", m.abs(x), m.one), m.compare("oeq", m.abs(y), m.inf))
    size = m.select(unit, m.one, size)
    return _with_sign(m, x, y, size)


def _with_sign(m: Floats, x: Value, y: Value, size: Value) -> Value:
    """Odd powers keep the sign of x; negative numbers have no fractional powers."""
    zero = m.const(0.0)
    half = m.mul(y, m.const(0.5))
    whole = m.compare("oeq", m.trunc(y), y)
    odd = m.b.binary("and", whole, m.compare("one", m.trunc(half), half))
    signed = m.select(odd, m.copysign(size, x), size)
    finite_negative = m.b.binary("and", m.compare("olt", x, zero), m.compare("ogt", x, m.const(float("-inf"))))
    fraction = m.compare("one", m.trunc(y), y)
    return m.select(m.b.binary("and", finite_negative, fraction), m.nan, signed)


def _power_wide(m: Floats, x: Value, y: Value) -> Value:
    """xʸ for doubles x ≥ 0."""
    high, low = _log_pair(m, x)
    # Where the logarithm is infinite or NaN its first part decides alone.
    first, error = _product(m, y, high)
    second = m.add(error, m.mul(y, low))
    small = m.compare("olt", m.abs(first), m.const(_LIMIT))
    second = m.select(small, second, m.const(0.0))
    first = m.at_least(m.at_most(first, m.const(_LIMIT)), m.const(-_LIMIT))
    n, integer = m.nearest_product(first, m.const(1.4426950408889634))
    r = m.fma(n, m.const(-_LN2[0]), first)
    r = m.add(m.fma(n, m.const(-_LN2[1]), r), second)
    return scale(m, reduced_exp(m, r), n, integer)


def _log_pair(m: Floats, x: Value) -> Pair:
    """ln x to about 100 bits: 2s·(1 + z·(1/3 + z·p(z))) with s = f/(2 + f), z = s², its leading parts in pairs."""
    k, f = log_parts(m, x)
    d = m.add(f, m.const(2.0))
    d_low = m.sub(f, m.sub(d, m.const(2.0)))
    s = m.div(f, d)
    p, e = _product(m, s, d)
    s_low = m.div(m.sub(m.sub(m.sub(f, p), e), m.mul(s, d_low)), d)
    z = _pair_product(m, (s, s_low), (s, s_low))
    tail = m.mul(z[0], m.polynomial(coefficients.LOG_PAIR, z[0]))
    third = _sum(m, m.const(_THIRD[0]), tail)
    q = _pair_product(m, z, (third[0], m.add(third[1], m.const(_THIRD[1]))))
    double = (m.add(s, s), m.add(s_low, s_low))
    bend = _pair_product(m, double, q)
    near = _sum(m, double[0], bend[0])
    whole, rest = _sum(m, m.mul(k, m.const(_LN2[0])), near[0])
    low = m.add(m.add(near[1], m.add(double[1], bend[1])), rest)
    # The second part of ln 2 has more bits than a product keeps.
    part, error = _product(m, k, m.const(_LN2[1]))
    more = _sum(m, part, low)
    total = _sum(m, whole, more[0])
    low = m.add(total[1], m.add(more[1], m.add(error, m.mul(k, m.const(_LN2[2])))))
    high = m.add(total[0], low)
    low = m.add(m.sub(total[0], high), low)
    special = m.b.binary("and", m.compare("olt", x, m.inf), m.compare("ogt", x, m.const(0.0)))
    edge = m.select(m.compare("oeq", x, m.const(0.0)), m.const(float("-inf")), x)
    return m.select(special, high, edge), m.select(special, low, m.const(0.0))


def _sum(m: Floats, a: Value, b: Value) -> Pair:
    """a + b exactly (Knuth)."""
    s = m.add(a, b)
    other = m.sub(s, a)
    return s, m.add(m.sub(a, m.sub(s, other)), m.sub(b, other))


def _product(m: Floats, a: Value, b: Value) -> Pair:
    """a · b exactly."""
    p = m.mul(a, b)
    if m.target.fma:
        return p, m.fma(a, b, m.neg(p))
    a1, a2 = _split(m, a)
    b1, b2 = _split(m, b)
    error = m.sub(m.mul(a1, b1), p)
    error = m.add(m.add(error, m.mul(a1, b2)), m.mul(a2, b1))
    return p, m.add(error, m.mul(a2, b2))


def _split(m: Floats, a: Value) -> Pair:
    """a as a sum of two numbers of 26 bits."""
    t = m.mul(a, m.const(_SPLIT))
    high = m.sub(t, m.sub(t, a))
    return high, m.sub(a, high)


def _pair_product(m: Floats, a: Pair, b: Pair) -> Pair:
    p, e = _product(m, a[0], b[0])
    e = m.add(e, m.add(m.mul(a[0], b[1]), m.mul(a[1], b[0])))
    high = m.add(p, e)
    return high, m.add(m.sub(p, high), e)


# -------------------------------------------------------------------------------------------------- division


def _fmod(m: Floats, x: Value, y: Value) -> Value:
    """C's fmod, exactly, by the outlined function; float32 through float64, where its result is a float32 too."""
    b, lanes = m.b, max(x.lanes, y.lanes)
    buffer = b.name()
    b.allocas.append(f"{buffer} = alloca [{16 * lanes} x i8], align 64")
    full = "double" if lanes == 1 else f"<{lanes} x double>"
    for n, v in enumerate((x, y)):
        wide = b.splat(v if m.wide else b.unary("fpext", v, "double"), lanes)
        place = b.effect(f"getelementptr i8, ptr {buffer}, i64 {8 * n * lanes}", "ptr", 1)
        b.line(f"store {full} {wide.text}, ptr {place.text}, align 8")
    b.line(f"call void @{FMOD}(ptr {buffer}, i64 {lanes})")
    rest = b.effect(f"load {full}, ptr {buffer}, align 8", "double", lanes)
    return rest if m.wide else b.unary("fptrunc", rest, "float")


def _divmod(m: Floats, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient before rounding, and remainder with the sign of y, as Python and NumPy define them."""
    zero = m.const(0.0)
    rest = _fmod(m, x, y)
    quotient = m.div(m.sub(x, rest), y)
    other_sign = m.b.binary("icmp ne", m.compare("olt", y, zero), m.compare("olt", rest, zero), "i1")
    adjust = m.b.binary("and", m.compare("une", rest, zero), other_sign)
    lower = m.select(adjust, m.sub(quotient, m.one), quotient)
    modulus = m.select(adjust, m.add(rest, y), rest)
    return lower, m.select(m.compare("oeq", rest, zero), m.copysign(zero, y), modulus)


def remainder(m: Floats, x: Value, y: Value) -> Value:
    """x − y·⌊x/y⌋ without rounding error, as numpy.remainder; NaN for y = 0."""
    rest = _divmod(m, x, y)[1]
    return m.select(m.compare("oeq", y, m.const(0.0)), m.nan, rest)


def floor_divide(m: Floats, x: Value, y: Value) -> Value:
    """⌊x/y⌋ as numpy.floor_divide; x/y for y = 0."""
    zero = m.const(0.0)
    quotient = _divmod(m, x, y)[0]
    floored = m.floor(quotient)
    floored = m.select(m.compare("ogt", m.sub(quotient, floored), m.const(0.5)), m.add(floored, m.one), floored)
    floored = m.select(m.compare("oeq", quotient, zero), m.copysign(zero, m.div(x, y)), floored)
    return m.select(m.compare("oeq", y, zero), m.div(x, y), floored)
