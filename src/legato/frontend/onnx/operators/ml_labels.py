"""Tables from labels to labels of classical machine learning: strings, integers and floats, which are only compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.tensors import Array
from legato.ir.expr import Expr

DOMAIN = "ai.onnx.ml"

_MANY = 128  # numbers: beyond it they are sorted
_MANY_WORDS = 4096  # beyond it a table in Python is faster


def label_encoder(
    b: Emitter,
    x: Expr,
    *,
    classes_strings: tuple[str, ...],
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Expr:
    """The numbers of strings in a list, or the strings that numbers stand for."""
    strings, numbers = np.array(classes_strings, object), np.arange(len(classes_strings))
    return _either_way(b, x, strings, numbers, default_int64, default_string)


def category_mapper(
    b: Emitter,
    x: Expr,
    *,
    cats_int64s: tuple[int, ...],
    cats_strings: tuple[str, ...],
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Expr:
    return _either_way(
        b, x, np.array(cats_strings, object), np.array(cats_int64s, np.int64), default_int64, default_string
    )


def _either_way(b: Emitter, x: Expr, strings: Array, numbers: Array, unknown: int, other: str) -> Expr:
    if b.dtype(x).is_string:
        return _looked_up(b, x, strings, numbers, np.array(unknown, np.int64))
    return _looked_up(b, x, numbers, strings, np.array(other, object))


def label_encoder_2(
    b: Emitter,
    x: Expr,
    *,
    keys_floats: tuple[float, ...] = (),
    keys_int64s: tuple[int, ...] = (),
    keys_strings: tuple[str, ...] = (),
    keys_tensor: Array | None = None,
    values_floats: tuple[float, ...] = (),
    values_int64s: tuple[int, ...] = (),
    values_strings: tuple[str, ...] = (),
    values_tensor: Array | None = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Array | None = None,
) -> Expr:
    """The values of keys, the default of others."""
    keys = _only("keys", keys_floats, keys_int64s, keys_strings, keys_tensor)
    values = _only("values", values_floats, values_int64s, values_strings, values_tensor)
    if default_tensor is not None:
        default = np.asarray(default_tensor).reshape(-1)
        if default.size != 1 or default.dtype != values.dtype:
            raise ImportModelError(
                f"default_tensor is {default.dtype} of {default.size}, the values are {values.dtype}"
            )
        return _looked_up(b, x, keys, values, default.reshape(()))
    kind = dt.dtype(values.dtype)
    other: Any = default_string if kind.is_string else default_float if kind.is_float else default_int64
    return _looked_up(b, x, keys, values, np.array(other, values.dtype))


def _only(
    what: str, floats: Sequence[float], ints: Sequence[int], strings: Sequence[str], whole: Array | None
) -> Array:
    """The one of these that is given, as a vector."""
    given: list[Array] = [np.array(floats, np.float32)] if floats else []
    given += [np.array(ints, np.int64)] if ints else []
    given += [np.array(strings, object)] if strings else []
    given += [np.asarray(whole).reshape(-1)] if whole is not None else []
    if len(given) != 1:
        raise ImportModelError(f"{len(given)} attributes with {what}, wanted one")
    return given[0]


def _looked_up(b: Emitter, x: Expr, keys: Array, values: Array, default: Array) -> Expr:
    """The value of each element of x."""
    if len(keys) != len(values):
        raise ImportModelError(f"{len(keys)} keys and {len(values)} values")
    if dt.dtype(keys.dtype) != b.dtype(x):
        raise ImportModelError(f"the keys are {dt.dtype(keys.dtype)}, the labels {b.dtype(x)}")
    first = _first(keys)
    table = np.concatenate([default.reshape(1), values[first]])
    return b.take(b.constant(table), _numbers(b, x, keys[first]), axis=0, mode="fast")


def _first(keys: Array) -> list[int]:
    """Where each key is first: what comes again is never found."""
    found: dict[Any, int] = {}
    for n, key in enumerate(keys.tolist()):
        found.setdefault("NaN" if key != key else key, n)
    return list(found.values())


def _numbers(b: Emitter, x: Expr, keys: Array) -> Expr:
    """Which of different keys each element of x is, counted from 1; 0: none. NaN is NaN."""
    if not len(keys):
        return b.zeros(shape=b.dims_of(x), dtype=dt.int64)
    if keys.dtype.kind in "iu" and int(keys[-1]) - int(keys[0]) == len(keys) - 1 and (np.diff(keys) == 1).all():
        return _in_range(b, x, int(keys[0]), len(keys))
    if keys.dtype.kind == "O" and len(keys) > _MANY_WORDS:
        return b.strings.place(x, words=tuple(keys.tolist()))
    if keys.dtype.kind != "O" and len(keys) > _MANY and not (keys != keys).any():
        return _searched(b, x, keys)
    each = b.expand_dims(x, axis=b.rank(x))
    hits = b.equal(each, b.constant(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        hits = b.logical_or(hits, b.logical_and(b.isnan(each), b.constant(np.isnan(keys))))
    places = b.constant(np.arange(1, len(keys) + 1))
    return b.sum(b.where(hits, places, b.constant(0, dt.int64)), axis=-1)


def _searched(b: Emitter, x: Expr, keys: Array) -> Expr:
    """As `_numbers`, by halving the sorted keys."""
    order = np.argsort(keys, kind="stable")
    table, place = b.constant(keys[order]), b.zeros(shape=b.dims_of(x), dtype=dt.int64)
    step = 1 << len(keys).bit_length()
    while step := step >> 1:
        further = b.let("further", b.add(place, b.constant(step, dt.int64)))
        is_right = b.less_equal(b.take(table, further, axis=0, mode="clip"), x)  # behind the end is the last one
        place = b.let("place", b.where(is_right, further, place))
    found = b.equal(b.take(table, place, axis=0, mode="clip"), x)
    return b.where(found, b.take(b.constant(order + 1), place, axis=0, mode="clip"), b.constant(0, dt.int64))


def _in_range(b: Emitter, x: Expr, first: int, count: int) -> Expr:
    """As `_numbers`, for keys that follow each other."""
    inside = b.logical_and(b.greater_equal(x, b.like(first, x)), b.less_equal(x, b.like(first + count - 1, x)))
    place = b.add(b.subtract(b.to(x, dt.int64), b.constant(first, dt.int64)), b.constant(1, dt.int64))
    return b.where(inside, place, b.constant(0, dt.int64))
