"""Gradients of normalisations. 16-bit floats are computed in float32, as forwards, and rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.arith.expr import const
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.types import Dim
from legato.ops._gradients import Contribution, count, dtype_of, in_shape, shape_of
from legato.ops._normalise import compute_dtype

__all__ = ["batch_norm_gradient", "batch_norm_train_gradient", "group_norm_gradient", "instance_norm_gradient",
           "layer_norm_gradient", "rms_norm_gradient"]  # fmt: skip


def layer_norm_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of nn.layer_norm."""
    axis, rank = call.attrs.axis, len(shape_of(call.args[0]))
    return _by_statistics(b, call, dy, _positions((axis,) if isinstance(axis, int) else axis, rank), None)


def instance_norm_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of nn.instance_norm."""
    rank = len(shape_of(call.args[0]))
    channels = call.attrs.axis % rank
    return _by_statistics(b, call, dy, [d for d in range(1, rank) if d != channels], [channels])


def group_norm_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of nn.group_norm: the channels are (groups, channels of a group)."""
    data, gamma, beta = call.args
    shape, a = shape_of(data), call.attrs
    axis = a.axis % len(shape)
    by_group = (const(a.num_groups), shape[axis] // a.num_groups)
    split = (*shape[:axis], *by_group, *shape[axis + 1 :])
    parts = [in_shape(b, data, split), *(in_shape(b, p, by_group) for p in (gamma, beta))]
    within = [d for d in range(1, len(split)) if d != axis]
    found = _of_standardised(b, parts, a, in_shape(b, dy, split), within, [axis, axis + 1])
    return [None if g is None else in_shape(b, g, shape_of(x)) for g, x in zip(found, call.args, strict=True)]


def _by_statistics(
    b: Builder, call: Call, dy: Expr, axes: Sequence[int], along: Sequence[int] | None
) -> list[Contribution]:
    return _of_standardised(b, call.args, call.attrs, dy, axes, axes if along is None else along)


def _of_standardised(
    b: Builder, args: Sequence[Expr], a: Any, dy: Expr, axes: Sequence[int], along: Sequence[int]
) -> list[Contribution]:
    """Of y = x̂·gamma + beta, where x̂ = (x − mean)/√(variance + epsilon) over `axes` and the parameters lie `along`
    dimensions: dx = (dx̂ − mean of dx̂ − x̂ · mean of dx̂·x̂)/√(variance + epsilon)."""
    data, gamma, _ = args
    dtype = _common_dtype(*args)
    x, g, given = (_as(b, e, dtype) for e in (data, gamma, dy))
    centred = b.subtract(x, b.mean(x, axis=tuple(axes), keepdims=True))
    variance = b.mean(b.multiply(centred, centred), axis=tuple(axes), keepdims=True)
    rstd = b.rsqrt(b.add(variance, a.epsilon))
    normal = b.multiply(centred, rstd)
    scaled = b.multiply(given, _spread(b, g, shape_of(x), along)) if a.scale else given
    middle = b.mean(scaled, axis=tuple(axes), keepdims=True)
    slope = b.mean(b.multiply(scaled, normal), axis=tuple(axes), keepdims=True)
    dx = b.multiply(rstd, b.subtract(b.subtract(scaled, middle), b.multiply(normal, slope)))
    outer = [d for d in range(len(shape_of(x))) if d not in along]
    dgamma = _sum(b, b.multiply(given, normal), outer) if a.scale else None
    dbeta = _sum(b, given, outer) if a.center else None
    found = [dx, dgamma, dbeta]
    return [None if d is None else _as(b, d, dtype_of(p)) for d, p in zip(found, args, strict=True)]


def rms_norm_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of nn.rms_norm: y = x·r·w with r = 1/√(mean of x² + epsilon)."""
    data, weight = call.args
    dtype = _common_dtype(*call.args)
    rank = len(shape_of(data))
    axes = _positions(call.attrs.axes, rank)
    x, w, given = (_as(b, e, dtype) for e in (data, weight, dy))
    squares = b.mean(b.multiply(x, x), axis=tuple(axes), keepdims=True)
    normal = b.multiply(x, root := b.rsqrt(b.add(squares, call.attrs.epsilon)))
    scaled = b.multiply(given, _spread(b, w, shape_of(x), axes))
    slope = b.mean(b.multiply(scaled, normal), axis=tuple(axes), keepdims=True)
    dx = b.multiply(root, b.subtract(scaled, b.multiply(normal, slope)))
    dw = _sum(b, b.multiply(given, normal), [d for d in range(rank) if d not in axes])
    return [_as(b, dx, dtype_of(data)), _as(b, dw, dtype_of(weight))]


def batch_norm_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of nn.batch_norm: its statistics are operands, which it also hands on."""
    data, gamma, _, moving_mean, moving_var = call.args
    a, dtype = call.attrs, _common_dtype(*call.args)
    shape, channels = shape_of(data), [call.attrs.axis % len(shape_of(data))]
    outer = [d for d in range(len(shape)) if d not in channels]
    x, g, mean, variance = (_as(b, e, dtype) for e in (data, gamma, moving_mean, moving_var))
    given = _as(b, b.get(dy, 0), dtype)
    rstd = b.rsqrt(b.add(variance, a.epsilon))
    scale = b.multiply(rstd, g) if a.scale else rstd
    total = _sum(b, given, outer)
    centred = b.subtract(x, _spread(b, mean, shape, channels))
    normal = b.multiply(_sum(b, b.multiply(given, centred), outer), rstd)  # the sum of dy · x̂
    share = b.multiply(b.multiply(normal, -0.5), b.multiply(scale, rstd))
    found = [
        b.multiply(given, _spread(b, scale, shape, channels)),
        normal if a.scale else None,
        total if a.center else None,
        b.subtract(_as(b, b.get(dy, 1), dtype), b.multiply(total, scale)),
        b.add(_as(b, b.get(dy, 2), dtype), share),
    ]
    return [None if d is None else _as(b, d, dtype_of(p)) for d, p in zip(found, call.args, strict=True)]


def batch_norm_train_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of nn.batch_norm_train: of y and of the statistics of the batch, which are results."""
    data, gamma, _ = call.args
    a, dtype = call.attrs, _common_dtype(*call.args)
    shape, channels = shape_of(data), [call.attrs.axis % len(shape_of(data))]
    outer = [d for d in range(len(shape)) if d not in channels]
    x, given = _as(b, data, dtype), _as(b, b.get(dy, 0), dtype)
    mean, variance = b.get(call, 1), b.get(call, 2)
    rstd = b.rsqrt(b.add(variance, a.epsilon))
    centred = b.subtract(x, _spread(b, mean, shape, channels))
    total, slope = _sum(b, given, outer), b.multiply(_sum(b, b.multiply(given, centred), outer), rstd)
    scale = b.multiply(rstd, _as(b, gamma, dtype)) if a.scale else rstd
    # dx = scale·(dy − mean of dy − x̂ · mean of dy·x̂), with what the statistics' own cotangents give to each element.
    shift = b.subtract(b.get(dy, 1), b.multiply(total, scale))
    factor = b.subtract(b.multiply(b.get(dy, 2), 2.0), b.multiply(b.multiply(slope, scale), rstd))
    shift, factor = (_spread(b, b.divide(v, count(b, given, outer)), shape, channels) for v in (shift, factor))
    dx = b.add(b.add(b.multiply(given, _spread(b, scale, shape, channels)), b.multiply(centred, factor)), shift)
    found = [dx, slope if a.scale else None, total if a.center else None]
    return [None if d is None else _as(b, d, dtype_of(p)) for d, p in zip(found, call.args, strict=True)]


def _common_dtype(*args: Expr) -> DType:
    return compute_dtype(*map(dtype_of, args))


def _positions(axes: Sequence[int], rank: int) -> list[int]:
    return sorted(axis % rank for axis in axes)


def _as(b: Builder, x: Expr, dtype: DType) -> Expr:
    return x if dtype_of(x) == dtype else b.cast(x, dtype=dtype)


def _sum(b: Builder, x: Expr, axes: Sequence[int]) -> Expr:
    return b.sum(x, axis=tuple(axes)) if axes else x


def _spread(b: Builder, p: Expr, shape: Sequence[Dim], along: Sequence[int]) -> Expr:
    """A parameter that lies `along` dimensions of `shape`, in increasing order, in a shape that broadcasts to it."""
    first = len(shape) - len(along)
    if list(along) == list(range(first, len(shape))):
        return p
    return in_shape(b, p, [d if n in along else const(1) for n, d in enumerate(shape)])
