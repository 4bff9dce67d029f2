"""Intrinsics of `tir.intrinsics` as inline code."""

from __future__ import annotations

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.base.target import Target
from legato.codegen.builder import Builder
from legato.codegen.value import Value, float_text, literal

__all__ = ["Intrinsics"]

_ROUNDING = {"floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc", "round": "llvm.roundeven",
             "sqrt": "llvm.sqrt", "abs": "llvm.fabs"}  # fmt: skip


class Intrinsics:
    """Emits calls of intrinsics; the result of a 16-bit float is a float yet to be rounded."""

    def __init__(self, builder: Builder, target: Target) -> None:
        self.builder, self.target = builder, target

    def call(self, name: str, args: list[Value], dtype: DType) -> Value:
        """The intrinsic `name` on operands of `dtype`."""
        if not dtype.is_float:
            return self._integer(name, args, dtype)
        x, b = args[0], self.builder
        if name in _ROUNDING:
            return b.call(_ROUNDING[name], x)
        if name == "fma":
            if self.target.fma:
                return b.call("llvm.fma", *args)
            return b.binary("fadd", b.binary("fmul", x, args[1]), args[2])
        if name == "neg":
            return self._negated(x)
        if name == "isnan":
            return b.binary("fcmp uno", x, x, "i1")
        if name == "isinf":
            return b.binary("fcmp oeq", b.call("llvm.fabs", x), Value(float_text(float("inf"), x.ty), x.ty, 1, 0), "i1")
        raise InternalError(f"no code for the intrinsic {name!r} on {dtype}")

    def _negated(self, x: Value) -> Value:
        full = x.ty if x.lanes == 1 else f"<{x.lanes} x {x.ty}>"
        return self.builder.inline(f"fneg {full} {x.text}", x.ty, x.lanes)

    def _integer(self, name: str, args: list[Value], dtype: DType) -> Value:
        x, b = args[0], self.builder
        if name in ("floor", "ceil", "trunc", "round"):
            return x
        if name == "neg":
            return b.binary("sub", literal(0, dtype), x)
        if name == "abs":
            if dtype.kind == "uint" or dtype.is_bool:
                return x
            negative = b.binary("icmp slt", x, literal(0, dtype), "i1")
            return b.select(negative, b.binary("sub", literal(0, dtype), x), x)
        if name == "bitnot":
            return b.binary("xor", x, literal(True if dtype.is_bool else -1, dtype))
        if name in ("isnan", "isinf"):
            return literal(False, dt.bool_)
        if name == "fma":
            return b.binary("add", b.binary("mul", x, args[1]), args[2])
        raise InternalError(f"no code for the intrinsic {name!r} on {dtype}")
