"""nn.bias_add: a vector added along one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._rules import normalize_axis, tensor
from legato.ops._tensors import Array
from legato.te.tensor import compute

__all__ = ["BiasAddAttrs", "bias_add"]


@dataclass(frozen=True, slots=True)
class BiasAddAttrs:
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
    reference=_bias_reference,
    compute=lambda x, b, a, out: compute(out.shape, lambda *i: x[i] + b[i[a.axis]], "bias_add"),
    fusion=Fusion.BROADCAST,
    samples=(
        Sample((((2, 3, 2), "float32"), ((3,), "float32")), exact=True),
        Sample((((2, 3), "int32"), ((3,), "int32")), {"axis": -1}, exact=True),
        Sample((np.array([[np.inf, np.nan]], np.float32), ((2,), "float32")), exact=True),
    ),
    doc="data + bias, the bias (a vector) lying along dimension `axis`; an un-annotated bias gets its type.",
)
