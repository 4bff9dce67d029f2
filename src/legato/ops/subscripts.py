"""Subscripts, read, made and turned round: adv_index, meshgrid, unravel_index, invert_permutation, sparse_reshape,
strided_set.

All are made of other operators (`expand`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._dynamic import evaluated, known_count
from legato.ops._families import Array
from legato.ops._gradients import dtype_of, extent_of, shape_of
from legato.ops._rules import (
    INT,
    broadcast_shapes,
    require_dtype,
    require_rank,
    same_dtype,
    tensor,
    tensors,
)
from legato.ops._tensors import require_choice
from legato.ops.index import GatherNDAttrs, gather_nd
from legato.ops.scatter import ScatterElementsAttrs, scatter_elements

__all__ = ["MeshgridAttrs", "adv_index", "invert_permutation", "meshgrid", "sparse_reshape", "strided_set",
           "unravel_index"]  # fmt: skip


# ------------------------------------------------------------------------------- adv_index


def _adv_relation(rel: Relation, inputs: Type) -> Type:
    data, *indices = tensors(rel, inputs, "inputs", 2)
    for n, i in enumerate(indices):
        require_dtype(rel, i, INT, f"tensor {n} of subscripts")
    if len(indices) > data.rank:
        raise rel.fail(f"there are {len(indices)} tensors of subscripts for data of rank {data.rank}")
    shape = broadcast_shapes(rel, *(i.shape for i in indices))
    return TensorType((*shape, *data.shape[len(indices) :]), data.dtype)


def _adv_reference(inputs: Sequence[Array]) -> Array:
    data, *indices = inputs
    wide = np.stack(np.broadcast_arrays(*(i.astype(np.int64) for i in indices)))
    found: Array = evaluated(gather_nd, [data, wide], GatherNDAttrs(index_rank=len(indices)))
    return found


def _adv_expand(b: Builder, inputs: Expr) -> Expr:
    assert isinstance(inputs.ty, TupleType)
    data, *indices = (b.get(inputs, n) for n in range(len(inputs.ty.fields)))
    wide = [b.cast(i, dtype=dt.int64) for i in indices]
    whole = wide[0]
    for i in wide[1:]:
        whole = b.add(whole, b.zeros_like(i))
    each = [b.add(i, b.zeros_like(whole)) for i in wide]
    return b.gather_nd(data, b.stack(tuple(each), axis=0), index_rank=len(each))


adv_index = Op(
    name="adv_index",
    args=("*inputs",),
    type_rel=_adv_relation,
    reference=_adv_reference,
    expand=_adv_expand,
    storage=True,
    samples=(
        Sample((((4, 3), "float32"), np.array([0, 3, -1], np.int32)), exact=True),
        Sample((((4, 3, 2), "float32"), np.array([[0], [3]], np.int32), np.array([1, 0, 2], np.int64)), exact=True),
        Sample((((3, 2), "int8"), np.array(1, np.int64), np.array([0, 1], np.int64)), exact=True),
    ),
    doc="""`inputs[0][inputs[1], …]`: NumPy's reading by tensors of integers, which broadcast, of leading dims.

A negative subscript counts from the end; one outside is clamped.""",
)

# ------------------------------------------------------------------------------- meshgrid


@dataclass(frozen=True, slots=True)
class MeshgridAttrs(Attrs):
    """`indexing`: ij, a dim for each tensor in their order, or xy, the first two the other way round."""

    indexing: str = "ij"


def _order(count: int, a: MeshgridAttrs) -> list[int]:
    """Which tensor each dim of the results is of."""
    order = list(range(count))
    if a.indexing == "xy" and count > 1:
        order[:2] = 1, 0
    return order


def _mesh_relation(rel: Relation, data: Type, a: MeshgridAttrs) -> Type:
    parts = tensors(rel, data, "data")
    require_choice(rel, "indexing", a.indexing, ("ij", "xy"))
    for n, x in enumerate(parts):
        require_rank(rel, x, 0, 1, what=f"tensor {n}")
    dtype = same_dtype(rel, *parts)
    shape = tuple(parts[n].shape[0] if parts[n].rank else const(1) for n in _order(len(parts), a))
    return TupleType((TensorType(shape, dtype),) * len(parts))


def _mesh_reference(data: Sequence[Array], a: MeshgridAttrs) -> tuple[Array, ...]:
    return tuple(map(np.ascontiguousarray, np.meshgrid(*data, indexing="xy" if a.indexing == "xy" else "ij")))


def _mesh_expand(b: Builder, data: Expr, a: MeshgridAttrs) -> Expr:
    assert isinstance(data.ty, TupleType)
    count = len(data.ty.fields)
    order = _order(count, a)
    parts = [b.get(data, n) for n in range(count)]
    parts = [x if shape_of(x) else b.expand_dims(x, axis=0) for x in parts]
    shape = tuple(shape_of(parts[n])[0] for n in order)
    found = []
    for n, x in enumerate(parts):
        behind = count - order.index(n) - 1
        wide = b.expand_dims(x, axis=1, num_newaxis=behind) if behind else x
        found.append(b.broadcast_to(wide, shape=shape))
    return b.tuple_(found)


meshgrid = Op(
    name="meshgrid",
    args=("*data",),
    attrs=MeshgridAttrs,
    type_rel=_mesh_relation,
    reference=_mesh_reference,
    expand=_mesh_expand,
    storage=True,
    samples=(
        Sample((((3,), "float32"), ((2,), "float32"), ((4,), "float32")), exact=True),
        Sample((((3,), "float32"), ((2,), "float32"), ((), "float32")), {"indexing": "xy"}, exact=True),
        Sample((((3,), "int64"),), {"indexing": "xy"}, exact=True),
        Sample((((0,), "int8"), ((2,), "int8")), exact=True),
    ),
    doc="A tensor for each vector, with all their extents, that holds the vector along its own dim.",
)

# ------------------------------------------------------------------------------- unravel_index


def _unravel_relation(rel: Relation, indices: Type, shape: Type) -> Type:
    i, extents = tensor(rel, indices, "indices"), tensor(rel, shape, "shape")
    require_dtype(rel, i, INT, "indices")
    require_rank(rel, extents, 1, what="shape")
    known_count(rel, extents, "shape")
    return TensorType((extents.shape[0], *i.shape), i.dtype)


def _unravel_reference(indices: Array, shape: Array) -> Array:
    left, found = indices.astype(np.int64), []
    for n in np.maximum(shape.astype(np.int64), 1)[::-1]:
        found.append(left % n)
        left = left // n
    return np.array(found[::-1], np.int64).reshape(len(shape), *indices.shape).astype(indices.dtype)


def _unravel_expand(b: Builder, indices: Expr, shape: Expr) -> Expr:
    count = int(shape.ty.static_shape()[0]) if isinstance(shape.ty, TensorType) else 0
    wide = b.maximum(b.cast(shape, dtype=dt.int64), b.constant(1, dt.int64))
    if not count:
        return b.zeros(shape=(0, *shape_of(indices)), dtype=dtype_of(indices))
    found = _subscripts(b, b.cast(indices, dtype=dt.int64), wide, count)
    return b.cast(b.stack(tuple(found), axis=0), dtype=dtype_of(indices))


def _subscripts(b: Builder, left: Expr, extents: Expr, count: int) -> list[Expr]:
    """The subscripts of elements `left` in row-major order, of `count` dims."""
    found = []
    for d in reversed(range(count)):
        n = b.take(extents, d, axis=0)
        found.append(b.floor_mod(left, n))
        left = b.floor_divide(left, n)
    return found[::-1]


unravel_index = Op(
    name="unravel_index",
    args=("indices", "shape"),
    type_rel=_unravel_relation,
    reference=_unravel_reference,
    expand=_unravel_expand,
    samples=(
        Sample((np.array([0, 5, 23, 24], np.int64), np.array([2, 3, 4], np.int64)), exact=True),
        Sample((np.array([[7, 1]], np.int32), np.array([3, 3], np.int32)), exact=True),
        Sample((np.array(4, np.int64), np.array([0, 3], np.int64)), exact=True),
        Sample((np.array([1, 2], np.int64), np.zeros(0, np.int64)), exact=True),
    ),
    doc="""A row of subscripts for each dim of `shape`: where element `indices`, in row-major order, is.

Elements behind the last start again; an extent below 1 counts as 1.""",
)

# ------------------------------------------------------------------------------- invert_permutation


def _invert_relation(rel: Relation, data: Type) -> Type:
    x = tensor(rel, data, "data")
    require_dtype(rel, x, INT, "data")
    require_rank(rel, x, 1, what="data")
    return x


def _invert_reference(data: Array) -> Array:
    steps = np.arange(len(data), dtype=np.int64).astype(data.dtype)
    found: Array = evaluated(
        scatter_elements, [np.zeros_like(data), data, steps], ScatterElementsAttrs(axis=0, reduction="update")
    )
    return found


def _invert_expand(b: Builder, data: Expr) -> Expr:
    steps = b.cast(b.arange(start=0, stop=shape_of(data)[0], step=1, dtype=dt.int64), dtype=dtype_of(data))
    return b.scatter_elements(b.zeros_like(data), data, steps, axis=0, reduction="update")


invert_permutation = Op(
    name="invert_permutation",
    args=("data",),
    type_rel=_invert_relation,
    reference=_invert_reference,
    expand=_invert_expand,
    samples=(
        Sample((np.array([2, 0, 3, 1], np.int32),), exact=True),
        Sample((np.array([0], np.int64),), exact=True),
        Sample((np.zeros(0, np.int64),), exact=True),
    ),
    doc="The permutation that `data`, which holds 0 … n − 1 in some order, undoes: result[data[i]] = i.",
)

# ------------------------------------------------------------------------------- sparse_reshape


def _sparse_relation(rel: Relation, indices: Type, prev_shape: Type, new_shape: Type) -> Type:
    rows, old, new = (tensor(rel, t, n) for t, n in
                      ((indices, "sparse_indices"), (prev_shape, "prev_shape"), (new_shape, "new_shape")))  # fmt: skip
    require_dtype(rel, rows, INT, "sparse_indices")
    require_rank(rel, rows, 2, what="sparse_indices")
    for ty, what in ((old, "prev_shape"), (new, "new_shape")):
        require_rank(rel, ty, 1, what=what)
        if not known_count(rel, ty, what):
            raise rel.fail(f"{what} has no dims")
    rel.same(rows.shape[1], old.shape[0], "subscripts of each element")
    return TupleType((TensorType((rows.shape[0], new.shape[0]), rows.dtype), new))


def _sparse_reference(indices: Array, prev_shape: Array, new_shape: Array) -> tuple[Array, Array]:
    old, new = prev_shape.astype(np.int64), new_shape.astype(np.int64)
    rest = max(int(np.prod(np.where(new == -1, 1, new))), 1)
    found = np.where(new == -1, np.prod(old) // rest, new)
    flat = np.zeros(len(indices), np.int64)
    for column, n in zip(indices.astype(np.int64).T, old, strict=True):
        flat = flat * n + column
    rows = _unravel_reference(flat, found).T
    return np.ascontiguousarray(rows).astype(indices.dtype), found.astype(new_shape.dtype)


def _sparse_expand(b: Builder, indices: Expr, prev_shape: Expr, new_shape: Expr) -> Expr:
    counts = [t.ty.static_shape()[0] for t in (prev_shape, new_shape) if isinstance(t.ty, TensorType)]
    rows, old, new = (b.cast(x, dtype=dt.int64) for x in (indices, prev_shape, new_shape))
    one, wildcard = b.constant(1, dt.int64), b.equal(new, b.constant(-1, dt.int64))
    rest = b.maximum(b.prod(b.where(wildcard, one, new)), one)
    found = b.where(wildcard, b.floor_divide(b.prod(old), rest), new)
    flat = b.take(rows, 0, axis=1)
    for d in range(1, counts[0]):
        flat = b.add(b.multiply(flat, b.take(old, d, axis=0)), b.take(rows, d, axis=1))
    columns = _subscripts(b, flat, b.maximum(found, one), counts[1])
    made = b.cast(b.stack(tuple(columns), axis=1), dtype=dtype_of(indices))
    return b.tuple_((made, b.cast(found, dtype=dtype_of(new_shape))))


sparse_reshape = Op(
    name="sparse_reshape",
    args=("sparse_indices", "prev_shape", "new_shape"),
    type_rel=_sparse_relation,
    reference=_sparse_reference,
    expand=_sparse_expand,
    samples=(
        Sample((np.array([[0, 0, 0], [0, 1, 2], [1, 2, 3]], np.int32), np.array([2, 3, 4]), np.array([9, -1])),
               exact=True),
        Sample((np.array([[5], [0]], np.int64), np.array([6], np.int32), np.array([2, 3], np.int32)), exact=True),
        Sample((np.zeros((0, 2), np.int64), np.array([2, 3]), np.array([3, 2])), exact=True),
    ),
    doc="""(subscripts, shape) of a sparse tensor after a reshape from `prev_shape` to `new_shape`.

One entry of `new_shape` may be −1: whatever is left. What the numbers of elements are is not looked at.""",
)  # fmt: skip

# ------------------------------------------------------------------------------- strided_set


def _set_relation(rel: Relation, data: Type, v: Type, begin: Type, end: Type, strides: Type) -> Type:
    x, values = tensor(rel, data, "data"), tensor(rel, v, "v")
    same_dtype(rel, x, values)
    require_rank(rel, values, x.rank, what="v")
    count = -1
    for ty, what in ((begin, "begin"), (end, "end"), (strides, "strides")):
        require_rank(rel, tensor(rel, ty, what), 1, what=what)
        own = known_count(rel, ty, what)
        if count not in (-1, own) or own > x.rank:
            raise rel.fail(f"{what} has {own} elements, wanted as many as begin, at most {x.rank}")
        count = own
    for n in range(count, x.rank):
        rel.same(values.shape[n], x.shape[n], f"dim {n}, which is set as a whole")
    return x


def _set_reference(data: Array, v: Array, begin: Array, end: Array, strides: Array) -> Array:
    inside, places = np.ones(data.shape, bool), []
    for n, extent in enumerate(data.shape):
        there, place = np.ones(extent, bool), np.arange(extent)
        if n < len(begin):
            there, place = _set_places(extent, v.shape[n], int(begin[n]), int(end[n]), int(strides[n]))
        inside &= there.reshape([-1 if k == n else 1 for k in range(data.ndim)])
        places.append(np.clip(place, 0, max(v.shape[n] - 1, 0)))
    if not data.ndim or not v.size:
        return (data if data.ndim else v).copy()
    return np.asarray(np.where(inside, v[np.ix_(*places)], data))


def _set_places(extent: int, count: int, begin: int, end: int, step: int) -> tuple[Array, Array]:
    """Which places along a dim are set, and to which element of v."""
    first = begin + extent if begin < 0 else begin
    last = end + extent if end < 0 else end
    step = step or 1
    first = min(first, extent - 1) if step < 0 else max(first, 0)
    i = np.arange(extent)
    place, rest = np.divmod(i - first, step)
    within = i < last if step > 0 else i > last
    return (rest == 0) & (place >= 0) & (place < count) & within, place


def _set_expand(b: Builder, data: Expr, v: Expr, begin: Expr, end: Expr, strides: Expr) -> Expr:
    rank = len(shape_of(data))
    count = begin.ty.static_shape()[0] if isinstance(begin.ty, TensorType) else 0
    bounds = [b.cast(x, dtype=dt.int64) for x in (begin, end, strides)]
    kept: Expr = b.constant(True, dt.bool_)
    for n in range(count):
        there, place = _set_along(b, data, v, n, [b.take(x, n, axis=0) for x in bounds])
        behind = rank - n - 1
        there = b.expand_dims(there, axis=1, num_newaxis=behind) if behind else there
        kept = b.logical_and(kept, there)
        v = b.take(v, place, axis=n)
    return v if not count else b.where(kept, v, data)


def _set_along(b: Builder, data: Expr, v: Expr, n: int, bounds: list[Expr]) -> tuple[Expr, Expr]:
    zero, one = b.constant(0, dt.int64), b.constant(1, dt.int64)
    extent, count = extent_of(b, data, n), extent_of(b, v, n)
    first, last = (b.where(b.less(x, zero), b.add(x, extent), x) for x in bounds[:2])
    step = b.where(b.equal(bounds[2], zero), one, bounds[2])
    back = b.less(step, zero)
    first = b.where(back, b.minimum(first, b.subtract(extent, one)), b.maximum(first, zero))
    i = b.arange(start=0, stop=shape_of(data)[n], step=1, dtype=dt.int64)
    away = b.subtract(i, first)
    place = b.floor_divide(away, step)
    exact = b.equal(b.multiply(place, step), away)
    within = b.logical_and(b.greater_equal(place, zero), b.less(place, count))
    before = b.logical_or(b.logical_and(back, b.greater(i, last)), b.logical_and(b.logical_not(back), b.less(i, last)))
    return b.logical_and(b.logical_and(exact, within), before), place


_ONES = np.ones(2, np.int64)

strided_set = Op(
    name="strided_set",
    args=("data", "v", "begin", "end", "strides"),
    type_rel=_set_relation,
    reference=_set_reference,
    expand=_set_expand,
    storage=True,
    samples=(
        Sample((((5, 6), "float32"), ((2, 3), "float32"), np.array([1, 0]), np.array([3, 6]), np.array([1, 2])),
               exact=True),
        Sample((((5, 2), "float32"), ((2, 2), "float32"), np.array([-1]), np.array([1]), np.array([-2])), exact=True),
        Sample((((3, 4), "int8"), ((2, 4), "int8"), np.array([-2, 0]), np.array([99, 4]), _ONES), exact=True),
        Sample((((3, 2), "float32"), ((0, 2), "float32"), np.array([1]), np.array([1]), np.array([1])), exact=True),
    ),
    doc="""`data` with data[begin:end:strides] set to `v`, whose extents say how many elements are set.

Negative bounds count from the end. Where `v` holds more elements than there are places, its first are taken.""",
)  # fmt: skip
