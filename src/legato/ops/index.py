"""Reading at places that data gives: take, gather, gather_nd.

Every subscript means some element: `_indexing` has the rules. From an empty dimension everything reads as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from legato.arith.expr import Expr, const, floordiv, floormod, min_
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._gradients import Contribution, extents, shape_of
from legato.ops._indexing import MODES, covers, guarded, place, places
from legato.ops._rules import INT, known_dim, normalize_axis, require_dtype, tensor
from legato.ops._tensors import Array, known_int, product, require_choice
from legato.te.tensor import Tensor, compute

__all__ = ["GatherAttrs", "GatherNDAttrs", "TakeAttrs", "gather", "gather_nd", "take"]


def _grad(transpose: str) -> Callable[[Builder, Call, Node], list[Contribution]]:
    """What adds up where an operator reads."""

    def rule(b: Builder, call: Call, dy: Node) -> list[Contribution]:
        data, indices = call.args
        return [b.op(transpose)(dy, indices, shape=extents(shape_of(data)), **call.attrs), None]

    return rule


# ------------------------------------------------------------------------------- take


@dataclass(frozen=True, slots=True)
class TakeAttrs(Attrs):
    """`axis` None: the data is flattened; `mode`: clip, wrap or fast; `batch_dims`: leading shared dimensions."""

    batch_dims: int = 0
    axis: int | None = None
    mode: str = "clip"


def _take_relation(rel: Relation, data: Type, indices: Type, a: TakeAttrs) -> Type:
    x, i = tensor(rel, data, "data"), tensor(rel, indices, "indices")
    require_dtype(rel, i, INT, "indices")
    require_choice(rel, "mode", a.mode, MODES)
    if a.axis is None:
        if a.batch_dims:
            raise rel.fail("batch_dims needs an axis")
        return TensorType(i.shape, x.dtype)
    axis = normalize_axis(rel, a.axis, x.rank)
    batch = a.batch_dims if a.batch_dims >= 0 else a.batch_dims + i.rank
    if not 0 <= batch <= min(axis, i.rank):
        raise rel.fail(f"batch_dims {a.batch_dims} must not exceed the axis, {axis}, and the indices' rank, {i.rank}")
    shared = [rel.same(x.shape[d], i.shape[d], f"batch dim {d}") for d in range(batch)]
    return TensorType((*shared, *x.shape[batch:axis], *i.shape[batch:], *x.shape[axis + 1 :]), x.dtype)


def _take_reference(data: Array, indices: Array, a: TakeAttrs) -> Array:
    if a.axis is None:
        return _taken(data.reshape(-1), indices, 0, a.mode)
    axis = a.axis % data.ndim
    batch = a.batch_dims % max(indices.ndim, 1) if a.batch_dims < 0 else a.batch_dims
    if not batch:
        return _taken(data, indices, axis, a.mode)
    lead = data.shape[:batch]
    count = math.prod(lead)
    rows, columns = data.reshape(count, *data.shape[batch:]), indices.reshape(count, *indices.shape[batch:])
    parts = [_taken(x, i, axis - batch, a.mode) for x, i in zip(rows, columns, strict=True)]
    shape = (*lead, *data.shape[batch:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
    return np.stack(parts).reshape(shape) if parts else np.zeros(shape, data.dtype)


def _taken(data: Array, indices: Array, axis: int, mode: str) -> Array:
    n = data.shape[axis]
    if n == 0:
        return np.zeros((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), data.dtype)
    return np.asarray(np.take(data, places(indices, n, mode), axis=axis))


def _take_compute(data: Tensor, indices: Tensor, a: TakeAttrs, out: TensorType) -> Tensor:
    if a.axis is None:
        total = product(data.shape)

        def flat(*i: Expr) -> Expr:
            at = place(indices[i], total, a.mode)
            return guarded([total], data[_unflattened(at, data.shape)])

        return compute(out.shape, flat, "take")
    axis = a.axis % data.rank
    batch = a.batch_dims % max(indices.rank, 1) if a.batch_dims < 0 else a.batch_dims
    own = indices.rank - batch
    n = data.shape[axis]

    def element(*i: Expr) -> Expr:
        at = place(indices[(*i[:batch], *i[axis : axis + own])], n, a.mode)
        return guarded([n], data[(*i[:axis], at, *i[axis + own :])])

    return compute(out.shape, element, "take")


def _unflattened(i: Expr, shape: Sequence[Dim]) -> tuple[Expr, ...]:
    """The subscripts of element `i` in row-major order."""
    found: list[Expr] = []
    for n in reversed(shape[1:]):
        found.append(floormod(i, n))
        i = floordiv(i, n)
    return (i, *reversed(found)) if shape else ()


def _take_value(
    data: Sequence[Dim] | None, indices: Sequence[Dim] | None, a: TakeAttrs, data_type: TensorType, where: TensorType
) -> tuple[Dim, ...] | None:
    if data is None or indices is None:
        return None
    numbers = [known_int(i) for i in indices]
    if any(n is None for n in numbers) or not data:
        return None
    source = np.arange(len(data)).reshape(data_type.static_shape())
    picked = _take_reference(source, np.array(numbers, np.int64).reshape(where.static_shape()), a)
    return tuple(data[int(n)] for n in picked.ravel())


_WILD = np.array([[0, -1, 2], [5, -7, 1]], np.int32)

take = Op(
    name="take",
    args=("data", "indices"),
    attrs=TakeAttrs,
    type_rel=_take_relation,
    reference=_take_reference,
    compute=_take_compute,
    grad=_grad("take_grad"),
    value=_take_value,
    fusion=Fusion.INJECTIVE,
    strings=True,
    samples=(
        *(Sample((((3, 4), "float32"), _WILD), {"axis": 0, "mode": mode}, exact=True) for mode in MODES),
        Sample((((2, 3), "int64"), np.array([0, 7, -1, 4], np.int64)), {"mode": "wrap"}, exact=True),
        Sample((((2, 3), "bool"), np.array(1, np.int8)), {"axis": -1}, exact=True),
        Sample((((2, 3, 2), "int16"), np.array([[0, 2], [1, 1]], np.uint8)), {"axis": 1, "batch_dims": 1}, exact=True),
        Sample((((0, 2), "float32"), np.array([0, 1], np.int32)), {"axis": 0}, exact=True),
        Sample((((3,), "float32"), np.array([2**62, -(2**62)], np.int64)), {"axis": 0, "mode": "fast"}, exact=True),
    ),
    doc="""The elements of data at `indices` along `axis`: result[…, i…, …] = data[…, indices[i…], …].

`mode` says what a subscript outside means: "clip" is clamped, "wrap" is taken modulo the extent, "fast" counts a
negative one from the end and clamps. `axis` None reads from the flattened data. With `batch_dims` b, the first b
dimensions of data and indices go together.""",
)

# ------------------------------------------------------------------------------- gather


@dataclass(frozen=True, slots=True)
class GatherAttrs(Attrs):
    """The dimension along which indices point."""

    axis: int = 0


def _gather_relation(rel: Relation, data: Type, indices: Type, a: GatherAttrs) -> Type:
    x, i = tensor(rel, data, "data"), tensor(rel, indices, "indices")
    require_dtype(rel, i, INT, "indices")
    axis = normalize_axis(rel, a.axis, x.rank)
    if x.rank != i.rank:
        raise rel.fail(f"data has rank {x.rank} but indices have rank {i.rank}")
    for d, (extent, asked) in enumerate(zip(x.shape, i.shape, strict=True)):
        if d == axis:
            continue
        have, want = known_int(extent), known_int(asked)
        if have is not None and want is not None and want > have:
            raise rel.fail(f"indices have extent {want} in dimension {d}, where data has {have}")
        rel.same(min_(asked, extent), asked, f"indices within dimension {d} of data")
    return TensorType(i.shape, x.dtype)


def _gather_reference(data: Array, indices: Array, a: GatherAttrs) -> Array:
    axis = a.axis % data.ndim
    if not data.size:
        return np.zeros(indices.shape, data.dtype)
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    at = [np.minimum(g, n - 1) for g, n in zip(grid, data.shape, strict=True)]
    at[axis] = places(indices, data.shape[axis], "fast")
    return np.asarray(data[tuple(at)])


def _gather_compute(data: Tensor, indices: Tensor, a: GatherAttrs, out: TensorType) -> Tensor:
    axis = a.axis % data.rank

    def element(*i: Expr) -> Expr:
        extents = zip(i, data.shape, out.shape, strict=True)
        at = [j if covers(n, asked) else place(j, n, "clip") for j, n, asked in extents]
        at[axis] = place(indices[i], data.shape[axis], "fast")
        return guarded(data.shape, data[tuple(at)])

    return compute(out.shape, element, "gather")


gather = Op(
    name="gather",
    args=("data", "indices"),
    attrs=GatherAttrs,
    type_rel=_gather_relation,
    reference=_gather_reference,
    compute=_gather_compute,
    grad=_grad("gather_grad"),
    fusion=Fusion.INJECTIVE,
    strings=True,
    samples=(
        Sample((((3, 3), "float32"), _WILD), {"axis": 0}, exact=True),
        Sample((((2, 4), "int8"), np.array([[3, -4], [9, -9]], np.int64)), {"axis": -1}, exact=True),
        Sample((((0, 2), "float32"), np.zeros((2, 2), np.int32)), {"axis": 0}, exact=True),
    ),
    doc="""result[i, j, k] = data[i, indices[i, j, k], k] for axis 1: one subscript per element of the result.

A negative subscript counts from the end; one outside is clamped. Elsewhere indices may not exceed the data.""",
)

# ------------------------------------------------------------------------------- gather_nd


@dataclass(frozen=True, slots=True)
class GatherNDAttrs(Attrs):
    """`batch_dims`: leading dimensions that data and result share; `index_rank`: the length of an index, if dynamic."""

    batch_dims: int = 0
    index_rank: int | None = None


def _index_rank(indices: TensorType | Tensor, a: GatherNDAttrs) -> int | None:
    return a.index_rank if a.index_rank is not None else known_int(indices.shape[0])


def _gather_nd_relation(rel: Relation, data: Type, indices: Type, a: GatherNDAttrs) -> Type | None:
    x, i = tensor(rel, data, "data"), tensor(rel, indices, "indices")
    require_dtype(rel, i, INT, "indices")
    if not i.rank:
        raise rel.fail("indices must have rank 1 or more")
    known_dim(i.shape[0])
    depth, batch = _index_rank(i, a), a.batch_dims
    if depth is None:
        raise rel.fail("the first extent of indices must be known", hint="or give index_rank")
    rel.same(i.shape[0], const(depth), "the length of one index")
    if not 0 <= batch < i.rank or depth + batch > x.rank:
        raise rel.fail(f"{batch} batch dims and {depth} subscripts do not fit data of rank {x.rank}")
    for d in range(batch):
        rel.same(x.shape[d], i.shape[d + 1], f"batch dim {d}")
    return TensorType((*i.shape[1:], *x.shape[batch + depth :]), x.dtype)


def _gather_nd_reference(data: Array, indices: Array, a: GatherNDAttrs) -> Array:
    batch, depth = a.batch_dims, indices.shape[0]
    shape = (*indices.shape[1:], *data.shape[batch + depth :])
    if 0 in data.shape[batch : batch + depth]:
        return np.zeros(shape, data.dtype)
    lead = list(np.indices(indices.shape[1:], sparse=True)[:batch])
    own = [places(i, n, "fast") for i, n in zip(indices, data.shape[batch:], strict=False)]
    picked = data[(*lead, *own)] if lead or own else data
    return np.array(np.broadcast_to(picked, shape) if not own else picked.reshape(shape))


def _gather_nd_compute(data: Tensor, indices: Tensor, a: GatherNDAttrs, out: TensorType) -> Tensor:
    batch, depth = a.batch_dims, _index_rank(indices, a) or 0
    outer = indices.rank - 1

    def element(*i: Expr) -> Expr:
        own = [place(indices[(const(d), *i[:outer])], data.shape[batch + d], "fast") for d in range(depth)]
        return guarded(data.shape[batch : batch + depth], data[(*i[:batch], *own, *i[outer:])])

    return compute(out.shape, element, "gather_nd")


gather_nd = Op(
    name="gather_nd",
    args=("data", "indices"),
    attrs=GatherNDAttrs,
    type_rel=_gather_nd_relation,
    reference=_gather_nd_reference,
    compute=_gather_nd_compute,
    grad=_grad("gather_nd_grad"),
    fusion=Fusion.INJECTIVE,
    strings=True,
    samples=(
        Sample((((3, 4), "float32"), np.array([[0, 2, -1], [1, 9, -4]], np.int64)), {"index_rank": 2}, exact=True),
        Sample((((3, 4, 2), "float32"), np.array([[0, 2]], np.int32)), exact=True),
        Sample((((2, 3, 2), "int32"), np.array([[[0, 1], [2, -1]]], np.int64)), {"batch_dims": 1}, exact=True),
    ),
    doc="""result[y…, z…] = data[indices[0, y…], indices[1, y…], …, z…].

The first dimension of indices holds the subscripts (Relay's order; ONNX has them last). A negative
subscript counts from the end; one outside is clamped.""",
)
