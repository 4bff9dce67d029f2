"""Dims that only tensors and shapes inside values of data types have: what they are in a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from legato.runtime.datatypes import DataInfo, Field, ObjectInfo, TensorField
from legato.runtime.values import Data, as_data

__all__ = ["data_dims", "extent_of", "told"]


def data_dims(types: Sequence[DataInfo], objects: Sequence[ObjectInfo]) -> set[str]:
    """The dims that values of `objects` can tell: plain sizes of tensors in them, or values that are extents."""
    found: set[str] = set()
    met: set[int] = set()
    stack: list[Field] = [obj.data for obj in objects]
    while stack:
        field = stack.pop()
        if isinstance(field, tuple):
            stack += field
        elif isinstance(field, TensorField):
            found |= {size for size in field.sizes if isinstance(size, str)}
        elif field not in met:
            met.add(field)
            for constructor in types[field].constructors if field < len(types) else ():
                stack += constructor.fields
    return found


def told(
    types: Sequence[DataInfo], objects: Sequence[ObjectInfo], values: Sequence[object], dims: Sequence[str]
) -> tuple[int | None, ...]:
    """What the first tensor with each of `dims` says of it, in the order of the values; None where there is none.

    What does not fit its type is passed over: whoever makes objects of the values refuses it.
    """
    found: dict[str, int] = {}
    for field, value in _tensors(types, objects, values):
        shape = np.shape(value)
        extents = shape if field.value is None else extent_of(value)
        for size, extent in zip(field.sizes, extents, strict=False):
            if isinstance(size, str) and size in dims and len(shape) == len(field.shape):
                found.setdefault(size, extent)
        if len(found) == len(dims):
            break
    return tuple(found.get(name) for name in dims)


def extent_of(value: object) -> tuple[int, ...]:
    """The extent that an integer or a scalar is; nothing where `value` is none."""
    number = value.item() if isinstance(value, np.ndarray | np.generic) and not value.ndim else value
    return (number,) if type(number) is int and number >= 0 else ()


def _tensors(
    types: Sequence[DataInfo], objects: Sequence[ObjectInfo], values: Sequence[object]
) -> Iterator[tuple[TensorField, Any]]:
    """The tensors in `values`, in their order."""
    met: set[tuple[int, int]] = set()
    stack = _paired(tuple(obj.data for obj in objects), tuple(values))
    while stack:
        field, value = stack.pop()
        if isinstance(field, TensorField):
            yield field, value
        elif isinstance(field, tuple):
            stack += _paired(field, value)
        elif (field, id(value)) not in met:
            met.add((field, id(value)))
            stack += _paired(*_case(types[field], as_data(value)))


def _case(ty: DataInfo, value: object) -> tuple[tuple[Field, ...], tuple[Any, ...]]:
    tag = getattr(value.constructor, "tag", None) if isinstance(value, Data) else None
    if not isinstance(value, Data) or not isinstance(tag, int) or not 0 <= tag < len(ty.constructors):
        return (), ()
    return ty.constructors[tag].fields, value.fields


def _paired(fields: tuple[Field, ...], values: Any) -> list[tuple[Field, Any]]:
    if not isinstance(values, tuple) or len(values) != len(fields):
        return []
    return list(zip(fields, values, strict=True))[::-1]
