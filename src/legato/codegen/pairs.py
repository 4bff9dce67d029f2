"""Pairs of bfloat16 in 32 bits, and their dot products: one instruction where the target has it.

Elsewhere a pair is taken apart into two floats by a shift and a mask. What is shared by several products is taken
apart once.
"""

from __future__ import annotations

from legato.codegen.builder import Builder
from legato.codegen.floats import Floats
from legato.codegen.value import Value

__all__ = ["dot2", "joined"]

_WIDTHS = {16: "512", 8: "256", 4: "128"}  # lanes of float32: name of the instruction's form


def dot2(m: Floats, total: Value, a: Value, b: Value) -> Value:
    """total + a.lo·b.lo + a.hi·b.hi, for pairs in the lanes of `a` and `b` (i32) and float32 sums."""
    lanes = max(total.lanes, a.lanes, b.lanes)
    if lanes in _WIDTHS and m.target.has_bf16:
        return _machine_dot2(m.b, total, a, b, lanes)
    for shift in (True, False):
        total = m.fma(_half(m, a, lanes, shift=shift), _half(m, b, lanes, shift=shift), total)
    return total


def _machine_dot2(builder: Builder, total: Value, a: Value, b: Value, lanes: int) -> Value:
    narrow, wide = f"<{2 * lanes} x bfloat>", f"<{lanes} x float>"
    operands = [builder.inline(f"bitcast <{lanes} x i32> {builder.vec(x, lanes)} to {narrow}", "bfloat", 2 * lanes)
                for x in (a, b)]  # fmt: skip
    texts = ", ".join(f"{narrow} {x.text}" for x in operands)
    name = f"@llvm.x86.avx512bf16.dpbf16ps.{_WIDTHS[lanes]}"
    return builder.inline(f"call {wide} {name}({wide} {builder.vec(total, lanes)}, {texts})", "float", lanes)


def _half(m: Floats, pair: Value, lanes: int, *, shift: bool) -> Value:
    """The low (`shift`) or high half of pairs, as floats. Scalars are spread first: a shift of a vector is cheaper
    than moving a scalar between register files."""
    b = m.b
    if pair.lanes < lanes:
        pair = b.splat(pair, lanes)
    bits = b.binary("shl", pair, m.int(16)) if shift else b.binary("and", pair, m.int(-(1 << 16)))
    return b.unary("bitcast", bits, "float")


def joined(builder: Builder, lo: Value, hi: Value) -> Value:
    """Pairs (i32) of the 16 bits of `lo` and `hi` (i16)."""
    low, high = (builder.unary("zext", x, "i32") for x in (lo, hi))
    return builder.binary("or", low, builder.binary("shl", high, Value("16", "i32", 1, 0, 16)))
