"""Elementwise operators with one parameter per channel: nn.bias_add and nn.prelu."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import gt, select
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import EDGES, quiet
from legato.ops._gradients import shape_of
from legato.ops._rules import FLOAT, normalize_axis, require_dtype, tensor
from legato.ops._tensors import Array
from legato.te.tensor import compute

__all__ = ["BiasAddAttrs", "PReluAttrs", "bias_add", "prelu"]


@dataclass(frozen=True, slots=True)
class BiasAddAttrs(Attrs):
    """`axis`: the dimension of the data along which the bias lies."""

    axis: int = 1


def _bias_relation(rel: Relation, data: Type, bias: Type, a: BiasAddAttrs) -> Type | None:
    data = tensor(rel, data, "data")
    axis = normalize_axis(rel, a.axis, data.rank)
    rel.unify(bias, TensorType((data.shape[axis],), data.dtype), "bias")
    return data


def _bias_reference(data: Array, bias: Array, a: BiasAddAttrs) -> Array:
    shape = [1] * data.ndim
    shape[a.axis] = bias.shape[0]
    return np.asarray(data + bias.reshape(shape))


bias_add = Op(
    name="nn.bias_add",
    args=("data", "bias"),
    attrs=BiasAddAttrs,
    type_rel=_bias_relation,
    reference=quiet(_bias_reference),
    compute=lambda x, b, a, out: compute(out.shape, lambda *i: x[i] + b[i[a.axis]], "bias_add"),
    grad=lambda b, call, dy: [dy, b.sum(dy, axis=(call.attrs.axis,), exclude=True)],
    fusion=Fusion.BROADCAST,
    samples=(
        Sample((((2, 3, 2), "float32"), ((3,), "float32")), exact=True),
        Sample((((2, 3), "int32"), ((3,), "int32")), {"axis": -1}, exact=True),
        Sample((np.array([[np.inf, np.nan]], np.float32), ((2,), "float32")), exact=True),
    ),
    doc="data + bias, the bias (a vector) lying along dimension `axis`; an un-annotated bias gets its type.",
)


@dataclass(frozen=True, slots=True)
class PReluAttrs(Attrs):
    """`axis`: the dimension along which the slopes lie."""

    axis: int = 1


def _prelu_relation(rel: Relation, data: Type, alpha: Type, a: PReluAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    axis = normalize_axis(rel, a.axis, ty.rank)
    rel.unify(alpha, TensorType((ty.shape[axis],), ty.dtype), "alpha")
    return ty


def _prelu_reference(data: Array, alpha: Array, a: PReluAttrs) -> Array:
    slopes = alpha.reshape([-1 if n == a.axis % data.ndim else 1 for n in range(data.ndim)])
    return np.asarray(np.where(data > 0, data, data * slopes))


def _prelu_gradient(b: Builder, call: Call, dy: Expr) -> list[Expr]:
    (x, alpha), axis = call.args, call.attrs.axis
    rank = len(shape_of(x))
    slopes = b.expand_dims(alpha, axis=1, num_newaxis=rank - 1 - axis % rank)
    is_above = b.greater(x, 0)
    below = b.where(is_above, 0, b.multiply(dy, x))
    return [b.where(is_above, dy, b.multiply(dy, slopes)), b.sum(below, axis=(axis,), exclude=True)]


prelu = Op(
    name="nn.prelu",
    args=("data", "alpha"),
    attrs=PReluAttrs,
    type_rel=_prelu_relation,
    reference=quiet(_prelu_reference),
    compute=lambda x, w, a, out: compute(out.shape, lambda *i: select(gt(x[i], 0), x[i], x[i] * w[i[a.axis]]), "prelu"),
    grad=_prelu_gradient,
    fusion=Fusion.BROADCAST,
    samples=(
        Sample((((2, 3, 2), "float32"), ((3,), "float32"))),
        Sample((EDGES.reshape(6, 3), ((3,), "float32")), {"axis": -1}),
        Sample((((2, 3), "float16"), ((3,), "float16")), rtol=2e-3),
    ),
    doc="x for x > 0, alpha·x below, with one slope for each index of dimension `axis`.",
)
