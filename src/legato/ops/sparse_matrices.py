"""Sparse matrices, row by row: nn.sparse_transpose and nn.sparse_add.

    data       (count,)       the elements
    indices    (count,)       the column of each
    indptr     (rows + 1,)    where each row begins: element e is in the last row that begins at e or before

An element before the first row is in row −1, one behind the last in row `rows`. So is one whose column is none in
column −1 or behind the last. Such elements stay where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.ir.expr import Expr, constant
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._families import quiet
from legato.ops._rules import INT, NUMBER, at_least, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["sparse_add", "sparse_transpose"]

_NOWHERE = dt.int64.max  # a subscript behind the last of any dim


def _checked(rel: Relation, data: Type, indices: Type, indptr: Type) -> tuple[TensorType, TensorType, TensorType]:
    """The types of a matrix's parts."""
    parts = {"sparse_data": data, "sparse_indices": indices, "sparse_indptr": indptr}
    values, columns, begins = (tensor(rel, ty, what) for what, ty in parts.items())
    for ty, what, kind in zip((values, columns, begins), parts, (NUMBER, INT, INT), strict=True):
        require_rank(rel, ty, 1, what=what)
        require_dtype(rel, ty, kind, what)
    rel.same(columns.shape[0], values.shape[0], "an index for each element")
    at_least(rel, begins.shape[0], 1, "the extent of sparse_indptr")
    return values, columns, begins


def _rows(indptr: Array, count: int) -> Array:
    """The row of each element."""
    begins = np.maximum(indptr.astype(np.int64), 0)
    return np.cumsum(np.bincount(begins[begins < count], minlength=count)) - 1


def _rows_of(b: Builder, indptr: Expr, data: Expr) -> Expr:
    """As `_rows`, by operators."""
    begins = b.maximum(b.cast(indptr, dtype="int64"), _int(0))
    return b.subtract(b.cumsum(_counts(b, begins, data), axis=0), _int(1))


def _counts(b: Builder, places: Expr, like: Expr) -> Expr:
    """How many of `places` (of at least 0) are each subscript of a vector as long as `like`."""
    assert isinstance(places.ty, TensorType)
    assert isinstance(like.ty, TensorType)
    (n,), (count,) = places.ty.shape, like.ty.shape
    zeros = b.zeros(shape=(count,), dtype="int64")
    at = b.reshape(places, newshape=(const(1), n), allowzero=True)
    return b.scatter_nd(zeros, at, b.ones(shape=(n,), dtype="int64"), mode="add")


def _int(value: int) -> Expr:
    return constant(np.int64(value), dt.int64)


def _place(b: Builder, subscripts: Expr) -> Expr:
    """`subscripts` as places: those below 0 are nowhere, rather than counted from the end."""
    found = b.cast(subscripts, dtype="int64")
    return b.where(b.less(found, _int(0)), _int(_NOWHERE), found)


# ------------------------------------------------------------------------------- nn.sparse_transpose


def _transpose_relation(rel: Relation, data: Type, indices: Type, indptr: Type) -> Type:
    return TupleType(_checked(rel, data, indices, indptr))


def _transpose_reference(data: Array, indices: Array, indptr: Array) -> tuple[Array, Array, Array]:
    columns = indices.astype(np.int64)
    order = np.argsort(columns, kind="stable")
    counts = np.bincount(columns[(columns >= 0) & (columns < len(indptr) - 1)], minlength=len(indptr) - 1)
    begins = np.concatenate([[0], np.cumsum(counts)]) + np.count_nonzero(columns < 0)
    rows = _rows(indptr, len(data))
    return data[order], rows[order].astype(indices.dtype), begins.astype(indptr.dtype)


def _transpose_expand(b: Builder, data: Expr, indices: Expr, indptr: Expr) -> Expr:
    assert isinstance(indices.ty, TensorType)
    assert isinstance(indptr.ty, TensorType)
    order = b.argsort(b.cast(indices, dtype="int64"), axis=0, dtype="int64")
    rows = b.take(_rows_of(b, indptr, data), order, axis=0)
    first = b.sum(b.cast(b.less(b.cast(indices, dtype="int64"), _int(0)), dtype="int64"), axis=(0,), keepdims=True)
    rest = b.strided_slice(indptr, begin=(1,), end=indptr.ty.shape)
    ends = b.add(b.cumsum(_counts(b, _place(b, indices), rest), axis=0), first)
    begins = b.concatenate((first, ends), axis=0)
    return b.tuple_([
        b.take(data, order, axis=0),
        b.cast(rows, dtype=indices.ty.dtype),
        b.cast(begins, dtype=indptr.ty.dtype),
    ])  # fmt: skip


_VALUES = ((5,), "float32")
_COLUMNS = np.array([2, 0, 2, 1, 0], np.int32)
_BEGINS = np.array([0, 2, 3, 5], np.int32)
_SAMPLES = (
    Sample((_VALUES, _COLUMNS, _BEGINS), exact=True),
    Sample((((5,), "int8"), _COLUMNS.astype("int64"), _BEGINS.astype("int64")), exact=True),
    Sample((_VALUES, np.array([2, -1, 7, 1, 3], np.int64), np.array([1, 1, -2, 9], np.int32)), exact=True),
    Sample((((0,), "float32"), _COLUMNS[:0], np.zeros(1, np.int32)), exact=True),
)

sparse_transpose = Op(
    name="nn.sparse_transpose",
    args=("sparse_data", "sparse_indices", "sparse_indptr"),
    type_rel=_transpose_relation,
    reference=quiet(_transpose_reference),
    expand=_transpose_expand,
    samples=_SAMPLES,
    doc="""(data, indices, indptr) of the transposed matrix, of a square one given so, row by row.

Element e has the column sparse_indices[e], and is in the last row r with sparse_indptr[r] ≤ e.""",
)

# ------------------------------------------------------------------------------- nn.sparse_add


def _add_relation(rel: Relation, dense: Type, data: Type, indices: Type, indptr: Type) -> Type:
    ty = tensor(rel, dense, "dense_data")
    require_rank(rel, ty, 2, what="dense_data")
    values, _, begins = _checked(rel, data, indices, indptr)
    same_dtype(rel, ty, values)
    rel.same(begins.shape[0] - 1, ty.shape[0], "rows of both matrices")
    return ty


def _add_reference(dense: Array, data: Array, indices: Array, indptr: Array) -> Array:
    rows, columns, out = _rows(indptr, len(data)), indices.astype(np.int64), dense.copy()
    kept = (rows >= 0) & (rows < dense.shape[0]) & (columns >= 0) & (columns < dense.shape[1])
    np.add.at(out, (rows[kept], columns[kept]), data[kept])
    return out


def _add_expand(b: Builder, dense: Expr, data: Expr, indices: Expr, indptr: Expr) -> Expr:
    rows = _place(b, _rows_of(b, indptr, data))
    return b.scatter_nd(dense, b.stack((rows, _place(b, indices)), axis=0), data, mode="add")


sparse_add = Op(
    name="nn.sparse_add",
    args=("dense_data", "sparse_data", "sparse_indices", "sparse_indptr"),
    type_rel=_add_relation,
    reference=quiet(_add_reference),
    expand=_add_expand,
    samples=tuple(Sample((((s.args[2].size - 1, 3), v[1]), *s.args), exact=True) for s in _SAMPLES for v in s.args[:1]),
    doc="""The sum of a matrix and a sparse one, given row by row as for nn.sparse_transpose.

Elements whose row or column there is not are left out; several at one place are added in order.""",
)
