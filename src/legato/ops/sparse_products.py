"""Products with sparse matrices: nn.sparse_dense and nn.sparse_conv2d.

A matrix is given by the values of its blocks, the column of each, and where each row of blocks begins:

    data       (blocks,) of single elements, or (blocks, height, width), or (blocks, height) of width 1
    indices    (blocks,)      block e has the columns indices[e]·width …
    indptr     (rows + 1,)    row r has the blocks indptr[r] … indptr[r + 1] − 1

What would be read outside of the data or beyond the last column counts as not there; a block that is not there is not
multiplied. Sums are formed block by block, so the result is the same for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from legato.arith.expr import Expr, Var, cdiv, const, floordiv, floormod, land, lt, max_, min_, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.attr_record import Attrs
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._families import quiet
from legato.ops._indexing import inside
from legato.ops._reshaping import flatten_index, unflatten_index
from legato.ops._rules import INT, NUMBER, at_least, require_dtype, require_rank, same_dtype, tensor
from legato.ops._sparse_rules import conv_grad, dense_grad
from legato.ops._tensors import Array, accumulator, cast_to, known_int, product, require_choice, wide
from legato.ops._window import DimOrder, check_positive, dim_order
from legato.te.tensor import Tensor, compute, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, cast
from legato.tir.stmt import Alloc, For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["SparseConv2DAttrs", "SparseDenseAttrs", "columns_of_row", "elements_of", "sparse_conv2d", "sparse_dense"]


# ------------------------------------------------------------------------------- matrices of blocks


def _rows(rel: Relation, like: TensorType, data: Type, indices: Type, indptr: Type, ranks: Sequence[int]) -> Dim:
    """The number of rows of a checked matrix, whose elements are multiplied with those of `like`."""
    values, columns = tensor(rel, data, "weight_data"), tensor(rel, indices, "weight_indices")
    begins = tensor(rel, indptr, "weight_indptr")
    require_rank(rel, values, *ranks, what="weight_data")
    require_dtype(rel, like, NUMBER, "data")
    same_dtype(rel, like, values)
    for ty, what in ((columns, "weight_indices"), (begins, "weight_indptr")):
        require_rank(rel, ty, 1, what=what)
        require_dtype(rel, ty, INT, what)
    rel.same(columns.shape[0], values.shape[0], "an index for each block")
    at_least(rel, begins.shape[0], 1, "the extent of weight_indptr")
    return (begins.shape[0] - 1) * (values.shape[1] if values.rank > 1 else const(1))


def _product(dense: Array, data: Array, indices: Array, indptr: Array) -> Array:
    """The matrix times `dense` (columns, n)."""
    values = wide(data.reshape(*data.shape, *(1,) * (3 - data.ndim)))
    _, height, width = values.shape
    out = np.zeros(((len(indptr) - 1) * height, dense.shape[1]), values.dtype)
    for row, e, c, column in elements_of(indices, indptr, width, len(dense)):
        out[row * height : (row + 1) * height] += values[e, :, c, None] * wide(dense[column])
    return out


def elements_of(indices: Array, indptr: Array, width: int, columns: int) -> Iterator[tuple[int, int, int, int]]:
    """The (row of blocks, block, column in it, column of the matrix) that there are, row by row."""
    count = len(indices)
    begins = np.clip(indptr.astype(np.int64), 0, count).tolist()
    for row, (first, end) in enumerate(pairwise(begins)):
        for e in range(first, end):
            for c in range(width):
                column = int(indices[e]) * width + c
                if 0 <= column < columns:
                    yield row, e, c, column


def _multiplied(
    dense: Callable[[Expr, Expr], Expr], shape: tuple[Dim, Dim], matrix: Sequence[Tensor], dtype: DType
) -> Callable[[Expr, Expr], Expr]:
    """As `_product`, the elements of `dense` and of the result being functions of their places."""
    data = matrix[0]
    height = data.shape[1] if data.rank > 1 else const(1)
    lanes = _lanes(shape[1], _tile_rows(height))
    tiles = cdiv(shape[1], const(lanes))
    operand = compute((tiles, shape[0], const(lanes)), lambda t, k, v: _padded(dense, shape[1], k, t * lanes + v))
    program = _Program(operand, matrix, height, dtype)
    rows = matrix[2].shape[0] - 1
    (found,) = loops([((rows, height, tiles, const(lanes)), dtype)], (operand, *matrix), program.stores, "product")
    return lambda i, n: found[floordiv(i, height), floormod(i, height), floordiv(n, const(lanes)), n % lanes]


def _tile_rows(height: Dim) -> int:
    """How many rows of a block are multiplied at a time."""
    known = known_int(height) or 1
    return max(n for n in range(1, 9) if known % n == 0)


def _lanes(extent: Dim, rows: int) -> int:
    """How many columns of the dense matrix are multiplied with so many rows at a time, for 128 sums at most."""
    known = known_int(extent)
    return 8 if known is None else 1 << min(max(known - 1, 0).bit_length(), 6 if rows == 1 else 4)


def _padded(dense: Callable[[Expr, Expr], Expr], extent: Dim, k: Expr, n: Expr) -> Expr:
    value = dense(k, n)
    return select(lt(n, extent), value, const(0, value.dtype))


class _Program:
    """The loops of a product: for each row of blocks, a tile of rows and columns at a time is summed in registers."""

    def __init__(self, dense: Tensor, matrix: Sequence[Tensor], height: Dim, dtype: DType) -> None:
        self.data, self.indices, self.indptr = matrix
        self.dense, self.height, self.dtype = dense, height, dtype
        self.width = self.data.shape[2] if self.data.rank > 2 else const(1)
        self.rows = _tile_rows(height)
        self.lanes = known_int(dense.shape[2]) or 1
        self.sums = Buffer("sums", (const(self.rows), const(self.lanes)), dtype, scope=Scope.REGISTER)

    def stores(self, out: Tensor) -> Stmt:
        """Fills (row of blocks, row in it, tile, lane)."""
        r, p, t = (Var(name, dt.index, 0) for name in ("r", "p", "t"))
        first = p * self.rows

        def leave(row: int, lane: Expr) -> Stmt:
            return Store(out, (r, first + row, t, lane), Load(self.sums, (const(row), lane)))

        clear = self._each(lambda row, lane: Store(self.sums, (const(row), lane), const(0, self.dtype)))
        tile = Alloc(self.sums, block(clear, self._blocks(r, first, t), self._each(leave)))
        return For(r, out.shape[0], For(p, floordiv(self.height, const(self.rows)), For(t, out.shape[2], tile)))

    def _each(self, body: Callable[[int, Expr], Stmt]) -> Stmt:
        kind = LoopKind.VECTOR if self.lanes > 1 else LoopKind.SERIAL
        lanes = [Var("lane", dt.index, 0, self.lanes - 1) for _ in range(self.rows)]
        return block(*(For(lane, const(self.lanes), body(row, lane), kind) for row, lane in enumerate(lanes)))

    def _blocks(self, r: Expr, first: Expr, t: Expr) -> Stmt:
        """Adds the products of all blocks in row `r`, rows from `first` on."""

        def products(e: Expr, c: Expr, k: Expr) -> Stmt:
            def add(row: int, lane: Expr) -> Stmt:
                value = cast(self.data[(e, first + row, c)[: self.data.rank]], self.dtype)
                total = Load(self.sums, (const(row), lane))
                return Store(self.sums, (const(row), lane), total + value * cast(self.dense[t, k, lane], self.dtype))

            return self._each(add)

        extents = (self.data.shape[0], self.width, self.dense.shape[1])
        return columns_of_row(r, self.indices, self.indptr, extents, products)


def columns_of_row(
    r: Expr,
    indices: Tensor,
    indptr: Tensor,
    extents: tuple[Dim, Dim, Dim],
    body: Callable[[Expr, Expr, Expr], Stmt],
) -> Stmt:
    """Loops over the columns of all blocks in row `r`: body(block, column in it, column of the matrix).

    extents: of the blocks, the width of one, and of the columns of the matrix.
    """
    count, width, columns = extents
    begin, j, e, c = (Var(name, dt.index, 0) for name in ("begin", "j", "e", "c"))
    b, at, k = Var("block", dt.index, None), Var("column", dt.index, None), Var("k", dt.index, 0)

    def begin_of(row: Expr) -> Expr:
        return max_(min_(cast(indptr[row], dt.index), count), const(0))

    known = If(inside(at, columns), Let(k, max_(at, const(0)), body(e, c, k)))
    # a block that there is, before its columns are counted: these have no number for any index
    blocks = cdiv(columns, max_(width, const(1)))
    each_column = If(inside(b, blocks), For(c, width, Let(at, b * width + c, known)))
    each = Let(e, begin + j, Let(b, cast(indices[e], dt.index), each_column))
    return Let(begin, begin_of(r), For(j, max_(begin_of(r + 1) - begin, const(0)), each))


# ------------------------------------------------------------------------------- nn.sparse_dense


@dataclass(frozen=True, slots=True)
class SparseDenseAttrs(Attrs):
    """`sparse_lhs`: the sparse matrix is the left one."""

    sparse_lhs: bool = False


def _dense_relation(rel: Relation, data: Type, values: Type, indices: Type, indptr: Type, a: SparseDenseAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 2, what="data")
    rows = _rows(rel, ty, values, indices, indptr, (1, 3))
    return TensorType((rows, ty.shape[0]) if a.sparse_lhs else (ty.shape[0], rows), ty.dtype)


def _dense_reference(data: Array, values: Array, indices: Array, indptr: Array, a: SparseDenseAttrs) -> Array:
    found = cast_to(_product(data.T, values, indices, indptr), dt.dtype(data.dtype))
    return found if a.sparse_lhs else np.ascontiguousarray(found.T)


def _dense_compute(
    data: Tensor, values: Tensor, indices: Tensor, indptr: Tensor, a: SparseDenseAttrs, out: TensorType
) -> Tensor:
    matrix, total = (values, indices, indptr), accumulator(out.dtype)
    found = _multiplied(lambda k, n: data[n, k], (data.shape[1], data.shape[0]), matrix, total)
    if a.sparse_lhs:
        return compute(out.shape, lambda i, j: cast(found(i, j), out.dtype), "sparse_dense")
    return compute(out.shape, lambda i, j: cast(found(j, i), out.dtype), "sparse_dense")


_ROWS = np.array([0, 2, 2, 3], np.int32)
_COLUMNS = np.array([0, 3, 1], np.int32)
_ODD = np.array([2, 0, -4, 9], np.int64)

sparse_dense = Op(
    name="nn.sparse_dense",
    args=("data", "weight_data", "weight_indices", "weight_indptr"),
    attrs=SparseDenseAttrs,
    type_rel=_dense_relation,
    reference=quiet(_dense_reference),
    compute=_dense_compute,
    grad=dense_grad,
    samples=(
        Sample((((5, 4), "float32"), ((3,), "float32"), _COLUMNS, _ROWS)),
        Sample((((5, 4), "float32"), ((3,), "float32"), _COLUMNS, _ROWS), {"sparse_lhs": True}),
        Sample((((3, 8), "float32"), ((3, 4, 2), "float32"), _COLUMNS, _ROWS)),
        Sample((((3, 7), "float32"), ((3, 1, 2), "float32"), _COLUMNS.astype("int64"), _ODD), {"sparse_lhs": True}),
        Sample((((2, 4), "int32"), ((3, 2, 1), "int32"), np.array([4, -1, 2], np.int64), _ROWS), exact=True),
        Sample((((2, 4), "float16"), ((3,), "float16"), _COLUMNS, _ROWS)),
        Sample((((2, 4), "float32"), ((0,), "float32"), _COLUMNS[:0], np.zeros(3, np.int32))),
    ),
    doc="""Y = X·Wᵀ for data X and a sparse W, or Y = W·Xᵀ if `sparse_lhs`.

W has the blocks weight_data (single elements, or height × width), block e with the columns weight_indices[e]·width …;
row r of blocks has those from weight_indptr[r] to below weight_indptr[r + 1]. Blocks and columns that there are not are
left out.""",
)

# ------------------------------------------------------------------------------- nn.sparse_conv2d


@dataclass(frozen=True, slots=True)
class SparseConv2DAttrs(Attrs):
    """`layout`: of data and result; `kernel_size`: the extents of a window, odd numbers."""

    layout: str = "NHWC"
    kernel_size: tuple[int, ...] = (1, 1)


def _conv_relation(rel: Relation, data: Type, values: Type, indices: Type, indptr: Type, a: SparseConv2DAttrs) -> Type:
    require_choice(rel, "layout", a.layout, ("NHWC", "NCHW"))
    check_positive(rel, "kernel_size", a.kernel_size, 2)
    if any(k % 2 == 0 for k in a.kernel_size):
        raise rel.fail(f"kernel_size must be odd numbers, got {list(a.kernel_size)}",
                       hint="windows are padded to be around their pixel")  # fmt: skip
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 4, what="data")
    rows = _rows(rel, ty, values, indices, indptr, (1, 2, 3))
    order = _order(a)
    n, _, h, w = order.canonical(ty.shape)
    return TensorType(order.actual((n, rows, h, w)), ty.dtype)


def _order(a: SparseConv2DAttrs) -> DimOrder:
    order = dim_order(a.layout, "NCHW")
    assert order is not None
    return order


def _conv_reference(data: Array, values: Array, indices: Array, indptr: Array, a: SparseConv2DAttrs) -> Array:
    order, (kh, kw) = _order(a), a.kernel_size
    x = order.to_canonical(data)
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (kh // 2,) * 2, (kw // 2,) * 2))
    windows = np.stack([padded[:, :, i : i + h, j : j + w] for i in range(kh) for j in range(kw)])  # taps, n, c, h, w
    turned = windows.transpose((2, 0, 1, 3, 4) if a.layout == "NCHW" else (0, 2, 1, 3, 4))
    found = _product(turned.reshape(c * kh * kw, n * h * w), values, indices, indptr)
    y = cast_to(found, dt.dtype(data.dtype)).reshape(len(found), n, h, w).transpose(1, 0, 2, 3)
    return np.ascontiguousarray(order.from_canonical(y))


def _conv_compute(
    data: Tensor, values: Tensor, indices: Tensor, indptr: Tensor, a: SparseConv2DAttrs, out: TensorType
) -> Tensor:
    order = _order(a)
    n, c, h, w = order.canonical(data.shape)
    shape = (c * math.prod(a.kernel_size), product((n, h, w)))
    matrix, total = (values, indices, indptr), accumulator(out.dtype)
    found = _multiplied(lambda k, window: _patch(data, a, k, window), shape, matrix, total)

    def element(*i: Expr) -> Expr:
        b, c, y, x = order.canonical(i)
        return cast(found(c, flatten_index((b, y, x), (n, h, w))), out.dtype)

    return compute(out.shape, element, "sparse_conv2d")


def _patch(data: Tensor, a: SparseConv2DAttrs, k: Expr, window: Expr) -> Expr:
    """Element `k` of a window, 0 outside of the data."""
    order, (kh, kw) = _order(a), a.kernel_size
    n, c, h, w = order.canonical(data.shape)
    taps = const(kh * kw)
    channel, tap = (floordiv(k, taps), k % taps) if a.layout == "NCHW" else (k % c, floordiv(k, c))
    b, y, x = unflatten_index(window, (n, h, w))
    y, x = y + floordiv(tap, const(kw)) - kh // 2, x + tap % kw - kw // 2
    value = data[order.actual((b, channel, y, x))]
    if kh == kw == 1:
        return value
    return select(land(inside(y, h), inside(x, w)), value, const(0, data.dtype))


sparse_conv2d = Op(
    name="nn.sparse_conv2d",
    args=("data", "weight_data", "weight_indices", "weight_indptr"),
    attrs=SparseConv2DAttrs,
    type_rel=_conv_relation,
    reference=quiet(_conv_reference),
    compute=_conv_compute,
    grad=conv_grad,
    samples=(
        Sample((((2, 3, 4, 4), "float32"), ((3, 2), "float32"), _COLUMNS, _ROWS)),
        Sample((((1, 8, 3, 2), "float32"), ((3, 2, 2), "float32"), _COLUMNS, _ROWS), {"layout": "NCHW"}),
        Sample((((1, 4, 3, 2), "float32"), ((3, 2, 1), "float32"), np.array([7, 17, 0], np.int32), _ROWS),
               {"kernel_size": (3, 3)}),
        Sample((((2, 2, 3, 4), "float32"), ((3, 1, 3), "float32"), np.array([5, 2, 0], np.int32), _ROWS),
               {"layout": "NCHW", "kernel_size": (3, 3)}),
        Sample((((1, 2, 3, 4), "int32"), ((3,), "int32"), np.array([5, 2, 30], np.int32), _ROWS),
               {"kernel_size": (1, 3)}, exact=True),
    ),
    doc="""The convolution with stride 1 whose windows are around their pixel, by a sparse matrix of filters.

The matrix is given as for nn.sparse_dense; its rows are filters, its columns elements of a window: (channel, y, x) in
layout NCHW, (y, x, channel) in NHWC.""",
)  # fmt: skip
