"""Boxes that overlap better ones are left out: vision.non_max_suppression, regular_non_max_suppression and proposal.

Which boxes of a sorted list stay is a loop, `vision.suppressed_rows` or that of all_class_non_max_suppression; what is
before and behind it is made of other operators.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from legato.arith.expr import Expr as Scalar
from legato.arith.expr import Var, const, eq, ge, gt, land, lnot, max_, min_
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._computed import steps
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, shape_of
from legato.ops._overlap import share, share_array
from legato.ops._rules import INT, WIDE, at_least, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array
from legato.ops.boxes import first_rows
from legato.te.tensor import Tensor, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, cast
from legato.tir.stmt import Alloc, For, If, Stmt, Store, block

__all__ = ["NonMaximumSuppressionAttrs", "non_max_suppression", "suppressed_rows"]


@dataclass(frozen=True, slots=True)
class SuppressedRowsAttrs(Attrs):
    """`coord_start`: where a row has its box; `score_index`: where its score; `id_index`: where its class (below 0:
    nowhere). `force_suppress`: boxes of other classes, too.
    """

    force_suppress: bool = False
    coord_start: int = 2
    score_index: int = 1
    id_index: int = 0


@dataclass(frozen=True, slots=True)
class NonMaximumSuppressionAttrs(Attrs):
    """As SuppressedRowsAttrs; `top_k`: how many of the best rows are looked at, below 1 all; `return_indices`: which
    rows stay, else the rows; `invalid_to_bottom`: the rows that stay come first."""

    force_suppress: bool = False
    top_k: int = -1
    coord_start: int = 2
    score_index: int = 1
    id_index: int = 0
    return_indices: bool = True
    invalid_to_bottom: bool = False


def _checked(rel: Relation, data: Type, count: Type, most: Type, overlap: Type, a: Any) -> TensorType:
    """The type of the rows."""
    ty, counts = tensor(rel, data, "data"), tensor(rel, count, "valid_count")
    limit, share = tensor(rel, most, "max_output_size"), tensor(rel, overlap, "iou_threshold")
    for found, rank, what in ((ty, 3, "data"), (counts, 1, "valid_count"), (limit, 0, "max_output_size"),
                              (share, 0, "iou_threshold")):  # fmt: skip
        require_rank(rel, found, rank, what=what)
    require_dtype(rel, ty, WIDE, "data")
    require_dtype(rel, counts, INT, "valid_count")
    require_dtype(rel, limit, INT, "max_output_size")
    same_dtype(rel, ty, share)
    if min(a.coord_start, a.score_index) < 0:
        raise rel.fail(f"coord_start and score_index are {a.coord_start} and {a.score_index}, wanted 0 or more")
    at_least(rel, ty.shape[2], max(a.coord_start + 4, a.score_index + 1, a.id_index + 1), "numbers of a row")
    rel.same(ty.shape[0], counts.shape[0], "batch of data and valid_count")
    return ty


# ------------------------------------------------------------------------------- which rows stay


def _rows_relation(rel: Relation, data: Type, count: Type, most: Type, overlap: Type, a: SuppressedRowsAttrs) -> Type:
    ty = _checked(rel, data, count, most, overlap, a)
    return TensorType(ty.shape[:2], dt.bool_)


def _rows_reference(data: Array, count: Array, most: Array, overlap: Array, a: SuppressedRowsAttrs) -> Array:
    found = np.zeros(data.shape[:2], np.bool_)
    counts, limit = np.clip(count.astype(np.int64), 0, data.shape[1]), int(most.astype(np.int64))
    for n in range(len(data)):
        kept: list[int] = []
        for j in range(counts[n]):
            row = data[n, j]
            if len(kept) == limit:
                found[n, j] = True
            elif row[a.score_index] > 0:
                corners = data[n, :, a.coord_start : a.coord_start + 4]
                found[n, j] = any(
                    _same(row, data[n, k], a) and share_array(corners[j], corners[k]) >= overlap for k in kept
                )
                if not found[n, j]:
                    kept.append(j)
    return found


def _same(x: Array, y: Array, a: SuppressedRowsAttrs) -> bool:
    """Whether a kept row can suppress another."""
    if a.id_index < 0:
        return True
    return bool(y[a.id_index] >= 0 and (a.force_suppress or x[a.id_index] == y[a.id_index]))


class _Rows:
    """The loop program: in order, a row goes if enough stay, or if it overlaps one that stays."""

    def __init__(self, data: Tensor, count: Tensor, most: Tensor, overlap: Tensor, a: SuppressedRowsAttrs) -> None:
        self.data, self.count, self.most, self.overlap, self.a = data, count, most, overlap, a
        self.kept = Buffer("kept", (const(1),), dt.int64, scope=Scope.LOCAL)  # how many stay so far
        self.gone = Buffer("gone", (const(1),), dt.bool_, scope=Scope.LOCAL)  # whether a row overlaps one of these

    def program(self, out: Tensor) -> Stmt:
        """`out` says of each row whether it goes."""
        n, i, j, zero = Var("n", dt.index, 0), Var("i", dt.index, 0), Var("j", dt.index, 0), (const(0),)
        batch, rows = self.data.shape[:2]
        begin = block(
            Store(self.kept, zero, const(0, dt.int64)), For(i, rows, Store(out, (n, i), const(False, dt.bool_)))
        )
        count = cast(cast(self.count[n], dt.int64), dt.index)
        each = For(j, max_(min_(count, rows), const(0)), self._row(out, n, j))
        return Alloc(self.kept, Alloc(self.gone, For(n, batch, block(begin, each))))

    def _row(self, out: Tensor, n: Scalar, j: Scalar) -> Stmt:
        k, zero, no = Var("k", dt.index, 0), (const(0),), const(False, dt.bool_)
        score = const(self.a.score_index)
        positive = const(0.0, self.data.dtype)
        stays = land(lnot(out[n, k]), gt(self.data[n, k, score], positive))
        clash = If(land(stays, self._suppresses(n, k, j)), Store(self.gone, zero, const(True, dt.bool_)))
        look = block(Store(self.gone, zero, no), For(k, j, clash), Store(out, (n, j), Load(self.gone, zero)))
        more = Store(self.kept, zero, Load(self.kept, zero) + const(1, dt.int64))
        tried = block(look, If(lnot(Load(self.gone, zero)), more))
        is_full = eq(Load(self.kept, zero), cast(self.most[()], dt.int64))
        wanted = If(gt(self.data[n, j, score], positive), tried)
        return If(is_full, Store(out, (n, j), const(True, dt.bool_)), wanted)

    def _suppresses(self, n: Scalar, k: Scalar, j: Scalar) -> Scalar:
        """Whether row `k`, which stays, keeps row `j` out."""
        a, x = self.a, self.data
        if a.id_index < 0:
            return self._overlaps(n, k, j)
        of, zero = const(a.id_index), const(0.0, x.dtype)
        known = ge(x[n, k, of], zero)
        return land(known if a.force_suppress else land(known, eq(x[n, j, of], x[n, k, of])), self._overlaps(n, k, j))

    def _overlaps(self, n: Scalar, k: Scalar, j: Scalar) -> Scalar:
        begin = self.a.coord_start
        first, second = (lambda d, row=row: self.data[n, row, const(begin + d)] for row in (j, k))
        return ge(share(first, second), self.overlap[()])


def _rows_compute(
    data: Tensor, count: Tensor, most: Tensor, overlap: Tensor, a: SuppressedRowsAttrs, out: TensorType
) -> Tensor:
    rows = _Rows(data, count, most, overlap, a)
    return loops([(out.shape, dt.bool_)], (data, count, most, overlap), rows.program, "gone")[0]


_BOXES = np.array(
    [[[0, 0.9, 0, 0, 10, 10], [0, 0.8, 1, 1, 10, 10], [1, 0.7, 1, 1, 10, 10], [0, 0.6, 20, 20, 30, 30],
      [-1, 0.5, 0, 0, 9, 9], [0, 0.0, 0, 0, 10, 10], [0, 0.3, 30, 30, 20, 21]],
     [[1, 0.9, 0, 0, 2, 2], [1, 0.8, 0, 0, 2, 2], [1, 0.7, 5, 5, 6, 6], [1, 0.6, 5, 5, 6, 6],
      [1, 0.5, 8, 8, 9, 9], [1, 0.4, 8, 8, 9, 9], [1, 0.3, 0, 0, 0, 0]]], np.float32
)  # fmt: skip
_COUNTS = np.array([7, 5], np.int32)


def _limits(most: int = -1, overlap: float = 0.5, dtype: Any = np.float32) -> tuple[Array, Array]:
    return np.array(most, np.int32), np.array(overlap, dtype)


suppressed_rows = Op(
    name="vision.suppressed_rows",
    args=("data", "valid_count", "max_output_size", "iou_threshold"),
    attrs=SuppressedRowsAttrs,
    type_rel=_rows_relation,
    reference=quiet(_rows_reference),
    compute=_rows_compute,
    samples=(
        Sample((_BOXES, _COUNTS, *_limits())),
        Sample((_BOXES, _COUNTS, *_limits(2)), {"force_suppress": True}),
        Sample((_BOXES, _COUNTS, *_limits(0))),
        Sample((_BOXES[..., 1:], np.array([9, -1], np.int64), *_limits(3, 0.9)),
               {"id_index": -1, "score_index": 0, "coord_start": 1}),
        Sample((_BOXES, np.array([7, 2**64 - 1], np.uint64), np.array(2, np.uint64), _limits()[1])),
        Sample((_BOXES.astype(np.float64), _COUNTS, *_limits(-1, 0.2, np.float64))),
    ),
    doc="""Which of the rows (class, score, box) [n, rows, numbers], the best first, non-maximum suppression leaves out.

In order, of the first valid_count rows: one with a score above 0 goes if its intersection over union with one of its
class that stays is iou_threshold or more; once max_output_size stay, all go. Below 0 there is no such limit.""",
)  # fmt: skip

# ------------------------------------------------------------------------------- non_max_suppression


def _nms_relation(
    rel: Relation, data: Type, count: Type, indices: Type, most: Type, overlap: Type, a: NonMaximumSuppressionAttrs
) -> Type:
    ty, which = _checked(rel, data, count, most, overlap, a), tensor(rel, indices, "indices")
    require_rank(rel, which, 2, what="indices")
    require_dtype(rel, which, lambda d: d == dt.int32, "indices")
    rel.same(which.shape[0], ty.shape[0], "batch of data and indices")
    rel.same(which.shape[1], ty.shape[1], "rows of data and indices")
    if not a.return_indices:
        return ty
    return TupleType((TensorType(ty.shape[:2], dt.int32), TensorType((ty.shape[0], const(1)), dt.int32)))


def _own(a: NonMaximumSuppressionAttrs) -> dict[str, Any]:
    return {k: a[k] for k in ("force_suppress", "coord_start", "score_index", "id_index")}


def _nms_reference(
    data: Array, count: Array, indices: Array, most: Array, overlap: Array, a: NonMaximumSuppressionAttrs
) -> Any:
    n, rows, _ = data.shape
    counts = np.clip(count.astype(np.int64), 0, rows)
    valid = np.arange(rows) < counts[:, None]
    if overlap > 0:
        score = np.where(valid, data[:, :, a.score_index], -np.inf)
        order = rows - 1 - np.argsort(score[:, ::-1], axis=1, kind="stable")[:, ::-1]
        kept = valid & (np.arange(rows) < (a.top_k if a.top_k > 0 else rows))
        found = np.where(kept[:, :, None], np.take_along_axis(data, order[:, :, None], 1), data.dtype.type(-1))
        gone = _rows_reference(found, counts, most, overlap, SuppressedRowsAttrs(**_own(a)))
        kept &= ~gone
    else:
        order, kept, found = np.broadcast_to(np.arange(rows), (n, rows)), valid, data
    if not a.return_indices:
        found = np.where(kept[:, :, None], found, data.dtype.type(-1))
        return _to_top(found, found[:, :, 0] >= 0) if a.invalid_to_bottom else found
    which = np.where(kept, np.take_along_axis(indices, order, 1) if rows else indices, -1).astype(np.int32)
    top = _to_top(which, which >= 0)
    return top, (top >= 0).sum(1, keepdims=True).astype(np.int32)


def _to_top(x: Array, valid: Array) -> Array:
    order = np.argsort(~valid, axis=1, kind="stable")
    tail = (1,) * (x.ndim - 2)
    rows = np.take_along_axis(x, order.reshape(*order.shape, *tail), 1)
    kept = np.take_along_axis(valid, order, 1)
    return np.where(kept.reshape(*kept.shape, *tail), rows, x.dtype.type(-1))


def _nms_expand(
    b: Builder, data: Expr, count: Expr, indices: Expr, most: Expr, overlap: Expr, a: NonMaximumSuppressionAttrs
) -> Expr:
    dtype, rows = dtype_of(data), shape_of(data)[1]
    place, minus = steps(b, rows), b.constant(-1, dtype)
    valid = b.less(place, b.expand_dims(b.cast(count, dtype=dt.int64), axis=1))
    score = b.take(data, b.constant(a.score_index, dt.int64), axis=2)
    order = b.argsort(b.where(valid, score, b.constant(-math.inf, dtype)), axis=1, is_ascend=False, dtype=dt.int32)
    kept = b.logical_and(valid, b.less(place, b.constant(a.top_k, dt.int64))) if a.top_k > 0 else valid
    taken = b.take(data, order, axis=1, batch_dims=1, mode="fast")
    found = b.where(b.expand_dims(kept, axis=2), taken, minus)
    gone = b.vision.suppressed_rows(found, count, most, overlap, **_own(a))
    # A threshold of 0 or less leaves the first valid_count rows as they are.
    is_on = b.greater(overlap, b.constant(0, dtype))
    stays = b.where(is_on, b.logical_and(kept, b.logical_not(gone)), valid)
    if a.return_indices:
        own = b.where(is_on, b.take(indices, order, axis=1, batch_dims=1, mode="fast"), indices)
        which = b.where(stays, own, b.constant(-1, dt.int32))
        there = b.greater_equal(which, b.constant(0, dt.int32))
        number = b.sum(b.cast(there, dtype=dt.int32), axis=(1,), keepdims=True)
        return b.tuple_((first_rows(b, which, there)[0], number))
    result = b.where(b.expand_dims(stays, axis=2), b.where(is_on, found, data), minus)
    if not a.invalid_to_bottom:
        return result
    first = b.take(result, b.constant(0, dt.int64), axis=2)
    return first_rows(b, result, b.greater_equal(first, b.constant(0, dtype)))[0]


_WHICH = np.tile(np.arange(7, dtype=np.int32), (2, 1))
_MIXED = _BOXES[:, [3, 0, 6, 2, 1, 4, 5]]

non_max_suppression = Op(
    name="vision.non_max_suppression",
    args=("data", "valid_count", "indices", "max_output_size", "iou_threshold"),
    attrs=NonMaximumSuppressionAttrs,
    type_rel=_nms_relation,
    reference=quiet(_nms_reference),
    expand=_nms_expand,
    samples=(
        Sample((_MIXED, _COUNTS, _WHICH[:, ::-1].copy(), *_limits())),
        Sample((_MIXED, _COUNTS, _WHICH, *_limits(2)), {"return_indices": False, "top_k": 4}, exact=True),
        Sample((_MIXED, _COUNTS, _WHICH, *_limits(-1, 0.3)),
               {"return_indices": False, "invalid_to_bottom": True, "force_suppress": True}, exact=True),
        Sample((_MIXED[..., 1:].copy(), _COUNTS, _WHICH, *_limits()),
               {"id_index": -1, "score_index": 0, "coord_start": 1}),
        Sample((_MIXED, _COUNTS, _WHICH, *_limits(-1, 0.0)), {"return_indices": False}, exact=True),
    ),
    doc="""Greedy non-maximum suppression of rows (class, score, box) [n, rows, numbers], the first valid_count of them.

The best top_k rows, the best first, without those that vision.suppressed_rows leaves out, which are -1. With
return_indices: (which, [n, 1]), what `indices` has for the rows that stay, then -1, and their number.""",
)  # fmt: skip
