"""Steps of optimisers. The tensors that they change come in groups: all of one kind, then all of the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.base.dtype import DType, int64
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

DOMAIN = "ai.onnx.preview.training"


def adam(
    b: Emitter,
    rate: Expr,
    count: Expr,
    *tensors: Expr,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Expr, ...]:
    """`tensors`: values, gradients, their means, and the means of their squares."""

    def step(x: Expr, g: Expr, v: Expr, h: Expr) -> tuple[Expr, ...]:
        of = _Numbers(b, b.dtype(x), rate, count)
        g = of.regularized(x, g, norm_coefficient)
        v = of.mixed(v, alpha, g, 1 - alpha)
        h = of.mixed(h, beta, b.multiply(g, g), 1 - beta)
        grown = [b.subtract(of.number(1), b.power(of.number(c), of.count)) for c in (alpha, beta)]
        corrected = b.divide(b.multiply(of.rate, b.sqrt(grown[1])), grown[0])
        rated = b.where(of.is_later, corrected, of.rate)
        moved = b.divide(v, b.add(b.sqrt(h), of.number(epsilon)))
        return b.multiply(of.number(1 - norm_coefficient_post), b.subtract(x, b.multiply(rated, moved))), v, h

    return _of_each(b, tensors, 4, step)


def adagrad(
    b: Emitter,
    rate: Expr,
    count: Expr,
    *tensors: Expr,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Expr, ...]:
    """`tensors`: values, gradients, and sums of their squares."""

    def step(x: Expr, g: Expr, h: Expr) -> tuple[Expr, ...]:
        of = _Numbers(b, b.dtype(x), rate, count)
        g = of.regularized(x, g, norm_coefficient)
        h = b.add(h, b.multiply(g, g))
        rated = b.divide(of.rate, b.add(of.number(1), b.multiply(of.count, of.number(decay_factor))))
        return b.subtract(x, b.divide(b.multiply(rated, g), b.add(b.sqrt(h), of.number(epsilon)))), h

    return _of_each(b, tensors, 3, step)


def momentum(
    b: Emitter,
    rate: Expr,
    count: Expr,
    *tensors: Expr,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Expr, ...]:
    """`tensors`: values, gradients, and what these have added up to."""
    if mode not in ("standard", "nesterov"):
        raise ImportModelError(f"mode is {mode!r}, wanted standard or nesterov")

    def step(x: Expr, g: Expr, v: Expr) -> tuple[Expr, ...]:
        of = _Numbers(b, b.dtype(x), rate, count)
        g = of.regularized(x, g, norm_coefficient)
        share = b.where(of.is_later, of.number(beta), of.number(1))
        v = b.add(b.multiply(of.number(alpha), v), b.multiply(share, g))
        way = v if mode == "standard" else b.add(g, b.multiply(of.number(alpha), v))
        return b.subtract(x, b.multiply(of.rate, way)), v

    return _of_each(b, tensors, 3, step)


class _Numbers:
    """What a step computes with beside its tensors, in their dtype."""

    def __init__(self, b: Emitter, dtype: DType, rate: Expr, count: Expr) -> None:
        self.b, self.dtype = b, dtype
        rate, count = (b.reshape(v, newshape=()) if b.rank(v) else v for v in (rate, count))
        self.rate, self.count = b.to(rate, dtype), b.to(count, dtype)
        self.is_later = b.greater(b.to(count, int64), b.constant(0, int64))

    def number(self, value: float) -> Expr:
        return self.b.constant(value, self.dtype)

    def mixed(self, old: Expr, share: float, new: Expr, other: float) -> Expr:
        """Shares of two tensors."""
        return self.b.add(self.b.multiply(self.number(share), old), self.b.multiply(self.number(other), new))

    def regularized(self, x: Expr, g: Expr, coefficient: float) -> Expr:
        """The gradient, with that of coefficient / 2 · ‖x‖²."""
        return self.b.add(self.b.multiply(self.number(coefficient), x), g)


def _of_each(
    b: Emitter, tensors: Sequence[Expr], kinds: int, step: Callable[..., tuple[Expr, ...]]
) -> tuple[Expr, ...]:
    """What a step makes of each value and of what belongs to it, kind by kind."""
    if not tensors or len(tensors) % kinds:
        raise ImportModelError(f"{len(tensors)} tensors beside the rate and the count, wanted a multiple of {kinds}")
    number = len(tensors) // kinds
    made = []
    for n in range(number):
        own = tensors[n::number]
        for other in own[1:]:
            dims = b.dims_of_rank(other, b.rank(own[0]), "a tensor of an optimiser")
            for d, wanted in zip(dims, b.dims_of(own[0]), strict=True):
                b.require(d, wanted, "a tensor of an optimiser")
        made.append([b.to(v, b.dtype(own[0])) for v in step(*map(b.wide, own))])
    return tuple(group[kind] for kind in range(kinds - 1) for group in made)
