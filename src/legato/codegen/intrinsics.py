"""Intrinsics of `tir.intrinsics` as inline code."""

from __future__ import annotations

from collections.abc import Callable

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.base.target import Target
from legato.codegen import exponential, pairs, power, trigonometry
from legato.codegen.builder import Builder
from legato.codegen.floats import Floats
from legato.codegen.value import TYPES, Value, literal

__all__ = ["Intrinsics"]

Unary = Callable[[Floats, Value], Value]
Binary = Callable[[Floats, Value, Value], Value]

_MACHINE = {"floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc", "round": "llvm.roundeven",
            "sqrt": "llvm.sqrt", "abs": "llvm.fabs"}  # fmt: skip
_UNARY: dict[str, Unary] = {
    f.__name__: f
    for f in (
        exponential.exp,
        exponential.log,
        exponential.tanh,
        exponential.sinh,
        exponential.cosh,
        exponential.asinh,
        exponential.acosh,
        exponential.atanh,
        exponential.erf,
        trigonometry.sin,
        trigonometry.cos,
        trigonometry.tan,
        trigonometry.asin,
        trigonometry.acos,
        trigonometry.atan,
    )
}
_BINARY: dict[str, Binary] = {"pow": power.power, "floordiv": power.floor_divide, "floormod": power.remainder}
# What an intrinsic's slow path calls (outlined.py).
_CALLS = {"sin": trigonometry.REDUCE, "cos": trigonometry.REDUCE, "tan": trigonometry.REDUCE,
          "floordiv": power.FMOD, "floormod": power.FMOD}  # fmt: skip


class Intrinsics:
    """Emits intrinsics; the result of a 16-bit float is a float yet to be rounded.

    `fma` rounds once where the target has the instruction and twice where not: `tir.interp` always rounds once.

    `outlined` collects the functions of outlined.py that the code calls.
    """

    def __init__(self, builder: Builder, target: Target, outlined: set[str]) -> None:
        self.builder, self.target, self.outlined = builder, target, outlined

    def call(self, name: str, args: list[Value], dtype: DType) -> Value:
        """The intrinsic `name` on operands of `dtype`."""
        if not dtype.is_float:
            return self._integer(name, args, dtype)
        x, b, m = args[0], self.builder, Floats(self.builder, TYPES[dtype.name], self.target)
        if name == "dot2":
            return pairs.dot2(m, x, args[1], args[2])
        if name in _MACHINE:
            return b.call(_MACHINE[name], x)
        if name in _CALLS:
            self.outlined.add(_CALLS[name])
        if name in _UNARY:
            return _UNARY[name](m, x)
        if name in _BINARY:
            return _BINARY[name](m, x, args[1])
        match name:
            case "fma":
                return m.fma(x, args[1], args[2])
            case "neg":
                return m.neg(x)
            case "isnan":
                return m.compare("uno", x, x)
            case "isinf":
                return m.compare("oeq", m.abs(x), m.inf)
            case _:
                raise InternalError(f"no code for the intrinsic {name!r} on {dtype}")

    def _integer(self, name: str, args: list[Value], dtype: DType) -> Value:
        x, b = args[0], self.builder
        match name:
            case "floor" | "ceil" | "trunc" | "round":
                return x
            case "neg":
                return b.binary("sub", literal(0, dtype), x)
            case "abs":
                if dtype.kind == "uint" or dtype.is_bool:
                    return x
                negative = b.binary("icmp slt", x, literal(0, dtype), "i1")
                return b.select(negative, b.binary("sub", literal(0, dtype), x), x)
            case "bitnot":
                return b.binary("xor", x, literal(True if dtype.is_bool else -1, dtype))
            case "isnan" | "isinf":
                return literal(False, dt.bool_)
            case "fma":
                return b.binary("add", b.binary("mul", x, args[1]), args[2])
            case _:
                raise InternalError(f"no code for the intrinsic {name!r} on {dtype}")
