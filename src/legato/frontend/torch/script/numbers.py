"""Operators of TorchScript on numbers, strings, lists, tuples and dicts, which are computed during import.

A number that only running the program tells is a `Scalar`, a tensor of rank 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import DType, bool_, float64, int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.dtypes import from_torch
from legato.frontend.torch.emitter import Emitter, Float
from legato.frontend.torch.symbols import FUNCTIONS
from legato.ir.expr import Expr

__all__ = ["BUILTINS", "CODES", "COMPUTED", "Scalar", "computed", "dtype_of", "is_plain", "scalar_tensor"]


CODES: Final = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
                 torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool, None, None, None,
                 torch.bfloat16)  # fmt: skip
"""Dtypes by the numbers that TorchScript has for them (c10::ScalarType)."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number or a truth value that the program computes: int64, float64 or bool, of rank 0."""

    value: Expr


def dtype_of(code: int) -> DType:
    """The dtype of a number of TorchScript's."""
    found = CODES[code] if 0 <= code < len(CODES) else None
    if found is None:
        raise UnsupportedError(f"the dtype number {code} of TorchScript")
    return from_torch(found)


def is_plain(value: Any) -> bool:
    """Whether a value is known now: no Scalar, and no size, in it."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return not isinstance(value, Scalar | DimExpr | Float)


def scalar_tensor(b: Emitter, value: Any) -> Expr:
    """A number as a tensor of rank 0."""
    if isinstance(value, Scalar):
        return value.value
    dtype = bool_ if isinstance(value, bool) else float64 if isinstance(value, float | Float) else int64
    return b.operand(value, dtype)


def _binary(name: str, to_float: bool = False) -> Callable[..., Scalar]:
    def rule(b: Emitter, x: Any, y: Any) -> Scalar:
        both = [scalar_tensor(b, v) for v in (x, y)]
        is_float = to_float or any(b.dtype(v).is_float for v in both)
        if name.startswith("logical") and any(b.dtype(v) != bool_ for v in both):
            raise UnsupportedError("bits of a number that the program computes")
        wide = float64 if is_float else bool_ if name.startswith("logical") else int64
        return Scalar(b.op(name)(*(b.to(v, wide) for v in both)))

    return rule


COMPUTED: Final[Mapping[str, Callable[..., Scalar]]] = {
    "add": _binary("add"), "sub": _binary("subtract"), "mul": _binary("multiply"), "div": _binary("divide", True),
    "lt": _binary("less"), "le": _binary("less_equal"), "gt": _binary("greater"), "ge": _binary("greater_equal"),
    "eq": _binary("equal"), "ne": _binary("not_equal"), "__and__": _binary("logical_and"),
    "__or__": _binary("logical_or"), "floordiv": _binary("floor_divide"), "remainder": _binary("floor_mod"),
    "__not__": lambda b, x: Scalar(b.logical_not(b.truth(scalar_tensor(b, x)))),
    "neg": lambda b, x: Scalar(b.negative(scalar_tensor(b, x))),
    "Float": lambda b, x: Scalar(b.to(scalar_tensor(b, x), float64)),
    "Int": lambda b, x: Scalar(b.to(scalar_tensor(b, x), int64)),
    "Bool": lambda b, x: Scalar(b.to(scalar_tensor(b, x), bool_)),
}  # fmt: skip
"""What numbers computed by the program allow; by the operator's name."""

_SIZES: Final = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
                 "remainder": operator.mod, "neg": operator.neg, "lt": operator.lt, "le": operator.le,
                 "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne}  # fmt: skip


_TESTS: Final = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def _of_lists(b: Emitter, name: str, args: tuple[Any, ...]) -> Any:
    """Whether lists are equal of which some items are no plain numbers, or an operator that does not read items."""
    if name not in ("eq", "ne"):
        if name in BUILTINS and name not in ("__contains__", "index", "count", "min", "max", "sum"):
            return BUILTINS[name](*args)
        raise UnsupportedError(f"aten::{name} of numbers that the program computes")
    left, right = args
    tests = [_equal(b, x, y) for x, y in zip(left, right, strict=False)]
    if len(left) != len(right) or False in tests:
        return name == "ne"
    open_ones = [scalar_tensor(b, t) for t in tests if t is not True]
    if not open_ones:
        return name == "eq"
    found = open_ones[0]
    for other in open_ones[1:]:
        found = b.logical_and(found, other)
    return Scalar(found if name == "eq" else b.logical_not(found))


def _equal(b: Emitter, x: Any, y: Any) -> Any:
    return operator.eq(x, y) if is_plain((x, y)) else computed(b, "eq", (x, y))


def computed(b: Emitter, name: str, args: tuple[Any, ...]) -> Any:
    """An operator on numbers of which one is no plain one."""
    if any(isinstance(a, list | tuple) for a in args):
        return _of_lists(b, name, args)
    if name == "Int" and isinstance(args[0], DimExpr):
        return args[0]
    if not any(isinstance(a, Scalar | Float | float) for a in args) and name in _SIZES:
        found = FUNCTIONS[_SIZES[name]](*args)
        return Scalar(b.truth(found)) if isinstance(found, DimExpr) and name in _TESTS else found
    if name not in COMPUTED or not any(isinstance(a, Scalar | Float | DimExpr) for a in args):
        raise UnsupportedError(f"aten::{name} of a number that the program computes")
    return COMPUTED[name](b, *args)


def _floordiv(a: Any, b: Any) -> Any:
    return a // b


def _slice(xs: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return xs[slice(start, end, step)]


def _set(xs: Any, key: Any, value: Any) -> Any:
    xs[key] = value
    return xs


def _iadd(xs: list[Any], more: list[Any]) -> list[Any]:
    xs += more
    return xs


def _extend(xs: list[Any], more: list[Any]) -> None:
    xs.extend(more)


BUILTINS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": _floordiv,
    "remainder": operator.mod, "pow": operator.pow, "neg": operator.neg, "abs": abs,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
    "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor,
    "__not__": operator.not_, "__is__": operator.is_, "__isnot__": operator.is_not,
    "__contains__": lambda xs, x: x in xs, "len": len, "__getitem__": operator.getitem, "_set_item": _set,
    "append": lambda xs, x: xs.append(x), "extend": _extend, "insert": lambda xs, n, x: xs.insert(n, x),
    "pop": lambda xs, n=-1: xs.pop(n), "copy": lambda xs: xs.copy(), "clear": lambda xs: xs.clear(),
    "reverse": lambda xs: xs.reverse(), "list": list, "slice": _slice, "keys": lambda d: list(d),
    "values": lambda d: list(d.values()), "items": lambda d: list(d.items()), "get": lambda d, k, e=None: d.get(k, e),
    "format": lambda text, *values: text.format(*values), "str": str, "Int": int, "Float": float, "Bool": bool,
    "IntImplicit": int, "FloatImplicit": float, "ScalarImplicit": lambda x: x,
    "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt, "log": math.log, "exp": math.exp,
    "warn": lambda *_: None, "index": lambda xs, x: xs.index(x), "count": lambda xs, x: xs.count(x),
    "min": min, "max": max, "sum": sum, "any": any, "all": all, "round": lambda x: float(round(x)),
    "add_": _iadd,
}  # fmt: skip
"""The same of plain values; by the operator's name."""
