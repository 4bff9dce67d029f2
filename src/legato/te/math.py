"""Scalar functions for the bodies of tensor expressions."""

from __future__ import annotations

from legato.arith import expr as arith
from legato.arith.expr import Expr, const, eq, ge, gt, land, le, lnot, lor, lt, max_, min_, ne, select
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.tir.expr import call, cast

__all__ = ["abs_", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitnot", "cast", "ceil", "const", "cos", "cosh",
           "eq", "erf", "exp", "floor", "fma", "ge", "gt", "isfinite", "isinf", "isnan", "land", "le", "literal",
           "lnot", "log", "lor", "lt", "max_", "min_", "ne", "neg", "power", "reinterpret", "round_", "rsqrt", "select",
           "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "truncdiv", "truncmod"]  # fmt: skip


def literal(value: float, like: Expr | DType) -> Expr:
    """`value` as a literal of the dtype of `like`."""
    return const(value, like if isinstance(like, DType) else like.dtype)


def exp(x: Expr) -> Expr:
    """e^x."""
    return call("exp", x)


def log(x: Expr) -> Expr:
    """Natural logarithm."""
    return call("log", x)


def sqrt(x: Expr) -> Expr:
    """Square root; NaN for negative numbers."""
    return call("sqrt", x)


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x)."""
    return literal(1.0, x) / sqrt(x)


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent."""
    return call("tanh", x)


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + e^-x); exact limits at ±∞ since e^-x overflows to ∞ and underflows to 0."""
    one = literal(1.0, x)
    return one / (one + exp(neg(x)))


def erf(x: Expr) -> Expr:
    """The error function."""
    return call("erf", x)


def sin(x: Expr) -> Expr:
    """Sine."""
    return call("sin", x)


def cos(x: Expr) -> Expr:
    """Cosine."""
    return call("cos", x)


def tan(x: Expr) -> Expr:
    """Tangent."""
    return call("tan", x)


def reinterpret(x: Expr, dtype: DType) -> Expr:
    """The bits of `x` as `dtype`, which is as wide."""
    return x if x.dtype == dtype else call(f"as_{dtype}", x)


def asin(x: Expr) -> Expr:
    """Arc sine."""
    return call("asin", x)


def acos(x: Expr) -> Expr:
    """Arc cosine."""
    return call("acos", x)


def atan(x: Expr) -> Expr:
    """Arc tangent."""
    return call("atan", x)


def sinh(x: Expr) -> Expr:
    """Hyperbolic sine."""
    return call("sinh", x)


def cosh(x: Expr) -> Expr:
    """Hyperbolic cosine."""
    return call("cosh", x)


def asinh(x: Expr) -> Expr:
    """Inverse hyperbolic sine."""
    return call("asinh", x)


def acosh(x: Expr) -> Expr:
    """Inverse hyperbolic cosine."""
    return call("acosh", x)


def atanh(x: Expr) -> Expr:
    """Inverse hyperbolic tangent."""
    return call("atanh", x)


def power(x: Expr, y: Expr) -> Expr:
    """x^y on floats, by C's pow at the edges."""
    return call("pow", x, y)


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """a·b + c, rounded once."""
    return call("fma", a, b, c)


def neg(x: Expr) -> Expr:
    """-x; on floats the sign bit flips."""
    return call("neg", x) if x.dtype.is_float else -x


def abs_(x: Expr) -> Expr:
    """|x|; the most negative integer stays itself."""
    return x if x.dtype.kind in ("uint", "bool") else call("abs", x)


def floor(x: Expr) -> Expr:
    """Rounds down; the identity on integers."""
    return call("floor", x) if x.dtype.is_float else x


def ceil(x: Expr) -> Expr:
    """Rounds up; the identity on integers."""
    return call("ceil", x) if x.dtype.is_float else x


def trunc(x: Expr) -> Expr:
    """Rounds towards zero; the identity on integers."""
    return call("trunc", x) if x.dtype.is_float else x


def round_(x: Expr) -> Expr:
    """Rounds half to even; the identity on integers."""
    return call("round", x) if x.dtype.is_float else x


def isnan(x: Expr) -> Expr:
    """True for NaN; False for every integer."""
    return call("isnan", x) if x.dtype.is_float else const(False, dt.bool_)


def isinf(x: Expr) -> Expr:
    """True for ±∞; False for every integer."""
    return call("isinf", x) if x.dtype.is_float else const(False, dt.bool_)


def isfinite(x: Expr) -> Expr:
    """True for everything but NaN and ±∞."""
    return lnot(lor(isnan(x), isinf(x)))


def bitnot(x: Expr) -> Expr:
    """All bits flipped; the negation of a bool."""
    return lnot(x) if x.dtype.is_bool else call("bitnot", x)


def sign(x: Expr) -> Expr:
    """-1, 0 or 1, 0 for -0; NaN for NaN."""
    zero, one = literal(0, x), literal(1, x)
    below = zero if x.dtype.kind == "uint" else select(lt(x, zero), literal(-1, x), zero)
    found = select(gt(x, zero), one, below)
    return select(isnan(x), x, found) if x.dtype.is_float else found


def truncdiv(a: Expr, b: Expr) -> Expr:
    """Integer a / b rounded towards zero; 0 where b is 0."""
    if a.dtype.kind == "uint":
        return arith.floordiv(a, b)
    quotient = arith.floordiv(a, b)
    zero, one = literal(0, a), literal(1, a)
    inexact = land(ne(b, zero), ne(a - quotient * b, zero))
    return select(land(inexact, lt(quotient, zero)), quotient + one, quotient)


def truncmod(a: Expr, b: Expr) -> Expr:
    """Integer remainder with the sign of a; 0 where b is 0."""
    if a.dtype.kind == "uint":
        return arith.floormod(a, b)
    return select(eq(b, literal(0, b)), literal(0, a), a - truncdiv(a, b) * b)
