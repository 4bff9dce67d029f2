"""What operators that only move elements have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from legato.arith.expr import Const, Expr, const
from legato.ir.attrs import dims_of
from legato.ir.types import Dim, TensorType, TupleType
from legato.ops._families import Array

__all__ = ["as_dim", "as_int", "by_reference", "total"]


def as_dim(value: Dim | int) -> Dim:
    """An attribute's entry as a dim."""
    return value if isinstance(value, Expr) else const(int(value))


def as_int(d: Dim) -> int:
    """A literal dim as an int (references are only called with such)."""
    assert isinstance(d, Const)
    return int(d.value)


def total(x: Array) -> tuple[Dim, ...]:
    """The shape of an array as dims."""
    return tuple(const(n) for n in x.shape)


def by_reference(reference: Callable[..., Any]) -> Callable[..., tuple[Dim, ...] | None]:
    """The value rule of an operator that only moves elements: its reference, run on an array of dims."""

    def value(*given: Any) -> tuple[Dim, ...] | None:
        has_attrs = len(given) % 2 == 1
        count = len(given) // 2
        values, attrs, types = given[:count], given[count : count + has_attrs], given[count + has_attrs :]
        if any(not _known(v) for v in values) or any(_symbolic(a) for a in attrs):
            return None
        arrays = [_array(v, t) for v, t in zip(values, types, strict=True)]
        return tuple(np.asarray(reference(*arrays, *attrs), object).ravel().tolist())

    return value


def _known(value: Any) -> bool:
    return value is not None and all(v is not None and (isinstance(v, Expr) or _known(v)) for v in value)


def _symbolic(attrs: Any) -> bool:
    return any(not isinstance(d, Const) for f in fields(attrs) for d in dims_of(getattr(attrs, f.name)))


def _array(value: Any, ty: TensorType | TupleType) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_array(v, f) for v, f in zip(value, ty.fields, strict=True) if isinstance(f, TensorType))
    array = np.empty(len(value), object)
    array[:] = list(value)
    return array.reshape(ty.static_shape())
