"""The functions that recurrent cells may use: on scalars of kernels, on arrays, and as expressions with derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, max_, min_
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Expr as Node
from legato.ops._families import Array
from legato.ops._gradients import dtype_of

__all__ = ["ACTIVATIONS", "Activation", "clipped"]


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of x and two parameters, `alpha` and `beta`, which most do not use."""

    scalar: Callable[[Expr, float, float], Expr]
    array: Callable[[Array, float, float], Array]
    expr: Callable[[Builder, Node, float, float], Node]
    slope: Callable[[Builder, Node, Node, float, float], Node]  # the derivative, by x and the value


def _softplus(x: Expr) -> Expr:
    """log(1 + e^x), without overflow."""
    return max_(x, te.literal(0, x)) + te.log(te.literal(1, x) + te.exp(te.neg(te.abs_(x))))


def _below_zero(x: Expr, otherwise: Expr) -> Expr:
    return te.select(te.lt(x, te.literal(0, x)), otherwise, x)


def _hard_sigmoid(x: Expr, a: float, b: float) -> Expr:
    return max_(te.literal(0, x), min_(te.literal(1, x), te.literal(a, x) * x + te.literal(b, x)))


def _step(b: Builder, x: Node, holds: Node) -> Node:
    """1 where it holds, and 0."""
    return b.cast(holds, dtype=dtype_of(x))


def _negative(b: Builder, x: Node) -> Node:
    return b.less(x, 0.0)


def _rest(b: Builder, y: Node) -> Node:
    """1 − y²."""
    return b.subtract(1.0, b.multiply(y, y))


def _line(b: Builder, x: Node, a: float, c: float) -> Node:
    return b.add(b.multiply(x, a), c)


def _inside(b: Builder, x: Node, a: float, c: float) -> Node:
    y = _line(b, x, a, c)
    return b.logical_and(b.greater(y, 0.0), b.less(y, 1.0))


def _positive(b: Builder, x: Node) -> Node:
    """1 + |x|."""
    return b.add(b.abs(x), 1.0)


def _constant(b: Builder, x: Node, value: float) -> Node:
    return b.full_like(x, value)


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "sigmoid": Activation(
            lambda x, a, b: te.sigmoid(x),
            lambda x, a, b: 1 / (1 + np.exp(-x)),
            lambda b, x, a, c: b.sigmoid(x),
            lambda b, x, y, a, c: b.multiply(y, b.subtract(1.0, y)),
        ),
        "tanh": Activation(
            lambda x, a, b: te.tanh(x),
            lambda x, a, b: np.tanh(x),
            lambda b, x, a, c: b.tanh(x),
            lambda b, x, y, a, c: _rest(b, y),
        ),
        "relu": Activation(
            lambda x, a, b: max_(x, te.literal(0, x)),
            lambda x, a, b: np.maximum(x, 0),
            lambda b, x, a, c: b.maximum(x, 0.0),
            lambda b, x, y, a, c: _step(b, x, b.greater(x, 0.0)),
        ),
        "affine": Activation(
            lambda x, a, b: te.literal(a, x) * x + te.literal(b, x),
            lambda x, a, b: a * x + b,
            lambda b, x, a, c: _line(b, x, a, c),
            lambda b, x, y, a, c: _constant(b, x, a),
        ),
        "leaky_relu": Activation(
            lambda x, a, b: _below_zero(x, te.literal(a, x) * x),
            lambda x, a, b: np.where(x < 0, a * x, x),
            lambda b, x, a, c: b.where(_negative(b, x), b.multiply(x, a), x),
            lambda b, x, y, a, c: b.where(_negative(b, x), _constant(b, x, a), _constant(b, x, 1.0)),
        ),
        "thresholded_relu": Activation(
            lambda x, a, b: te.select(te.lt(te.literal(a, x), x), x, te.literal(0, x)),
            lambda x, a, b: np.where(x > a, x, 0),
            lambda b, x, a, c: b.where(b.greater(x, a), x, b.zeros_like(x)),
            lambda b, x, y, a, c: _step(b, x, b.greater(x, a)),
        ),
        "scaled_tanh": Activation(
            lambda x, a, b: te.literal(a, x) * te.tanh(te.literal(b, x) * x),
            lambda x, a, b: a * np.tanh(b * x),
            lambda b, x, a, c: b.multiply(b.tanh(b.multiply(x, c)), a),
            lambda b, x, y, a, c: b.multiply(_rest(b, b.tanh(b.multiply(x, c))), a * c),
        ),
        "hard_sigmoid": Activation(
            _hard_sigmoid,
            lambda x, a, b: np.clip(a * x + b, 0, 1),
            lambda b, x, a, c: b.clip(_line(b, x, a, c), a_min=0.0, a_max=1.0),
            lambda b, x, y, a, c: b.multiply(_step(b, x, _inside(b, x, a, c)), a),
        ),
        "elu": Activation(
            lambda x, a, b: _below_zero(x, te.literal(a, x) * (te.exp(x) - te.literal(1, x))),
            lambda x, a, b: np.where(x < 0, a * (np.exp(x) - 1), x),
            lambda b, x, a, c: b.where(_negative(b, x), b.multiply(b.subtract(b.exp(b.minimum(x, 0.0)), 1.0), a), x),
            lambda b, x, y, a, c: b.where(_negative(b, x), b.add(y, a), _constant(b, x, 1.0)),
        ),
        "softsign": Activation(
            lambda x, a, b: x / (te.literal(1, x) + te.abs_(x)),
            lambda x, a, b: x / (1 + np.abs(x)),
            lambda b, x, a, c: b.divide(x, _positive(b, x)),
            lambda b, x, y, a, c: b.divide(1.0, b.multiply(_positive(b, x), _positive(b, x))),
        ),
        "softplus": Activation(
            lambda x, a, b: _softplus(x),
            lambda x, a, b: np.maximum(x, 0) + np.log(1 + np.exp(-np.abs(x))),
            lambda b, x, a, c: b.add(b.maximum(x, 0.0), b.log(b.add(b.exp(b.negative(b.abs(x))), 1.0))),
            lambda b, x, y, a, c: b.sigmoid(x),
        ),
    }
)


def clipped(x: Expr, limit: float) -> Expr:
    """`x` between -limit and limit; itself where the limit is 0."""
    if not limit:
        return x
    return max_(te.literal(-limit, x), min_(te.literal(limit, x), x))
