"""Losses of scores by the numbers of classes: nll_loss, softmax_cross_entropy.

They are made of other operators (`expand`). 16-bit floats are computed in float32, and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import Array, quiet
from legato.ops._gradients import Contribution, dtype_of, extent_of, extents, narrowed, shape_of, widened
from legato.ops._rules import FLOAT, INT, require_dtype, same_shape, tensor
from legato.ops._tensors import require_choice, wide
from legato.ops.loss import REDUCTIONS
from legato.ops.softmax import SoftmaxAttrs, log_softmax

__all__ = ["NLLLossAttrs", "nll_loss", "softmax_cross_entropy"]


@dataclass(frozen=True, slots=True)
class NLLLossAttrs(Attrs):
    """As LossAttrs; `ignore_index`: a target that does not count."""

    reduction: str = "mean"
    ignore_index: int = -100


def _class_relation(rel: Relation, predictions: Type, targets: Type, *rest: Any) -> Type:
    *weights, a = rest
    x, t = tensor(rel, predictions, "predictions"), tensor(rel, targets, "targets")
    require_dtype(rel, x, FLOAT, "predictions")
    require_dtype(rel, t, INT, "targets")
    require_choice(rel, "reduction", a.reduction, REDUCTIONS)
    if not x.rank:
        raise rel.fail("predictions is a scalar, wanted (n, classes, …) or (classes,)")
    axis = _class_axis(x.rank)
    shape = same_shape(rel, t.shape, (*x.shape[:axis], *x.shape[axis + 1 :]), "targets")
    for w in weights:
        rel.unify(w, TensorType((x.shape[axis],), x.dtype), "weights")
    return TensorType(shape if a.reduction == "none" else (), x.dtype)


def _class_axis(rank: int) -> int:
    return 1 if rank > 1 else 0


def _nll_reference(predictions: Array, targets: Array, weights: Array, a: NLLLossAttrs) -> Array:
    x, axis = wide(predictions), _class_axis(predictions.ndim)
    classes = x.shape[axis]
    counts = (targets != a.ignore_index) & (targets >= 0) & (targets < classes)
    places = np.expand_dims(np.where(counts, targets, 0), axis)
    if not classes:
        x, weights = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype), np.zeros(1, x.dtype)
    weight = np.where(counts, wide(weights)[np.where(counts, targets, 0)], 0).astype(x.dtype)
    loss = np.where(counts, -np.take_along_axis(x, places, axis).squeeze(axis) * weight, 0)
    if a.reduction != "none":
        loss = loss.sum()
    if a.reduction == "mean":
        loss = loss / weight.sum()
    return np.asarray(loss).astype(predictions.dtype)


class _Classes:
    """Predictions (n, classes, …) or (classes,) and targets without the classes' dimension, as operators see them."""

    def __init__(self, b: Builder, predictions: Expr, targets: Expr, a: NLLLossAttrs) -> None:
        self.b, self.x, self.shape = b, widened(b, predictions), shape_of(predictions)
        self.axis = _class_axis(len(self.shape))
        self.reduction = a.reduction
        t = b.cast(targets, dtype=dt.int64)
        self.counts = b.logical_and(self._inside(t), b.not_equal(t, a.ignore_index))
        self.places = b.where(self.counts, t, b.zeros_like(t))
        self.marked = b.where(self.counts, t, b.full_like(t, -1))

    def _inside(self, t: Expr) -> Expr:
        b = self.b
        return b.logical_and(b.greater_equal(t, 0), b.less(t, extent_of(b, self.x, self.axis)))

    def weight(self, weights: Expr) -> Expr:
        """The weight of each target; 0 where it does not count."""
        taken = self.b.take(widened(self.b, weights), self.places, axis=0)
        return self.b.where(self.counts, taken, self.b.zeros_like(taken))

    def losses(self, weight: Expr) -> Expr:
        """-prediction · weight for each target that counts."""
        b = self.b
        chosen = b.squeeze(b.gather(self.x, b.expand_dims(self.places, axis=self.axis), axis=self.axis), axis=self.axis)
        return b.where(self.counts, b.negative(b.multiply(chosen, weight)), b.zeros_like(chosen))

    def reduced(self, losses: Expr, weight: Expr) -> Expr:
        """What is asked for of the losses."""
        if self.reduction == "none":
            return losses
        total = self.b.sum(losses)
        return self.b.divide(total, self.b.sum(weight)) if self.reduction == "mean" else total

    def spread(self, dy: Expr, weight: Expr) -> Expr:
        """The cotangent of each loss, to be broadcast over the classes."""
        g = widened(self.b, dy)
        if self.reduction == "mean":
            g = self.b.divide(g, self.b.sum(weight))
        return self.b.expand_dims(g, axis=self.axis) if self.reduction == "none" else g

    def hot(self) -> Expr:
        """1 at the classes that are meant, and 0."""
        b, one = self.b, dtype_of(self.x)
        (depth,) = extents([self.shape[self.axis]])
        return b.one_hot(self.marked, b.constant(1, one), b.constant(0, one), depth=depth, axis=self.axis, dtype=one)

    def by_class(self, vector: Expr) -> Expr:
        """A vector over the classes, to be broadcast over all else."""
        more = len(self.shape) - self.axis - 1
        return self.b.expand_dims(vector, axis=1, num_newaxis=more) if more else vector


def _nll_expand(b: Builder, predictions: Expr, targets: Expr, weights: Expr, a: NLLLossAttrs) -> Expr:
    parts = _Classes(b, predictions, targets, a)
    weight = parts.weight(weights)
    return narrowed(b, parts.reduced(parts.losses(weight), weight), predictions)


def _nll_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """Of the mean L = Σ lᵢ / W, where W = Σ wᵢ, by the weights: (∂lᵢ/∂wᵢ − L) / W."""
    predictions, targets, weights = call.args
    parts = _Classes(b, predictions, targets, call.attrs)
    g, hot = parts.spread(dy, parts.weight(weights)), parts.hot()
    by_x = b.negative(b.multiply(b.multiply(hot, parts.by_class(widened(b, weights))), g))
    loss = parts.x if parts.reduction != "mean" else b.add(parts.x, widened(b, call))
    chosen = b.where(b.greater(hot, 0.0), loss, b.zeros_like(loss))
    by_weights = b.negative(b.sum(b.multiply(chosen, g), axis=(parts.axis,), exclude=True))
    return [narrowed(b, by_x, predictions), None, narrowed(b, by_weights, weights)]


_SCORES = ((3, 4), "float32")
_TARGETS = np.array([3, 0, 2], np.int32)
_WILD = np.array([1, -100, 4], np.int64)  # one that counts, one that is ignored, one that is no class
_GRID = np.array([[0, 2, 1], [1, 1, 7]], np.uint8)

nll_loss = Op(
    name="nn.nll_loss",
    args=("predictions", "targets", "weights"),
    attrs=NLLLossAttrs,
    type_rel=_class_relation,
    reference=quiet(_nll_reference),
    expand=_nll_expand,
    grad=_nll_gradient,
    samples=(
        *(Sample((_SCORES, _TARGETS, np.array([0.2, 0.5, 1, 2], np.float32)), {"reduction": r}) for r in REDUCTIONS),
        Sample((_SCORES, _WILD, np.ones(4, np.float32))),
        Sample((_SCORES, _TARGETS, np.ones(4, np.float32)), {"reduction": "none", "ignore_index": 2}),
        Sample((((2, 3, 3), "float32"), _GRID, np.array([1, 2, 3], np.float32))),
        Sample((((4,), "float32"), np.array(2), np.ones(4, np.float32)), {"reduction": "sum"}),
        Sample((((3, 4), "float16"), _TARGETS, np.ones(4, np.float16))),
    ),
    doc="""−predictions[n, targets[n, …], …]·weights[targets[n, …]], reduced, of logarithms of probabilities.

predictions [n, classes, …] or [classes], targets [n, …] integers, weights [classes]. The mean is that by weights. A
target that is `ignore_index`, or no class, counts as 0 and has weight 0.""",
)


def _softmax_reference(predictions: Array, targets: Array, a: NLLLossAttrs) -> Array:
    x, axis = wide(predictions), _class_axis(predictions.ndim)
    logs = log_softmax.reference(x, SoftmaxAttrs(axis))
    return _nll_reference(logs, targets, np.ones(x.shape[axis], x.dtype), a).astype(predictions.dtype)


def _softmax_expand(b: Builder, predictions: Expr, targets: Expr, a: NLLLossAttrs) -> Expr:
    parts = _Classes(b, predictions, targets, a)
    weight = b.cast(parts.counts, dtype=dtype_of(parts.x))
    parts.x = b.nn.log_softmax(parts.x, axis=parts.axis)
    return narrowed(b, parts.reduced(parts.losses(weight), weight), predictions)


def _softmax_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """softmax − 1 at the classes, where targets count."""
    predictions, targets = call.args
    parts = _Classes(b, predictions, targets, call.attrs)
    weight = b.cast(parts.counts, dtype=dtype_of(parts.x))
    shares = b.multiply(b.nn.softmax(parts.x, axis=parts.axis), b.expand_dims(weight, axis=parts.axis))
    found = b.multiply(b.subtract(shares, parts.hot()), parts.spread(dy, weight))
    return [narrowed(b, found, predictions), None]


softmax_cross_entropy = Op(
    name="nn.softmax_cross_entropy",
    args=("predictions", "targets"),
    attrs=NLLLossAttrs,
    type_rel=_class_relation,
    reference=quiet(_softmax_reference),
    expand=_softmax_expand,
    grad=_softmax_gradient,
    samples=(
        *(Sample((_SCORES, _TARGETS), {"reduction": r}) for r in REDUCTIONS),
        Sample((_SCORES, _WILD)),
        Sample((((2, 3, 3), "float32"), _GRID), {"reduction": "none"}),
        Sample((((4,), "float32"), np.array(2)), {"reduction": "sum"}),
        Sample((((3, 4), "float16"), _TARGETS)),
    ),
    doc="nll_loss of log_softmax(predictions), with weights of 1: the cross entropy of scores with classes by number.",
)
