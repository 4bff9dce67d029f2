"""Boxes of detectors: vision.multibox_prior, multibox_transform_loc, get_valid_counts and yolo_reorg.

All are made of other operators. A box is (left, top, right, bottom). Rows that nothing belongs into hold -1.
"""

from __future__ import annotations

import math

import numpy as np

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._computed import extent_scalar, steps
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, extents, in_shape, narrowed, shape_of, widened
from legato.ops._rules import FLOAT, at_least, divides, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array, wide

__all__ = ["GetValidCountsAttrs", "MultiBoxPriorAttrs", "MultiBoxTransformLocAttrs", "YoloReorgAttrs",
           "first_rows", "get_valid_counts", "multibox_prior", "multibox_transform_loc", "yolo_reorg"]  # fmt: skip

# ------------------------------------------------------------------------------- priors


@dataclass(frozen=True, slots=True)
class MultiBoxPriorAttrs(Attrs):
    """`sizes`: of boxes, relative to the image; `ratios`: of width and height; `steps`: between centres along rows and
    columns, below 0 so that they cover the image. `offsets`: of the first centre, in steps; `clip`: boxes end with the
    image.
    """

    sizes: tuple[float, ...] = (1.0,)
    ratios: tuple[float, ...] = (1.0,)
    steps: tuple[float, ...] = (-1.0, -1.0)
    offsets: tuple[float, ...] = (0.5, 0.5)
    clip: bool = False


def _kinds(a: MultiBoxPriorAttrs) -> list[tuple[float, float]]:
    """Half the width (of an image as wide as high) and height of the boxes at each centre."""
    first = [(s / 2, s / 2) for s in a.sizes]
    return first + [(a.sizes[0] * math.sqrt(r) / 2, a.sizes[0] / math.sqrt(r) / 2) for r in a.ratios[1:]]


def _prior_relation(rel: Relation, data: Type, a: MultiBoxPriorAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 4, what="data")
    require_dtype(rel, ty, FLOAT, "data")
    if not a.sizes or not a.ratios or min(a.ratios) <= 0 or len(a.steps) != 2 or len(a.offsets) != 2:
        raise rel.fail("sizes and ratios are numbers, ratios above 0; steps and offsets are 2 numbers each")
    count = simplify(ty.shape[2] * ty.shape[3] * len(_kinds(a)))
    return TensorType((const(1), count, const(4)), ty.dtype)


def _prior_reference(data: Array, a: MultiBoxPriorAttrs) -> Array:
    t = wide(data).dtype.type
    centres = []
    for d, n in enumerate(data.shape[2:]):
        step = t(a.steps[d]) if a.steps[d] > 0 else t(1) / t(max(n, 1))
        centres.append((np.arange(n).astype(t) + t(a.offsets[d])) * step)
    y, x, k = np.meshgrid(*centres, np.arange(len(_kinds(a))), indexing="ij")
    half = np.array(_kinds(a), t).reshape(-1, 2)
    w, h = half[k, 0] * t(data.shape[2]) / t(max(data.shape[3], 1)), half[k, 1]
    found = np.stack([x - w, y - h, x + w, y + h], -1).reshape(1, -1, 4)
    return (np.clip(found, 0, 1) if a.clip else found).astype(data.dtype)


def _prior_expand(b: Builder, data: Expr, a: MultiBoxPriorAttrs) -> Expr:
    image, kinds = shape_of(data)[2:], _kinds(a)
    dtype = dtype_of(widened(b, data))
    high, across = (extent_scalar(b, d, dtype) for d in image)
    places = []
    for d, n in enumerate(image):
        at = b.add(steps(b, n, dtype), b.constant(a.offsets[d], dtype))
        own = b.multiply(at, b.constant(a.steps[d], dtype)) if a.steps[d] > 0 else b.divide(at, (high, across)[d])
        places.append(b.expand_dims(own, axis=1, num_newaxis=2 - d))
    half = np.array(kinds).reshape(-1, 2)
    width = b.divide(b.multiply(b.constant(half[:, 0], dtype), high), across)
    sizes = (width, b.constant(half[:, 1], dtype))
    shape = extents((*image, const(len(kinds))))
    sides = [b.broadcast_to(f(places[1 - d], sizes[d]), shape=shape) for f in (b.subtract, b.add) for d in range(2)]
    found = in_shape(b, b.stack(*sides, axis=3), (const(1), simplify(image[0] * image[1] * len(kinds)), const(4)))
    return narrowed(b, b.clip(found, a_min=0.0, a_max=1.0) if a.clip else found, data)


multibox_prior = Op(
    name="vision.multibox_prior",
    args=("data",),
    attrs=MultiBoxPriorAttrs,
    type_rel=_prior_relation,
    reference=quiet(_prior_reference),
    expand=_prior_expand,
    samples=(
        Sample((((1, 3, 2, 3), "float32"),)),
        Sample((((1, 3, 3, 2), "float32"),), {"sizes": (0.2, 0.4), "ratios": (1.0, 2.0, 0.5), "clip": True}),
        Sample((((1, 1, 2, 2), "float32"),), {"steps": (0.3, 0.4), "offsets": (0.25, 0.75)}),
        Sample((((1, 1, 2, 2), "float16"),)),
    ),
    doc="""[1, boxes, 4]: boxes around the elements of data [n, channels, rows, columns], row by row, as parts of it.

At each there are one of each size with the first ratio, and one of the first size with each further ratio.""",
)

# ------------------------------------------------------------------------------- rows that count


def first_rows(b: Builder, x: Expr, valid: Expr) -> tuple[Expr, Expr]:
    """x [n, rows, …] with the valid [n, rows] rows first, in order, and -1 in the others; and which row each was."""
    order = b.argsort(b.cast(b.logical_not(valid), dtype=dt.int32), axis=1, dtype=dt.int32)
    kept = b.take(valid, order, axis=1, batch_dims=1, mode="fast")
    inner = len(shape_of(x)) - 2
    shown = b.expand_dims(kept, axis=2, num_newaxis=inner) if inner else kept
    rows = b.where(shown, b.take(x, order, axis=1, batch_dims=1, mode="fast"), b.constant(-1, dtype_of(x)))
    return rows, b.where(kept, order, b.constant(-1, dt.int32))


def _counted(b: Builder, valid: Expr) -> Expr:
    return b.sum(b.cast(valid, dtype=dt.int32), axis=(1,))


def _moved(x: Array, valid: Array) -> tuple[Array, Array]:
    """As `first_rows`."""
    order = np.argsort(~valid, axis=1, kind="stable").astype(np.int32)
    kept = np.take_along_axis(valid, order, 1)
    rows = np.take_along_axis(x, order.reshape(*order.shape, *(1,) * (x.ndim - 2)), 1)
    shown = kept.reshape(*kept.shape, *(1,) * (x.ndim - 2))
    return np.where(shown, rows, x.dtype.type(-1)), np.where(kept, order, -1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class GetValidCountsAttrs(Attrs):
    """`id_index`: where a row has its class (below 0: nowhere); `score_index`: where its score."""

    id_index: int = 0
    score_index: int = 1


def _valid_relation(rel: Relation, data: Type, threshold: Type, a: GetValidCountsAttrs) -> Type:
    ty, least = tensor(rel, data, "data"), tensor(rel, threshold, "score_threshold")
    require_rank(rel, ty, 3, what="data")
    require_rank(rel, least, 0, what="score_threshold")
    require_dtype(rel, ty, FLOAT, "data")
    same_dtype(rel, ty, least)
    if a.score_index < 0:
        raise rel.fail(f"score_index is {a.score_index}, wanted 0 or more")
    at_least(rel, ty.shape[2], max(a.score_index, a.id_index) + 1, "numbers of a row")
    n, rows, _ = ty.shape
    return TupleType((TensorType((n,), dt.int32), ty, TensorType((n, rows), dt.int32)))


def _valid_reference(data: Array, threshold: Array, a: GetValidCountsAttrs) -> tuple[Array, ...]:
    valid = wide(data)[:, :, a.score_index] > wide(threshold)
    if a.id_index >= 0:
        valid = valid & (wide(data)[:, :, a.id_index] >= 0)
    return valid.sum(1).astype(np.int32), *_moved(data, valid)


def _column(b: Builder, x: Expr, n: int) -> Expr:
    return b.take(x, b.constant(n, dt.int64), axis=2)


def _valid_expand(b: Builder, data: Expr, threshold: Expr, a: GetValidCountsAttrs) -> Expr:
    valid = b.greater(_column(b, data, a.score_index), threshold)
    if a.id_index >= 0:
        valid = b.logical_and(valid, b.greater_equal(_column(b, data, a.id_index), b.constant(0, dtype_of(data))))
    return b.tuple_((_counted(b, valid), *first_rows(b, data, valid)))


_ROWS = np.array(
    [[[0, 0.8, 1, 20, 25, 45], [1, 0.7, 30, 60, 50, 80], [-1, 0.9, 4, 21, 19, 40], [2, 0.2, 7, 8, 9, 10]]], np.float32
)

get_valid_counts = Op(
    name="vision.get_valid_counts",
    args=("data", "score_threshold"),
    attrs=GetValidCountsAttrs,
    type_rel=_valid_relation,
    reference=quiet(_valid_reference),
    expand=_valid_expand,
    samples=(
        Sample((_ROWS, np.array(0.3, np.float32)), exact=True),
        Sample((_ROWS, np.array(0.1, np.float32)), {"id_index": -1}, exact=True),
        Sample((_ROWS, np.array(8, np.float32)), {"score_index": 2}, exact=True),
        Sample((_ROWS.astype(np.float16), np.array(0.3, np.float16)), exact=True),
        Sample((np.zeros((2, 0, 6), np.float32), np.array(0, np.float32)), exact=True),
    ),
    doc="""([n], rows, [n, rows]): of rows [n, rows, numbers] how many have a score above the threshold and a class that
is not below 0; these first, in order; and which row each was.""",
)

# ------------------------------------------------------------------------------- decoded boxes


@dataclass(frozen=True, slots=True)
class MultiBoxTransformLocAttrs(Attrs):
    """`clip`: boxes end with the image; `threshold`: what a score is at least; `variances`: by which predictions are
    scaled.
    """

    clip: bool = True
    threshold: float = 0.01
    variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2)


def _decoded_relation(rel: Relation, scores: Type, moves: Type, anchors: Type, a: MultiBoxTransformLocAttrs) -> Type:
    score, move, anchor = (
        tensor(rel, scores, "cls_prob"),
        tensor(rel, moves, "loc_pred"),
        tensor(rel, anchors, "anchor"),
    )
    for ty, rank, what in ((score, 3, "cls_prob"), (move, 2, "loc_pred"), (anchor, 3, "anchor")):
        require_rank(rel, ty, rank, what=what)
    require_dtype(rel, score, FLOAT, "cls_prob")
    same_dtype(rel, score, move, anchor)
    if len(a.variances) != 4:
        raise rel.fail(f"{len(a.variances)} variances, wanted 4")
    n, classes, count = score.shape
    at_least(rel, classes, 2, "classes and the background")
    rel.same(move.shape[0], n, "batch of predictions")
    rel.same(move.shape[1], simplify(count * 4), "predictions of boxes")
    rel.same(anchor.shape[0], const(1), "batch of anchors")
    rel.same(anchor.shape[1], count, "anchors")
    rel.same(anchor.shape[2], const(4), "numbers of an anchor")
    return TupleType((TensorType((n, count, const(6)), score.dtype), TensorType((n,), dt.int32)))


def _decoded_reference(
    scores: Array, moves: Array, anchors: Array, a: MultiBoxTransformLocAttrs
) -> tuple[Array, Array]:
    score, move, anchor = wide(scores), wide(moves).reshape(len(scores), -1, 4), wide(anchors)
    t = score.dtype.type
    best, which = score[:, 1:].max(1), score[:, 1:].argmax(1)
    valid = (best > -1) & (best >= t(a.threshold))
    size, middle = anchor[..., 2:] - anchor[..., :2], (anchor[..., :2] + anchor[..., 2:]) / t(2)
    variance = np.array(a.variances, score.dtype)
    at = move[..., :2] * variance[:2] * size + middle
    half = np.exp(move[..., 2:] * variance[2:]) * size / t(2)
    box = np.concatenate([at - half, at + half], -1)
    box = np.clip(box, 0, 1) if a.clip else box
    rows = np.concatenate([which[..., None].astype(t), best[..., None], box], -1)
    return _moved(rows.astype(scores.dtype), valid)[0], valid.sum(1).astype(np.int32)


def _decoded_expand(b: Builder, scores: Expr, moves: Expr, anchors: Expr, a: MultiBoxTransformLocAttrs) -> Expr:
    score, move, anchor = (widened(b, x) for x in (scores, moves, anchors))
    dtype, (n, classes, count) = dtype_of(score), shape_of(score)
    own = b.strided_slice(score, begin=(1,), end=extents([classes]), strides=(1,), axes=(1,))
    best, which = b.max(own, axis=(1,)), b.argmax(own, axis=(1,))
    valid = b.logical_and(b.greater(best, b.constant(-1, dtype)), b.greater_equal(best, b.constant(a.threshold, dtype)))
    (first, last), (at, grown) = _halves(b, anchor), _halves(b, in_shape(b, move, (n, count, const(4))))
    size, middle = b.subtract(last, first), b.divide(b.add(first, last), b.constant(2, dtype))
    variances = [b.constant(np.array(v), dtype) for v in (a.variances[:2], a.variances[2:])]
    place = b.add(b.multiply(b.multiply(at, variances[0]), size), middle)
    half = b.divide(b.multiply(b.exp(b.multiply(grown, variances[1])), size), b.constant(2, dtype))
    box = b.concatenate(b.subtract(place, half), b.add(place, half), axis=2)
    box = b.clip(box, a_min=0.0, a_max=1.0) if a.clip else box
    parts = [b.expand_dims(b.cast(which, dtype=dtype), axis=2), b.expand_dims(best, axis=2), box]
    rows = first_rows(b, narrowed(b, b.concatenate(*parts, axis=2), scores), valid)[0]
    return b.tuple_((rows, _counted(b, valid)))


def _halves(b: Builder, x: Expr) -> tuple[Expr, Expr]:
    """The first two and the last two numbers of boxes."""
    parts = [b.strided_slice(x, begin=(n,), end=(n + 2,), strides=(1,), axes=(2,)) for n in (0, 2)]
    return parts[0], parts[1]


_ANCHORS = np.array([[[0.1, 0.1, 0.4, 0.5], [0.3, 0.2, 0.8, 0.7], [0.0, 0.5, 0.9, 1.0]]], np.float32)
_SCORES = np.array([[[0.1, 0.9, 0.2], [0.7, 0.05, 0.3], [0.2, 0.004, 0.5]]], np.float32)

multibox_transform_loc = Op(
    name="vision.multibox_transform_loc",
    args=("cls_prob", "loc_pred", "anchor"),
    attrs=MultiBoxTransformLocAttrs,
    type_rel=_decoded_relation,
    reference=quiet(_decoded_reference),
    expand=_decoded_expand,
    samples=(
        Sample((_SCORES, ((1, 12), "float32"), _ANCHORS)),
        Sample((_SCORES, ((1, 12), "float32"), _ANCHORS), {"clip": False, "threshold": 0.1}),
        Sample((_SCORES, ((1, 12), "float32"), _ANCHORS), {"variances": (1.0, 0.5, 0.25, 2.0)}),
        Sample((*(x.astype(np.float16) for x in (_SCORES, np.zeros((1, 12)), _ANCHORS)),)),
    ),
    doc="""(rows, [n]): (class, score, left, top, right, bottom) of the boxes that anchors [1, boxes, 4] and predictions
[n, boxes · 4] give, first those whose best class of scores [n, background and classes, boxes] is no background, and how
many these are. Rows without a box hold -1.""",
)

# ------------------------------------------------------------------------------- yolo_reorg


@dataclass(frozen=True, slots=True)
class YoloReorgAttrs(Attrs):
    """`stride`: how many elements along rows and columns become channels."""

    stride: int = 1


def _reorg_relation(rel: Relation, data: Type, a: YoloReorgAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 4, what="data")
    if a.stride < 1:
        raise rel.fail(f"stride is {a.stride}, wanted 1 or more")
    n, channels, rows, columns = ty.shape
    divides(rel, channels, a.stride**2, "channels")
    high, across = divides(rel, rows, a.stride, "rows"), divides(rel, columns, a.stride, "columns")
    return TensorType((n, simplify(channels * a.stride**2), high, across), ty.dtype)


def _reorg_reference(data: Array, a: YoloReorgAttrs) -> Array:
    n, channels, rows, columns = data.shape
    s = a.stride
    parts = data.reshape(n, channels // s**2, rows, s, columns, s).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(parts).reshape(n, channels * s**2, rows // s, columns // s)


def _reorg_expand(b: Builder, data: Expr, a: YoloReorgAttrs) -> Expr:
    (n, channels, rows, columns), s = shape_of(data), const(a.stride)
    parts = in_shape(b, data, (n, simplify(channels // a.stride**2), rows, s, columns, s))
    new = (n, simplify(channels * a.stride**2), simplify(rows // a.stride), simplify(columns // a.stride))
    return in_shape(b, b.transpose(parts, axes=(0, 3, 5, 1, 2, 4)), new)


yolo_reorg = Op(
    name="vision.yolo_reorg",
    args=("data",),
    attrs=YoloReorgAttrs,
    type_rel=_reorg_relation,
    reference=_reorg_reference,
    expand=_reorg_expand,
    samples=(
        Sample((((2, 4, 4, 6), "float32"),), {"stride": 2}, exact=True),
        Sample((((1, 3, 2, 2), "int32"),), exact=True),
    ),
    doc="""Darknet's reorganisation: of data [n, c, h, w], read as [n, c/s², h·s, w·s], elements s apart are channels.

The result is written as [n, c·s², h/s, w/s].""",
)
