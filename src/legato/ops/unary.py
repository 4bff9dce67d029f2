"""Elementwise functions of one tensor."""

from __future__ import annotations

import math

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, const
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.ir.op import Sample
from legato.ir.types import Dim
from legato.ops._families import EDGES, Array, Scalar, unary
from legato.ops._rules import NUMBER
from legato.tir.intrinsics import INTRINSICS


def _any(d: DType) -> bool:
    return True


def _bits(d: DType) -> bool:
    return not d.is_float


def _bool(d: DType) -> bool:
    return d.is_bool


_bits.__name__, _bool.__name__ = "an integer dtype or bool", "bool"
_INTS = [Sample((np.array([0, 1, -1, 5, -128, 127], np.int8),), exact=True), Sample((((2, 3), "int64"),), exact=True)]
_WORDS = [Sample((np.array([0, 1, 200, 255], np.uint8),), exact=True)]
_FLOATS = [Sample((((3, 5), "float32"),)), Sample((EDGES,)), Sample((((4,), "float16"),))]
_FLAGS = [Sample((np.array([True, False]),), exact=True)]
# Between the poles of tan and in the domains of the inverse functions, values that random data would miss.
_ROUND = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0, -8388607.5, np.nan, np.inf, -np.inf], np.float32)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def _erf(x: Array) -> Array:
    return np.asarray(INTRINSICS["erf"].reference(x))


def _rsqrt(x: Array) -> Array:
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def _sign(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.sign(x)) if x.dtype.kind not in "iub" else np.sign(x)


def _log_by(base: float) -> Scalar:
    def scalar(x: Expr) -> Expr:
        return te.log(x) * te.literal(1 / math.log(base), x)

    return scalar


def _dim_sign(d: Dim) -> Dim:
    return te.select(te.gt(d, 0), const(1), te.select(te.lt(d, 0), const(-1), const(0)))


def _dim_abs(d: Dim) -> Dim:
    return te.max_(d, -d)


def _not_dim(d: Dim) -> Dim:
    return te.select(te.eq(d, 0), const(1), const(0))


exp = unary("exp", np.exp, te.exp, grad=lambda b, x, y, dy: b.multiply(dy, y), doc="e to the power x.")
log = unary(
    "log", np.log, te.log, grad=lambda b, x, y, dy: b.divide(dy, x), doc="Natural logarithm; -inf at 0, NaN below."
)
log2 = unary(
    "log2",
    np.log2,
    _log_by(2),
    grad=lambda b, x, y, dy: b.divide(dy, b.multiply(x, math.log(2))),
    doc="Logarithm to base 2.",
)
log10 = unary(
    "log10",
    np.log10,
    _log_by(10),
    grad=lambda b, x, y, dy: b.divide(dy, b.multiply(x, math.log(10))),
    doc="Logarithm to base 10.",
)
sqrt = unary(
    "sqrt", np.sqrt, te.sqrt, grad=lambda b, x, y, dy: b.divide(b.multiply(dy, 0.5), y), doc="Square root; NaN below 0."
)
rsqrt = unary(
    "rsqrt",
    _rsqrt,
    te.rsqrt,
    grad=lambda b, x, y, dy: b.multiply(b.multiply(dy, -0.5), b.divide(y, x)),
    doc="1 / sqrt(x).",
)
sigmoid = unary(
    "sigmoid",
    _sigmoid,
    te.sigmoid,
    grad=lambda b, x, y, dy: b.multiply(dy, b.multiply(y, b.subtract(1, y))),
    doc="1 / (1 + exp(-x)).",
)
tanh = unary(
    "tanh",
    np.tanh,
    te.tanh,
    grad=lambda b, x, y, dy: b.multiply(dy, b.subtract(1, b.multiply(y, y))),
    doc="Hyperbolic tangent.",
)
erf = unary(
    "erf",
    _erf,
    te.erf,
    grad=lambda b, x, y, dy: b.multiply(dy, b.multiply(b.exp(b.negative(b.multiply(x, x))), 2 / math.sqrt(math.pi))),
    doc="The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x.",
)
sin = unary("sin", np.sin, te.sin, grad=lambda b, x, y, dy: b.multiply(dy, b.cos(x)), doc="Sine.")
cos = unary("cos", np.cos, te.cos, grad=lambda b, x, y, dy: b.negative(b.multiply(dy, b.sin(x))), doc="Cosine.")
tan = unary("tan", np.tan, te.tan, grad=lambda b, x, y, dy: b.multiply(dy, b.add(1, b.multiply(y, y))), doc="Tangent.")
asin = unary(
    "asin",
    np.arcsin,
    te.asin,
    grad=lambda b, x, y, dy: b.multiply(dy, b.rsqrt(b.subtract(1, b.multiply(x, x)))),
    doc="Arc sine; NaN outside [-1, 1].",
)
acos = unary(
    "acos",
    np.arccos,
    te.acos,
    grad=lambda b, x, y, dy: b.negative(b.multiply(dy, b.rsqrt(b.subtract(1, b.multiply(x, x))))),
    doc="Arc cosine; NaN outside [-1, 1].",
)
atan = unary(
    "atan", np.arctan, te.atan, grad=lambda b, x, y, dy: b.divide(dy, b.add(1, b.multiply(x, x))), doc="Arc tangent."
)
sinh = unary("sinh", np.sinh, te.sinh, grad=lambda b, x, y, dy: b.multiply(dy, b.cosh(x)), doc="Hyperbolic sine.")
cosh = unary("cosh", np.cosh, te.cosh, grad=lambda b, x, y, dy: b.multiply(dy, b.sinh(x)), doc="Hyperbolic cosine.")
asinh = unary(
    "asinh",
    np.arcsinh,
    te.asinh,
    grad=lambda b, x, y, dy: b.multiply(dy, b.rsqrt(b.add(b.multiply(x, x), 1))),
    doc="Inverse hyperbolic sine.",
)
acosh = unary(
    "acosh",
    np.arccosh,
    te.acosh,
    grad=lambda b, x, y, dy: b.multiply(dy, b.multiply(b.rsqrt(b.subtract(x, 1)), b.rsqrt(b.add(x, 1)))),
    doc="Inverse hyperbolic cosine; NaN below 1.",
)
atanh = unary(
    "atanh",
    np.arctanh,
    te.atanh,
    grad=lambda b, x, y, dy: b.divide(dy, b.subtract(1, b.multiply(x, x))),
    doc="Inverse hyperbolic tangent; NaN outside [-1, 1].",
)

negative = unary(
    "negative", np.negative, te.neg, dtypes=NUMBER, value=lambda d: -d, samples=[*_FLOATS, *_INTS, *_WORDS],
    grad=lambda b, x, y, dy: b.negative(dy), doc="-x; on integers it wraps.",
)  # fmt: skip
abs_ = unary(
    "abs", np.abs, te.abs_, dtypes=NUMBER, value=_dim_abs, samples=[*_FLOATS, *_INTS, *_WORDS],
    grad=lambda b, x, y, dy: b.multiply(dy, b.sign(x)), doc="|x|; the most negative integer stays itself.",
)  # fmt: skip
sign = unary(
    "sign", _sign, te.sign, dtypes=NUMBER, value=_dim_sign, samples=[*_FLOATS, *_INTS, *_WORDS],
    grad=lambda b, x, y, dy: None, doc="-1, 0 or 1; NaN for NaN.",
)  # fmt: skip
floor = unary(
    "floor", np.floor, te.floor, dtypes=NUMBER, exact=True, samples=[*_FLOATS, *_INTS, Sample((_ROUND,), exact=True)],
    grad=lambda b, x, y, dy: None, doc="Rounds down; the identity on integers.",
)  # fmt: skip
ceil = unary(
    "ceil", np.ceil, te.ceil, dtypes=NUMBER, exact=True, samples=[*_FLOATS, *_INTS, Sample((_ROUND,), exact=True)],
    grad=lambda b, x, y, dy: None, doc="Rounds up; the identity on integers.",
)  # fmt: skip
trunc = unary(
    "trunc", np.trunc, te.trunc, dtypes=NUMBER, exact=True, samples=[*_FLOATS, *_INTS, Sample((_ROUND,), exact=True)],
    grad=lambda b, x, y, dy: None, doc="Rounds towards zero; the identity on integers.",
)  # fmt: skip
round_ = unary(
    "round", np.rint, te.round_, dtypes=NUMBER, samples=[*_FLOATS, *_INTS, Sample((_ROUND,), exact=True)],
    grad=lambda b, x, y, dy: None,
    doc="Rounds to the nearest integer, halves to the even one; the identity on integers.",
)  # fmt: skip
isnan = unary(
    "isnan",
    np.isnan,
    te.isnan,
    dtypes=NUMBER,
    result=dt.bool_,
    samples=[*_FLOATS, *_INTS],
    grad=lambda b, x, y, dy: None,
    doc="True where x is NaN.",
)
isinf = unary(
    "isinf",
    np.isinf,
    te.isinf,
    dtypes=NUMBER,
    result=dt.bool_,
    samples=[*_FLOATS, *_INTS],
    grad=lambda b, x, y, dy: None,
    doc="True where x is +inf or -inf.",
)
isfinite = unary(
    "isfinite", np.isfinite, te.isfinite, dtypes=NUMBER, result=dt.bool_, samples=[*_FLOATS, *_INTS],
    grad=lambda b, x, y, dy: None, doc="True where x is neither NaN nor infinite.",
)  # fmt: skip
logical_not = unary(
    "logical_not", np.logical_not, te.lnot, dtypes=_bool, value=_not_dim, samples=_FLAGS,
    doc="Negation of a bool.",
)  # fmt: skip
bitwise_not = unary(
    "bitwise_not", np.invert, te.bitnot, dtypes=_bits, samples=[*_INTS, *_WORDS, *_FLAGS],
    doc="All bits flipped; the negation of a bool.",
)  # fmt: skip
copy = unary(
    "copy",
    np.copy,
    lambda x: x,
    dtypes=_any,
    value=lambda d: d,
    storage=True,
    samples=[*_FLOATS, *_INTS, *_FLAGS],
    grad=lambda b, x, y, dy: dy,
    doc="x itself.",
)
