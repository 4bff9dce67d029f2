"""The transposes of products with sparse matrices: nn.sparse_dense_data_grad and nn.sparse_dense_values_grad.

For Y = X·Wᵀ, of which dY is given, they are dY·W, and dYᵀ·X at the places of W's blocks alone. The matrix is walked as
the product does (`sparse_products.columns_of_row`), one row after the other, so that the results have the same bits for
any number of threads. In nn.sparse_conv2d, X is the matrix of windows (`_sparse_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from legato.arith.expr import Expr, Var, cdiv, const, floordiv, floormod, lt, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._families import quiet
from legato.ops._gradients import Contribution, extents, shape_of
from legato.ops._moving import as_dim, as_int
from legato.ops._rules import require_rank, same_shape, tensor
from legato.ops._tensors import Array, accumulator, cast_to, narrowed, wide
from legato.ops.sparse_products import SparseDenseAttrs, columns_of_row, elements_of, sparse_dense
from legato.te.tensor import Tensor, compute, loops
from legato.tir.expr import cast
from legato.tir.stmt import For, LoopKind, Stmt, Store, block

__all__ = ["SparseDenseDataGradAttrs", "SparseDenseValuesGradAttrs", "sparse_dense_data_grad",
           "sparse_dense_values_grad"]  # fmt: skip

_LANES = 8  # rows of the data that are added up side by side


@dataclass(frozen=True, slots=True)
class SparseDenseDataGradAttrs(SparseDenseAttrs):
    """As of nn.sparse_dense; `columns`: those of the data."""

    columns: Dim | int = 0


@dataclass(frozen=True, slots=True)
class SparseDenseValuesGradAttrs(SparseDenseAttrs):
    """As of nn.sparse_dense; `shape`: that of the blocks."""

    shape: tuple[Dim | int, ...] = ()


def _along_rows(dy: Tensor, a: SparseDenseAttrs) -> Callable[[Expr, Expr], Expr]:
    """dY[row of the data, row of the matrix]."""
    return (lambda n, r: dy[r, n]) if a.sparse_lhs else (lambda n, r: dy[n, r])


def _same(rel: Relation, data: Type, values: Type, rest: Sequence[Type], dy: TensorType, a: SparseDenseAttrs) -> bool:
    """Requires `dy` to be of the type of the product; False if that is not known yet."""
    found = sparse_dense.type_rel(rel, data, values, *rest, a)
    if not isinstance(found, TensorType):
        return False
    same_shape(rel, found.shape, dy.shape, "dy and the product")
    return True


# ------------------------------------------------------------------------------- of the data


def _data_relation(
    rel: Relation, dy: Type, values: Type, indices: Type, indptr: Type, a: SparseDenseDataGradAttrs
) -> Type | None:
    ty = tensor(rel, dy, "dy")
    require_rank(rel, ty, 2, what="dy")
    data = TensorType((ty.shape[1 if a.sparse_lhs else 0], as_dim(a.columns)), ty.dtype)
    return data if _same(rel, data, values, (indices, indptr), ty, a) else None


def _data_reference(dy: Array, values: Array, indices: Array, indptr: Array, a: SparseDenseDataGradAttrs) -> Array:
    rows = wide(dy if a.sparse_lhs else dy.T)
    blocks = wide(values.reshape(*values.shape, *(1,) * (3 - values.ndim)))
    _, height, width = blocks.shape
    out = np.zeros((as_int(as_dim(a.columns)), rows.shape[1]), rows.dtype)
    for row, e, c, column in elements_of(indices, indptr, width, len(out)):
        for i in range(height):
            out[column] += blocks[e, i, c] * rows[row * height + i]
    return np.ascontiguousarray(cast_to(out, dt.dtype(dy.dtype)).T)


def _data_compute(
    dy: Tensor, values: Tensor, indices: Tensor, indptr: Tensor, a: SparseDenseDataGradAttrs, out: TensorType
) -> Tensor:
    n, columns = out.shape
    height, width = (values.shape[d] if values.rank > d else const(1) for d in (1, 2))
    rows, dtype, lanes = indptr.shape[0] - 1, accumulator(out.dtype), const(_LANES)
    at, tiles = _along_rows(dy, a), cdiv(n, lanes)

    def element(t: Expr, r: Expr, lane: Expr) -> Expr:
        here = t * _LANES + lane
        return select(lt(here, n), cast(at(here, r), dtype), const(0, dtype))

    operand = compute((tiles, rows * height, lanes), element, "rows")

    def program(y: Tensor) -> Stmt:
        t, r, k, i = (Var(name, dt.index, 0) for name in ("t", "r", "k", "i"))

        def add(e: Expr, c: Expr, column: Expr) -> Stmt:
            value = cast(values[(e, i, c)[: values.rank]], dtype)

            def one(lane: Expr) -> Stmt:
                here = (t, column, lane)
                return Store(y, here, y[here] + operand[t, r * height + i, lane] * value)

            return For(i, height, _lanes(one))

        clear = For(k, columns, _lanes(lambda lane: Store(y, (t, k, lane), const(0, dtype))))
        extents = (values.shape[0], width, columns)
        return For(t, tiles, block(clear, For(r, rows, columns_of_row(r, indices, indptr, extents, add))))

    (found,) = loops([((tiles, columns, lanes), dtype)], (operand, values, indices, indptr), program, "sums")
    whole = compute(out.shape, lambda i, k: found[floordiv(i, lanes), k, floormod(i, lanes)], "data_grad")
    return narrowed(whole, out.dtype)


def _lanes(body: Callable[[Expr], Stmt]) -> Stmt:
    lane = Var("lane", dt.index, 0, _LANES - 1)
    return For(lane, const(_LANES), body(lane), LoopKind.VECTOR)


# ------------------------------------------------------------------------------- of the blocks


def _values_relation(
    rel: Relation, dy: Type, data: Type, indices: Type, indptr: Type, a: SparseDenseValuesGradAttrs
) -> Type | None:
    ty = tensor(rel, dy, "dy")
    values = TensorType(dims(a.shape), ty.dtype)
    return values if _same(rel, data, values, (indices, indptr), ty, a) else None


def _values_reference(dy: Array, data: Array, indices: Array, indptr: Array, a: SparseDenseValuesGradAttrs) -> Array:
    rows, columns = wide(dy if a.sparse_lhs else dy.T), wide(data.T)
    shape = [as_int(as_dim(d)) for d in a.shape]
    count, height, width = (*shape, *(1,) * (3 - len(shape)))
    out = np.zeros((count, height, width), rows.dtype)
    for row, e, c, column in elements_of(indices, indptr, width, len(columns)):
        out[e, :, c] += rows[row * height : (row + 1) * height] @ columns[column]
    return cast_to(out.reshape(shape), dt.dtype(dy.dtype))


def _values_compute(
    dy: Tensor, data: Tensor, indices: Tensor, indptr: Tensor, a: SparseDenseValuesGradAttrs, out: TensorType
) -> Tensor:
    count, height, width = [*out.shape, const(1), const(1)][:3]
    (n, columns), rows, dtype = data.shape, indptr.shape[0] - 1, accumulator(out.dtype)
    at = _along_rows(dy, a)
    left = compute((rows * height, n), lambda r, i: cast(at(i, r), dtype), "rows")
    right = compute((columns, n), lambda k, i: cast(data[i, k], dtype), "columns")

    def program(y: Tensor) -> Stmt:
        p, q, e, r, i = (Var(name, dt.index, 0) for name in ("p", "q", "e", "r", "i"))

        def add(e: Expr, c: Expr, column: Expr) -> Stmt:
            here = (e, p, c)
            return For(i, n, Store(y, here, y[here] + left[r * height + p, i] * right[column, i]))

        clear = For(e, count, For(q, width, Store(y, (e, p, q), const(0, dtype))))
        adding = For(r, rows, columns_of_row(r, indices, indptr, (count, width, columns), add))
        return For(p, height, block(clear, adding))

    (found,) = loops([((count, height, width), dtype)], (left, right, indices, indptr), program, "sums")
    whole = compute(out.shape, lambda *i: found[(*i, *(const(0),) * (3 - len(i)))], "values_grad")
    return narrowed(whole, out.dtype)


# ------------------------------------------------------------------------------- rules


def _data_grad(b: Builder, call: Call, dx: Node) -> list[Contribution]:
    (dy, values, *matrix), a = call.args, call.attrs
    more = b.nn.sparse_dense_values_grad(dy, dx, *matrix, shape=extents(shape_of(values)), sparse_lhs=a.sparse_lhs)
    return [b.nn.sparse_dense(dx, values, *matrix, sparse_lhs=a.sparse_lhs), more, None, None]


def _values_grad(b: Builder, call: Call, dv: Node) -> list[Contribution]:
    (dy, data, *matrix), a = call.args, call.attrs
    (columns,) = extents(shape_of(data)[1:])
    more = b.nn.sparse_dense_data_grad(dy, dv, *matrix, columns=columns, sparse_lhs=a.sparse_lhs)
    return [b.nn.sparse_dense(data, dv, *matrix, sparse_lhs=a.sparse_lhs), more, None, None]


_ROWS = np.array([0, 2, 2, 3], np.int32)
_COLUMNS = np.array([0, 3, 1], np.int32)
_ODD = np.array([2, 0, -4, 9], np.int64)
_TWICE = np.array([0, 3, 1, 3], np.int64)

sparse_dense_data_grad = Op(
    name="nn.sparse_dense_data_grad",
    args=("dy", "weight_data", "weight_indices", "weight_indptr"),
    attrs=SparseDenseDataGradAttrs,
    type_rel=_data_relation,
    reference=quiet(_data_reference),
    compute=_data_compute,
    grad=_data_grad,
    samples=(
        Sample((((5, 3), "float32"), ((3,), "float32"), _COLUMNS, _ROWS), {"columns": 4}),
        Sample((((3, 5), "float32"), ((3,), "float32"), _COLUMNS, _TWICE), {"columns": 4, "sparse_lhs": True}),
        Sample((((9, 12), "float32"), ((3, 4, 2), "float32"), _COLUMNS, _ROWS), {"columns": 8}),
        Sample((((3, 3), "float32"), ((3, 1, 2), "float32"), _COLUMNS.astype("int64"), _ODD), {"columns": 7}),
        Sample((((2, 6), "int32"), ((3, 2, 1), "int32"), np.array([4, -1, 2]), _ROWS), {"columns": 4}, exact=True),
        Sample((((2, 2), "float32"), ((0,), "float32"), _COLUMNS[:0], np.zeros(3, np.int32)), {"columns": 4}),
    ),
    doc="""dY·W, for a sparse W given as for nn.sparse_dense, dY being of the shape of its result.

`columns` says how many columns the result has.""",
)

sparse_dense_values_grad = Op(
    name="nn.sparse_dense_values_grad",
    args=("dy", "data", "weight_indices", "weight_indptr"),
    attrs=SparseDenseValuesGradAttrs,
    type_rel=_values_relation,
    reference=quiet(_values_reference),
    compute=_values_compute,
    grad=_values_grad,
    samples=(
        Sample((((5, 3), "float32"), ((5, 4), "float32"), _COLUMNS, _ROWS), {"shape": (3,)}),
        Sample((((3, 5), "float32"), ((5, 4), "float32"), _COLUMNS, _TWICE), {"shape": (3,), "sparse_lhs": True}),
        Sample((((9, 12), "float32"), ((9, 8), "float32"), _COLUMNS, _ROWS), {"shape": (3, 4, 2)}),
        Sample((((3, 3), "float32"), ((3, 7), "float32"), _COLUMNS.astype("int64"), _ODD), {"shape": (3, 1, 2)}),
        Sample((((2, 3), "float32"), ((2, 4), "float32"), _COLUMNS[:0], np.zeros(4, np.int32)), {"shape": (0,)}),
    ),
    doc="""The elements of dYᵀ·X that belong to blocks of a sparse W, given as for nn.sparse_dense, for data X.

dY is of the shape of nn.sparse_dense's result; `shape` is that of the blocks. Blocks that W does not have get 0.""",
)
