"""Losses of two tensors of one shape: squares, Huber's, cross entropies, divergence.

All are made of other operators (`expand`), and have gradients that do not lose what the sum of the parts would. 16-bit
floats are computed in float32, and rounded once. Losses by the numbers of classes: `class_loss`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import Array, quiet
from legato.ops._gradients import Contribution, count, narrowed, shape_of, widened
from legato.ops._rules import FLOAT, require_dtype, require_rank, same_dtype, same_shape, tensor
from legato.ops._tensors import require_choice, wide

__all__ = ["REDUCTIONS", "HuberAttrs", "LossAttrs", "SmoothL1Attrs", "binary_cross_entropy_with_logits",
           "cross_entropy", "cross_entropy_with_logits", "huber_loss", "kl_div", "mse_loss",
           "smooth_l1_loss"]  # fmt: skip

REDUCTIONS = ("none", "sum", "mean")


@dataclass(frozen=True, slots=True)
class LossAttrs(Attrs):
    """`reduction`: none, sum, mean; of kl_div also batchmean, the sum divided by the first extent."""

    reduction: str = "mean"


@dataclass(frozen=True, slots=True)
class HuberAttrs(Attrs):
    """As LossAttrs; `delta`: where the square becomes a line."""

    reduction: str = "mean"
    delta: float = 1.0


@dataclass(frozen=True, slots=True)
class SmoothL1Attrs(Attrs):
    """As LossAttrs; `beta`: where the square becomes a line; 0: it is one everywhere."""

    reduction: str = "mean"
    beta: float = 1.0


Element = Callable[[Builder, Expr, Expr, Any], Expr]


def _divided(b: Builder, value: Expr, how: str, x: Expr) -> Expr:
    """`value`, divided by the number of elements of `x` for a mean, of its rows for batchmean."""
    axes = {"mean": range(len(shape_of(x))), "batchmean": (0,)}.get(how)
    return value if axes is None else b.divide(value, count(b, x, axes))


def _reduction(a: Any) -> str:
    return "batchmean" if a is None else str(a.reduction)


def _pair_relation(choices: tuple[str, ...], check: Callable[[Any], str | None]) -> Callable[..., Type]:
    def relation(rel: Relation, predictions: Type, targets: Type, a: Any = None) -> Type:
        x, t = tensor(rel, predictions, "predictions"), tensor(rel, targets, "targets")
        require_dtype(rel, x, FLOAT, "predictions")
        same_dtype(rel, x, t)
        shape = same_shape(rel, x.shape, t.shape, "targets")
        if a is None:
            require_rank(rel, x, 2, what="predictions")
        else:
            require_choice(rel, "reduction", a.reduction, choices)
            if (wrong := check(a)) is not None:
                raise rel.fail(wrong)
        if _reduction(a) == "batchmean" and not x.rank:
            raise rel.fail("batchmean of scalars, which have no first dimension")
        return TensorType(shape if _reduction(a) == "none" else (), x.dtype)

    return relation


def _pairs(
    name: str,
    attrs: type | None,
    reference: Callable[[Array, Array, Any], Array],
    element: Element,
    gradients: tuple[Element, Element],
    *,
    doc: str,
    choices: tuple[str, ...] = REDUCTIONS,
    check: Callable[[Any], str | None] = lambda a: None,
    samples: tuple[Sample, ...],
) -> Op:
    """A loss of pairs of elements by its value and its derivatives `(b, x, t, attrs)`; no attrs: the rows' mean."""

    def run(predictions: Array, targets: Array, a: Any = None) -> Array:
        found = reference(wide(predictions), wide(targets), a)
        how = _reduction(a)
        if how != "none":
            found = np.asarray(found.sum())
        if how in ("mean", "batchmean"):
            found = found / found.dtype.type(predictions.size if how == "mean" else len(predictions))
        return np.asarray(found).astype(predictions.dtype)

    def expand(b: Builder, predictions: Expr, targets: Expr, a: Any = None) -> Expr:
        x = widened(b, predictions)
        found = element(b, x, widened(b, targets), a)
        how = _reduction(a)
        if how != "none":
            found = b.sum(found)
        return narrowed(b, _divided(b, found, how, x), predictions)

    def grad(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
        x, t = (widened(b, arg) for arg in call.args)
        g = _divided(b, widened(b, dy), _reduction(call.attrs), x)
        return [narrowed(b, b.multiply(f(b, x, t, call.attrs), g), call) for f in gradients]

    return Op(
        name=name,
        args=("predictions", "targets"),
        attrs=attrs,
        type_rel=_pair_relation(choices, check),
        reference=quiet(run),
        expand=expand,
        grad=grad,
        samples=samples,
        doc=doc,
    )


def _square_samples(*more: dict[str, Any]) -> tuple[Sample, ...]:
    """All reductions, and narrow floats."""
    pair = ((3, 4), "float32"), ((3, 4), "float32")
    half = ((5,), "float16"), ((5,), "float16")
    reductions = ({"reduction": "none"}, {"reduction": "sum"}, {}, *more)
    return (
        *(Sample(pair, a) for a in reductions),
        Sample(half),
        Sample((((0, 2), "float32"),) * 2, {"reduction": "sum"}),
    )


def _opposite(f: Element) -> tuple[Element, Element]:
    """The derivatives of a function of the difference."""
    return f, lambda b, x, t, a: b.negative(f(b, x, t, a))


def _difference(b: Builder, x: Expr, t: Expr, limit: float) -> tuple[Expr, Expr]:
    """x - t, and that between -limit and limit."""
    d = b.subtract(x, t)
    return d, b.clip(d, a_min=-limit, a_max=limit)


def _huber_element(b: Builder, x: Expr, t: Expr, delta: float) -> Expr:
    """d²/2, which goes on as a line: c·(d − c/2), where c is d between −delta and delta."""
    d, c = _difference(b, x, t, delta)
    return b.multiply(c, b.subtract(d, b.multiply(c, 0.5)))


def _huber_array(x: Array, t: Array, delta: float) -> Array:
    d = np.abs(x - t)
    return np.asarray(np.where(d <= delta, d * d / 2, delta * (d - delta / 2)), x.dtype)


mse_loss = _pairs(
    "nn.mse_loss",
    LossAttrs,
    lambda x, t, a: np.square(x - t),
    lambda b, x, t, a: b.multiply(b.subtract(x, t), b.subtract(x, t)),
    _opposite(lambda b, x, t, a: b.multiply(b.subtract(x, t), 2.0)),
    samples=_square_samples(),
    doc="(predictions − targets)², reduced.",
)

huber_loss = _pairs(
    "nn.huber_loss",
    HuberAttrs,
    lambda x, t, a: _huber_array(x, t, a.delta),
    lambda b, x, t, a: _huber_element(b, x, t, a.delta),
    _opposite(lambda b, x, t, a: _difference(b, x, t, a.delta)[1]),
    check=lambda a: None if a.delta > 0 else f"got delta {a.delta}, wanted more than 0",
    samples=_square_samples({"delta": 0.25, "reduction": "none"}),
    doc="Half the square of predictions − targets up to delta, then the line that goes on from there; reduced.",
)


def _smooth_array(x: Array, t: Array, a: SmoothL1Attrs) -> Array:
    return np.asarray(np.abs(x - t)) if a.beta == 0 else _huber_array(x, t, a.beta) / x.dtype.type(a.beta)


def _smooth_element(b: Builder, x: Expr, t: Expr, a: SmoothL1Attrs) -> Expr:
    if a.beta == 0:
        return b.abs(b.subtract(x, t))
    return b.divide(_huber_element(b, x, t, a.beta), a.beta)


def _smooth_gradient(b: Builder, x: Expr, t: Expr, a: SmoothL1Attrs) -> Expr:
    if a.beta == 0:
        return b.sign(b.subtract(x, t))
    return b.divide(_difference(b, x, t, a.beta)[1], a.beta)


smooth_l1_loss = _pairs(
    "nn.smooth_l1_loss",
    SmoothL1Attrs,
    _smooth_array,
    _smooth_element,
    _opposite(_smooth_gradient),
    check=lambda a: None if a.beta >= 0 else f"got beta {a.beta}, wanted at least 0",
    samples=_square_samples({"beta": 0.5, "reduction": "none"}, {"beta": 0.0}),
    doc="huber_loss by delta = beta, divided by beta: a line of slope 1. |predictions − targets| where beta is 0.",
)


def _logistic_array(x: Array, t: Array, a: LossAttrs) -> Array:
    return np.asarray(np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x))))


def _logistic_element(b: Builder, x: Expr, t: Expr, a: LossAttrs) -> Expr:
    rest = b.log(b.add(b.exp(b.negative(b.abs(x))), 1.0))
    return b.add(b.subtract(b.maximum(x, 0.0), b.multiply(x, t)), rest)


_FAR = np.array([1e30, -1e30, 88.0, -88.0, 104.0, -104.0, 0.0, -0.0], np.float32)

binary_cross_entropy_with_logits = _pairs(
    "nn.binary_cross_entropy_with_logits",
    LossAttrs,
    _logistic_array,
    _logistic_element,
    (lambda b, x, t, a: b.subtract(b.sigmoid(x), t), lambda b, x, t, a: b.negative(x)),
    samples=(*_square_samples(), Sample((_FAR, np.array([1, 0] * 4, np.float32)), {"reduction": "none"})),
    doc="−t·log p − (1 − t)·log(1 − p) of p = sigmoid(predictions) and targets t, reduced; without overflow.",
)

_SHARES = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]], np.float32)
_LOGS = np.array([[-1, -0.5, -3], [-2, -1, -0.6]], np.float32)


def _shared_logs(b: Builder, t: Expr) -> Expr:
    """t·log t, 0 where t is 0."""
    return b.where(b.equal(t, 0.0), b.zeros_like(t), b.multiply(t, b.log(t)))


kl_div = _pairs(
    "nn.kl_div",
    LossAttrs,
    lambda x, t, a: np.where(t == 0, 0, t * np.log(t)) - t * x,
    lambda b, x, t, a: b.subtract(_shared_logs(b, t), b.multiply(t, x)),
    (lambda b, x, t, a: b.negative(t), lambda b, x, t, a: b.subtract(b.add(b.log(t), 1.0), x)),
    choices=(*REDUCTIONS, "batchmean"),
    samples=tuple(Sample((_LOGS, _SHARES), {"reduction": r}) for r in (*REDUCTIONS, "batchmean")),
    doc="Kullback-Leibler divergence: t·(log t − x) of logarithms of shares x and shares t, reduced.",
)

_POSITIVE = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], np.float32)

cross_entropy = _pairs(
    "nn.cross_entropy",
    None,
    lambda x, t, a: -np.log(x) * t,
    lambda b, x, t, a: b.negative(b.multiply(b.log(x), t)),
    (lambda b, x, t, a: b.negative(b.divide(t, x)), lambda b, x, t, a: b.negative(b.log(x))),
    samples=(Sample((_POSITIVE, _SHARES)),),
    doc="−Σ log(predictions)·targets, divided by the number of rows.",
)

cross_entropy_with_logits = _pairs(
    "nn.cross_entropy_with_logits",
    None,
    lambda x, t, a: -x * t,
    lambda b, x, t, a: b.negative(b.multiply(x, t)),
    (lambda b, x, t, a: b.negative(t), lambda b, x, t, a: b.negative(x)),
    samples=(Sample((((2, 3), "float32"), _SHARES)), Sample((((2, 3), "float16"), ((2, 3), "float16")))),
    doc="−Σ predictions·targets, divided by the number of rows: predictions are logarithms of probabilities.",
)
