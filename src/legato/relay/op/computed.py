"""Attributes that the program computes: the call is one of the operator `dyn.X` then, as in Relay.

reshape(x, s)                        is          dyn.reshape(x, s)                   s : Tensor[(2,), int64]
reshape(x, (n, 4))                   is          dyn.reshape(x, concatenate((…)))    n : int64
strided_slice(x, b, [4], axes=[1])   is          dyn.strided_slice(x, b, [4], [1], axes=[1])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.arith.expr import Expr as Dim
from legato.base.dtype import DType
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir.expr import Constant, Expr
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.ops import table
from legato.ops._computed import stacked

__all__ = ["PREFIX", "dynamic", "with_tensors"]

PREFIX: Final = "dyn."
_DEFAULTS: Final[Mapping[str, Any]] = {"strides": [1], "step": 1}  # for None


def dynamic(record: Op, given: Mapping[str, Any]) -> Op:
    """The operator that a call is of: `record`, or `dyn.` of it where attributes are computed that this takes."""
    arguments = {a.lstrip("*") for a in record.args}
    if not any(_is_computed(v) for name, v in given.items() if name not in arguments):
        return record
    found = table().get(f"{PREFIX}{record.name}")
    if found is None or not any(_is_computed(given.get(a)) for a in _numbers_of(found)):
        return record  # which says what it does not take
    return found


def _numbers_of(record: Op) -> tuple[str, ...]:
    """The arguments of `dyn.X` that are attributes of X."""
    static = table()[record.name.removeprefix(PREFIX)]
    return tuple(a for a in record.args if a not in static.args)


def _is_computed(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_computed, value))
    return isinstance(value, Expr) and not isinstance(value, Constant)


def with_tensors(record: Op, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a call of `dyn.X` is given, with tensors for numbers and lists."""
    found, b = dict(given), Builder()
    if record.name == "dyn.arange":
        return found | _range(b, given)
    for name in _numbers_of(record):
        value = given[name]
        if name == "roi" and value is None:
            value = np.zeros(2 * int(record.name[-2]), np.float32)
        dtype = "float32" if name == "roi" or name.startswith("scale") else "int64"
        found[name] = _tensor(b, record, name, _DEFAULTS.get(name) if value is None else value, dtype)
    return found


def _range(b: Builder, given: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds and step in the dtype of the result; arange(stop) is arange(0, stop)."""
    start, stop, step = given["start"], given["stop"], given["step"]
    if stop is None:
        start, stop = 0, start
    ends = {"start": start, "stop": stop, "step": _DEFAULTS["step"] if step is None else step}
    dtype = given.get("dtype")
    return ends if dtype is None else {n: _as(b, v, as_dtype(dtype)) for n, v in ends.items()}


def _as(b: Builder, value: Any, dtype: DType) -> Any:
    if not isinstance(value, Expr):
        return b.constant(value, dtype)
    is_other = isinstance(value.ty, TensorType) and value.ty.dtype != dtype
    return b.cast(value, dtype=dtype) if is_other else value


def _tensor(b: Builder, record: Op, name: str, value: Any, dtype: str) -> Any:
    """A number, a list of such, or an array, which may have expressions and dims in it, as one tensor."""
    if isinstance(value, Expr):
        return value
    flat = [*_leaves(value)]
    if dtype == "int64" and not all(isinstance(v, Expr | Dim | int | np.integer) for v in flat):
        raise TypeCheckError(f"relay.{record.name}: {name} is {value}, wanted integers")
    if not any(isinstance(v, Expr | Dim) for v in flat):
        return b.constant(np.asarray(value, dtype))
    if any(isinstance(v, Expr) and not isinstance(v.ty, TensorType) for v in flat):
        hint = "infer types first, or give one tensor of integers"
        raise UnsupportedError(f"relay.{record.name}: {name} has entries whose type is not known yet", hint=hint)
    shape = np.shape(_places(value))
    try:
        return b.reshape(stacked(b, [_number(b, v) for v in flat]), newshape=shape)
    except TypeCheckError as error:
        raise TypeCheckError(f"relay.{record.name}: the entries of {name} are numbers", details=[str(error)]) from error


def _number(b: Builder, value: Any) -> Expr:
    if isinstance(value, Dim):
        return b.arange(start=value, stop=value + 1, step=1, dtype="int64")
    return value if isinstance(value, Expr) else b.constant(int(value), "int64")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        for v in value:
            yield from _leaves(v)
    else:
        yield value


def _places(value: Any) -> Any:
    """Lists as they nest, with 0 for what is in them."""
    return [_places(v) for v in value] if isinstance(value, Sequence | np.ndarray) else 0
