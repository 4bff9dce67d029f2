"""Writing at places that data gives: scatter_elements and scatter_nd.

Updates of one place are applied in row-major order, so the result is the same for any number of threads (`_writes`). A
negative subscript counts from the end; an update whose place is outside the data is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from legato.arith.expr import Expr, const, lt, max_, min_
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import quiet
from legato.ops._indexing import covers, inside, targets, wrapped
from legato.ops._rules import INT, known_dim, normalize_axis, require_dtype, same_dtype, same_shape, tensor
from legato.ops._scatter_gradients import of_elements, of_nd
from legato.ops._tensors import Array, Index, accumulator, cast_to, known_int, narrowed, require_choice
from legato.ops._writes import Free, Write, Writes
from legato.te.tensor import Tensor, loops
from legato.tir.expr import cast
from legato.tir.stmt import Stmt

__all__ = ["ScatterElementsAttrs", "ScatterNDAttrs", "scatter_elements", "scatter_nd"]


def _first(old: Any, new: Any) -> Any:
    return new


@dataclass(frozen=True, slots=True)
class _Reduction:
    """How an update is combined with what is there: on scalars, and in place on arrays at subscripts."""

    scalar: Callable[[Expr, Expr], Expr]
    at: Callable[[Array, Index, Array], None]


def _put(out: Array, index: Index, new: Array) -> None:
    out[index] = new  # of a repeated subscript NumPy keeps the last value


_REDUCTIONS: Mapping[str, _Reduction] = MappingProxyType(
    {
        "update": _Reduction(_first, _put),
        "add": _Reduction(lambda old, new: old + new, np.add.at),
        "mul": _Reduction(lambda old, new: old * new, np.multiply.at),
        "min": _Reduction(min_, np.minimum.at),
        "max": _Reduction(max_, np.maximum.at),
    }
)


def _reduction(rel: Relation, name: str, dtype: dt.DType) -> None:
    require_choice(rel, "reduction", name, _REDUCTIONS)
    if (dtype.is_bool or dtype.is_string) and name != "update":
        raise rel.fail(f"the reduction {name!r} needs numbers, got {dtype}")


def _wide(reduction: str, dtype: dt.DType) -> dt.DType:
    """The dtype in which updates are combined: of 16-bit floats, sums and products are rounded once."""
    return accumulator(dtype) if reduction in ("add", "mul") and dtype.is_float else dtype


def _written(writes: Writes, data: Tensor, rest: Sequence[Tensor], reduction: str) -> Tensor:
    """`data`, with what is written."""
    combine, dtype = _REDUCTIONS[reduction].scalar, _wide(reduction, data.dtype)

    def program(y: Tensor) -> Stmt:
        return writes.program(y, lambda i: cast(data[i], dtype), lambda old, new: combine(old, cast(new, dtype)))

    return narrowed(loops([(data.shape, dtype)], (data, *rest), program, "scatter")[0], data.dtype)


def _combined(data: Array, reduction: str, index: tuple[Array, ...], updates: Array) -> Array:
    """As `_written`, on arrays: updates at subscripts."""
    dtype = dt.dtype(data.dtype)
    out = cast_to(data, _wide(reduction, dtype)).copy()
    _REDUCTIONS[reduction].at(out, index, updates.astype(out.dtype))
    return cast_to(out, dtype)


# ------------------------------------------------------------------------------- scatter_elements


@dataclass(frozen=True, slots=True)
class ScatterElementsAttrs(Attrs):
    """`axis`: the dimension along which indices point; `reduction`: update, add, mul, min or max."""

    axis: int = 0
    reduction: str = "update"


def _elements_relation(rel: Relation, data: Type, indices: Type, updates: Type, a: ScatterElementsAttrs) -> Type:
    x, i, u = tensor(rel, data, "data"), tensor(rel, indices, "indices"), tensor(rel, updates, "updates")
    require_dtype(rel, i, INT, "indices")
    normalize_axis(rel, a.axis, x.rank)
    if x.rank != i.rank:
        raise rel.fail(f"data has rank {x.rank} but indices have rank {i.rank}")
    same_shape(rel, i.shape, u.shape, "indices and updates")
    _reduction(rel, a.reduction, same_dtype(rel, x, u))
    return x


def _elements_reference(data: Array, indices: Array, updates: Array, a: ScatterElementsAttrs) -> Array:
    axis = a.axis % data.ndim
    at, kept = targets(indices, data.shape[axis])
    grid: list[Array] = list(np.indices(indices.shape))
    for d, n in enumerate(data.shape):
        kept = kept & (grid[d] < n) if d != axis else kept
    grid[axis] = at
    return _combined(data, a.reduction, tuple(g[kept] for g in grid), updates[kept])


def _elements_compute(
    data: Tensor, indices: Tensor, updates: Tensor, a: ScatterElementsAttrs, out: TensorType
) -> Tensor:
    axis, shape = a.axis % data.rank, data.shape

    def write(before: Free, step: Free, after: Free) -> list[Write]:
        i = (*before, *step, *after)
        extents = enumerate(zip(shape, indices.shape, strict=True))
        there = [lt(i[d], asked) for d, (n, asked) in extents if d != axis and not covers(asked, n)]
        at = wrapped(indices[i], shape[axis])
        return [Write((at,), updates[i], there, lambda at: [inside(at[0], shape[axis])])]

    writes = Writes(shape[:axis], (shape[axis],), shape[axis + 1 :], (indices.shape[axis],), write, False)
    return _written(writes, data, (indices, updates), a.reduction)


_AT = np.array([[1, 0, -1], [1, 7, 0]], np.int32)

scatter_elements = Op(
    name="scatter_elements",
    args=("data", "indices", "updates"),
    attrs=ScatterElementsAttrs,
    type_rel=_elements_relation,
    reference=quiet(_elements_reference),
    compute=_elements_compute,
    grad=of_elements,
    fusion=Fusion.OPAQUE,
    storage=lambda a: a.reduction == "update",
    samples=(
        *(Sample((((3, 3), "float32"), _AT, ((2, 3), "float32")), {"reduction": r}, exact=True) for r in _REDUCTIONS),
        Sample((((2, 4), "int64"), _AT, ((2, 3), "int64")), {"axis": -1, "reduction": "add"}, exact=True),
        Sample((((3, 2), "float32"), _AT, ((2, 3), "float32")), {"reduction": "add"}, exact=True),
        Sample((((0, 3), "float32"), _AT, ((2, 3), "float32")), exact=True),
        Sample((np.array([np.nan, 1.0], np.float32), np.array([0, 1, 1]), np.array([1, np.nan, 0], np.float32)),
               {"reduction": "max"}, exact=True),
    ),
    doc="""data, with result[i, indices[i, j, k], k] = updates[i, j, k] for axis 1, in row-major order of the updates.

`reduction` combines with what is there instead of replacing it; 16-bit floats are added and multiplied in float32.
Places outside the data are dropped.""",
)  # fmt: skip

# ------------------------------------------------------------------------------- scatter_nd


@dataclass(frozen=True, slots=True)
class ScatterNDAttrs(Attrs):
    """`mode`: update, add, mul, min or max."""

    mode: str = "update"


def _nd_relation(rel: Relation, data: Type, indices: Type, updates: Type, a: ScatterNDAttrs) -> Type:
    x, i, u = tensor(rel, data, "data"), tensor(rel, indices, "indices"), tensor(rel, updates, "updates")
    require_dtype(rel, i, INT, "indices")
    if not i.rank:
        raise rel.fail("indices must have rank 1 or more")
    depth = known_int(known_dim(i.shape[0]))
    if depth is None or depth > x.rank:
        raise rel.fail(f"indices of {i.shape[0]} subscripts do not fit data of rank {x.rank}")
    same_shape(rel, (*i.shape[1:], *x.shape[depth:]), u.shape, "updates")
    _reduction(rel, a.mode, same_dtype(rel, x, u))
    return x


def _nd_reference(data: Array, indices: Array, updates: Array, a: ScatterNDAttrs) -> Array:
    depth = indices.shape[0]
    grid: list[Array] = list(np.indices(updates.shape))
    kept, index = np.ones(updates.shape, bool), []
    for d in range(depth):
        at, valid = targets(indices[d], data.shape[d])
        shape = (*at.shape, *(1,) * (updates.ndim - at.ndim))
        index.append(np.broadcast_to(at.reshape(shape), updates.shape))
        kept = kept & valid.reshape(shape)
    index += grid[indices.ndim - 1 :]
    return _combined(data, a.mode, tuple(g[kept] for g in index), updates[kept])


def _nd_compute(data: Tensor, indices: Tensor, updates: Tensor, a: ScatterNDAttrs, out: TensorType) -> Tensor:
    depth = known_int(indices.shape[0]) or 0
    own = data.shape[:depth]

    def write(before: Free, step: Free, after: Free) -> list[Write]:
        at = [wrapped(indices[(const(d), *step)], n) for d, n in enumerate(own)]
        return [
            Write(at, updates[(*step, *after)], (), lambda at: [inside(i, n) for i, n in zip(at, own, strict=True)])
        ]

    writes = Writes((), own, data.shape[depth:], indices.shape[1:], write, True)
    return _written(writes, data, (indices, updates), a.mode)


_PAIRS = np.array([[0, 2, -1, 9], [1, 1, 0, 0]], np.int64)

scatter_nd = Op(
    name="scatter_nd",
    args=("data", "indices", "updates"),
    attrs=ScatterNDAttrs,
    type_rel=_nd_relation,
    reference=quiet(_nd_reference),
    compute=_nd_compute,
    grad=of_nd,
    fusion=Fusion.OPAQUE,
    storage=lambda a: a.mode == "update",
    samples=(
        *(Sample((((3, 2), "float32"), _PAIRS, ((4,), "float32")), {"mode": m}, exact=True) for m in _REDUCTIONS),
        *(
            Sample((((4, 70), "float32"), _PAIRS[:1], ((4, 70), "float32")), {"mode": m}, exact=True)
            for m in _REDUCTIONS
        ),
        Sample((((4, 32), "bool"), _PAIRS[:1], ((4, 32), "bool")), exact=True),
        Sample((((4, 32), "int8"), _PAIRS[:1], ((4, 32), "int8")), {"mode": "max"}, exact=True),
        Sample((((2, 3), "float32"), np.zeros((0, 4), np.int64), ((4, 2, 3), "float32")), {"mode": "add"}, exact=True),
        Sample((((3, 2), "int32"), np.array([[1, 1, -5]], np.int32), ((3, 2), "int32")), {"mode": "add"}, exact=True),
    ),
    doc="""data, with result[indices[0, y…], indices[1, y…], …, z…] = updates[y…, z…].

The first dimension of indices holds the subscripts (Relay's order; ONNX has them last). Updates are applied in
row-major order; `mode` combines with what is there instead of replacing it; 16-bit floats are added and multiplied in
float32. Places outside the data are dropped.""",
)
