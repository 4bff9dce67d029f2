"""Arithmetic on values of one float type, for the bodies of elementary functions."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.target import Target
from legato.codegen.builder import Builder
from legato.codegen.value import Value, float_text

__all__ = ["Floats"]


class Floats:
    """Emits float instructions of LLVM type `ty` (float or double). Scalars and vectors mix: literals are scalars."""

    def __init__(self, builder: Builder, ty: str, target: Target) -> None:
        self.b, self.ty, self.target = builder, ty, target
        self.wide = ty == "double"
        self.ity = "i64" if self.wide else "i32"
        self.mantissa = 52 if self.wide else 23
        self.bias = 1023 if self.wide else 127
        self.inf = self.const(float("inf"))
        self.nan = self.const(float("nan"))
        self.one = self.const(1.0)

    def as_double(self) -> Floats:
        """The same in float64."""
        return self if self.wide else Floats(self.b, "double", self.target)

    # ---------------------------------------------------------------------------------------------- literals

    def const(self, value: float) -> Value:
        """A literal, rounded to the type."""
        return Value(float_text(value, self.ty), self.ty, 1, 0, value)

    def pick(self, for_float: float, for_double: float) -> Value:
        """One literal or the other, by type."""
        return self.const(for_double if self.wide else for_float)

    def int(self, value: int) -> Value:
        """An integer literal as wide as the type."""
        return Value(str(value), self.ity, 1, 0, value)

    # ---------------------------------------------------------------------------------------------- arithmetic

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self.b.binary("fadd", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """a − b."""
        return self.b.binary("fsub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """a · b."""
        return self.b.binary("fmul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """a / b."""
        return self.b.binary("fdiv", a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a · b + c, with one rounding where the target can."""
        if self.target.fma:
            return self.b.call("llvm.fma", a, b, c)
        return self.add(self.mul(a, b), c)

    def neg(self, a: Value) -> Value:
        """−a."""
        full = self.ty if a.lanes == 1 else f"<{a.lanes} x {self.ty}>"
        return self.b.inline(f"fneg {full} {a.text}", self.ty, a.lanes)

    def abs(self, a: Value) -> Value:
        """|a|."""
        return self.b.call("llvm.fabs", a)

    def sqrt(self, a: Value) -> Value:
        """√a, correctly rounded."""
        return self.b.call("llvm.sqrt", a)

    def trunc(self, a: Value) -> Value:
        """a rounded towards zero."""
        return self.b.call("llvm.trunc", a)

    def floor(self, a: Value) -> Value:
        """a rounded towards minus infinity."""
        return self.b.call("llvm.floor", a)

    def copysign(self, size: Value, sign: Value) -> Value:
        """|size| with the sign of `sign`."""
        return self.b.call("llvm.copysign", size, sign)

    def polynomial(self, coefficients: tuple[Sequence[float], Sequence[float]], x: Value) -> Value:
        """Horner's rule on the coefficients (lowest first) for this type."""
        chosen = coefficients[self.wide]
        result = self.const(chosen[-1])
        for c in reversed(chosen[:-1]):
            result = self.fma(result, x, self.const(c))
        return result

    # ---------------------------------------------------------------------------------------------- choices

    def compare(self, how: str, a: Value, b: Value) -> Value:
        """`fcmp how a, b`: olt, oge, oeq, uno…"""
        return self.b.binary(f"fcmp {how}", a, b, "i1")

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        """a where cond, else b."""
        return self.b.select(cond, a, b)

    def at_most(self, x: Value, high: Value) -> Value:
        """min(x, high); NaN stays."""
        return self.select(self.compare("olt", high, x), high, x)

    def at_least(self, x: Value, low: Value) -> Value:
        """max(x, low); NaN stays."""
        return self.select(self.compare("ogt", low, x), low, x)

    # ---------------------------------------------------------------------------------------------- bits

    def bits(self, a: Value) -> Value:
        """The bits of a float as an integer."""
        return self.b.unary("bitcast", a, self.ity)

    def from_bits(self, a: Value) -> Value:
        """The float with these bits."""
        return self.b.unary("bitcast", a, self.ty)

    def ints(self, opcode: str, a: Value, b: Value) -> Value:
        """An integer instruction."""
        return self.b.binary(opcode, a, b)

    def power_of_two(self, n: Value) -> Value:
        """2ⁿ for an integer n whose power is a normal number."""
        biased = self.ints("add", n, self.int(self.bias))
        return self.from_bits(self.ints("shl", biased, self.int(self.mantissa)))

    def nearest(self, x: Value) -> tuple[Value, Value]:
        """x rounded to an integer, half to even, as a float and as an integer; |x| < 2^22 (2^51 in float64)."""
        magic = 1.5 * 2.0**self.mantissa
        return self._split(self.add(x, self.const(magic)), magic)

    def nearest_product(self, x: Value, factor: Value) -> tuple[Value, Value]:
        """`nearest` of x · factor."""
        magic = 1.5 * 2.0**self.mantissa
        return self._split(self.fma(x, factor, self.const(magic)), magic)

    def _split(self, shifted: Value, magic: float) -> tuple[Value, Value]:
        whole = self.sub(shifted, self.const(magic))
        exponent = self.bias + self.mantissa
        magic_bits = (exponent << self.mantissa) | (1 << (self.mantissa - 1))
        return whole, self.ints("sub", self.bits(shifted), self.int(magic_bits))
