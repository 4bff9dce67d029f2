"""Rows of sparse tensors that have no element: sparse_fill_empty_rows, made of other operators (`expand`)."""

from __future__ import annotations

import numpy as np

from legato.base import dtype as dt
from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ops._computed import as_dims
from legato.ops._dynamic import known_count
from legato.ops._families import Array
from legato.ops._gradients import dtype_of, shape_of
from legato.ops._rules import INT, require_dtype, require_rank, tensor

__all__ = ["sparse_fill_empty_rows"]


def _relation(rel: Relation, indices: Type, values: Type, dense_shape: Type, default: Type) -> Type:
    places, elements = tensor(rel, indices, "sparse_indices"), tensor(rel, values, "sparse_values")
    shape = tensor(rel, dense_shape, "dense_shape")
    require_dtype(rel, places, INT, "sparse_indices")
    require_rank(rel, places, 2, what="sparse_indices")
    require_rank(rel, elements, 1, what="sparse_values")
    require_rank(rel, shape, 1, what="dense_shape")
    rel.unify(default, TensorType((), elements.dtype), "default_value")
    if not known_count(rel, shape, "dense_shape"):
        raise rel.fail("dense_shape has no dims")
    rel.same(places.shape[1], shape.shape[0], "subscripts of each element")
    rel.same(places.shape[0], elements.shape[0], "a row of subscripts for each element")
    found, known = rel.fresh("filled"), rel.value(2)
    rows: Dim = known[0] if known is not None else rel.fresh("rows")
    return TupleType((TensorType((found, places.shape[1]), places.dtype), TensorType((found,), elements.dtype),
                      TensorType((rows,), dt.bool_)))  # fmt: skip


def _reference(indices: Array, values: Array, dense_shape: Array, default: Array) -> tuple[Array, Array, Array]:
    rows = np.ones(int(dense_shape[0]), bool)
    first = indices[:, 0].astype(np.int64)
    rows[first[(first >= 0) & (first < len(rows))]] = False
    empty = np.zeros((int(rows.sum()), indices.shape[1]), indices.dtype)
    empty[:, 0] = np.flatnonzero(rows)
    whole, filled = np.concatenate([indices, empty]), np.full(len(empty), default[()], values.dtype)
    order = np.argsort(whole[:, 0], kind="stable")
    return whole[order], np.concatenate([values, filled])[order], rows


def _expand(b: Builder, indices: Expr, values: Expr, dense_shape: Expr, default: Expr) -> Expr:
    first = b.cast(b.take(indices, 0, axis=1), dtype=dt.int64)
    (rows, *_) = as_dims(b, dense_shape, "dense_shape")
    hits = b.zeros(shape=(rows,), dtype=dt.int64)
    # scatter counts a place below 0 from the end: such a row is behind all here
    extent = b.take(b.cast(dense_shape, dtype=dt.int64), 0, axis=0)
    place = b.where(b.less(first, b.constant(0, dt.int64)), extent, first)
    one = b.ones(shape=shape_of(first), dtype=dt.int64)
    hits = b.scatter_nd(hits, b.expand_dims(place, axis=0), one, mode="add")
    missing = b.equal(hits, b.constant(0, dt.int64))
    empty = b.argwhere(missing, dtype=dt.int64)
    count = shape_of(empty)[0]
    width = shape_of(indices)[1]
    rest = b.zeros(shape=(count, width - 1), dtype=dtype_of(indices))
    added = b.concatenate((b.cast(empty, dtype=dtype_of(indices)), rest), axis=1)
    whole = b.concatenate((indices, added), axis=0)
    filled = b.concatenate((values, b.full(default, shape=(count,))), axis=0)
    order = b.argsort(b.take(whole, 0, axis=1), axis=0, dtype=dt.int64)
    return b.tuple_((b.take(whole, order, axis=0), b.take(filled, order, axis=0), missing))


_ROWS = np.array([[0, 1], [0, 3], [2, 0], [3, 1]], np.int64)
_ZERO = np.array(-1, np.float32)

sparse_fill_empty_rows = Op(
    name="sparse_fill_empty_rows",
    args=("sparse_indices", "sparse_values", "dense_shape", "default_value"),
    type_rel=_relation,
    reference=_reference,
    expand=_expand,
    samples=(
        Sample((_ROWS, ((4,), "float32"), np.array([6, 4]), _ZERO), exact=True),
        Sample((_ROWS[::-1].copy(), ((4,), "float32"), np.array([4, 4]), _ZERO), exact=True),
        Sample((np.zeros((0, 1), np.int32), ((0,), "float32"), np.array([2], np.int32), _ZERO), exact=True),
    ),
    doc="""(subscripts, values, empty) of a sparse tensor with `default_value` at the start of each row that was empty.

`empty` says of each row whether it was. Elements come by their rows, those of one row in the order that they had.""",
)
