"""Batch normalisation as in training: by the statistics of the batch, which are results beside y."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Expr
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._families import quiet
from legato.ops._norm_gradients import batch_norm_train_gradient
from legato.ops._normalise import (
    centred_squares,
    compute_dtype,
    count_as,
    inverse_root,
    mean,
    numpy_dtype,
    over_axes,
    parameter,
    vector_shape,
)
from legato.ops._rules import FLOAT, normalize_axis, require_dtype, tensor
from legato.ops._tensors import Array, cast_to, product, tensor_bytes
from legato.ops.rescale import BatchNormAttrs
from legato.te.tensor import Tensor, compute
from legato.tir.expr import cast

__all__ = ["batch_norm_train"]


def _relation(rel: Relation, data: Type, gamma: Type, beta: Type, a: BatchNormAttrs) -> Type | None:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    shape = (ty.shape[normalize_axis(rel, a.axis, ty.rank)],)
    parameter(rel, gamma, shape, ty, "gamma")
    parameter(rel, beta, shape, ty, "beta")
    dtypes = [p.dtype if isinstance(p, TensorType) else ty.dtype for p in (gamma, beta)]
    statistics = TensorType(shape, compute_dtype(ty.dtype, *dtypes))
    return TupleType((ty, statistics, statistics))


def _reference(data: Array, gamma: Array, beta: Array, a: BatchNormAttrs) -> tuple[Array, Array, Array]:
    x, g, b = (cast_to(p, numpy_dtype(data, gamma, beta)) for p in (data, gamma, beta))
    axes, shape = tuple(d for d in range(x.ndim) if d != a.axis % x.ndim), vector_shape(x, a.axis)
    count = x.dtype.type(x.size // max(g.size, 1))
    middle = np.asarray(x.sum(axis=axes) / count)
    centred = x - middle.reshape(shape)
    variance = np.asarray((centred * centred).sum(axis=axes) / count)
    y = centred * (1 / np.sqrt(variance + x.dtype.type(a.epsilon))).astype(x.dtype).reshape(shape)
    y = y * g.reshape(shape) if a.scale else y
    y = y + b.reshape(shape) if a.center else y
    return np.asarray(y).astype(data.dtype), middle, variance


def _compute(
    x: Tensor, gamma: Tensor, beta: Tensor, a: BatchNormAttrs, out: TupleType
) -> tuple[Tensor, Tensor, Tensor]:
    axis, dtype = a.axis % x.rank, compute_dtype(x.dtype, gamma.dtype, beta.dtype)
    groups = over_axes(x.shape, [d for d in range(x.rank) if d != axis])
    means = mean(x, groups, dtype)
    squares = centred_squares(x, means, groups)
    count = count_as(groups, dtype)
    variance = compute(groups.shape, lambda c: squares[c] / count, "variance")
    scale = inverse_root(squares, groups, a.epsilon)

    def element(*i: Expr) -> Expr:
        c = i[axis]
        value = (cast(x[i], dtype) - means[c]) * scale[c]
        value = value * cast(gamma[c], dtype) if a.scale else value
        return cast(value + cast(beta[c], dtype) if a.center else value, x.dtype)

    return compute(x.shape, element, "batch_norm"), means, variance


def _cost(args: Sequence[TensorType], out: Type, a: object) -> Cost:
    return Cost(product(args[0].shape) * 8, tensor_bytes((args[0], args[0])))


_C = ((3,), "float32")

batch_norm_train = Op(
    name="nn.batch_norm_train",
    args=("data", "gamma", "beta"),
    attrs=BatchNormAttrs,
    type_rel=_relation,
    reference=quiet(_reference),
    compute=_compute,
    grad=batch_norm_train_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((4, 3, 2, 2), "float32"), _C, _C)),
        Sample((((4, 2, 3), "float32"), _C, _C), {"axis": -1, "scale": False, "epsilon": 1e-3}),
        Sample((((5, 3), "float16"), _C, _C), {"center": False}, rtol=2e-3),
        Sample((((5, 3, 2), "float32"), _C, _C), {"center": False, "scale": False}),
    ),
    doc="""((data − mean)/√(variance + epsilon) · gamma + beta, mean, variance), with mean and variance of the batch.

These are over all dimensions but `axis`, the variance is the population's, Σ (x − mean)²/n; they are float32 for 16-bit
floats. Running averages, which nn.batch_norm takes afterwards, are made of them: r + momentum · (mean − r).

gamma and beta are vectors along dimension `axis`; un-annotated they get their types.""",
)
