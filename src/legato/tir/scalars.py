"""Scalar expressions of tensor programs as scripts write them: operands of different dtypes meet in one.

a number of Python              takes the dtype of the other operand; a float makes an integer beside it float32
an index (dims, loop variables) becomes float beside a float; an integer of memory becomes an index beside it
two of a kind                   take the wider one; an integer beside a float becomes that float
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from legato.arith import expr as arith
from legato.arith.expr import Const, Expr, const
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError
from legato.tir.expr import call, cast

__all__ = ["COMPARED", "as_index", "as_scalar", "as_type", "binary", "converted", "join", "logical", "negated", "unary"]

_ARITHMETIC: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = {
    "+": arith.add, "-": arith.sub, "*": arith.mul, "//": arith.floordiv, "%": arith.floormod,
    "<<": arith.shl, ">>": arith.shr, "&": arith.bitand, "|": arith.bitor, "^": arith.bitxor,
    "min": arith.min_, "max": arith.max_,
}  # fmt: skip
COMPARED: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = {
    "==": arith.eq, "!=": arith.ne, "<": arith.lt, "<=": arith.le, ">": arith.gt, ">=": arith.ge,
}  # fmt: skip
_LOGICAL: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = {"and": arith.land, "or": arith.lor}
_BITS: Final = frozenset({"<<", ">>", "&", "|", "^"})


def binary(op: str, a: Any, b: Any) -> Expr:
    """`a op b`, where one of them is a scalar expression. TypeCheckError where the dtypes do not allow it."""
    if op in _LOGICAL:
        return _LOGICAL[op](logical(a, f"an operand of `{op}`"), logical(b, f"an operand of `{op}`"))
    a, b = join(a, b)
    if op in COMPARED:
        return COMPARED[op](a, b)
    if op == "/":
        if not a.dtype.is_float:
            raise TypeCheckError(
                f"`/` of {a.dtype}", hint="// rounds down, T.truncdiv towards zero; or cast to a float"
            )
        return arith.truediv(a, b)
    if op == "**":
        return call("pow", *(_float(x) for x in (a, b)))
    if a.dtype.is_bool and op in ("&", "|"):
        return arith.land(a, b) if op == "&" else arith.lor(a, b)
    if op in _BITS and (a.dtype.is_float or a.dtype.is_bool):
        raise TypeCheckError(f"`{op}` of {a.dtype}, wanted integers")
    if a.dtype.is_bool or op not in _ARITHMETIC:
        raise TypeCheckError(f"`{op}` of {a.dtype} has no meaning here")
    if a.dtype.is_float and op in ("//", "%"):
        return _float_division(op, a, b)
    return _ARITHMETIC[op](a, b)


def _float_division(op: str, a: Expr, b: Expr) -> Expr:
    quotient = call("floor", arith.truediv(a, b))
    return quotient if op == "//" else arith.sub(a, arith.mul(quotient, b))


def unary(op: str, a: Expr) -> Expr:
    """`op a` of a scalar expression."""
    if op == "not":
        return arith.lnot(logical(a, "the operand of `not`"))
    if op == "~" and a.dtype.is_float:
        raise TypeCheckError(f"`~` of {a.dtype}, wanted an integer or a truth value")
    if op == "~":
        return arith.lnot(a) if a.dtype.is_bool else call("bitnot", a)
    return negated(a) if op == "-" else a


def negated(a: Expr) -> Expr:
    """-a; of a float, with the sign of zero."""
    return call("neg", a) if a.dtype.is_float else arith.sub(const(0, a.dtype), a)


def _float(a: Expr) -> Expr:
    return a if a.dtype.is_float else cast(a, dt.float32)


def join(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Both as scalars of one dtype."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return join(as_scalar(a), b)
    if not isinstance(a, Expr):
        b, a = _with_number(b, a)
    elif not isinstance(b, Expr):
        a, b = _with_number(a, b)
    dtype = _joined(a, b)
    return cast(a, dtype), cast(b, dtype)


def _with_number(e: Expr, number: Any) -> tuple[Expr, Expr]:
    if isinstance(number, bool):
        return e, const(number, dt.bool_)
    if isinstance(number, float):
        return (e, const(number, e.dtype)) if e.dtype.is_float else (cast(e, dt.float32), const(number, dt.float32))
    if not isinstance(number, int):
        raise TypeCheckError(f"a scalar beside {_described(number)}")
    return e, const(number, dt.index if e.dtype.is_bool else e.dtype)


def _joined(a: Expr, b: Expr) -> DType:
    """The dtype in which operands meet."""
    x, y = a.dtype, b.dtype
    if x == y:
        return x
    if x.is_bool or y.is_bool:
        raise TypeCheckError(f"operands of {x} and {y}", hint="cast one of them")
    if x.is_float or y.is_float:
        return _wider(x, y) if x.is_float and y.is_float else x if x.is_float else y
    if dt.index in (x, y):
        number, other = (a, y) if x == dt.index else (b, x)
        return other if isinstance(number, Const) else dt.index
    return _wider(x, y)


def _wider(x: DType, y: DType) -> DType:
    if x.bits == y.bits:
        raise TypeCheckError(f"operands of {x} and {y}", hint="cast one of them")
    return x if x.bits > y.bits else y


def as_scalar(value: Any) -> Expr:
    """A scalar or a number as an expression; integers are indices, floats float32."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return const(value, dt.bool_)
    if isinstance(value, int):
        return const(value)
    if isinstance(value, float):
        return const(value, dt.float32)
    raise TypeCheckError(f"got {_described(value)}, wanted a scalar")


def as_index(value: Any, what: str) -> Expr:
    """An integer as an index."""
    e = as_scalar(value) if isinstance(value, Expr | int) and not isinstance(value, bool) else None
    if e is None or not (e.dtype.is_int or e.dtype == dt.index):
        got = _described(value) if e is None else str(e.dtype)
        raise TypeCheckError(f"{what} is {got}, wanted an integer")
    return cast(e, dt.index)


def logical(value: Any, what: str) -> Expr:
    """A condition as a truth value; integers are true where they are not 0."""
    e = as_scalar(value)
    if e.dtype.is_bool:
        return e
    if e.dtype.is_float:
        raise TypeCheckError(f"{what} is {e.dtype}, wanted a truth value", hint="compare it")
    return arith.ne(e, 0)


def as_type(value: Any, dtype: DType) -> Expr:
    """`value` cast to `dtype`, as `T.float32(value)` asks for."""
    if isinstance(value, Expr):
        return cast(value, dtype)
    if isinstance(value, str) and dtype.is_float and value in ("inf", "-inf", "nan"):
        return const(float(value), dtype)
    if not isinstance(value, int | float) or (isinstance(value, float) and not dtype.is_float):
        raise TypeCheckError(f"{_described(value)} as {dtype}")
    return const(value, dtype)


def converted(value: Any, dtype: DType, what: str) -> Expr:
    """`value` as what is stored in `dtype`: of the same kind of number, or a number that is written."""
    if not isinstance(value, Expr):
        if isinstance(value, bool) == dtype.is_bool and (isinstance(value, int) or dtype.is_float):
            return as_type(value, dtype)
        raise TypeCheckError(f"{what} is {_described(value)}, wanted {dtype}")
    kinds = [d.is_float + 2 * d.is_bool for d in (value.dtype, dtype)]
    if kinds[0] != kinds[1]:
        if isinstance(value, Const) and dtype.is_float and not value.dtype.is_bool:
            return const(float(value.value), dtype)
        raise TypeCheckError(f"{what} is {value.dtype}, wanted {dtype}", hint=f'T.Cast("{dtype}", …) converts it')
    return cast(value, dtype)


def _described(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | str) else f"a {type(value).__name__}"
