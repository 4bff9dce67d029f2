"""What detectors end with: vision.regular_non_max_suppression and vision.proposal, by all_class_non_max_suppression."""

from __future__ import annotations

import math

import numpy as np

from legato.arith.expr import const, min_
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ops._computed import extent_scalar, steps
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, extents, in_shape, narrowed, shape_of, widened
from legato.ops._rules import FLOAT, WIDE, at_least, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array, wide
from legato.ops.non_max_suppression import AllClassNMSAttrs, all_class_non_max_suppression

__all__ = ["ProposalAttrs", "RegularNMSAttrs", "proposal", "regular_non_max_suppression"]


def _kept(b: Builder, boxes: Expr, scores: Expr, most: int, overlap: float, least: float) -> Expr:
    """[n, class, box]: which boxes (two corners) non-maximum suppression keeps of each class."""
    dtype, (n, classes, count) = dtype_of(boxes), shape_of(scores)
    limits = b.constant(most, dt.int64), b.constant(overlap, dtype), b.constant(least, dtype)
    found = b.vision.all_class_non_max_suppression(boxes, scores, *limits)
    rows, number = b.get(found, 0), b.get(found, 1)
    total = simplify(n * classes * count)
    parts = [b.take(rows, b.constant(k, dt.int64), axis=1) for k in range(3)]
    place = b.add(b.multiply(b.add(b.multiply(parts[0], extent_scalar(b, classes, dt.int64)), parts[1]),
                             extent_scalar(b, count, dt.int64)), parts[2])  # fmt: skip
    is_one = b.less(steps(b, total), number)
    behind = b.where(is_one, place, extent_scalar(b, total, dt.int64))  # outside: nothing is written
    marks = b.scatter_elements(b.zeros(shape=extents([total]), dtype=dt.int32), behind,
                               b.cast(is_one, dtype=dt.int32), axis=0, reduction="update")  # fmt: skip
    return in_shape(b, b.greater(marks, b.constant(0, dt.int32)), (n, classes, count))


def _kept_array(boxes: Array, scores: Array, most: int, overlap: float, least: float) -> Array:
    """As `_kept`."""
    t = scores.dtype.type
    run = all_class_non_max_suppression.reference
    rows, number = run(boxes, scores, np.int64(most), t(overlap), t(least), AllClassNMSAttrs())
    found = np.zeros(scores.shape, np.bool_)
    found[tuple(rows[: number[0]].T)] = True
    return found


# ------------------------------------------------------------------------------- regular_non_max_suppression


@dataclass(frozen=True, slots=True)
class RegularNMSAttrs(Attrs):
    """`max_detections_per_class`: how many there are of a class at most; `max_detections`: of all. `num_classes`: the
    last of the columns of scores; `iou_threshold`: the overlap above which a box goes; `score_threshold`: the score
    below which it does.
    """

    max_detections_per_class: int
    max_detections: int
    num_classes: int
    iou_threshold: float
    score_threshold: float


def _regular_relation(rel: Relation, boxes: Type, scores: Type, a: RegularNMSAttrs) -> Type:
    box, score = tensor(rel, boxes, "boxes"), tensor(rel, scores, "scores")
    for ty, what in ((box, "boxes"), (score, "scores")):
        require_rank(rel, ty, 3, what=what)
        require_dtype(rel, ty, WIDE, what)
    same_dtype(rel, box, score)
    if min(a.max_detections_per_class, a.max_detections, a.num_classes) < 1:
        raise rel.fail("max_detections_per_class, max_detections and num_classes are 1 or more")
    rel.same(box.shape[0], score.shape[0], "batch of boxes and scores")
    rel.same(box.shape[1], score.shape[1], "boxes and scores")
    rel.same(box.shape[2], const(4), "numbers of a box")
    at_least(rel, score.shape[2], a.num_classes, "classes")
    n, most = box.shape[0], const(a.max_detections)
    each = TensorType((n, most), box.dtype)
    return TupleType((TensorType((n, most, const(4)), box.dtype), each, each, TensorType((n,), dt.int32)))


def _below(threshold: float, dtype: dt.DType) -> float:
    """The number before a threshold: what is above it is the threshold or more."""
    return float(np.nextafter(dtype.numpy.type(threshold), dtype.numpy.type(-math.inf)))


def _regular_reference(boxes: Array, scores: Array, a: RegularNMSAttrs) -> tuple[Array, ...]:
    own = np.swapaxes(scores[:, :, scores.shape[2] - a.num_classes :], 1, 2)
    least = _below(a.score_threshold, dt.dtype(scores.dtype))
    kept = _kept_array(boxes, own, a.max_detections_per_class, a.iou_threshold, least)
    flat = np.where(kept, own, -np.inf).reshape(len(own), own.shape[1] * own.shape[2])
    flat = np.pad(flat, ((0, 0), (0, a.max_detections)), constant_values=-np.inf).astype(scores.dtype)
    order = flat.shape[1] - 1 - np.argsort(flat[:, ::-1], axis=1, kind="stable")[:, ::-1]
    order = order[:, : a.max_detections]
    best = np.take_along_axis(flat, order, 1)
    there = best > -np.inf
    count = max(own.shape[2], 1)
    which = np.where(there, order % count, 0)
    found = np.take_along_axis(boxes, which[:, :, None], 1) if boxes.size else np.zeros((*which.shape, 4), boxes.dtype)
    classes = np.where(there, order // count, 0).astype(scores.dtype)
    return (np.where(there[:, :, None], found, boxes.dtype.type(0)), classes,
            np.where(there, best, scores.dtype.type(0)), there.sum(1).astype(np.int32))  # fmt: skip


def _regular_expand(b: Builder, boxes: Expr, scores: Expr, a: RegularNMSAttrs) -> Expr:
    dtype, (n, count, columns) = dtype_of(scores), shape_of(scores)
    first, last = extents((simplify(columns - a.num_classes), columns))
    own = b.strided_slice(scores, begin=(first,), end=(last,), strides=(1,), axes=(2,))
    own = b.transpose(own, axes=(0, 2, 1))
    kept = _kept(b, boxes, own, a.max_detections_per_class, a.iou_threshold, _below(a.score_threshold, dtype))
    lowest, zero = b.constant(-math.inf, dtype), b.constant(0, dtype)
    flat = in_shape(b, b.where(kept, own, lowest), (n, simplify(count * a.num_classes)))
    flat = b.nn.pad(flat, lowest, pad_width=((0, 0), (0, a.max_detections)))
    found = b.topk(flat, k=a.max_detections, axis=1, ret_type="both", dtype=dt.int64)
    best, order = b.get(found, 0), b.get(found, 1)
    there = b.greater(best, lowest)
    each = b.maximum(extent_scalar(b, count, dt.int64), b.constant(1, dt.int64))
    which = b.where(there, b.floor_mod(order, each), b.constant(0, dt.int64))
    taken = b.take(boxes, which, axis=1, batch_dims=1, mode="fast")
    classes = b.cast(b.floor_divide(order, each), dtype=dtype)
    return b.tuple_((b.where(b.expand_dims(there, axis=2), taken, zero), b.where(there, classes, zero),
                     b.where(there, best, zero), b.sum(b.cast(there, dtype=dt.int32), axis=(1,))))  # fmt: skip


_BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1],
                    [0, 100, 1, 101]]], np.float32)  # fmt: skip
_SCORES = np.array([[[0, 0.9, 0.8], [0, 0.75, 0.72], [0, 0.6, 0.5], [0, 0.93, 0.95], [0, 0.5, 0.4], [0, 0.3, 0.2]]],
                   np.float32)  # fmt: skip


def _detections(each: int, most: int, overlap: float = 0.5, least: float = 0.3) -> dict[str, float]:
    return {"max_detections_per_class": each, "max_detections": most, "num_classes": 2, "iou_threshold": overlap,
            "score_threshold": least}  # fmt: skip


regular_non_max_suppression = Op(
    name="vision.regular_non_max_suppression",
    args=("boxes", "scores"),
    attrs=RegularNMSAttrs,
    type_rel=_regular_relation,
    reference=quiet(_regular_reference),
    expand=_regular_expand,
    samples=(
        Sample((_BOXES, _SCORES), _detections(3, 4), exact=True),
        Sample((_BOXES, _SCORES), _detections(1, 5), exact=True),
        Sample((_BOXES, _SCORES), _detections(9, 9, 0.9, 0.55), exact=True),
        Sample((_BOXES.astype(np.float64), _SCORES[:, :, 1:].astype(np.float64)), _detections(3, 14), exact=True),
    ),
    doc="""(boxes, classes, scores, [n]): the best detections of all classes, of each by non-maximum suppression, and
how many there are; zeros in the rows behind them.

Boxes [n, boxes, 4] have two opposite corners; scores are [n, boxes, classes], the background before the classes.""",
)

# ------------------------------------------------------------------------------- proposal


@dataclass(frozen=True, slots=True)
class ProposalAttrs(Attrs):
    """`scales`: of anchors; `ratios`: of their sides; `feature_stride`: pixels of the image between them.
    `rpn_pre_nms_top_n`: how many of the best boxes are looked at (below 1: all); `rpn_post_nms_top_n`: how many are
    given. `threshold`: the overlap above which a box goes; `rpn_min_size`: sides of a box, by the scale of the image;
    `iou_loss`: predictions are added to corners.
    """

    scales: tuple[float, ...] = (4.0, 8.0, 16.0, 32.0)
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    feature_stride: int = 16
    threshold: float = 0.7
    rpn_pre_nms_top_n: int = 6000
    rpn_post_nms_top_n: int = 300
    rpn_min_size: int = 16
    iou_loss: bool = False


def _anchors(a: ProposalAttrs) -> Array:
    """[anchor, 4]: the corners of the anchors of the first element."""
    base, rows = float(a.feature_stride), []
    middle = (base - 1) / 2
    for ratio in a.ratios:
        width = math.floor(math.sqrt(math.floor(base * base / ratio)) + 0.5)
        height = math.floor(width * ratio + 0.5)
        for scale in a.scales:
            x, y = (width * scale - 1) / 2, (height * scale - 1) / 2
            rows.append((middle - x, middle - y, middle + x, middle + y))
    return np.array(rows).reshape(-1, 4)


def _proposal_relation(rel: Relation, scores: Type, moves: Type, images: Type, a: ProposalAttrs) -> Type:
    score, move, info = tensor(rel, scores, "cls_prob"), tensor(rel, moves, "bbox_pred"), tensor(rel, images, "im_info")
    for ty, rank, what in ((score, 4, "cls_prob"), (move, 4, "bbox_pred"), (info, 2, "im_info")):
        require_rank(rel, ty, rank, what=what)
        require_dtype(rel, ty, FLOAT, what)
    same_dtype(rel, score, move, info)
    if not a.scales or not a.ratios or min(a.ratios) <= 0 or min(a.feature_stride, a.rpn_post_nms_top_n) < 1:
        raise rel.fail("scales, ratios, feature_stride and rpn_post_nms_top_n are numbers above 0")
    count = len(_anchors(a))
    rel.same(score.shape[1], const(2 * count), "scores of the anchors")
    rel.same(move.shape[1], const(4 * count), "predictions of the anchors")
    for k in (0, 2, 3):
        rel.same(score.shape[k], move.shape[k], f"cls_prob and bbox_pred, dim {k}")
    rel.same(info.shape[0], score.shape[0], "images")
    rel.same(info.shape[1], const(3), "numbers of an image")
    at_least(rel, simplify(score.shape[2] * score.shape[3]), 1, "boxes")
    return TensorType((simplify(score.shape[0] * a.rpn_post_nms_top_n), const(5)), score.dtype)


def _looked_at(boxes: Dim, a: ProposalAttrs) -> int | Dim:
    """How many of the boxes are compared."""
    return extents([simplify(min_(boxes, const(a.rpn_pre_nms_top_n))) if a.rpn_pre_nms_top_n > 0 else boxes])[0]


def _proposal_reference(scores: Array, moves: Array, images: Array, a: ProposalAttrs) -> Array:
    dtype = scores.dtype
    scores, moves, images = (wide(x) for x in (scores, moves, images))
    n, _, rows, columns = scores.shape
    t, anchors = scores.dtype.type, _anchors(a).astype(scores.dtype)
    k = len(anchors)
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    shift = np.stack([x, y, x, y], -1)[:, :, None].astype(scores.dtype) * t(a.feature_stride)
    move = moves.reshape(n, k, 4, rows, columns).transpose(0, 3, 4, 1, 2)
    box = _regressed(np.broadcast_to(anchors + shift, move.shape), move, a)
    edge = images[:, [1, 0, 1, 0]].reshape(n, 1, 1, 1, 4) - t(1)
    box = np.maximum(np.minimum(box, edge), t(0))
    least = (images[:, 2] * t(a.rpn_min_size)).reshape(n, 1, 1, 1)
    inside = [np.trunc(images[:, d] / t(a.feature_stride)).reshape(n, 1, 1) for d in range(2)]
    score = scores[:, k:].transpose(0, 2, 3, 1)
    score = np.where(((y < inside[0]) & (x < inside[1]))[..., None], score, t(-1))
    small = (box[..., 2:] - box[..., :2] + t(1) < least[..., None]).any(-1)
    grown = np.stack([-least, -least, least, least], -1) / t(2)
    box, score = np.where(small[..., None], box + grown, box), np.where(small, t(-1), score)
    total = rows * columns * k
    box, score = box.reshape(n, total, 4), score.reshape(n, total)
    order = total - 1 - np.argsort(score[:, ::-1], axis=1, kind="stable")[:, ::-1]
    order = order[:, : a.rpn_pre_nms_top_n if a.rpn_pre_nms_top_n > 0 else total]
    box, score = np.take_along_axis(box, order[:, :, None], 1), np.take_along_axis(score, order, 1)
    larger = np.concatenate([box[..., :2], box[..., 2:] + t(1)], -1)
    kept = _kept_array(larger, score[:, None], order.shape[1], a.threshold, -np.inf)[:, 0]
    first = np.argsort(~kept, axis=1, kind="stable")
    slot = np.arange(a.rpn_post_nms_top_n) % np.maximum(kept.sum(1, keepdims=True), 1)
    found = np.take_along_axis(box, np.take_along_axis(first, slot, 1)[:, :, None], 1)
    image = np.broadcast_to(np.arange(n).reshape(-1, 1, 1), (*found.shape[:2], 1)).astype(scores.dtype)
    return np.concatenate([image, found], -1).reshape(-1, 5).astype(dtype)


def _regressed(box: Array, move: Array, a: ProposalAttrs) -> Array:
    """Boxes moved by predictions: of their corners, or of their centres and, as logarithms, their sizes."""
    if a.iou_loss:
        return np.asarray(box + move)
    t = box.dtype.type
    size = box[..., 2:] - box[..., :2] + t(1)
    middle = move[..., :2] * size + box[..., :2] + (size - t(1)) * t(0.5)
    half = (np.exp(move[..., 2:]) * size - t(1)) * t(0.5)
    return np.concatenate([middle - half, middle + half], -1)


def _pair(b: Builder, x: Expr, begin: int) -> Expr:
    axis = len(shape_of(x)) - 1
    return b.strided_slice(x, begin=(begin,), end=(begin + 2,), strides=(1,), axes=(axis,))


def _regressed_expr(b: Builder, box: Expr, move: Expr, a: ProposalAttrs) -> Expr:
    if a.iou_loss:
        return b.add(box, move)
    one, half = b.constant(1, dtype_of(box)), b.constant(0.5, dtype_of(box))
    size = b.add(b.subtract(_pair(b, box, 2), _pair(b, box, 0)), one)
    centre = b.add(_pair(b, box, 0), b.multiply(b.subtract(size, one), half))
    middle = b.add(b.multiply(_pair(b, move, 0), size), centre)
    reach = b.multiply(b.subtract(b.multiply(b.exp(_pair(b, move, 2)), size), one), half)
    return b.concatenate(b.subtract(middle, reach), b.add(middle, reach), axis=-1)


def _predicted(b: Builder, scores: Expr, moves: Expr, images: Expr, a: ProposalAttrs) -> tuple[Expr, Expr]:
    """[n, boxes, 4] and [n, boxes]: the boxes of all anchors of all elements, and their scores."""
    dtype, (n, _, rows, columns), k = dtype_of(scores), shape_of(scores), len(_anchors(a))
    stride, one, minus = b.constant(a.feature_stride, dtype), b.constant(1, dtype), b.constant(-1, dtype)
    y, x = b.expand_dims(steps(b, rows, dtype), axis=1), b.expand_dims(steps(b, columns, dtype), axis=0)
    grid = [b.broadcast_to(v, shape=extents((rows, columns))) for v in (x, y)]
    shift = b.multiply(b.expand_dims(b.stack(*grid, *grid, axis=2), axis=2), stride)
    move = b.transpose(in_shape(b, moves, (n, const(k), const(4), rows, columns)), axes=(0, 3, 4, 1, 2))
    box = _regressed_expr(b, b.add(b.constant(_anchors(a), dtype), shift), move, a)
    info = [b.expand_dims(b.take(images, b.constant(d, dt.int64), axis=1), axis=1, num_newaxis=3) for d in range(3)]
    edge = b.subtract(b.stack(info[1], info[0], info[1], info[0], axis=4), one)
    box = b.maximum(b.minimum(box, edge), b.constant(0, dtype))
    least = b.multiply(info[2], b.constant(a.rpn_min_size, dtype))
    score = b.transpose(b.strided_slice(scores, begin=(k,), end=(2 * k,), strides=(1,), axes=(1,)), axes=(0, 2, 3, 1))
    ends = [b.trunc(b.divide(v, stride)) for v in info[:2]]
    inside = b.logical_and(b.less(b.expand_dims(y, axis=2), ends[0]), b.less(b.expand_dims(x, axis=2), ends[1]))
    sides = b.add(b.subtract(_pair(b, box, 2), _pair(b, box, 0)), one)
    small = b.any(b.less(sides, b.expand_dims(least, axis=4)), axis=(4,))
    half = b.divide(least, b.constant(2, dtype))
    grown = b.add(box, b.stack(b.negative(half), b.negative(half), half, half, axis=4))
    box = b.where(b.expand_dims(small, axis=4), grown, box)
    score = b.where(b.logical_and(inside, b.logical_not(small)), score, minus)
    total = simplify(rows * columns * k)
    return in_shape(b, box, (n, total, const(4))), in_shape(b, score, (n, total))


def _proposal_expand(b: Builder, scores: Expr, moves: Expr, images: Expr, a: ProposalAttrs) -> Expr:
    given = scores
    scores, moves, images = (widened(b, x) for x in (scores, moves, images))
    dtype, (n, *_) = dtype_of(scores), shape_of(scores)
    box, score = _predicted(b, scores, moves, images, a)
    found = b.topk(score, k=_looked_at(shape_of(score)[1], a), axis=1, ret_type="both", dtype=dt.int64)
    score, order = b.get(found, 0), b.get(found, 1)
    box = b.take(box, order, axis=1, batch_dims=1, mode="fast")
    larger = b.concatenate(_pair(b, box, 0), b.add(_pair(b, box, 2), b.constant(1, dtype)), axis=2)
    kept = b.squeeze(_kept(b, larger, b.expand_dims(score, axis=1), 1 << 62, a.threshold, -math.inf), axis=(1,))
    first = b.argsort(b.cast(b.logical_not(kept), dtype=dt.int32), axis=1, dtype=dt.int64)
    number = b.maximum(b.sum(b.cast(kept, dtype=dt.int64), axis=(1,), keepdims=True), b.constant(1, dt.int64))
    slot = b.floor_mod(b.constant(np.arange(a.rpn_post_nms_top_n)), number)
    which = b.take(first, slot, axis=1, batch_dims=1, mode="fast")
    corners = b.take(box, which, axis=1, batch_dims=1, mode="fast")
    image = b.expand_dims(steps(b, n, dtype), axis=1, num_newaxis=2)
    image = b.broadcast_to(image, shape=extents((n, const(a.rpn_post_nms_top_n), const(1))))
    rows = b.concatenate(image, corners, axis=2)
    return narrowed(b, in_shape(b, rows, (simplify(n * a.rpn_post_nms_top_n), const(5))), given)


_RPN = {"scales": (0.5, 1.0), "ratios": (0.5, 1.0), "feature_stride": 4, "rpn_min_size": 2, "rpn_post_nms_top_n": 6}
_RPN_ARGS = ((2, 8, 3, 4), "float32"), ((2, 16, 3, 4), "float32"), np.array([[12, 16, 1], [9, 11, 2]], np.float32)

proposal = Op(
    name="vision.proposal",
    args=("cls_prob", "bbox_pred", "im_info"),
    attrs=ProposalAttrs,
    type_rel=_proposal_relation,
    reference=quiet(_proposal_reference),
    expand=_proposal_expand,
    samples=(
        Sample(_RPN_ARGS, _RPN),
        Sample(_RPN_ARGS, {**_RPN, "iou_loss": True, "threshold": 0.3, "rpn_pre_nms_top_n": 9}),
        Sample(_RPN_ARGS, {**_RPN, "rpn_pre_nms_top_n": -1, "rpn_post_nms_top_n": 60, "rpn_min_size": 6}),
    ),
    doc="""[images · rpn_post_nms_top_n, 5]: (image, left, top, right, bottom) of the best boxes that a region proposal
network predicts, by non-maximum suppression; where fewer stay they come again.

cls_prob [n, 2 · anchors, h, w] has the scores of background and of boxes, bbox_pred [n, 4 · anchors, h, w] how anchors
move, im_info (height, width, scale) of each image. Pixels belong to boxes: a box from 0 to 0 is 1 wide.""",
)
