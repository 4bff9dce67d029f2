"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Const
from legato.arith.prove import provably_different
from legato.arith.simplify import simplify
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._tensors import accumulator


def batch_normalization(
    b: Emitter,
    x: Expr,
    scale: Expr,
    bias: Expr,
    mean: Expr,
    variance: Expr,
    *,
    epsilon: float = 1e-5,
    is_test: bool = False,
    momentum: float = 0.9,
    spatial: bool = True,
    training_mode: bool = False,
) -> Expr | tuple[Expr, ...]:
    """`momentum` matters in training only. `spatial` is of operator sets below 9: statistics of channels, or else of
    each position. `is_test` is of those below 7: the batch is normalised by its own statistics where that is not said
    and the running ones are asked for."""
    if training_mode or (b.opset < 7 and not is_test and b.outputs > 1):
        return _trained(b, x, scale, bias, (mean, variance), epsilon, momentum)
    if not spatial and b.rank(x) > 2:
        return _by_position(b, x, (scale, bias, mean, variance), epsilon)
    wide = accumulator(b.dtype(x))
    gamma, beta, mean, variance = (b.to(p, wide) for p in (scale, bias, mean, variance))
    if b.rank(x) == 1:  # a batch of one channel
        x = b.expand_dims(x, axis=1, num_newaxis=1)
        return b.squeeze(b.get(b.nn.batch_norm(x, gamma, beta, mean, variance, axis=1, epsilon=epsilon), 0), axis=(1,))
    return b.get(b.nn.batch_norm(x, gamma, beta, mean, variance, axis=1, epsilon=epsilon), 0)


def _by_position(b: Emitter, x: Expr, parameters: Sequence[Expr], epsilon: float) -> Expr:
    """Scale, bias, mean and variance have the shape of an element of the batch."""
    for p in parameters:
        if b.rank(p) != b.rank(x) - 1:
            raise ImportModelError(f"statistics {p.ty} for each position of {x.ty}")
    wide = b.wide(x)
    scale, bias, mean, variance = (b.to(p, b.dtype(wide)) for p in parameters)
    slope = b.multiply(scale, b.rsqrt(b.add(variance, b.like(epsilon, wide))))
    return b.to(b.add(b.multiply(b.subtract(wide, mean), slope), bias), b.dtype(x))


def _trained(
    b: Emitter, x: Expr, scale: Expr, bias: Expr, running: tuple[Expr, Expr], epsilon: float, momentum: float
) -> tuple[Expr, ...]:
    """Normalised by the mean and variance of the batch, with which the running ones go on."""
    wide = accumulator(b.dtype(x))
    batch = b.expand_dims(x, axis=1, num_newaxis=1) if b.rank(x) == 1 else x
    made = b.nn.batch_norm_train(batch, b.to(scale, wide), b.to(bias, wide), axis=1, epsilon=epsilon)
    y = b.squeeze(b.get(made, 0), axis=(1,)) if b.rank(x) == 1 else b.get(made, 0)
    after = []
    for n, old in enumerate(running, 1):
        if b.rank(old) != 1:
            raise ImportModelError(f"running statistics {old.ty}, wanted vectors")
        b.require(b.dims_of(old)[0], b.dims_of(batch)[1], "running statistics")
        kept = b.multiply(b.wide(old), b.like(momentum, b.wide(old)))
        more = b.multiply(b.to(b.get(made, n), b.dtype(kept)), b.like(1 - momentum, kept))
        after.append(b.to(b.add(kept, more), b.dtype(old)))
    return y, *after


def instance_normalization(b: Emitter, x: Expr, scale: Expr, bias: Expr, *, epsilon: float = 1e-5) -> Expr:
    return b.nn.instance_norm(x, scale, bias, axis=1, epsilon=epsilon)


def layer_normalization(
    b: Emitter,
    x: Expr,
    scale: Expr,
    bias: Expr | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Expr | tuple[Expr, Expr, Expr]:
    """The statistics are further outputs, of dtype `stash_type`. Scale and bias are of any shape that broadcasts."""
    axis = b.axis(axis, b.rank(x))
    axes = tuple(range(axis, b.rank(x)))
    shape = b.dims_of(x)[axis:]
    one, zero = b.full(b.like(1, x), shape=shape), b.full(b.like(0, x), shape=shape)
    gamma, beta = _of_row(b, scale, shape), zero if bias is None else _of_row(b, bias, shape)
    if gamma is not None and beta is not None:
        y = b.nn.layer_norm(x, gamma, beta, axis=axes, epsilon=epsilon, center=bias is not None, scale=True)
    else:
        plain = b.nn.layer_norm(b.wide(x), one, zero, axis=axes, epsilon=epsilon, center=False, scale=False)
        y = _affine(b, x, plain, scale, bias)
    if b.outputs == 1:
        return y
    wide = b.to(x, element_type(stash_type, "stash_type"))
    mean = b.mean(wide, axis=axes, keepdims=True)
    variance = b.variance(wide, mean, axis=axes, keepdims=True)
    return y, mean, b.rsqrt(b.add(variance, b.like(epsilon, wide)))


def _of_row(b: Emitter, p: Expr, shape: Sequence[Dim]) -> Expr | None:
    """A parameter as one of the dims `shape` that are normalised; None if it differs between rows."""
    outer = max(b.rank(p) - len(shape), 0)
    if not all(b.is_one(d) for d in b.dims_of(p)[:outer]):
        return None
    return b.broadcast(b.squeeze(p, axis=tuple(range(outer))) if outer else p, shape)


def _affine(b: Emitter, x: Expr, y: Expr, scale: Expr, bias: Expr | None) -> Expr:
    """scale · y + bias, broadcast to the shape and in the dtype of `x`."""
    y = b.multiply(y, b.broadcast(b.to(scale, b.dtype(y)), b.dims_of(x)))
    return b.to(y if bias is None else b.add(y, b.broadcast(b.to(bias, b.dtype(y)), b.dims_of(x))), b.dtype(x))


def rms_normalization(
    b: Emitter, x: Expr, scale: Expr, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Expr:
    axis = b.axis(axis, b.rank(x))
    shape, axes = b.dims_of(x)[axis:], tuple(range(axis, b.rank(x)))
    gamma = _of_row(b, scale, shape)
    if gamma is not None:
        return b.nn.rms_norm(x, gamma, axes=axes, epsilon=epsilon)
    plain = b.nn.rms_norm(b.wide(x), b.full(b.like(1, b.wide(x)), shape=shape), axes=axes, epsilon=epsilon)
    return _affine(b, x, plain, scale, None)


def simplified_layer_normalization(
    b: Emitter, x: Expr, scale: Expr, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Expr | tuple[Expr, Expr]:
    """ONNX Runtime's name of RMSNormalization, in the standard's domain; further: 1 / the roots that it divides by."""
    y = rms_normalization(b, x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    if b.outputs == 1:
        return y
    wide = b.to(x, element_type(stash_type, "stash_type"))
    axes = tuple(range(b.axis(axis, b.rank(x)), b.rank(x)))
    return y, b.rsqrt(b.add(b.mean(b.multiply(wide, wide), axis=axes, keepdims=True), b.like(epsilon, wide)))


def group_normalization(
    b: Emitter, x: Expr, scale: Expr, bias: Expr, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Expr:
    """Scale and bias per group."""
    channels = b.dim_of(x, 1)
    if num_groups < 1 or provably_different(channels // num_groups * num_groups, channels):
        raise ImportModelError(f"{channels} channels do not divide into {num_groups} groups")
    each = simplify(channels // num_groups)
    times = int(each.value) if isinstance(each, Const) else each
    gamma, beta = (b.repeat(p, repeats=times, axis=0) for p in (scale, bias))
    return group_normalization_21(b, x, gamma, beta, epsilon=epsilon, num_groups=num_groups)


def group_normalization_21(
    b: Emitter, x: Expr, scale: Expr, bias: Expr, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Expr:
    """Scale and bias per channel."""
    return b.nn.group_norm(x, scale, bias, num_groups=num_groups, axis=1, epsilon=epsilon)


def lp_normalization(b: Emitter, x: Expr, *, axis: int = -1, p: int = 2) -> Expr:
    """x / ‖x‖; where the norm is 0, 0."""
    axes = (b.axis(axis, b.rank(x)),)
    if p not in (1, 2):
        raise ImportModelError(f"p is {p}, wanted 1 or 2")
    wide = b.wide(x)
    powers = b.abs(wide) if p == 1 else b.multiply(wide, wide)
    total = b.sum(powers, axis=axes, keepdims=True)
    norm = total if p == 1 else b.sqrt(total)
    zero = b.like(0, wide)
    return b.to(b.where(b.equal(norm, zero), zero, b.divide(wide, norm)), b.dtype(x))


def mean_variance_normalization_9(b: Emitter, x: Expr, *, axes: tuple[int, ...] = (0, 2, 3)) -> Expr:
    wide = b.wide(x)
    mean = b.mean(wide, axis=axes, keepdims=True)
    deviation = b.sqrt(b.variance(wide, mean, axis=axes, keepdims=True))
    return b.to(b.divide(b.subtract(wide, mean), b.add(deviation, b.like(1e-9, wide))), b.dtype(x))


def lrn(b: Emitter, x: Expr, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Expr:
    return b.nn.lrn(x, size=size, axis=1, alpha=alpha, beta=beta, bias=bias)
