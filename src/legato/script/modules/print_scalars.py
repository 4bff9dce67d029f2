"""Scalar expressions of tensor programs, and dims, as Python that a script is read from.

Reading the text gives the same nodes: operands say their dtypes, and what Python's operators do not give as it is, is
spelt by name (`T.apply("&", a, b)`, `T.intrinsic("fma", a, b, c)`). Large parts that are used several times, and what
nests deeply, stand in lines of their own in front of the statement: `x = T.meta_var(a[i] * b[i])`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.arith.printer import PRECEDENCE
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import UnsupportedError
from legato.tir.expr import Address, Call, Cast, Load, Size, Tag

__all__ = ["MOST_DEPTH", "float_text", "literal", "scalar_texts", "tuple_text"]

MOST_DEPTH: Final = 20  # an expression nests no deeper in one line: Python's parser and the reader are recursive
_TERSE: Final = 160  # expressions of more nodes than this, as a tree, are written with shared parts
_WORTH: Final = 6  # nodes that a shared part must have
_ATOM: Final = 20  # binds more tightly than every operator
_NOT: Final = 3
_COMPARED: Final = 4
_NAMED: Final = frozenset({
    "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
    "atanh", "floor", "ceil", "trunc", "round", "isnan", "isinf",
})  # fmt: skip
_PLAIN: Final = {Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.FLOORMOD}
_BITS: Final = {Op.SHL, Op.SHR, Op.BITAND, Op.BITOR, Op.BITXOR}

Text = tuple[str, int]  # and how tightly its outermost operator binds


def scalar_texts(
    exprs: Sequence[Expr], names: Callable[[Any], str], share: Callable[[str], str] | None = None
) -> list[str]:
    """The texts of `exprs`. share: writes a line that gives a text a name, which it returns.

    UnsupportedError for what nests deeper than a line may, where nothing can be shared.
    """
    size: dict[Expr, int] = {}
    uses: dict[Expr, int] = {}
    order = list(nodes(*exprs))
    for e in order:
        kids = e.children()
        size[e] = 1 + sum(size[k] for k in kids)
        for k in kids:
            uses[k] = uses.get(k, 0) + 1
    is_large = sum(size[e] for e in exprs) > _TERSE
    texts: dict[Expr, Text] = {}
    depth: dict[Expr, int] = {}
    for e in order:
        depth[e] = 1 + max((depth[k] for k in e.children()), default=0)
        texts[e] = _text(e, texts, names)
        is_shared = is_large and size[e] >= _WORTH and uses.get(e, 0) > 1
        if is_shared or depth[e] > MOST_DEPTH:
            if share is None:
                hint = "str(module) is the text of any program"
                raise UnsupportedError("a script cannot hold a dim that nests so deeply", hint=hint)
            texts[e], depth[e] = (share(texts[e][0]), _ATOM), 1
    return [texts[e][0] for e in exprs]


def _text(e: Expr, texts: dict[Expr, Text], names: Callable[[Any], str]) -> Text:
    match e:
        case Var():
            return names(e), _ATOM
        case Const(value=value, dtype=dtype):
            return literal(value, dtype), _ATOM
        case Select(cond=cond, a=a, b=b):
            return f"T.if_then_else({_list((cond, a, b), texts)})", _ATOM
        case Load(buffer=buffer, indices=indices):
            return f"{names(buffer)}[{_list(indices, texts) or '()'}]", _ATOM
        case Cast(a=a, dtype=dtype) if dtype.is_storage:
            return f'T.Cast("{dtype}", {_list((a,), texts)})', _ATOM
        case Cast(a=a, dtype=dtype):
            return f"T.{'boolean' if dtype.is_bool else dtype.name}({_list((a,), texts)})", _ATOM
        case Call(name=name, args=args):
            return _call(name, args, texts)
        case Address(buffer=buffer):
            return f"T.address({names(buffer)})", _ATOM
        case Tag(handle=handle) | Size(handle=handle):
            return f"T.{e.text}({_list((handle,), texts)})", _ATOM
        case Binary():
            return _binary(e, texts)
    raise UnsupportedError(
        f"a script has no text for a {type(e).__name__}", hint="str(module) is the text of any program"
    )


def _list(exprs: Sequence[Expr], texts: dict[Expr, Text]) -> str:
    return ", ".join(texts[e][0] for e in exprs)


def _call(name: str, args: Sequence[Expr], texts: dict[Expr, Text]) -> Text:
    dtype = args[0].dtype
    if name in _NAMED and dtype.is_float:
        return f"T.{name}({_list(args, texts)})", _ATOM
    if name == "abs":
        return f"T.abs({_list(args, texts)})", _ATOM
    if name == "pow" and all(a.dtype == dtype and dtype.is_float for a in args):
        return f"T.pow({_list(args, texts)})", _ATOM
    return f'T.intrinsic("{name}", {_list(args, texts)})', _ATOM


def _binary(e: Binary, texts: dict[Expr, Text]) -> Text:
    op, a, b = e.op, e.a, e.b
    if isinstance(a, Const) and isinstance(b, Const):  # Python would compute it
        return f'T.apply("{op.value}", {_explicit(a)}, {_explicit(b)})', _ATOM
    if op is Op.EQ and isinstance(b, Const) and b.dtype.is_bool and not b.value:
        return f"not {_within(a, _NOT, texts)}", _NOT
    if not _is_python(op, a.dtype):
        return f'T.apply("{op.value}", {_list((a, b), texts)})', _ATOM
    level = PRECEDENCE.get(op)
    if level is None:
        return f"T.{op.value}({_list((a, b), texts)})", _ATOM
    left = level + (level == _COMPARED)
    return f"{_within(a, left, texts)} {op.value} {_within(b, level + 1, texts)}", level


def _is_python(op: Op, dtype: DType) -> bool:
    """Whether Python's operator, or `T.min` and `T.max`, of two scalars of `dtype` is this node."""
    if op in (Op.AND, Op.OR):
        return dtype.is_bool
    if op in (Op.EQ, Op.NE, Op.LT, Op.LE):
        return True
    if dtype.is_bool or op is Op.DIV:
        return dtype.is_float
    if dtype.is_float:
        return op not in _BITS and op not in (Op.FLOORDIV, Op.FLOORMOD)
    return op in _PLAIN or op in _BITS or op in (Op.MIN, Op.MAX)


def _within(e: Expr, level: int, texts: dict[Expr, Text]) -> str:
    text, own = texts[e]
    return text if own >= level else f"({text})"


def _explicit(e: Const) -> str:
    return f"T.index({e.value})" if e.dtype == dt.index else literal(e.value, e.dtype)


def literal(value: float | bool, dtype: DType) -> str:
    """A literal: an index as a number, others with their dtypes."""
    if dtype == dt.index:
        return str(int(value))
    if dtype.is_bool:
        return f"T.boolean({bool(value)})"
    if dtype == dt.handle:
        return f"T.reference({int(value)})"
    if dtype.is_storage:
        return f'T.Cast("{dtype}", {literal(value, dt.float32)})'
    return f"T.{dtype.name}({float_text(float(value)) if dtype.is_float else int(value)})"


def float_text(value: float) -> str:
    """A float that is no number, as a string."""
    return repr(value) if math.isfinite(value) else f'"{value!r}"'


def tuple_text(items: Sequence[object]) -> str:
    """A tuple of texts."""
    return f"({', '.join(map(str, items))}{',' if len(items) == 1 else ''})"
