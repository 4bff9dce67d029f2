"""Functions of one tensor, element by element. Integers are floats in those that give floats."""

from __future__ import annotations

import math

from legato.base.dtype import bool_
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.operators._operands import as_bool, is_negative, widened
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

# ------------------------------------------------------------------ that give floats


@aten("acos")
def acos(b: Emitter, self: Expr) -> Expr:
    return b.acos(b.as_float(self))


@aten("acosh")
def acosh(b: Emitter, self: Expr) -> Expr:
    return b.acosh(b.as_float(self))


@aten("asin")
def asin(b: Emitter, self: Expr) -> Expr:
    return b.asin(b.as_float(self))


@aten("asinh")
def asinh(b: Emitter, self: Expr) -> Expr:
    return b.asinh(b.as_float(self))


@aten("atan")
def atan(b: Emitter, self: Expr) -> Expr:
    return b.atan(b.as_float(self))


@aten("atanh")
def atanh(b: Emitter, self: Expr) -> Expr:
    return b.atanh(b.as_float(self))


@aten("cos")
def cos(b: Emitter, self: Expr) -> Expr:
    return b.cos(b.as_float(self))


@aten("cosh")
def cosh(b: Emitter, self: Expr) -> Expr:
    return b.cosh(b.as_float(self))


@aten("erf")
def erf(b: Emitter, self: Expr) -> Expr:
    return b.erf(b.as_float(self))


@aten("exp")
def exp(b: Emitter, self: Expr) -> Expr:
    return b.exp(b.as_float(self))


@aten("exp2")
def exp2(b: Emitter, self: Expr) -> Expr:
    x = b.as_float(self)
    return b.power(b.like(2, x), x)


@aten("log")
def log(b: Emitter, self: Expr) -> Expr:
    return b.log(b.as_float(self))


@aten("log10")
def log10(b: Emitter, self: Expr) -> Expr:
    return b.log10(b.as_float(self))


@aten("log2")
def log2(b: Emitter, self: Expr) -> Expr:
    return b.log2(b.as_float(self))


@aten("reciprocal")
def reciprocal(b: Emitter, self: Expr) -> Expr:
    x = b.as_float(self)
    return b.divide(b.like(1, x), x)


@aten("rsqrt")
def rsqrt(b: Emitter, self: Expr) -> Expr:
    return b.rsqrt(b.as_float(self))


@aten("sigmoid")
def sigmoid(b: Emitter, self: Expr) -> Expr:
    return b.sigmoid(b.as_float(self))


@aten("sin")
def sin(b: Emitter, self: Expr) -> Expr:
    return b.sin(b.as_float(self))


@aten("sinh")
def sinh(b: Emitter, self: Expr) -> Expr:
    return b.sinh(b.as_float(self))


@aten("sqrt")
def sqrt(b: Emitter, self: Expr) -> Expr:
    return b.sqrt(b.as_float(self))


@aten("tan")
def tan(b: Emitter, self: Expr) -> Expr:
    return b.tan(b.as_float(self))


@aten("tanh")
def tanh(b: Emitter, self: Expr) -> Expr:
    return b.tanh(b.as_float(self))


# ------------------------------------------------------------------ of any numbers


@aten("abs")
def abs_(b: Emitter, self: Expr) -> Expr:
    return self if b.dtype(self).is_bool else b.abs(self)


@aten("neg")
def neg(b: Emitter, self: Expr) -> Expr:
    return b.negative(self)


@aten("sign")
def sign(b: Emitter, self: Expr) -> Expr:
    """0 for NaN."""
    if b.dtype(self).is_bool:
        return self
    found = b.sign(self)
    return b.where(b.isnan(self), b.like(0, self), found) if b.dtype(self).is_float else found


@aten("angle")
def angle(b: Emitter, self: Expr) -> Expr:
    """π below 0, else 0; NaN for NaN."""
    x = b.as_float(self)
    found = b.where(b.less(x, b.like(0, x)), b.like(math.pi, x), b.like(0, x))
    return b.where(b.isnan(x), x, found)


@aten("sgn")
def sgn(b: Emitter, self: Expr) -> Expr:
    return sign(b, self)


@aten("signbit")
def signbit(b: Emitter, self: Expr) -> Expr:
    return is_negative(b, self)


@aten("floor")
def floor(b: Emitter, self: Expr) -> Expr:
    return b.floor(self)


@aten("ceil")
def ceil(b: Emitter, self: Expr) -> Expr:
    return b.ceil(self)


@aten("trunc")
def trunc(b: Emitter, self: Expr) -> Expr:
    return b.trunc(self)


@aten("round")
def round_(b: Emitter, self: Expr) -> Expr:
    return b.round(self)


@aten("round.decimals")
def round_decimals(b: Emitter, self: Expr, *, decimals: int = 0) -> Expr:
    """By a power of ten, as PyTorch does it: 0.15 of one decimal is 0.2, since 0.15·10 is 1.5."""
    if not b.dtype(self).is_float:
        raise UnsupportedError(f"decimals of {b.dtype(self)}", hint="convert to float32 before")
    if not decimals:
        return b.round(self)

    def scaled(x: Expr) -> Expr:
        ten = b.like(10.0 ** abs(decimals), x)
        there, back = (b.multiply, b.divide) if decimals > 0 else (b.divide, b.multiply)
        return back(b.round(there(x, ten)), ten)

    return widened(b, scaled, self)


# ------------------------------------------------------------------ truth values


@aten("isnan")
def isnan(b: Emitter, self: Expr) -> Expr:
    return b.isnan(self) if b.dtype(self).is_float else b.zeros_of(b.dims_of(self), bool_, False)


@aten("isinf")
def isinf(b: Emitter, self: Expr) -> Expr:
    return b.isinf(self) if b.dtype(self).is_float else b.zeros_of(b.dims_of(self), bool_, False)


@aten("isfinite")
def isfinite(b: Emitter, self: Expr) -> Expr:
    return b.isfinite(self) if b.dtype(self).is_float else b.zeros_of(b.dims_of(self), bool_, True)


@aten("logical_not")
def logical_not(b: Emitter, self: Expr) -> Expr:
    return b.logical_not(as_bool(b, self))


@aten("bitwise_not")
def bitwise_not(b: Emitter, self: Expr) -> Expr:
    return b.bitwise_not(self)
