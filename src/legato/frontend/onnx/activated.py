"""Activations that ONNX Runtime's optimiser puts into the operator before them, by their names."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.errors import UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

__all__ = ["activated"]


def activated(b: Emitter, x: Expr, name: str, params: Sequence[float], axis: int | None = None) -> Expr:
    """`name` applied to `x`; the parameters are the operator's attributes in the order of their names."""
    plain = _plain(b, x, name, axis)
    if plain is not None:
        return plain
    given = list(params)
    if name == "LeakyRelu" and len(given) <= 1:
        return b.nn.leaky_relu(x, alpha=given[0] if given else 0.01)
    if name == "Elu" and len(given) <= 1:
        return b.nn.elu(x, alpha=given[0] if given else 1.0)
    if name == "Clip" and len(given) == 2:
        return b.clip(x, a_min=given[0], a_max=given[1])
    if name == "HardSigmoid" and len(given) in (0, 2):
        alpha, beta = given or (0.2, 0.5)
        return b.nn.hard_sigmoid(x, alpha=alpha, beta=beta)
    raise UnsupportedError(f"activation {name} with {len(given)} parameters")


def _plain(b: Emitter, x: Expr, name: str, axis: int | None) -> Expr | None:
    """Activations without parameters; None of others."""
    if name in ("Softmax", "LogSoftmax"):
        along = b.axis(-1 if axis is None else axis, b.rank(x))
        return b.nn.softmax(x, axis=along) if name == "Softmax" else b.nn.log_softmax(x, axis=along)
    return {
        "": lambda: x,
        "Relu": lambda: b.nn.relu(x),
        "Tanh": lambda: b.tanh(x),
        "Sigmoid": lambda: b.sigmoid(x),
        "HardSwish": lambda: b.nn.hard_swish(x),
        "Softplus": lambda: b.nn.softplus(x),
        "Softsign": lambda: b.nn.softsign(x),
        "Gelu": lambda: b.nn.gelu(x),
        "QuickGelu": lambda: b.multiply(x, b.sigmoid(b.multiply(x, b.like(1.702, x)))),
    }.get(name, lambda: None)()
