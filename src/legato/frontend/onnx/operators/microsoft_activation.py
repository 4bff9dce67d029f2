"""Activations of ONNX Runtime's own domain: those of its optimiser's fusions, with the bias before them.

16-bit floats are computed in float32, and rounded once."""

from __future__ import annotations

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.dims import halves
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import activation
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def gelu(b: Emitter, x: Expr) -> Expr:
    return b.nn.gelu(x)


def bias_gelu(b: Emitter, x: Expr, bias: Expr) -> Expr:
    return b.to(b.nn.gelu(b.add(b.wide(x), b.wide(bias))), b.dtype(x))


def fast_gelu(b: Emitter, x: Expr, bias: Expr | None = None) -> Expr:
    total = b.wide(x) if bias is None else b.add(b.wide(x), b.wide(bias))
    return b.to(b.nn.gelu(total, approximate="tanh"), b.dtype(x))


def quick_gelu(b: Emitter, x: Expr, *, alpha: float = 1.702) -> Expr:
    return activation.swish(b, x, alpha=alpha)


def bias_split_gelu(b: Emitter, x: Expr, bias: Expr) -> Expr:
    """The first half of the last dim, times gelu of the second."""
    total = b.add(b.wide(x), b.wide(bias))
    left, right = halves(b, total)
    return b.to(b.multiply(left, b.nn.gelu(right)), b.dtype(x))


def bias_add(b: Emitter, x: Expr, bias: Expr, skip: Expr) -> Expr:
    return b.to(b.add(b.add(b.wide(x), b.wide(bias)), b.wide(skip)), b.dtype(x))


def bias_dropout(
    b: Emitter,
    x: Expr,
    bias: Expr,
    residual: Expr | None = None,
    ratio: Expr | None = None,
    training_mode: Expr | None = None,
    *,
    seed: int = 0,
) -> tuple[Expr, Expr]:
    """x + bias (+ residual), and that all of it is kept."""
    if training_mode is not None and b.scalar(training_mode, "training_mode"):
        raise UnsupportedError("dropout in training, fused with a bias", hint="save the model without optimisation")
    total = b.add(b.wide(x), b.wide(bias))
    total = total if residual is None else b.add(total, b.wide(residual))
    return b.to(total, b.dtype(x)), b.full(b.constant(True, dt.bool_), shape=b.dims_of(x))


def bias_softmax(b: Emitter, x: Expr, bias: Expr, *, axis: int = 1, is_inner_broadcast: bool) -> Expr:
    """softmax(x + bias) over the dims from `axis` on. Which dims of `x` the bias lacks, its own extents of 1 say."""
    total = b.add(b.wide(x), b.wide(bias))
    return b.to(activation.softmax(b, total, axis=axis), b.dtype(x))


def scaled_si_lu(b: Emitter, x: Expr, scale: Expr | None = None, *, alpha: float = 1.0) -> Expr:
    """z · sigmoid(z) of z = scale · x, or alpha · x: each step rounded to the dtype of `x`."""
    wide = b.wide(x)
    factor = b.like(alpha, wide) if scale is None else b.to(b.reshape(scale, newshape=()), b.dtype(wide))
    z = b.wide(b.to(b.multiply(wide, factor), b.dtype(x)))
    return b.to(b.multiply(z, b.wide(b.to(b.sigmoid(z), b.dtype(x)))), b.dtype(x))


def swi_glu(
    b: Emitter,
    gate: Expr,
    up: Expr | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    limit: float = 0.0,
    round_activation: bool = False,
) -> Expr:
    """g · sigmoid(alpha · g) · (l + beta), where g is `gate`, at most `limit`, and l is `up`, within ± limit. Without
    `up` the two are the halves of the last dim."""
    g, linear = halves(b, b.wide(gate)) if up is None else (b.wide(gate), b.wide(up))
    if limit > 0:
        g, linear = b.minimum(g, b.like(limit, g)), b.clip(linear, a_min=-limit, a_max=limit)
    y = b.multiply(g, b.sigmoid(b.multiply(g, b.like(activation_alpha, g))))
    y = b.wide(b.to(y, b.dtype(gate))) if round_activation else y
    linear = b.add(linear, b.like(activation_beta, linear)) if activation_beta else linear
    return b.to(b.multiply(y, linear), b.dtype(gate))


def gated_add(b: Emitter, x: Expr, y: Expr, gate: Expr, gate_weight: Expr | None = None) -> Expr:
    """x + y · gate, the product rounded to the dtype of `x`."""
    if gate_weight is not None:
        raise UnsupportedError("a gate that is projected by a weight")
    if b.rank(gate) != b.rank(x):
        raise ImportModelError(f"a gate {gate.ty} of {x.ty}, wanted the same rank")
    b.require(b.dim_of(gate, -1), const(1), "the last dim of a gate")
    product = b.to(b.multiply(b.wide(y), b.wide(gate)), b.dtype(x))
    return b.to(b.add(b.wide(x), b.wide(product)), b.dtype(x))
