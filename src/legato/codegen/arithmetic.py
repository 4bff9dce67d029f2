"""Operators and conversions on values: LLVM instructions for each dtype, total at every edge."""

from __future__ import annotations

from legato.arith.expr import Op
from legato.arith.fold import COMPARISONS, fold
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.base.formats import IntFormat
from legato.base.storage import carrier
from legato.codegen import half, lowbit
from legato.codegen.builder import Builder
from legato.codegen.value import TYPES, Value, boolean, float_text, literal, vector_constant

__all__ = ["Arithmetic"]

_FLOAT = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv",
          Op.LT: "fcmp olt", Op.LE: "fcmp ole", Op.EQ: "fcmp oeq", Op.NE: "fcmp une"}  # fmt: skip
_INT = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.BITAND: "and", Op.BITOR: "or", Op.BITXOR: "xor",
        Op.EQ: "icmp eq", Op.NE: "icmp ne"}  # fmt: skip
_SIGNED = {Op.LT: "icmp slt", Op.LE: "icmp sle", Op.MIN: "llvm.smin", Op.MAX: "llvm.smax", Op.SHR: "ashr"}
_UNSIGNED = {Op.LT: "icmp ult", Op.LE: "icmp ule", Op.MIN: "llvm.umin", Op.MAX: "llvm.umax", Op.SHR: "lshr"}
_BOOL = {Op.ADD: "or", Op.OR: "or", Op.BITOR: "or", Op.MAX: "or", Op.MUL: "and", Op.AND: "and", Op.BITAND: "and",
         Op.MIN: "and", Op.BITXOR: "xor", Op.EQ: "icmp eq", Op.NE: "icmp ne", Op.LT: "icmp ult",
         Op.LE: "icmp ule"}  # fmt: skip


class Arithmetic:
    """Emits operators through a builder; `f16c` says whether the target converts to float16 in hardware."""

    def __init__(self, builder: Builder, *, f16c: bool) -> None:
        self.b, self.f16c = builder, f16c

    def rounded(self, v: Value, dtype: DType) -> Value:
        """The result `v` of an operation, rounded to the dtype where registers are wider."""
        if dtype.bits != 16 or not dtype.is_float:
            return v
        return half.round_to(self.b, v, dtype.name, f16c=self.f16c)

    def binary(self, op: Op, a: Value, b: Value, dtype: DType, *, unsigned: bool = False) -> Value:
        """`a op b` on operands of `dtype`. `unsigned`: an index division whose dividend is known not to be negative."""
        if dtype.is_float:
            return self._float(op, a, b, dtype)
        if a.const is not None and b.const is not None:
            return _folded(op, a, b, dtype)
        if dtype.is_bool:
            return self._bool(op, a, b)
        if op in (Op.FLOORDIV, Op.FLOORMOD):
            return self._divide(op, a, b, dtype, unsigned=unsigned)
        return self._integer(op, a, b, dtype)

    def _float(self, op: Op, a: Value, b: Value, dtype: DType) -> Value:
        if op in (Op.MIN, Op.MAX):
            return self._extreme("fcmp olt" if op is Op.MIN else "fcmp ogt", a, b)
        opcode = _FLOAT.get(op)
        if opcode is None:
            raise InternalError(f"{op.value} has no instruction on {dtype}")
        if op in COMPARISONS:
            return self.b.binary(opcode, a, b, "i1")
        return self.rounded(self.b.binary(opcode, a, b), dtype)

    def _extreme(self, compare: str, a: Value, b: Value) -> Value:
        """min or max; NaN if either is. The machine's instruction gives b where either is NaN."""
        if b.const is not None and b.const == b.const:
            a, b = b, a
        best = self.b.select(self.b.binary(compare, a, b, "i1"), a, b)
        if a.const is not None and a.const == a.const:
            return best
        # This way round it is one instruction under a mask, where the machine has these.
        return self.b.select(self.b.binary("fcmp ord", a, a, "i1"), best, a)

    def _bool(self, op: Op, a: Value, b: Value) -> Value:
        opcode = _BOOL.get(op)
        if opcode is None:
            raise InternalError(f"{op.value} has no instruction on bool")
        for x, y in ((a, b), (b, a)):
            if x.lanes == 1 and x.const is not None:
                if opcode == "and":
                    return y if x.const else x
                if opcode == "or":
                    return x if x.const else y
        return self.b.binary(opcode, a, b, "i1", hoist=True)

    def _integer(self, op: Op, a: Value, b: Value, dtype: DType) -> Value:
        opcode = _INT.get(op) or (_UNSIGNED if dtype.kind == "uint" else _SIGNED).get(op)
        hoist = dtype is dt.index
        if op in (Op.SHL, Op.SHR):
            count = self.b.binary("and", b, literal(dtype.bits - 1, dtype), hoist=hoist)
            return self.b.binary(opcode or "shl", a, count, hoist=hoist)
        if opcode is None:
            raise InternalError(f"{op.value} has no instruction on {dtype}")
        if op in (Op.MIN, Op.MAX):
            return self.b.call(opcode, a, b, hoist=hoist)
        return self.b.binary(opcode, a, b, "i1" if op in COMPARISONS else "", hoist=hoist)

    # ---------------------------------------------------------------------------------------------- integer division

    def _divide(self, op: Op, a: Value, b: Value, dtype: DType, *, unsigned: bool) -> Value:
        if isinstance(b.const, int) and b.lanes == 1:
            return self._divide_by_literal(op, a, b.const, dtype, unsigned=unsigned)
        zero, one, hoist = literal(0, dtype), literal(1, dtype), dtype is dt.index
        by_zero = self.b.binary("icmp eq", b, zero, "i1", hoist=hoist)
        if dtype.kind == "uint":
            safe = self.b.select(by_zero, one, b, hoist=hoist)
            result = self.b.binary("udiv" if op is Op.FLOORDIV else "urem", a, safe, hoist=hoist)
            return self.b.select(by_zero, zero, result, hoist=hoist)
        # The machine traps on x / 0 and on the smallest value / -1: both divide by 1 instead.
        by_minus_one = self.b.binary("icmp eq", b, literal(-1, dtype), "i1", hoist=hoist)
        unsafe = self.b.binary("or", by_zero, by_minus_one, hoist=hoist)
        quotient, rest = self._floor(a, self.b.select(unsafe, one, b, hoist=hoist), dtype)
        if op is Op.FLOORMOD:
            return rest
        negated = self.b.binary("sub", zero, a, hoist=hoist)
        quotient = self.b.select(by_minus_one, negated, quotient, hoist=hoist)
        return self.b.select(by_zero, zero, quotient, hoist=hoist)

    def _floor(self, a: Value, b: Value, dtype: DType) -> tuple[Value, Value]:
        """Floor quotient and remainder for divisors other than 0 and -1."""
        builder, hoist, zero = self.b, dtype is dt.index, literal(0, dtype)
        quotient = builder.binary("sdiv", a, b, hoist=hoist)
        rest = builder.binary("sub", a, builder.binary("mul", quotient, b, hoist=hoist), hoist=hoist)
        inexact = builder.binary("icmp ne", rest, zero, "i1", hoist=hoist)
        signs = builder.binary("xor", rest, b, hoist=hoist)
        apart = builder.binary("icmp slt", signs, zero, "i1", hoist=hoist)
        adjust = builder.binary("and", inexact, apart, hoist=hoist)
        lower = builder.binary("sub", quotient, literal(1, dtype), hoist=hoist)
        return (
            builder.select(adjust, lower, quotient, hoist=hoist),
            builder.select(adjust, builder.binary("add", rest, b, hoist=hoist), rest, hoist=hoist),
        )

    def _divide_by_literal(self, op: Op, a: Value, divisor: int, dtype: DType, *, unsigned: bool) -> Value:
        hoist, quotient = dtype is dt.index, op is Op.FLOORDIV
        if divisor == 0 or (divisor in (1, -1) and not quotient):
            return literal(0, dtype)
        if divisor in (1, -1):
            return a if divisor == 1 else self.b.binary("sub", literal(0, dtype), a, hoist=hoist)
        unsigned = unsigned or dtype.kind == "uint"
        by = literal(divisor, dtype)
        if divisor > 0 and divisor & (divisor - 1) == 0:
            if not quotient:
                return self.b.binary("and", a, literal(divisor - 1, dtype), hoist=hoist)
            shift = literal(divisor.bit_length() - 1, dtype)
            return self.b.binary("lshr" if unsigned else "ashr", a, shift, hoist=hoist)
        if unsigned and divisor > 0:
            return self.b.binary("udiv" if quotient else "urem", a, by, hoist=hoist)
        return self._floor(a, by, dtype)[0 if quotient else 1]

    # ---------------------------------------------------------------------------------------------- conversions

    def cast(self, v: Value, source: DType, target: DType) -> Value:
        """`v` of dtype `source` as `target`."""
        if source == target:
            return v
        if source.is_storage:
            return self.cast(lowbit.decode(self.b, v, source.format), carrier(source), target)
        if target.is_storage:
            return lowbit.encode(self.b, self._encodable(v, source, target), target.format)
        if target.is_bool:
            return self._to_bool(v, source)
        if source.is_float:
            return self._float_to_float(v, source, target) if target.is_float else self._float_to_int(v, target)
        if target.is_float:
            return self._int_to_float(v, source, target)
        return self._int_to_int(v, source, target)

    def _encodable(self, v: Value, source: DType, target: DType) -> Value:
        """`v` as a float or i8 of which a single rounding, or the last bits, make a code."""
        if isinstance(target.format, IntFormat):
            return self._float_to_int(v, target) if source.is_float else self.cast(v, source, dt.uint8)
        return half.narrow_to_odd(self.b, v) if source is dt.float64 else self.cast(v, source, dt.float32)

    def _to_bool(self, v: Value, source: DType) -> Value:
        if source.is_float:
            return self.b.binary("fcmp une", v, literal(0.0, source), "i1")
        return self.binary(Op.NE, v, literal(0, source), source)

    def _int_to_int(self, v: Value, source: DType, target: DType) -> Value:
        hoist = source is dt.index or source.is_bool
        if isinstance(v.const, tuple):
            wrapped = tuple([int(literal_wrap(int(x), target)) for x in v.const])
            return vector_constant(wrapped, TYPES[target.name])
        if v.const is not None:
            return literal(literal_wrap(int(v.const), target), target)
        if source.is_bool:
            return self.b.unary("zext", v, TYPES[target.name], hoist=hoist)
        if source.bits == target.bits:
            return v
        if source.bits > target.bits:
            return self.b.unary("trunc", v, TYPES[target.name], hoist=hoist)
        return self.b.unary("zext" if source.kind == "uint" else "sext", v, TYPES[target.name], hoist=hoist)

    def _int_to_float(self, v: Value, source: DType, target: DType) -> Value:
        if isinstance(v.const, tuple):
            ints = vector_constant(tuple([int(x) for x in v.const]), "i64")
            return self.rounded(self.b.unary("sitofp", ints, TYPES[target.name]), target)
        if v.const is not None:
            return literal(int(v.const), target)
        if target.bits == 16 and source.bits > 16:
            # Through float64: a float32 in between would round large integers twice.
            wide = self._int_to_float(v, source, dt.float64)
            return self._float_to_float(wide, dt.float64, target)
        signed = source.kind == "int" or source is dt.index
        return self.rounded(self.b.unary("sitofp" if signed else "uitofp", v, TYPES[target.name]), target)

    def _float_to_float(self, v: Value, source: DType, target: DType) -> Value:
        if source is dt.float64:
            if target.bits == 16:
                return self.rounded(half.narrow_to_odd(self.b, v), target)
            return self.b.unary("fptrunc", v, "float")
        if target is dt.float64:
            return self.b.unary("fpext", v, "double")
        return v if target is dt.float32 else self.rounded(v, target)

    def _float_to_int(self, v: Value, target: DType) -> Value:
        """Towards zero, saturating, NaN to 0; clamped before the conversion, whose edge cases LLVM leaves undefined."""
        if target is dt.index:
            target = dt.int64
        b, ty = self.b, v.ty
        zero = Value(float_text(0.0, ty), ty, 1, 0, 0.0)
        v = b.select(b.binary("fcmp uno", v, v, "i1"), zero, v)
        low, high = _largest_within(target, ty)
        lower = Value(float_text(low, ty), ty, 1, 0, low)
        upper = Value(float_text(high, ty), ty, 1, 0, high)
        clamped = b.select(b.binary("fcmp ogt", lower, v, "i1"), lower, v)
        clamped = b.select(b.binary("fcmp olt", upper, clamped, "i1"), upper, clamped)
        if target.bits < 32:
            return b.unary("trunc", b.unary("fptosi", clamped, "i32"), TYPES[target.name])
        opcode = "fptoui" if target.kind == "uint" else "fptosi"
        result = b.unary(opcode, clamped, TYPES[target.name])
        if high == target.max:
            return result
        return b.select(b.binary("fcmp ogt", v, upper, "i1"), literal(target.max, target), result)


def literal_wrap(value: int, dtype: DType) -> int:
    """`value` in the range of `dtype`."""
    if not dtype.is_int:
        return value
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.max else value


def _largest_within(target: DType, ty: str) -> tuple[float, float]:
    """The smallest and the largest float of LLVM type `ty` that are in the range of an integer type."""
    precision = 24 if ty == "float" else 53
    digits = target.max.bit_length()
    high = target.max if digits <= precision else (1 << digits) - (1 << (digits - precision))
    return float(target.min), float(high)


def _folded(op: Op, a: Value, b: Value, dtype: DType) -> Value:
    lanes = max(a.lanes, b.lanes)
    xs = a.const if isinstance(a.const, tuple) else (a.const,) * lanes
    ys = b.const if isinstance(b.const, tuple) else (b.const,) * lanes
    results = []
    for x, y in zip(xs, ys, strict=True):
        assert x is not None
        assert y is not None
        result = fold(op, x, y, dtype)
        if result is None:
            raise InternalError(f"{op.value} has no meaning on {dtype}")
        results.append(result)
    if op in COMPARISONS or dtype.is_bool:
        truths = tuple([bool(x) for x in results])
        return boolean(truths[0]) if lanes == 1 else vector_constant(truths, "i1")
    ints = tuple([int(x) for x in results])
    return vector_constant(ints, TYPES[dtype.name])
