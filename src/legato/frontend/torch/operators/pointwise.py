"""Arithmetic of two operands, element by element."""

from __future__ import annotations

from collections.abc import Callable

from legato.base.dtype import DType
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Number, Value
from legato.frontend.torch.operators._operands import combined, is_negative, larger, smaller
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


def _scaled(b: Emitter, f: Callable[..., Expr], x: Value, y: Value, alpha: Number) -> Expr:
    """f(x, alpha·y); alpha is a number of the result's dtype, also where that is computed in a wider one."""
    if type(alpha) in (int, float) and alpha == 1:
        return combined(b, f, x, y)
    scale = b.operand(alpha, b.result_dtype(x, y))
    return combined(b, lambda p, q: f(p, b.multiply(q, b.to(scale, b.dtype(q)))), x, y, steps=True)


@aten("add")
def add(b: Emitter, self: Value, other: Value, *, alpha: Number = 1) -> Expr:
    """Of truth values: whether either holds; they have no `alpha` but True and False."""
    if b.result_dtype(self, other).is_bool:
        return combined(b, b.logical_or, self, other) if alpha else combined(b, lambda x, _: x, self, other)
    return _scaled(b, b.add, self, other, alpha)


@aten("sub")
def sub(b: Emitter, self: Value, other: Value, *, alpha: Number = 1) -> Expr:
    return _scaled(b, b.subtract, self, other, alpha)


@aten("rsub")
def rsub(b: Emitter, self: Value, other: Value, *, alpha: Number = 1) -> Expr:
    return _scaled(b, b.subtract, other, self, alpha)


@aten("mul")
def mul(b: Emitter, self: Value, other: Value) -> Expr:
    of_bools = b.result_dtype(self, other).is_bool
    return combined(b, b.logical_and if of_bools else b.multiply, self, other, all_digits=True)


# ------------------------------------------------------------------ quotients and remainders


@aten("div")
def div(b: Emitter, self: Value, other: Value, *, rounding_mode: str | None = None) -> Expr:
    """Of integers a float, unless rounded."""
    if rounding_mode is None:
        return combined(b, b.divide, self, other, to_float=True, all_digits=True)
    if rounding_mode not in ("floor", "trunc"):
        raise UnsupportedError(f"rounding_mode={rounding_mode!r}", hint="None, 'floor' or 'trunc'")
    is_float = b.result_dtype(self, other).is_float
    if rounding_mode == "trunc":
        return combined(b, (lambda x, y: b.trunc(b.divide(x, y))) if is_float else b.trunc_divide, self, other)
    floor = (lambda x, y: _floor_quotient(b, x, y)) if is_float else b.floor_divide
    return combined(b, floor, self, other, steps=True)


def _floor_quotient(b: Emitter, x: Expr, y: Expr) -> Expr:
    """x // y of floats, as Python has it: by the remainder, so that 1 // 0.1 is 9, not the 10 that 1 / 0.1 is."""
    zero, one, rest, quotient = b.like(0, x), b.like(1, x), b.mod(x, y), b.divide(x, y)
    whole = b.divide(b.subtract(x, rest), y)
    below = b.logical_and(b.not_equal(rest, zero), b.logical_xor(b.less(y, zero), b.less(rest, zero)))
    whole = b.where(below, b.subtract(whole, one), whole)
    down = b.floor(whole)
    down = b.where(b.greater(b.subtract(whole, down), b.like(0.5, x)), b.add(down, one), down)
    signed = b.where(is_negative(b, quotient), b.negative(zero), zero)
    found = b.where(b.equal(whole, zero), signed, down)
    return b.where(b.equal(y, zero), quotient, found)


@aten("true_divide")
def true_divide(b: Emitter, self: Value, other: Value) -> Expr:
    return div(b, self, other)


@aten("fmod")
def fmod(b: Emitter, self: Value, other: Value) -> Expr:
    return combined(b, b.mod, self, other)


@aten("remainder")
def remainder(b: Emitter, self: Value, other: Value) -> Expr:
    """With the sign of the divisor; a zero has that of the dividend."""

    def of_floats(x: Expr, y: Expr) -> Expr:
        zero, rest = b.like(0, x), b.mod(x, y)
        differs = b.logical_and(b.not_equal(rest, zero), b.logical_xor(b.less(y, zero), b.less(rest, zero)))
        return b.where(differs, b.add(rest, y), rest)

    is_float = b.result_dtype(self, other).is_float
    return combined(b, of_floats if is_float else b.floor_mod, self, other, steps=True)


# ------------------------------------------------------------------ powers


@aten("pow")
def pow_(b: Emitter, self: Value, exponent: Value) -> Expr:
    """Small exponents that are known are products and roots, as in PyTorch: the root of -inf is NaN, not inf."""
    dtype = b.result_dtype(self, exponent)
    if dtype.is_bool:
        raise UnsupportedError("powers of truth values", hint="convert to int64 before")
    if isinstance(exponent, int | float) and (short := _short_power(b, exponent, dtype)) is not None:
        return combined(b, lambda x, _: short(x), self, exponent, steps=True)
    return combined(b, b.power, self, exponent)


def _short_power(b: Emitter, exponent: float, dtype: DType) -> Callable[[Expr], Expr] | None:
    known: dict[float, Callable[[Expr], Expr]] = {2: lambda x: b.multiply(x, x)}
    if dtype.is_float:
        known |= {
            3: lambda x: b.multiply(b.multiply(x, x), x),
            0.5: b.sqrt,
            -0.5: b.rsqrt,
            -1: lambda x: b.divide(b.like(1, x), x),
        }
    return known.get(exponent)


# ------------------------------------------------------------------ the larger and the smaller


@aten("maximum")
def maximum(b: Emitter, self: Expr, other: Expr) -> Expr:
    """NaN where either is."""
    return combined(b, larger(b, b.result_dtype(self, other)), self, other)


@aten("minimum")
def minimum(b: Emitter, self: Expr, other: Expr) -> Expr:
    """NaN where either is."""
    return combined(b, smaller(b, b.result_dtype(self, other)), self, other)


@aten("fmax")
def fmax(b: Emitter, self: Expr, other: Expr) -> Expr:
    """NaN only where both are."""
    return combined(b, _but_nan(b, larger(b, b.result_dtype(self, other))), self, other)


@aten("fmin")
def fmin(b: Emitter, self: Expr, other: Expr) -> Expr:
    """NaN only where both are."""
    return combined(b, _but_nan(b, smaller(b, b.result_dtype(self, other))), self, other)


def _but_nan(b: Emitter, f: Callable[..., Expr]) -> Callable[..., Expr]:
    def run(x: Expr, y: Expr) -> Expr:
        if not b.dtype(x).is_float:
            return f(x, y)
        return b.where(b.isnan(x), y, b.where(b.isnan(y), x, f(x, y)))

    return run


# ------------------------------------------------------------------ others


@aten("copysign")
def copysign(b: Emitter, self: Value, other: Value) -> Expr:
    def signed(x: Expr, y: Expr) -> Expr:
        return b.where(b.logical_xor(is_negative(b, x), is_negative(b, y)), b.negative(x), x)

    return combined(b, signed, self, other, to_float=True)


@aten("hypot")
def hypot(b: Emitter, self: Expr, other: Expr) -> Expr:
    """By the larger of the two, so that squares neither overflow nor vanish; inf where either is."""

    def root(x: Expr, y: Expr) -> Expr:
        x, y = b.abs(x), b.abs(y)
        most, least, zero = b.maximum(x, y), b.minimum(x, y), b.like(0, x)
        ratio = b.divide(least, b.where(b.equal(most, zero), b.like(1, x), most))
        found = b.multiply(most, b.sqrt(b.add(b.multiply(ratio, ratio), b.like(1, x))))
        return b.where(b.logical_or(b.isinf(x), b.isinf(y)), b.like(float("inf"), x), found)

    return combined(b, root, self, other, steps=True)


@aten("nextafter")
def nextafter(b: Emitter, self: Expr, other: Expr) -> Expr:
    """The bits of a float, as an integer, one up or down: away from zero or towards it."""

    def stepped(x: Expr, y: Expr) -> Expr:
        bits, zero = b.reinterpret(x, dtype=f"int{b.dtype(x).bits}"), b.like(0, x)
        one, up = b.like(1, bits), b.greater(y, x)
        outward = b.equal(up, b.greater(x, zero))
        moved = b.reinterpret(b.where(outward, b.add(bits, one), b.subtract(bits, one)), dtype=b.dtype(x))
        least = b.reinterpret(one, dtype=b.dtype(x))
        moved = b.where(b.equal(x, zero), b.where(up, least, b.negative(least)), moved)
        is_nan = b.logical_or(b.isnan(x), b.isnan(y))
        return b.where(is_nan, b.add(x, y), b.where(b.equal(x, y), y, moved))

    return combined(b, stepped, self, other)


@aten("ldexp.Tensor")
def ldexp(b: Emitter, self: Expr, other: Expr) -> Expr:
    def scaled(x: Expr, n: Expr) -> Expr:
        return b.multiply(x, b.power(b.like(2, n), n))

    return combined(b, scaled, self, other, to_float=True, steps=True)
