"""`append` and `put`: tensors that change a little, where a program needs the old ones no more.

    append(data, rows, axis)     `rows` behind `data` along `axis`, before which `data` has extents of 1
    put(data, index, row)        `data` with another row `index` along its first dimension

`transform.update_in_place` makes them of what loops do to their parameters, so that a turn takes time for the rows
alone. As values they are like any other: what they mean does not depend on how it comes about.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.arith.expr import Const, const
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Op, Relation
from legato.ir.types import Dim, TensorType, Type

__all__ = ["APPEND", "PUT", "UPDATES", "AppendAttrs", "is_one"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class AppendAttrs(Attrs):
    """The dimension along which the rows follow; all before it are 1."""

    axis: int = 0


def is_one(d: Dim) -> bool:
    """True for the literal 1."""
    return isinstance(d, Const) and d.value == 1


def _append_type(relation: Relation, data: Type, rows: Type, attrs: AppendAttrs) -> Type:
    if not isinstance(data, TensorType) or attrs.axis not in range(data.rank):
        raise relation.fail(f"data must be a tensor with a dim {attrs.axis}, got {data}")
    if not all(map(is_one, data.shape[: attrs.axis])):
        raise relation.fail(f"data must have extents of 1 before dim {attrs.axis}, got {data}")
    if not isinstance(rows, TensorType) or rows.dtype != data.dtype or data.rank - rows.rank not in (0, 1):
        raise relation.fail(f"rows must be a row of {data}, or several; got {rows}")
    shape = list(rows.shape)
    if rows.rank < data.rank:
        shape.insert(attrs.axis, const(1))
    extent = data.shape[attrs.axis] + shape[attrs.axis]
    same = [relation.same(a, b, f"dim {n} of data and rows") if n != attrs.axis else extent
            for n, (a, b) in enumerate(zip(data.shape, shape, strict=True))]  # fmt: skip
    return TensorType(tuple(same), data.dtype)


def _append(data: Array, rows: Array, attrs: AppendAttrs) -> Array:
    return np.concatenate(
        (data, rows.reshape(*data.shape[: attrs.axis], -1, *data.shape[attrs.axis + 1 :])), attrs.axis
    )


def _put_type(relation: Relation, data: Type, index: Type, row: Type) -> Type:
    if not isinstance(data, TensorType) or not data.rank:
        raise relation.fail(f"data must be a tensor of rank 1 or more, got {data}")
    if not isinstance(index, TensorType) or not index.dtype.is_int or not all(map(is_one, index.shape)):
        raise relation.fail(f"index must be one integer, got {index}")
    if not isinstance(row, TensorType) or row.dtype != data.dtype or row.rank != data.rank - 1:
        raise relation.fail(f"row must be a row of {data}, got {row}")
    for n, (a, b) in enumerate(zip(data.shape[1:], row.shape, strict=True), 1):
        relation.same(a, b, f"dim {n} of data")
    return data


def _put(data: Array, index: Array, row: Array) -> Array:
    at, found = int(index.item()), data.copy()
    if -len(data) <= at < len(data):
        found[at] = row
    return found


APPEND = Op(
    name="append",
    args=("data", "rows"),
    attrs=AppendAttrs,
    type_rel=_append_type,
    reference=_append,
    strings=True,
    doc="A tensor with rows more, which may be one of a rank less.",
)
PUT = Op(
    name="put",
    args=("data", "index", "row"),
    type_rel=_put_type,
    reference=_put,
    strings=True,
    doc="A tensor with another row: a negative index counts from the end, one outside changes nothing.",
)
UPDATES = (APPEND, PUT)
