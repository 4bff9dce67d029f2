"""Activation functions of neural networks. On 16-bit floats they are computed in float32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, const, gt, max_, min_, select
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import TupleType, Type
from legato.ops._families import EDGES, quiet
from legato.ops._gradients import only
from legato.ops._rules import FLOAT, NUMBER, DTypeTest, require_dtype, tensor
from legato.ops._tensors import Array, accumulator, product, require_choice, tensor_bytes, wide
from legato.te.tensor import Tensor, compute
from legato.tir.expr import cast
from legato.tir.intrinsics import INTRINSICS

__all__ = ["celu", "dropout", "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "mish", "relu",
           "selu", "silu", "softplus", "softsign", "thresholded_relu"]  # fmt: skip


def _activation(
    name: str,
    attrs: type | None,
    reference: Callable[..., Any],
    scalar: Callable[..., Expr],
    *,
    grad: Callable[..., Node],
    flops: int,
    doc: str,
    variants: tuple[dict[str, Any], ...] = ({},),
    dtypes: DTypeTest = FLOAT,
    rtol: float = 1e-5,
) -> Op:
    """An elementwise function with attributes: `reference(x, attrs)` on wide arrays, `scalar(x, attrs)` on scalars.

    `grad` is `(b, x, y, dy) -> dx`, with the attributes behind, if there are any. `variants` are those of its samples.
    """

    def relation(rel: Relation, data: Type, *rest: Any) -> Type:
        if rest and isinstance(rest[0], GeluAttrs):
            require_choice(rel, "approximate", rest[0].approximate, ("none", "tanh"))
        ty = tensor(rel, data, "data")
        require_dtype(rel, ty, dtypes, "data")
        return ty

    def run(x: Array, *rest: Any) -> Array:
        return np.array(reference(wide(x), *rest)).astype(x.dtype, copy=False)

    def build(x: Tensor, *rest: Any) -> Tensor:
        acc = accumulator(x.dtype)
        return compute(x.shape, lambda *i: cast(scalar(cast(x[i], acc), *rest[:-1]), x.dtype), name.removeprefix("nn."))

    def cost(args: Any, out: Type, a: Any) -> Cost:
        return Cost(product(args[0].shape) * flops, tensor_bytes((*args, out)))

    def gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
        return [grad(b, call.args[0], call, dy, *(() if attrs is None else (call.attrs,)))]

    samples = [Sample((x,), v, rtol) for v in variants for x in (((2, 3), "float32"), EDGES, ((5,), "float16"))]
    samples += [Sample((((5,), "float16"),), variants[0], 2e-3)]
    others = [((4,), "float64"), ((0,), "float32"), ((), "float32")]
    samples += [Sample((x,), variants[0], rtol) for x in others]
    return Op(
        name=name,
        args=("data",),
        attrs=attrs,
        type_rel=relation,
        reference=quiet(run),
        compute=build,
        grad=gradient,
        fusion=Fusion.ELEMWISE,
        cost=cost,
        samples=tuple(samples),
        doc=doc,
    )


def _lit(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


# ------------------------------------------------------------------------------- with parameters


@dataclass(frozen=True, slots=True)
class LeakyReluAttrs(Attrs):
    """Slope below zero."""

    alpha: float = 0.25


@dataclass(frozen=True, slots=True)
class AlphaAttrs(Attrs):
    """The parameter of ELU, CELU and thresholded ReLU."""

    alpha: float = 1.0


@dataclass(frozen=True, slots=True)
class HardSigmoidAttrs(Attrs):
    """`alpha`: the slope of the ramp; `beta`: its value at 0."""

    alpha: float = 0.2
    beta: float = 0.5


@dataclass(frozen=True, slots=True)
class GeluAttrs(Attrs):
    """`approximate`: none (by the error function) or tanh."""

    approximate: str = "none"


@dataclass(frozen=True, slots=True)
class SoftplusAttrs(Attrs):
    """`beta`: the factor of the argument."""

    beta: float = 1.0


def _elu_np(x: Array, a: AlphaAttrs) -> Array:
    return np.where(x > 0, x, a.alpha * (np.exp(x) - 1))


def _elu(x: Expr, a: AlphaAttrs) -> Expr:
    return select(gt(x, 0), x, _lit(a.alpha, x) * (te.exp(x) - 1))


def _celu_np(x: Array, a: AlphaAttrs) -> Array:
    return np.where(x > 0, x, a.alpha * (np.exp(x / x.dtype.type(a.alpha)) - 1))


def _celu(x: Expr, a: AlphaAttrs) -> Expr:
    return select(gt(x, 0), x, _lit(a.alpha, x) * (te.exp(x / a.alpha) - 1))


def _hard_sigmoid_np(x: Array, a: HardSigmoidAttrs) -> Array:
    return np.asarray(np.maximum(np.minimum(x * x.dtype.type(a.alpha) + x.dtype.type(a.beta), 1), 0))


def _hard_sigmoid(x: Expr, a: HardSigmoidAttrs) -> Expr:
    return max_(min_(x * a.alpha + a.beta, _lit(1, x)), _lit(0, x))


_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _gelu_np(x: Array, a: GeluAttrs) -> Array:
    if a.approximate == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(_ROOT * (x + _CUBIC * x * x * x))))
    return np.asarray(0.5 * x * (1 + INTRINSICS["erf"].reference(x / math.sqrt(2))))


def _gelu(x: Expr, a: GeluAttrs) -> Expr:
    if a.approximate == "tanh":
        return x * 0.5 * (te.tanh((x + x * x * x * _CUBIC) * _ROOT) + 1)
    return x * 0.5 * (te.erf(x * math.sqrt(0.5)) + 1)


def _softplus_np(x: Array, beta: float = 1.0) -> Array:
    y = x * x.dtype.type(beta)
    return np.asarray((np.maximum(y, 0) + np.log(1 + np.exp(-np.abs(y)))) / x.dtype.type(beta))


def _softplus(x: Expr, beta: float = 1.0) -> Expr:
    y = x if beta == 1.0 else x * beta
    result = max_(y, _lit(0, y)) + te.log(te.exp(te.neg(te.abs_(y))) + 1)
    return result if beta == 1.0 else result / beta


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805

# ------------------------------------------------------------------------------- gradients
#
# Where the result says on which side of a kink the argument was, it is asked: the argument need not be kept then.


def _bent(b: Builder, of: Node, dy: Node, above: float, below: Node) -> Node:
    """`above`·dy where `of` is above 0, elsewhere `below`."""
    return b.where(b.greater(of, 0), dy if above == 1 else b.multiply(dy, above), below)


def _leaky_gradient(b: Builder, x: Node, y: Node, dy: Node, a: LeakyReluAttrs) -> Node:
    return _bent(b, y if a.alpha >= 0 else x, dy, 1, b.multiply(dy, a.alpha))


def _elu_gradient(b: Builder, x: Node, y: Node, dy: Node, a: AlphaAttrs) -> Node:
    """alpha·eˣ is y + alpha."""
    return _bent(b, y if a.alpha >= 0 else x, dy, 1, b.multiply(dy, b.add(y, a.alpha)))


def _celu_gradient(b: Builder, x: Node, y: Node, dy: Node, a: AlphaAttrs) -> Node:
    """e^(x/alpha) is y/alpha + 1."""
    return _bent(b, y, dy, 1, b.multiply(dy, b.add(b.divide(y, a.alpha), 1)))


def _selu_gradient(b: Builder, x: Node, y: Node, dy: Node) -> Node:
    below = b.multiply(dy, b.add(y, _SELU_ALPHA * _SELU_SCALE))
    return _bent(b, y, dy, _SELU_SCALE, below)


def _gelu_gradient(b: Builder, x: Node, y: Node, dy: Node, a: GeluAttrs) -> Node:
    """By Φ(x) + x·Φ'(x)."""
    square = b.multiply(x, x)
    if a.approximate == "tanh":
        t = b.tanh(b.multiply(b.multiply(x, _ROOT), b.add(b.multiply(square, _CUBIC), 1)))
        bend = b.multiply(b.subtract(1, b.multiply(t, t)), b.add(b.multiply(square, 3 * _CUBIC), 1))
        rise = b.multiply(bend, 0.5 * _ROOT)
    else:
        t = b.erf(b.multiply(x, math.sqrt(0.5)))
        rise = b.multiply(b.exp(b.multiply(square, -0.5)), 1 / math.sqrt(2 * math.pi))
    return b.multiply(dy, b.add(b.multiply(b.add(t, 1), 0.5), b.multiply(x, rise)))


def _hard_sigmoid_gradient(b: Builder, x: Node, y: Node, dy: Node, a: HardSigmoidAttrs) -> Node:
    return only(b, b.logical_and(b.greater(y, 0), b.less(y, 1)), b.multiply(dy, a.alpha))


def _silu_gradient(b: Builder, x: Node, y: Node, dy: Node) -> Node:
    s = b.sigmoid(x)
    return b.multiply(dy, b.add(s, b.multiply(y, b.subtract(1, s))))


def _mish_gradient(b: Builder, x: Node, y: Node, dy: Node) -> Node:
    t = b.tanh(b.nn.softplus(x))
    rise = b.multiply(b.sigmoid(x), b.subtract(1, b.multiply(t, t)))
    return b.multiply(dy, b.add(t, b.multiply(x, rise)))


def _softsign_gradient(b: Builder, x: Node, y: Node, dy: Node) -> Node:
    size = b.add(b.abs(x), 1)
    return b.divide(dy, b.multiply(size, size))


def _hard_swish_gradient(b: Builder, x: Node, y: Node, dy: Node) -> Node:
    """Of x·h(x): h + x/6 on the ramp, h beside it."""
    ramp = b.nn.hard_sigmoid(x, alpha=1 / 6)
    inside = b.logical_and(b.greater(ramp, 0), b.less(ramp, 1))
    return b.multiply(dy, b.add(ramp, only(b, inside, b.multiply(x, 1 / 6))))


# ------------------------------------------------------------------------------- records

leaky_relu = _activation(
    "nn.leaky_relu", LeakyReluAttrs, lambda x, a: np.where(x > 0, x, x * x.dtype.type(a.alpha)),
    lambda x, a: select(gt(x, 0), x, x * a.alpha), flops=2, variants=({}, {"alpha": 0.01}),
    grad=_leaky_gradient,
    doc="x for x > 0, alpha·x below.",
)  # fmt: skip
elu = _activation(
    "nn.elu", AlphaAttrs, _elu_np, _elu, flops=8, variants=({}, {"alpha": 0.5}),
    grad=_elu_gradient,
    doc="x for x > 0, alpha·(eˣ − 1) below.",
)  # fmt: skip
celu = _activation(
    "nn.celu", AlphaAttrs, _celu_np, _celu, flops=9, variants=({"alpha": 2.0},),
    grad=_celu_gradient,
    doc="x for x > 0, alpha·(e^(x/alpha) − 1) below.",
)  # fmt: skip
selu = _activation(
    "nn.selu", None, lambda x: _SELU_SCALE * _elu_np(x, AlphaAttrs(_SELU_ALPHA)),
    lambda x: _elu(x, AlphaAttrs(_SELU_ALPHA)) * _SELU_SCALE, flops=9,
    grad=_selu_gradient,
    doc="ELU with the constants of self-normalising networks: 1.0507·(x, or 1.67326·(eˣ − 1) below 0).",
)  # fmt: skip
gelu = _activation(
    "nn.gelu", GeluAttrs, _gelu_np, _gelu, flops=16, variants=({}, {"approximate": "tanh"}),
    grad=_gelu_gradient,
    doc="x·Φ(x) with the normal distribution's Φ(x) = (1 + erf(x/√2))/2, or its tanh approximation.",
)  # fmt: skip
softplus = _activation(
    "nn.softplus", SoftplusAttrs, lambda x, a: _softplus_np(x, a.beta), lambda x, a: _softplus(x, a.beta), flops=14,
    variants=({}, {"beta": 2.0}), grad=lambda b, x, y, dy, a: b.multiply(dy, b.sigmoid(b.multiply(x, a.beta))),
    doc="log(1 + e^(beta·x))/beta.",
)  # fmt: skip
hard_sigmoid = _activation(
    "nn.hard_sigmoid", HardSigmoidAttrs, _hard_sigmoid_np, _hard_sigmoid, flops=4,
    variants=({}, {"alpha": 1 / 6}), grad=_hard_sigmoid_gradient,
    doc="alpha·x + beta, clipped to [0, 1].",
)  # fmt: skip
thresholded_relu = _activation(
    "nn.thresholded_relu", AlphaAttrs, lambda x, a: np.where(x > a.alpha, x, 0),
    lambda x, a: select(gt(x, a.alpha), x, _lit(0, x)), flops=1,
    grad=lambda b, x, y, dy, a: only(b, b.greater(x, a.alpha), dy),
    doc="x for x > alpha, else 0 (also for NaN).",
)  # fmt: skip

# ------------------------------------------------------------------------------- without

relu = _activation(
    "nn.relu", None, lambda x: np.where(x < 0, x.dtype.type(0), x), lambda x: max_(x, _lit(0, x)), flops=1,
    dtypes=NUMBER, grad=lambda b, x, y, dy: b.where(b.less_equal(y, 0), 0, dy),
    doc="max(x, 0); NaN and -0 stay as they are.",
)  # fmt: skip
silu = _activation(
    "nn.silu", None, lambda x: x / (1 + np.exp(-x)), lambda x: x / (te.exp(te.neg(x)) + 1), flops=8,
    grad=_silu_gradient,
    doc="x·sigmoid(x); NaN at −∞.",
)  # fmt: skip
mish = _activation(
    "nn.mish", None, lambda x: x * np.tanh(_softplus_np(x)), lambda x: x * te.tanh(_softplus(x)), flops=24,
    grad=_mish_gradient,
    doc="x·tanh(softplus(x)); NaN at −∞.",
)  # fmt: skip
softsign = _activation(
    "nn.softsign", None, lambda x: x / (1 + np.abs(x)), lambda x: x / (te.abs_(x) + 1), flops=3,
    grad=_softsign_gradient,
    doc="x/(1 + |x|); NaN at ±∞.",
)  # fmt: skip
hard_swish = _activation(
    "nn.hard_swish", None, lambda x: x * _hard_sigmoid_np(x, HardSigmoidAttrs(1 / 6)),
    lambda x: x * _hard_sigmoid(x, HardSigmoidAttrs(1 / 6)), flops=5, grad=_hard_swish_gradient,
    doc="x·clip(x/6 + 1/2, 0, 1); NaN at −∞.",
)  # fmt: skip

# ------------------------------------------------------------------------------- dropout


@dataclass(frozen=True, slots=True)
class DropoutAttrs(Attrs):
    """The share of elements that training drops."""

    rate: float = 0.5


def _dropout_relation(rel: Relation, data: Type, a: DropoutAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, NUMBER, "data")
    return TupleType((ty, ty))


def _dropout_compute(x: Tensor, a: DropoutAttrs, out: TupleType) -> tuple[Tensor, Tensor]:
    kept = compute(x.shape, lambda *i: x[i], "kept")
    return kept, compute(x.shape, lambda *i: const(1, x.dtype), "mask")


dropout = Op(
    name="nn.dropout",
    args=("data",),
    attrs=DropoutAttrs,
    type_rel=_dropout_relation,
    reference=lambda x, a: (x.copy(), np.ones_like(x)),
    compute=_dropout_compute,
    grad=lambda b, call, dy: [b.get(dy, 0)],
    fusion=Fusion.ELEMWISE,
    samples=(Sample((((2, 3), "float32"),), exact=True), Sample((EDGES,), {"rate": 0.1}, exact=True)),
    doc="(data, mask): in inference nothing is dropped, so data is unchanged and the mask is all ones.",
)
