"""Losses of scores by the numbers of classes. 16-bit floats are computed in float32, and rounded once."""

from __future__ import annotations

from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ops.loss import REDUCTIONS

_NO_CLASS = -1  # a target that is no class does not count


def negative_log_likelihood_loss(
    b: Emitter,
    x: Expr,
    target: Expr,
    weight: Expr | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = _NO_CLASS,
) -> Expr:
    return b.to(_loss(b, b.wide(x), target, weight, reduction, ignore_index), b.dtype(x))


def softmax_cross_entropy_loss(
    b: Emitter,
    scores: Expr,
    labels: Expr,
    weights: Expr | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = _NO_CLASS,
) -> tuple[Expr, ...]:
    """The loss, and the logarithms of the probabilities where the node asks for them."""
    x, dtype = b.wide(scores), b.dtype(scores)
    _require_classes(b, x)
    if weights is None and b.outputs == 1:
        _require_reduction(reduction)
        loss = b.nn.softmax_cross_entropy(x, labels, reduction=reduction, ignore_index=ignore_index)
        return (b.to(loss, dtype),)
    logs = b.nn.log_softmax(x, axis=1)
    return b.to(_loss(b, logs, labels, weights, reduction, ignore_index), dtype), b.to(logs, dtype)


def _loss(b: Emitter, logs: Expr, target: Expr, weight: Expr | None, reduction: str, ignored: int) -> Expr:
    _require_classes(b, logs)
    _require_reduction(reduction)
    each = b.full(b.like(1, logs), shape=(b.dims_of(logs)[1],)) if weight is None else b.to(weight, b.dtype(logs))
    return b.nn.nll_loss(logs, target, each, reduction=reduction, ignore_index=ignored)


def _require_classes(b: Emitter, x: Expr) -> None:
    if b.rank(x) < 2:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted 2 or more: its second dim are the classes")


def _require_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ImportModelError(f"reduction is {reduction!r}, wanted one of {', '.join(REDUCTIONS)}")
