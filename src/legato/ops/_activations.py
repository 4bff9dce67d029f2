"""The functions that recurrent cells may use, each on scalars of kernels and on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, max_, min_
from legato.base.dataclass import dataclass
from legato.ops._families import Array

__all__ = ["ACTIVATIONS", "Activation", "clipped"]


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of x and two parameters, `alpha` and `beta`, which most do not use."""

    scalar: Callable[[Expr, float, float], Expr]
    array: Callable[[Array, float, float], Array]


def _softplus(x: Expr) -> Expr:
    """log(1 + e^x), without overflow."""
    return max_(x, te.literal(0, x)) + te.log(te.literal(1, x) + te.exp(te.neg(te.abs_(x))))


def _below_zero(x: Expr, otherwise: Expr) -> Expr:
    return te.select(te.lt(x, te.literal(0, x)), otherwise, x)


def _hard_sigmoid(x: Expr, a: float, b: float) -> Expr:
    return max_(te.literal(0, x), min_(te.literal(1, x), te.literal(a, x) * x + te.literal(b, x)))


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "sigmoid": Activation(lambda x, a, b: te.sigmoid(x), lambda x, a, b: 1 / (1 + np.exp(-x))),
        "tanh": Activation(lambda x, a, b: te.tanh(x), lambda x, a, b: np.tanh(x)),
        "relu": Activation(lambda x, a, b: max_(x, te.literal(0, x)), lambda x, a, b: np.maximum(x, 0)),
        "affine": Activation(lambda x, a, b: te.literal(a, x) * x + te.literal(b, x), lambda x, a, b: a * x + b),
        "leaky_relu": Activation(
            lambda x, a, b: _below_zero(x, te.literal(a, x) * x), lambda x, a, b: np.where(x < 0, a * x, x)
        ),
        "thresholded_relu": Activation(
            lambda x, a, b: te.select(te.lt(te.literal(a, x), x), x, te.literal(0, x)),
            lambda x, a, b: np.where(x > a, x, 0),
        ),
        "scaled_tanh": Activation(
            lambda x, a, b: te.literal(a, x) * te.tanh(te.literal(b, x) * x),
            lambda x, a, b: a * np.tanh(b * x),
        ),
        "hard_sigmoid": Activation(_hard_sigmoid, lambda x, a, b: np.clip(a * x + b, 0, 1)),
        "elu": Activation(
            lambda x, a, b: _below_zero(x, te.literal(a, x) * (te.exp(x) - te.literal(1, x))),
            lambda x, a, b: np.where(x < 0, a * (np.exp(x) - 1), x),
        ),
        "softsign": Activation(
            lambda x, a, b: x / (te.literal(1, x) + te.abs_(x)), lambda x, a, b: x / (1 + np.abs(x))
        ),
        "softplus": Activation(
            lambda x, a, b: _softplus(x), lambda x, a, b: np.maximum(x, 0) + np.log(1 + np.exp(-np.abs(x)))
        ),
    }
)


def clipped(x: Expr, limit: float) -> Expr:
    """`x` between -limit and limit; itself where the limit is 0."""
    if not limit:
        return x
    return max_(te.literal(-limit, x), min_(te.literal(limit, x), x))
