"""Normalisation by statistics of the data itself: layer, instance, group and RMS.

Mean and variance are stages of their own; the variance is the whole population's, Σ (x − mean)²/n. 16-bit floats are
computed in float32 (or the parameters' dtype if that is wider) and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from legato.arith.expr import Expr
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import EDGES, quiet
from legato.ops._norm_gradients import (
    group_norm_gradient,
    instance_norm_gradient,
    layer_norm_gradient,
    rms_norm_gradient,
)
from legato.ops._normalise import (
    Groups,
    centred_squares,
    channel_groups,
    compute_dtype,
    inverse_root,
    mean,
    numpy_dtype,
    over_axes,
    parameter,
    sum_over,
    vector_shape,
)
from legato.ops._rules import FLOAT, divides, normalize_axes, normalize_axis, require_dtype, tensor
from legato.ops._tensors import Array, cast_to, known_int, product, tensor_bytes
from legato.te.tensor import Tensor, compute
from legato.tir.expr import cast

__all__ = ["GroupNormAttrs", "InstanceNormAttrs", "LayerNormAttrs", "RMSNormAttrs", "group_norm", "instance_norm",
           "layer_norm", "rms_norm"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class LayerNormAttrs(Attrs):
    """`axis`: the dimension that is normalised, or several; `epsilon`: what is added to the variance; `center`,
    `scale`: whether beta, gamma are applied.
    """

    axis: int | tuple[int, ...] = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True, slots=True)
class InstanceNormAttrs(Attrs):
    """`axis`: the channels; `epsilon`: what is added to the variance; `center`, `scale`: whether beta, gamma are
    applied.
    """

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True, slots=True)
class GroupNormAttrs(Attrs):
    """As InstanceNormAttrs; `num_groups`: how many groups the channels form."""

    num_groups: int = 0
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True, slots=True)
class RMSNormAttrs(Attrs):
    """`axes`: the dimensions that are normalised; `epsilon`: what is added to the mean of squares."""

    axes: tuple[int, ...] = (-1,)
    epsilon: float = 1e-5


def _axes(axis: int | Sequence[int], rank: int) -> tuple[int, ...]:
    listed = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % rank for a in listed))


def _affine(x: Array, gamma: Array, beta: Array, shape: Sequence[int], a: Any) -> Array:
    """gamma · x + beta as far as the attributes ask for it."""
    x = x * gamma.reshape(shape).astype(x.dtype) if a.scale else x
    return x + beta.reshape(shape).astype(x.dtype) if a.center else x


def _mean(x: Array, axes: Sequence[int]) -> Array:
    """The mean over `axes`; of nothing it is NaN, without a warning."""
    count = math.prod(x.shape[d] for d in axes)
    return np.asarray(x.sum(axis=tuple(axes), keepdims=True) / x.dtype.type(count))


def _standardised(x: Array, axes: Sequence[int], epsilon: float) -> Array:
    """(x − mean)/√(variance + epsilon) over `axes`."""
    centred = x - _mean(x, axes)
    variance = _mean(centred * centred, axes)
    return np.asarray(centred / np.sqrt(variance + x.dtype.type(epsilon)))


def _normalised(
    x: Tensor, gamma: Tensor, beta: Tensor, groups: Groups, a: Any, place: Callable[[Sequence[Expr]], Any]
) -> Tensor:
    """The stages of a normalisation; `place` gives the subscripts of gamma and beta."""
    dtype = compute_dtype(x.dtype, gamma.dtype, beta.dtype)
    means = mean(x, groups, dtype)
    scale = inverse_root(centred_squares(x, means, groups), groups, a.epsilon)

    def element(*i: Expr) -> Expr:
        g = groups.of(i)
        value = (cast(x[i], dtype) - means[g]) * scale[g]
        if a.scale:
            value = value * cast(gamma[place(i)], dtype)
        if a.center:
            value = value + cast(beta[place(i)], dtype)
        return cast(value, x.dtype)

    return compute(x.shape, element, "normalised")


def _cost(args: Sequence[TensorType], out: Type, a: Any) -> Cost:
    return Cost(product(args[0].shape) * 8, tensor_bytes((*args, out)))


# ------------------------------------------------------------------------------- layer


def _layer_relation(rel: Relation, data: Type, gamma: Type, beta: Type, a: LayerNormAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    shape = [ty.shape[d] for d in normalize_axes(rel, a.axis, ty.rank)]
    parameter(rel, gamma, shape, ty, "gamma")
    parameter(rel, beta, shape, ty, "beta")
    return ty


def _layer_reference(data: Array, gamma: Array, beta: Array, a: LayerNormAttrs) -> Array:
    axes = _axes(a.axis, data.ndim)
    x = cast_to(data, numpy_dtype(data, gamma, beta))
    shape = [n if d in axes else 1 for d, n in enumerate(x.shape)]
    return _affine(_standardised(x, axes, a.epsilon), gamma, beta, shape, a).astype(data.dtype)


def _layer_compute(x: Tensor, gamma: Tensor, beta: Tensor, a: LayerNormAttrs, out: TensorType) -> Tensor:
    axes = _axes(a.axis, x.rank)
    return _normalised(x, gamma, beta, over_axes(x.shape, axes), a, lambda i: tuple(i[d] for d in axes))


layer_norm = Op(
    name="nn.layer_norm",
    args=("data", "gamma", "beta"),
    attrs=LayerNormAttrs,
    type_rel=_layer_relation,
    reference=quiet(_layer_reference),
    compute=_layer_compute,
    grad=layer_norm_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((2, 3, 8), "float32"), ((8,), "float32"), ((8,), "float32"))),
        Sample((((3, 4), "float32"), ((3,), "float32"), ((3,), "float32")), {"axis": 0, "center": False}),
        Sample((((3, 0, 2), "float32"), ((0,), "float32"), ((0,), "float32")), {"axis": 1}),
        Sample((((2, 3, 4), "float32"), ((3, 4), "float32"), ((3, 4), "float32")), {"axis": (1, 2), "epsilon": 1e-2}),
        Sample((((2, 8), "float16"), ((8,), "float32"), ((8,), "float32")), rtol=2e-3),
        Sample((np.ones((2, 4), np.float32), ((4,), "float32"), ((4,), "float32"))),
        Sample((EDGES.reshape(6, 3), ((3,), "float32"), ((3,), "float32")), {"scale": False}),
    ),
    doc="""(data − mean)/√(variance + epsilon) · gamma + beta, with the statistics of each row along `axis`.

`axis` may name several dimensions; gamma and beta have the extents of those. Un-annotated they get their types.""",
)

# ------------------------------------------------------------------------------- instance and group


ChannelAttrs = InstanceNormAttrs | GroupNormAttrs


def _channel_relation(rel: Relation, data: Type, gamma: Type, beta: Type, a: ChannelAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    axis = normalize_axis(rel, a.axis, ty.rank)
    if axis == 0:
        raise rel.fail("axis 0 is the batch, whose elements are normalised apart")
    if isinstance(a, GroupNormAttrs):
        channels = known_int(ty.shape[axis])
        if a.num_groups < 1 or (channels is not None and channels % a.num_groups):
            raise rel.fail(f"{ty.shape[axis]} channels do not form {a.num_groups} groups")
        divides(rel, ty.shape[axis], a.num_groups, f"channels, in {a.num_groups} groups")
    parameter(rel, gamma, ty.shape[axis : axis + 1], ty, "gamma")
    parameter(rel, beta, ty.shape[axis : axis + 1], ty, "beta")
    return ty


def _instance_reference(data: Array, gamma: Array, beta: Array, a: InstanceNormAttrs) -> Array:
    x = cast_to(data, numpy_dtype(data, gamma, beta))
    axes = [d for d in range(1, x.ndim) if d != a.axis % x.ndim]
    y = _standardised(x, axes, a.epsilon)
    return _affine(y, gamma, beta, vector_shape(x, a.axis), a).astype(data.dtype)


def _instance_compute(x: Tensor, gamma: Tensor, beta: Tensor, a: InstanceNormAttrs, out: TensorType) -> Tensor:
    axis = a.axis % x.rank
    groups = over_axes(x.shape, [d for d in range(1, x.rank) if d != axis])
    return _normalised(x, gamma, beta, groups, a, lambda i: (i[axis],))


def _group_reference(data: Array, gamma: Array, beta: Array, a: GroupNormAttrs) -> Array:
    x = cast_to(data, numpy_dtype(data, gamma, beta))
    moved = np.moveaxis(x, a.axis, 1)
    split = moved.reshape(x.shape[0], a.num_groups, math.prod(moved.shape[1:]) // a.num_groups)
    y = np.moveaxis(_standardised(split, (2,), a.epsilon).reshape(moved.shape), 1, a.axis)
    return _affine(y, gamma, beta, vector_shape(x, a.axis), a).astype(data.dtype)


def _group_compute(x: Tensor, gamma: Tensor, beta: Tensor, a: GroupNormAttrs, out: TensorType) -> Tensor:
    axis = a.axis % x.rank
    return _normalised(x, gamma, beta, channel_groups(x.shape, axis, a.num_groups), a, lambda i: (i[axis],))


instance_norm = Op(
    name="nn.instance_norm",
    args=("data", "gamma", "beta"),
    attrs=InstanceNormAttrs,
    type_rel=_channel_relation,
    reference=quiet(_instance_reference),
    compute=_instance_compute,
    grad=instance_norm_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((2, 3, 4, 2), "float32"), ((3,), "float32"), ((3,), "float32"))),
        Sample((((2, 4, 3), "float32"), ((3,), "float32"), ((3,), "float32")), {"axis": -1, "scale": False}),
    ),
    doc="As nn.layer_norm over all dimensions but the first and the channels (`axis`); gamma and beta per channel.",
)

group_norm = Op(
    name="nn.group_norm",
    args=("data", "gamma", "beta"),
    attrs=GroupNormAttrs,
    type_rel=_channel_relation,
    reference=quiet(_group_reference),
    compute=_group_compute,
    grad=group_norm_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((2, 4, 3), "float32"), ((4,), "float32"), ((4,), "float32")), {"num_groups": 2}),
        Sample((((1, 2, 2, 6), "float32"), ((6,), "float32"), ((6,), "float32")), {"num_groups": 3, "axis": 3}),
        Sample((((2, 4, 0), "float32"), ((4,), "float32"), ((4,), "float32")), {"num_groups": 2}),
    ),
    doc="As nn.instance_norm, with the statistics of `num_groups` runs of neighbouring channels.",
)

# ------------------------------------------------------------------------------- RMS


def _rms_relation(rel: Relation, data: Type, weight: Type, a: RMSNormAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    parameter(rel, weight, [ty.shape[d] for d in normalize_axes(rel, a.axes, ty.rank)], ty, "weight")
    return ty


def _rms_reference(data: Array, weight: Array, a: RMSNormAttrs) -> Array:
    axes = _axes(a.axes, data.ndim)
    x = cast_to(data, numpy_dtype(data, weight))
    root = np.sqrt(_mean(x * x, axes) + x.dtype.type(a.epsilon))
    shape = [n if d in axes else 1 for d, n in enumerate(x.shape)]
    return np.asarray(x / root * weight.reshape(shape).astype(x.dtype)).astype(data.dtype)


def _rms_compute(x: Tensor, weight: Tensor, a: RMSNormAttrs, out: TensorType) -> Tensor:
    axes, dtype = _axes(a.axes, x.rank), compute_dtype(x.dtype, weight.dtype)
    groups = over_axes(x.shape, axes)
    squares = sum_over(groups, lambda i: cast(x[i], dtype) * cast(x[i], dtype), "squares")
    scale = inverse_root(squares, groups, a.epsilon)

    def element(*i: Expr) -> Expr:
        w = cast(weight[tuple(i[d] for d in axes)], dtype)
        return cast(cast(x[i], dtype) * scale[groups.of(i)] * w, x.dtype)

    return compute(x.shape, element, "normalised")


rms_norm = Op(
    name="nn.rms_norm",
    args=("data", "weight"),
    attrs=RMSNormAttrs,
    type_rel=_rms_relation,
    reference=quiet(_rms_reference),
    compute=_rms_compute,
    grad=rms_norm_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((2, 3, 8), "float32"), ((8,), "float32"))),
        Sample((((2, 3, 4), "float16"), ((3, 4), "float16")), {"axes": (-2, -1), "epsilon": 1e-6}, rtol=2e-3),
    ),
    doc="data/√(mean of data² + epsilon) · weight, the mean taken over `axes`, whose extents the weight has.",
)
