"""Adding up where others read: take_grad, gather_grad, gather_nd_grad, the transposes of take, gather and gather_nd.

    result[place(i)] += dy[i]        zeros elsewhere; place(i) is where element i of the forward result is read

Elements that come to one place are added in row-major order (`_writes`). Sums of 16-bit floats are formed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from legato.arith.expr import const, lt
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._families import quiet
from legato.ops._gradients import Contribution
from legato.ops._indexing import covers, place
from legato.ops._moving import as_dim, as_int
from legato.ops._reshaping import unflatten_index
from legato.ops._rules import NUMBER, require_dtype, same_shape, tensor
from legato.ops._tensors import Array, accumulator, cast_to, known_int, narrowed, product, tensor_bytes
from legato.ops._writes import Free, Write, Writes
from legato.ops.index import GatherAttrs, GatherNDAttrs, TakeAttrs, gather, gather_nd, take
from legato.te.tensor import Tensor, loops
from legato.tir.expr import cast

__all__ = ["GatherGradAttrs", "GatherNDGradAttrs", "TakeGradAttrs", "gather_grad", "gather_nd_grad", "take_grad"]


@dataclass(frozen=True, slots=True)
class TakeGradAttrs(TakeAttrs):
    """As TakeAttrs; `shape`: that of the data."""

    shape: tuple[Dim | int, ...] = ()


@dataclass(frozen=True, slots=True)
class GatherGradAttrs(GatherAttrs):
    """As GatherAttrs; `shape`: that of the data."""

    shape: tuple[Dim | int, ...] = ()


@dataclass(frozen=True, slots=True)
class GatherNDGradAttrs(GatherNDAttrs):
    """As GatherNDAttrs; `shape`: that of the data."""

    shape: tuple[Dim | int, ...] = ()


# ------------------------------------------------------------------------------- shared


def _own(a: Any) -> dict[str, Any]:
    """The attributes of the forward operator."""
    return {k: a[k] for k in a if k != "shape"}


def _relation(forward: Op) -> Callable[[Relation, Type, Type, Any], Type | None]:
    def relation(rel: Relation, dy: Type, indices: Type, a: Any) -> Type | None:
        ty = tensor(rel, dy, "dy")
        require_dtype(rel, ty, NUMBER, "dy")
        data = TensorType(dims(a.shape), ty.dtype)
        read = forward.type_rel(rel, data, indices, a)
        if not isinstance(read, TensorType):
            return None
        same_shape(rel, read.shape, ty.shape, f"dy and what {forward.name} reads")
        return data

    return relation


def _reference(forward: Op) -> Callable[[Array, Array, Any], Array]:
    def run(dy: Array, indices: Array, a: Any) -> Array:
        shape = [as_int(as_dim(d)) for d in a.shape]
        found = np.zeros(shape, accumulator(dt.dtype(dy.dtype)).numpy)
        if found.size:  # from an empty dimension nothing is read
            places = forward.reference(np.arange(found.size).reshape(shape), indices, a)
            np.add.at(found.reshape(-1), places.reshape(-1), dy.reshape(-1).astype(found.dtype))
        return cast_to(found, dt.dtype(dy.dtype))

    return run


def _summed(writes: Writes, inputs: Sequence[Tensor], out: TensorType) -> Tensor:
    dtype = accumulator(out.dtype)
    (found,) = loops(
        [(out.shape, dtype)],
        inputs,
        lambda y: writes.program(y, lambda i: const(0, dtype), lambda old, new: old + cast(new, dtype)),
        "sums",
    )
    return narrowed(found, out.dtype)


def _cost(args: Sequence[TensorType], out: Type, a: Any) -> Cost:
    assert isinstance(out, TensorType)
    return Cost(product(args[0].shape), tensor_bytes((*args, out)))


def _grad(forward: str) -> Callable[[Builder, Call, Node], list[Contribution]]:
    """What reads there."""
    return lambda b, call, dy: [b.op(forward)(dy, call.args[1], **_own(call.attrs)), None]


# ------------------------------------------------------------------------------- take_grad


def _take_compute(dy: Tensor, indices: Tensor, a: TakeGradAttrs, out: TensorType) -> Tensor:
    shape = out.shape
    if a.axis is None:
        total = product(shape)

        def flat(before: Free, step: Free, after: Free) -> list[Write]:
            return [Write(unflatten_index(place(indices[step], total, a.mode), shape), dy[step])]

        return _summed(Writes((), shape, (), indices.shape, flat, True), (dy, indices), out)
    axis = a.axis % len(shape)
    batch = a.batch_dims % max(indices.rank, 1) if a.batch_dims < 0 else a.batch_dims

    def term(before: Free, step: Free, after: Free) -> list[Write]:
        at = place(indices[(*before[:batch], *step)], shape[axis], a.mode)
        return [Write((at,), dy[(*before, *step, *after)])]

    steps = indices.shape[batch:]
    sums = Writes(shape[:axis], (shape[axis],), shape[axis + 1 :], steps, term, True)
    return _summed(sums, (dy, indices), out)


_WILD = np.array([[0, -1, 2], [5, -7, 1]], np.int32)

take_grad = Op(
    name="take_grad",
    args=("dy", "indices"),
    attrs=TakeGradAttrs,
    type_rel=_relation(take),
    reference=quiet(_reference(take)),
    compute=_take_compute,
    grad=_grad("take"),
    cost=_cost,
    samples=(
        *(
            Sample((((2, 3, 4), "float32"), _WILD), {"shape": (3, 4), "axis": 0, "mode": mode}, exact=True)
            for mode in ("clip", "wrap", "fast")
        ),
        Sample((((4,), "float32"), np.array([0, 7, -1, 4], np.int64)), {"shape": (2, 3), "mode": "wrap"}, exact=True),
        Sample((((3,), "int32"), np.array([0, 1, 0], np.int64)), {"shape": ()}, exact=True),
        Sample((((5, 2, 70), "float32"), np.array([1, 0], np.int8)), {"shape": (5, 3, 70), "axis": 1}, exact=True),
        Sample((((3, 128), "float32"), np.array([1, 0, 1])), {"shape": (4, 128), "axis": 0}, exact=True),
        Sample((((2, 2, 2), "float32"), np.array([[0, 2], [1, 1]])),
               {"shape": (2, 3, 2), "axis": 1, "batch_dims": 1}, exact=True),
        Sample((((9, 2), "float16"), np.zeros(9, np.int32)), {"shape": (3, 2), "axis": 0}, exact=True),
        Sample((((2, 2), "float32"), np.array([0, 1], np.int32)), {"shape": (0, 2), "axis": 0}, exact=True),
        Sample((((2, 0), "float32"), np.array([0, 1], np.int32)), {"shape": (3, 0), "axis": 0}, exact=True),
        Sample((((0, 2), "float32"), np.zeros(0, np.int32)), {"shape": (3, 2), "axis": 0}, exact=True),
    ),
    doc="""The transpose of take: zeros of `shape`, with each element of dy added where take would have read it.

What comes to one place is added in row-major order.""",
)  # fmt: skip

# ------------------------------------------------------------------------------- gather_grad


def _gather_compute(dy: Tensor, indices: Tensor, a: GatherGradAttrs, out: TensorType) -> Tensor:
    shape, axis = out.shape, a.axis % len(out.shape)

    def term(before: Free, step: Free, after: Free) -> list[Write]:
        i = (*before, *step, *after)
        extents = enumerate(zip(shape, indices.shape, strict=True))
        there = [lt(i[d], asked) for d, (n, asked) in extents if d != axis and not covers(asked, n)]
        return [Write((place(indices[i], shape[axis], "fast"),), dy[i], there)]

    sums = Writes(shape[:axis], (shape[axis],), shape[axis + 1 :], (indices.shape[axis],), term, False)
    return _summed(sums, (dy, indices), out)


gather_grad = Op(
    name="gather_grad",
    args=("dy", "indices"),
    attrs=GatherGradAttrs,
    type_rel=_relation(gather),
    reference=quiet(_reference(gather)),
    compute=_gather_compute,
    grad=_grad("gather"),
    cost=_cost,
    samples=(
        Sample((((2, 3), "float32"), _WILD), {"shape": (3, 3), "axis": 0}, exact=True),
        Sample((((2, 3), "float32"), _WILD), {"shape": (4, 5), "axis": -1}, exact=True),
        Sample((((2, 3), "float32"), _WILD), {"shape": (4, 70), "axis": 0}, exact=True),
        Sample((((2, 2), "int8"), np.array([[3, -4], [9, -9]], np.int64)), {"shape": (2, 4), "axis": 1}, exact=True),
        Sample((((2, 2), "float32"), np.zeros((2, 2), np.int32)), {"shape": (0, 2), "axis": 0}, exact=True),
    ),
    doc="""The transpose of gather: zeros of `shape`, with each element of dy added where gather would have read.

What comes to one place is added in row-major order.""",
)

# ------------------------------------------------------------------------------- gather_nd_grad


def _gather_nd_compute(dy: Tensor, indices: Tensor, a: GatherNDGradAttrs, out: TensorType) -> Tensor:
    shape, batch = out.shape, a.batch_dims
    depth = a.index_rank if a.index_rank is not None else known_int(indices.shape[0]) or 0

    def term(before: Free, step: Free, after: Free) -> list[Write]:
        i = (*before, *step)
        at = [place(indices[(const(d), *i)], shape[batch + d], "fast") for d in range(depth)]
        return [Write(at, dy[(*i, *after)])]

    own, steps = shape[batch : batch + depth], indices.shape[1 + batch :]
    return _summed(Writes(shape[:batch], own, shape[batch + depth :], steps, term, True), (dy, indices), out)


gather_nd_grad = Op(
    name="gather_nd_grad",
    args=("dy", "indices"),
    attrs=GatherNDGradAttrs,
    type_rel=_relation(gather_nd),
    reference=quiet(_reference(gather_nd)),
    compute=_gather_nd_compute,
    grad=_grad("gather_nd"),
    cost=_cost,
    samples=(
        Sample((((3,), "float32"), np.array([[0, 2, -1], [1, 9, -4]])), {"shape": (3, 4), "index_rank": 2}, exact=True),
        Sample((((2, 4, 2), "float32"), np.array([[0, 2]], np.int32)), {"shape": (3, 4, 2)}, exact=True),
        Sample((((2, 2, 2), "float32"), np.array([[[0, 1], [2, -1]]])), {"shape": (2, 3, 2), "batch_dims": 1},
               exact=True),
        Sample((((2, 3), "float32"), np.zeros((0, 2), np.int64)), {"shape": (3,)}, exact=True),
    ),
    doc="""The transpose of gather_nd: zeros of `shape`, with each element of dy added where gather_nd would have read.

What comes to one place is added in row-major order.""",
)  # fmt: skip
