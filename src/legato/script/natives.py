"""Python's own functions and the attributes of tensors that have a meaning here."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.ir.expr import Expr
from legato.ir.types import TensorType, TupleType
from legato.script.frame import Frame
from legato.script.subscript import fields
from legato.script.values import LONGEST, Bound, Native, Value, describe, is_dynamic, is_foreign, is_number, plain

__all__ = ["BUILTINS", "array_attribute", "cast_to", "tensor_attribute"]

Rule = Callable[..., Value]


def _len(frame: Frame, value: Value) -> Value:
    if isinstance(value, Expr) and isinstance(value.ty, TensorType):
        if not value.ty.rank:
            raise frame.wrong("len of a scalar", details=[f"got : {value.ty}"])
        return plain(value.ty.shape[0])
    return len(value) if isinstance(value, str | np.ndarray | range) else len(fields(frame, value))


def _abs(frame: Frame, value: Value) -> Value:
    return abs(value) if is_number(value) else frame.call("abs", value)


def _extreme(name: str, known: Callable[..., Any]) -> Rule:
    def run(frame: Frame, *values: Value) -> Value:
        listed = fields(frame, values[0]) if len(values) == 1 else values
        if not listed:
            raise frame.wrong(f"{known.__name__} of nothing")
        if all(map(is_number, listed)):
            return known(listed)
        for v in listed:
            if isinstance(v, Expr) and isinstance(v.ty, TensorType) and v.ty.rank:
                raise frame.wrong(f"{known.__name__} of tensors", f"use relay.{name}", [f"got : {v.ty}"])
        return reduce(lambda a, b: frame.call(name, a, b), listed)

    return run


def _sum(frame: Frame, values: Value, start: Value = 0) -> Value:
    def add(a: Value, b: Value) -> Value:
        if is_number(a) and is_number(b):
            return a + b
        return b if is_number(a) and a == 0 else frame.call("add", a, b)

    return reduce(add, fields(frame, values), start)


def _number(kind: type, dtype: dt.DType) -> Rule:
    def run(frame: Frame, value: Value) -> Value:
        if is_number(value) or isinstance(value, str | np.generic):
            try:
                return kind(value)
            except (ValueError, OverflowError) as error:
                raise frame.wrong(f"{kind.__name__} of {value!r}: {error}") from error
        e = frame.expr(value)
        if isinstance(e.ty, TensorType) and e.ty.rank:
            hint = f'use relay.cast(x, "{dtype}")'
            raise frame.wrong(f"{kind.__name__} of a tensor that is no scalar", hint, [f"got : {e.ty}"])
        return cast_to(frame, e, dtype)

    return run


def cast_to(frame: Frame, e: Expr, dtype: dt.DType) -> Expr:
    """`e` with elements of `dtype`, as Python converts: bool is whether it is not 0."""
    if isinstance(e.ty, TensorType) and e.ty.dtype == dtype:
        return e
    if dtype.is_bool:
        return frame.call("not_equal", e, 0)
    return frame.call("cast", e, dtype=dtype)


def _range(frame: Frame, *bounds: Value) -> Value:
    if any(is_dynamic(b) for b in bounds):
        raise frame.unsupported("range as a value", "it has a meaning in `for i in range(…)`; relay.arange is a tensor")
    if is_foreign(bounds):
        raise frame.wrong(f"range takes whole numbers, got {' and '.join(map(describe, bounds))}")
    counted = range(*bounds)
    if len(counted) > LONGEST:
        raise frame.unsupported(
            f"a tuple of {len(counted)} fields", "loop over the range itself; relay.arange is a tensor"
        )
    return tuple(counted)


def _enumerate(frame: Frame, values: Value, start: int = 0) -> Value:
    return tuple(enumerate(fields(frame, values), start))


def _zip(frame: Frame, *values: Value, strict: bool = False) -> Value:
    listed = [fields(frame, v) for v in values]
    if strict and len(set(map(len, listed))) > 1:
        raise frame.wrong(f"zip of {' and '.join(str(len(v)) for v in listed)} fields, with strict=True")
    return tuple(zip(*listed, strict=False))


def _isinstance(frame: Frame, value: Value, kind: Value) -> Value:
    raise frame.unsupported("isinstance: types are known before the program runs", "write one function for each type")


def _print(frame: Frame, *values: Value) -> Value:
    raise frame.unsupported("print: Relay has no output", "return the value")


_RULES: Final[Mapping[Any, Rule]] = {
    builtins.len: _len,
    builtins.abs: _abs,
    builtins.min: _extreme("minimum", min),
    builtins.max: _extreme("maximum", max),
    builtins.sum: _sum,
    builtins.int: _number(int, dt.int32),
    builtins.float: _number(float, dt.float32),
    builtins.bool: _number(bool, dt.bool_),
    builtins.tuple: lambda frame, value=(): fields(frame, value),
    builtins.list: lambda frame, value=(): fields(frame, value),
    builtins.reversed: lambda frame, value: fields(frame, value)[::-1],
    builtins.range: _range,
    builtins.enumerate: _enumerate,
    builtins.zip: _zip,
    builtins.isinstance: _isinstance,
    builtins.print: _print,
}
BUILTINS: Final[Mapping[Any, Native]] = {f: Native(f.__name__, rule) for f, rule in _RULES.items()}


# ------------------------------------------------------------------ attributes of tensors


def tensor_attribute(frame: Frame, e: Expr, name: str) -> Value:
    """`e.shape` and the like. UnsupportedError for what a tensor does not have here."""
    if isinstance(e.ty, TupleType):
        raise frame.unsupported(f"a tuple has no attribute {name!r} here", "take it apart: a, b = t")
    if name == "astype":
        return Bound(Native("astype", _astype), (e,))
    if name not in ("shape", "dtype", "ndim", "T", "size"):
        hint = f"use the operator: relay.{name}(x, …)" if hasattr(np.ndarray, name) else "it has shape, dtype, ndim, T"
        raise frame.unsupported(f"a tensor has no attribute {name!r} here", hint)
    ty = frame.tensor_type(e, f".{name}")
    match name:
        case "shape":
            return tuple(map(plain, ty.shape))
        case "dtype":
            return ty.dtype.name
        case "ndim":
            return ty.rank
        case "size":
            return plain(reduce(lambda a, b: a * b, ty.shape)) if ty.rank else 1
        case _:
            return frame.call("transpose", e)


def _astype(frame: Frame, e: Expr, dtype: Any) -> Value:
    if is_foreign(dtype):
        raise frame.wrong(f"{describe(dtype)} is no dtype")
    return frame.call("cast", e, dtype=dt.dtype(dtype))


def array_attribute(frame: Frame, data: Any, name: str) -> Value:
    """The same of a NumPy array, which is known."""
    if name in ("shape", "ndim", "size", "T"):
        return getattr(data, name)
    if name == "dtype":
        return dt.dtype(data.dtype).name
    return tensor_attribute(frame, frame.expr(data), name)
