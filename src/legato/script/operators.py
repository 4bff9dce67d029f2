"""Python's operators on values: computed where everything is known, else calls of operators."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from legato.arith import expr as arith
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.ir.expr import Expr
from legato.ir.types import Dim, TensorType
from legato.script.frame import Frame
from legato.script.values import LONGEST, Missing, Value, describe, is_dynamic, is_number, plain, runs_code

__all__ = ["binary", "compare", "unary"]

_BINARY: Final[Mapping[type[ast.operator], tuple[str, str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("+", "add", operator.add),
    ast.Sub: ("-", "subtract", operator.sub),
    ast.Mult: ("*", "multiply", operator.mul),
    ast.Div: ("/", "divide", operator.truediv),
    ast.FloorDiv: ("//", "floor_divide", operator.floordiv),
    ast.Mod: ("%", "floor_mod", operator.mod),
    ast.Pow: ("**", "power", operator.pow),
    ast.MatMult: ("@", "matmul", operator.matmul),
    ast.LShift: ("<<", "left_shift", operator.lshift),
    ast.RShift: (">>", "right_shift", operator.rshift),
    ast.BitAnd: ("&", "bitwise_and", operator.and_),
    ast.BitOr: ("|", "bitwise_or", operator.or_),
    ast.BitXor: ("^", "bitwise_xor", operator.xor),
}
_LOGICAL: Final = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}
_OF_DIMS: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_COMPARE: Final[Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le),
    ast.Gt: ("greater", operator.gt),
    ast.GtE: ("greater_equal", operator.ge),
    ast.Eq: ("equal", operator.eq),
    ast.NotEq: ("not_equal", operator.ne),
}
_DIM_COMPARE: Final = {ast.Lt: arith.lt, ast.LtE: arith.le, ast.Gt: arith.gt, ast.GtE: arith.ge, ast.Eq: arith.eq,
                       ast.NotEq: arith.ne}  # fmt: skip
_NEGATED: Final = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq,
                   ast.NotEq: ast.Eq}  # fmt: skip
_BITS: Final = 256  # of known numbers that powers and shifts may have


def binary(frame: Frame, op: ast.operator, a: Value, b: Value) -> Value:
    """`a op b`."""
    symbol, name, compute = _BINARY[type(op)]
    if isinstance(op, _OF_DIMS) and (isinstance(a, Dim) or isinstance(b, Dim)) and _is_whole(a) and _is_whole(b):
        if b == 0 and isinstance(op, ast.FloorDiv | ast.Mod):
            raise frame.wrong(f"{symbol} by zero")
        return plain(simplify(compute(a, b)))
    if not any(isinstance(v, Expr | Dim | np.ndarray | Missing) for v in (a, b)):
        return _known(frame, op, symbol, compute, a, b)
    for v in (a, b):
        if isinstance(v, tuple | list | str) or v is None:
            raise frame.wrong(f"{symbol} of {describe(a)} and {describe(b)}")
    x, y = _pair(frame, a, b)
    dtype = next((v.ty.dtype for v in (x, y) if isinstance(v, Expr) and isinstance(v.ty, TensorType)), None)
    if dtype is not None and dtype.is_bool:
        name = _LOGICAL.get(name, name)
    if name == "divide" and dtype is not None and not dtype.is_float:
        raise frame.wrong(f"/ of tensors of {dtype}", "use //, or cast them to a float dtype before")
    return frame.call(name, x, y)


def _pair(frame: Frame, a: Value, b: Value) -> tuple[Value, Value]:
    """Both operands: Python numbers stay, other values are expressions, of the other's dtype where they have none."""
    x, y = (v if is_number(v) else frame.expr(v, w.ty if isinstance(w, Expr) else None) for v, w in ((a, b), (b, a)))
    return x, y


def _is_whole(value: Value) -> bool:
    return isinstance(value, Dim) or (is_number(value) and isinstance(value, int))


def _known(
    frame: Frame, op: ast.operator, symbol: str, compute: Callable[[Any, Any], Any], a: Value, b: Value
) -> Value:
    """The result for values that are known, as Python has it."""
    for s, n in ((a, b), (b, a)):
        if (
            isinstance(op, ast.Mult)
            and isinstance(s, tuple | list | str)
            and isinstance(n, int)
            and len(s) * n > LONGEST
        ):
            raise frame.wrong(f"{describe(s)} {n} times is too long")
    if isinstance(a, tuple | list) or isinstance(b, tuple | list):
        if isinstance(op, ast.Add) and isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return (*a, *b)
        if isinstance(op, ast.Mult) and {type(a), type(b)} & {int}:
            return tuple(a) * b if isinstance(a, tuple | list) else tuple(b) * a
    elif all(is_number(v) or isinstance(v, str | np.generic) for v in (a, b)):
        if isinstance(op, ast.Pow | ast.LShift) and isinstance(a, int) and isinstance(b, int):
            size = b if isinstance(op, ast.LShift) else b * a.bit_length()
            if size > _BITS:
                raise frame.wrong(f"{a!r} {symbol} {b!r} is too large for any dtype")
        try:
            return compute(a, b)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise frame.wrong(f"{a!r} {symbol} {b!r}: {error}") from error
    raise frame.wrong(f"{symbol} of {describe(a)} and {describe(b)}")


def compare(frame: Frame, op: ast.cmpop, a: Value, b: Value) -> Value:
    """`a op b`, a bool or a tensor of them."""
    if isinstance(op, ast.Is | ast.IsNot):
        if not (a is None or b is None or isinstance(a, bool) or isinstance(b, bool)):
            raise frame.unsupported("`is` of two values", "compare them with ==; only None is asked for with `is`")
        return (a is b) is isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        if is_dynamic(a) or is_dynamic(b) or not isinstance(b, tuple | list | str):
            raise frame.unsupported("`in` of what is known only when the program runs", "use relay.any(relay.equal(…))")
        return _is_in(frame, a, b) is isinstance(op, ast.In)
    name, compute = _COMPARE[type(op)]
    if (isinstance(a, Dim) or isinstance(b, Dim)) and _is_whole(a) and _is_whole(b):
        return _of_dims(frame, op, name, a, b)
    if isinstance(a, Expr | Dim | np.ndarray) or isinstance(b, Expr | Dim | np.ndarray):
        for v in (a, b):
            if v is None or isinstance(v, str | tuple | list):
                raise frame.wrong(f"{name} of {describe(a)} and {describe(b)}")
        x, y = _pair(frame, a, b)
        return frame.call(name, x, y)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list) and isinstance(op, ast.Eq | ast.NotEq):
        return _tuples(frame, op, tuple(a), tuple(b))
    return _compared(frame, name, compute, a, b)


def _compared(frame: Frame, name: str, compute: Callable[[Any, Any], Any], a: Value, b: Value) -> bool:
    """The comparison of values that are known."""
    for v in (a, b):
        if runs_code(v, f"__{compute.__name__}__"):
            raise frame.unsupported(f"{name} of {describe(v)} is computed by Python code")
    try:
        return bool(compute(a, b))
    except (TypeError, ValueError) as error:
        raise frame.wrong(f"{name} of {describe(a)} and {describe(b)}") from error


def _is_in(frame: Frame, a: Value, b: Value) -> bool:
    """Whether one of the fields of a tuple equals `a`, or a text has `a` in it."""
    if isinstance(b, str):
        if not isinstance(a, str):
            raise frame.wrong(f"in of {describe(a)} and {describe(b)}")
        return a in b
    found = [a is x or compare(frame, ast.Eq(), a, x) for x in b]
    if is_dynamic(found):
        raise frame.unsupported("`in` of arrays", "use relay.any(relay.equal(…))")
    return any(found)


def _tuples(frame: Frame, op: ast.Eq | ast.NotEq, a: tuple[Value, ...], b: tuple[Value, ...]) -> Value:
    """Whether two tuples are equal: shapes, mostly."""
    result: Value = len(a) == len(b)
    for x, y in zip(a, b, strict=False):
        if result is False:
            break
        found = compare(frame, ast.Eq(), x, y)
        result = found if result is True else result if found is True else False if found is False else frame.call(
            "logical_and", result, found)  # fmt: skip
    if isinstance(op, ast.Eq):
        return result
    return not result if isinstance(result, bool) else frame.call("logical_not", result)


def _of_dims(frame: Frame, op: ast.cmpop, name: str, a: Value, b: Value) -> Value:
    """A comparison of extents: a bool where it holds, or fails, for all of them, else computed by the program."""
    x, y = (v if isinstance(v, Dim) else arith.const(v) for v in (a, b))
    if prove(_DIM_COMPARE[type(op)](x, y)):
        return True
    if prove(_DIM_COMPARE[_NEGATED[type(op)]](x, y)):
        return False
    return frame.call(name, frame.expr(a), frame.expr(b))


def unary(frame: Frame, op: ast.unaryop, a: Value) -> Value:
    """`op a`; `not` is in `expressions`."""
    if isinstance(op, ast.UAdd):
        return a
    if isinstance(a, Dim):
        return plain(simplify(-a))
    if is_number(a) or isinstance(a, np.generic):
        try:
            return operator.invert(a) if isinstance(op, ast.Invert) else operator.neg(a)
        except TypeError as error:
            raise frame.wrong(f"{'~' if isinstance(op, ast.Invert) else '-'} of {a!r}") from error
    e = frame.expr(a)
    if isinstance(op, ast.USub):
        return frame.call("negative", e)
    is_bool = isinstance(e.ty, TensorType) and e.ty.dtype.is_bool
    return frame.call("logical_not" if is_bool else "bitwise_not", e)
