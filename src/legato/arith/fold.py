"""The binary operators, and what they give on literals."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Mapping
from typing import Final

from legato.base.dtype import DType

__all__ = ["COMPARISONS", "Op", "fold", "wrap"]


class Op(enum.Enum):
    """Binary operators; the value is the printed form."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"  # floats only
    FLOORDIV = "//"
    FLOORMOD = "%"
    MIN = "min"  # floats: NaN if either is NaN
    MAX = "max"
    SHL = "<<"  # the count is taken modulo the width
    SHR = ">>"  # arithmetic on signed types
    BITAND = "&"
    BITOR = "|"
    BITXOR = "^"
    LT = "<"
    LE = "<="
    EQ = "=="
    NE = "!="
    AND = "and"  # bool; both sides are evaluated
    OR = "or"

    __hash__ = object.__hash__  # a member is one object; enum computes the hash of its name, in Python


COMPARISONS: Final = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})


def wrap(value: int, dtype: DType) -> int:
    """`value` reduced to the range of a machine integer type; unchanged for index."""
    if not dtype.is_int:
        return value
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.max else value


def fold(op: Op, a: float | bool, b: float | bool, dtype: DType) -> float | bool | None:
    """The value of `a op b` on literals of `dtype`, or None where folding is left to the machine (inexact floats)."""
    if op in COMPARISONS or dtype.is_bool:
        return _fold_logic(op, a, b)
    if dtype.is_float:
        return _fold_float(op, float(a), float(b))
    return _fold_int(op, int(a), int(b), dtype)


def _fold_logic(op: Op, a: float | bool, b: float | bool) -> bool | None:
    match op:
        case Op.LT:
            return a < b
        case Op.LE:
            return a <= b
        case Op.EQ:
            return a == b
        case Op.NE | Op.BITXOR:
            return a != b
        case Op.AND | Op.BITAND | Op.MUL | Op.MIN:
            return bool(a) and bool(b)
        case Op.OR | Op.BITOR | Op.ADD | Op.MAX:
            return bool(a) or bool(b)
        case _:
            return None


def _fold_float(op: Op, a: float, b: float) -> float | None:
    # Only results that are the same in every float width: selections of an operand.
    if op is Op.MIN and not (math.isnan(a) or math.isnan(b)) and a != b:
        return min(a, b)
    if op is Op.MAX and not (math.isnan(a) or math.isnan(b)) and a != b:
        return max(a, b)
    return None


_INT_OPS: Final[Mapping[Op, Callable[[int, int], int]]] = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.FLOORDIV: lambda a, b: a // b if b else 0,
    Op.FLOORMOD: lambda a, b: a % b if b else 0,
    Op.MIN: min,
    Op.MAX: max,
    Op.BITAND: operator.and_,
    Op.BITOR: operator.or_,
    Op.BITXOR: operator.xor,
}


def _fold_int(op: Op, a: int, b: int, dtype: DType) -> int | None:
    if op is Op.SHL:
        return wrap(a << (b % dtype.bits), dtype)
    if op is Op.SHR:
        return wrap(a >> (b % dtype.bits), dtype)
    f = _INT_OPS.get(op)
    return None if f is None else wrap(f(a, b), dtype)
