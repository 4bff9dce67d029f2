"""Scalar expressions as text: Python's infix notation with no more parentheses than needed.

`arith.parser` reads it back. A literal of dtype index is a plain number; others carry a suffix (`3i32`, `1.5f`,
`0.1f64`), handles are written `handle(3)`, and numbers of strings `string(3)`. min, max, select, conversions
(`float32(x)`) and intrinsics are written as calls, Loads as `A[i, j]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.base import dtype as dt
from legato.base.dtype import DType

__all__ = ["PRECEDENCE", "Texts", "hint", "literal", "show"]

# How tightly an operator binds; equal ones group to the left. Comparisons do not chain.
PRECEDENCE = {
    Op.OR: 1, Op.AND: 2,
    Op.LT: 4, Op.LE: 4, Op.EQ: 4, Op.NE: 4,
    Op.BITOR: 5, Op.BITXOR: 6, Op.BITAND: 7, Op.SHL: 8, Op.SHR: 8,
    Op.ADD: 9, Op.SUB: 9,
    Op.MUL: 10, Op.DIV: 10, Op.FLOORDIV: 10, Op.FLOORMOD: 10,
}  # fmt: skip
_COMPARISON = 4
_SUFFIX = {dt.float32: "f", dt.float64: "f64", dt.float16: "f16", dt.bfloat16: "bf16"}


def hint(named: Any) -> str:
    """The name that a variable or buffer suggests for itself."""
    return str(named.name)


Texts = dict[tuple[Expr, int], str]  # of index arithmetic, and the precedence below which it needs parentheses


def show(e: Expr, names: Callable[[Any], str] = hint, texts: Texts | None = None) -> str:
    """`e` as text. `names` gives the text of each Var and Buffer; its default prints the hints, which may collide.

    `texts` has what is known under these names, and gets more.
    """
    return _show(e, 0, names, texts)


def _show(e: Expr, outer: int, names: Callable[[Any], str], texts: Texts | None) -> str:
    out: list[str] = []
    # Text, a named thing, or (expression, the precedence below which it needs parentheses).
    todo: list[Any] = [(e, outer)]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item, tuple):
            if texts is None or type(item[0]) is not Binary or item[0].dtype is not dt.index:
                todo += reversed(_pieces(item[0], item[1], names))
                continue
            if (text := texts.get(item)) is None:
                text = texts[item] = _show(item[0], item[1], names, None)
            out.append(text)
        else:
            out.append(names(item))
    return "".join(out)


def _pieces(e: Expr, outer: int, names: Callable[[Any], str]) -> list[Any]:
    if isinstance(e, Var):
        return [names(e)]
    if isinstance(e, Const):
        return [literal(e.value, e.dtype)]
    if isinstance(e, Binary):
        return _infix(e, outer)
    if isinstance(e, Select):
        return ["select(", (e.cond, 0), ", ", (e.a, 0), ", ", (e.b, 0), ")"]
    return [(piece, 0) if isinstance(piece, Expr) else piece for piece in e.pieces()]


def _infix(e: Binary, outer: int) -> list[Any]:
    level = PRECEDENCE.get(e.op)
    if level is None:
        return [f"{e.op.value}(", (e.a, 0), ", ", (e.b, 0), ")"]
    left = level + (level == _COMPARISON)
    body = [(e.a, left), f" {e.op.value} ", (e.b, level + 1)]
    return ["(", *body, ")"] if level < outer else body


def literal(value: float | bool, dtype: DType) -> str:
    """A literal of `dtype` as text: `3`, `-3i64`, `0.5f`, `inff`, `True`, `handle(3)`, `int4(3f)`."""
    if dtype.is_storage:
        return f"{dtype}({literal(value, dt.float32)})"
    if dtype in (dt.handle, dt.string):
        return f"{dtype}({int(value)})"
    if dtype.is_bool:
        return str(bool(value))
    if dtype.is_float:
        return repr(float(value)).removesuffix(".0") + _SUFFIX[dtype]
    return f"{int(value)}{'' if dtype == dt.index else dtype.name[0] + str(dtype.bits)}"
