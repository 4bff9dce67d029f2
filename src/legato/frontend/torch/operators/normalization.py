"""Normalisations. What backward needs of a forward (means, reciprocals of deviations) is a result beside it."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Const, const
from legato.base.dtype import float64, uint8
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._statistics import moments, scale_and_shift
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr
from legato.ir.types import Dim

# ------------------------------------------------------------------ batches


@aten("_native_batch_norm_legit_no_training")
def batch_norm_no_training(
    b: Emitter, input: Expr, weight: Expr | None, bias: Expr | None, running_mean: Expr, running_var: Expr,
    momentum: float, eps: float,
) -> tuple[Expr, Expr, Expr]:  # fmt: skip
    y = _by_running(b, input, weight, bias, running_mean, running_var, eps)
    none = b.zeros_of((const(0),), b.dtype(input))
    return y, none, none


@aten("_batch_norm_no_update")
def batch_norm_no_update(
    b: Emitter, input: Expr, weight: Expr | None, bias: Expr | None, running_mean: Expr, running_var: Expr,
    momentum: float, eps: float,
) -> tuple[Expr, Expr, Expr, Expr]:  # fmt: skip
    found = batch_norm_no_training(b, input, weight, bias, running_mean, running_var, momentum, eps)
    return *found, b.zeros_of((const(0),), uint8)


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    b: Emitter, input: Expr, weight: Expr | None, bias: Expr | None, training: bool, momentum: float, eps: float
) -> tuple[Expr, ...]:
    return _of_batch(b, input, weight, bias, None, eps)[:3]


@aten("_native_batch_norm_legit_functional")
def batch_norm_functional(
    b: Emitter, input: Expr, weight: Expr | None, bias: Expr | None, running_mean: Expr, running_var: Expr,
    training: bool, momentum: float, eps: float,
) -> tuple[Expr, ...]:  # fmt: skip
    """y, the mean of the batch and the reciprocal of its deviation, and the running statistics after the batch."""
    if training:
        return _of_batch(b, input, weight, bias, (running_mean, running_var, momentum), eps)
    found = batch_norm_no_training(b, input, weight, bias, running_mean, running_var, momentum, eps)
    return *found, running_mean, running_var


@aten("_batch_norm_with_update_functional")
def batch_norm_with_update(
    b: Emitter, input: Expr, weight: Expr | None, bias: Expr | None, running_mean: Expr, running_var: Expr,
    momentum: float, eps: float,
) -> tuple[Expr, ...]:  # fmt: skip
    found = _of_batch(b, input, weight, bias, (running_mean, running_var, momentum), eps)
    return *found[:3], b.zeros_of((const(0),), uint8), *found[3:]


@aten("native_batch_norm")
def native_batch_norm(
    b: Emitter, input: Expr, weight: Expr | None, bias: Expr | None, running_mean: Expr | None,
    running_var: Expr | None, training: bool, momentum: float, eps: float,
) -> tuple[Expr, ...]:  # fmt: skip
    if not training:
        if running_mean is None or running_var is None:
            raise UnsupportedError("batch normalisation without running statistics", hint="give them, or training=True")
        return batch_norm_no_training(b, input, weight, bias, running_mean, running_var, momentum, eps)
    if running_mean is not None:
        raise UnsupportedError("running statistics that native_batch_norm changes, and does not give back",
                               hint="use torch.nn.functional.batch_norm")  # fmt: skip
    return _of_batch(b, input, weight, bias, None, eps)[:3]


def _by_running(
    b: Emitter, x: Expr, weight: Expr | None, bias: Expr | None, mean: Expr, variance: Expr, eps: float
) -> Expr:
    gamma, beta, given = scale_and_shift(b, weight, bias, (b.dim_of(x, 1),), b.dtype(mean))
    return b.get(b.nn.batch_norm(x, gamma, beta, mean, variance, axis=1, epsilon=eps, **given), 0)


def _of_batch(
    b: Emitter, x: Expr, weight: Expr | None, bias: Expr | None, running: tuple[Expr, Expr, float] | None, eps: float
) -> tuple[Expr, ...]:
    """Normalisation by the statistics of the batch; with `running` ones, and a momentum, these after it."""
    gamma, beta, given = scale_and_shift(b, weight, bias, (b.dim_of(x, 1),), b.dtype(x))
    made = b.nn.batch_norm_train(x, gamma, beta, axis=1, epsilon=eps, **given)
    mean, variance = b.get(made, 1), b.get(made, 2)
    rstd = b.rsqrt(b.add(variance, b.like(eps, variance)))
    saved = b.to(mean, b.dtype(x)), b.to(rstd, b.dtype(x))
    if running is None:
        return b.get(made, 0), *saved
    old_mean, old_variance, momentum = running
    count = b.extent(b.product([d for n, d in enumerate(b.dims_of(x)) if n != 1]), b.dtype(variance))
    spread = b.multiply(variance, b.divide(count, b.subtract(count, b.like(1, count))))
    new = tuple(_moved(b, old, own, momentum) for old, own in ((old_mean, mean), (old_variance, spread)))
    return b.get(made, 0), *saved, *new


def _moved(b: Emitter, old: Expr, new: Expr, momentum: float) -> Expr:
    """Where a running average is after a batch."""
    wide = b.to(old, b.dtype(new))
    kept, share = b.like(1 - momentum, wide), b.like(momentum, wide)
    return b.to(b.add(b.multiply(wide, kept), b.multiply(new, share)), b.dtype(old))


# ------------------------------------------------------------------ rows, groups


@aten("layer_norm")
def layer_norm(
    b: Emitter, input: Expr, normalized_shape: Sequence[Size], weight: Expr | None = None, bias: Expr | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Expr:  # fmt: skip
    axes = _last(b, input, normalized_shape)
    shape = tuple(b.dim_of(input, n) for n in axes)
    gamma, beta, given = scale_and_shift(b, weight, bias, shape, b.dtype(input))
    return b.nn.layer_norm(input, gamma, beta, axis=axes, epsilon=eps, **given)


@aten("native_layer_norm")
def native_layer_norm(
    b: Emitter, input: Expr, normalized_shape: Sequence[Size], weight: Expr | None, bias: Expr | None, eps: float
) -> tuple[Expr, Expr, Expr]:
    y = layer_norm(b, input, normalized_shape, weight, bias, eps)
    return y, *moments(b, input, _last(b, input, normalized_shape), eps)


@aten("group_norm")
def group_norm(
    b: Emitter, input: Expr, num_groups: Size, weight: Expr | None = None, bias: Expr | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Expr:  # fmt: skip
    gamma, beta, given = scale_and_shift(b, weight, bias, (b.dim_of(input, 1),), b.dtype(input))
    groups = b.literal(num_groups, "the number of groups")
    return b.nn.group_norm(input, gamma, beta, num_groups=groups, axis=1, epsilon=eps, **given)


@aten("native_group_norm")
def native_group_norm(
    b: Emitter, input: Expr, weight: Expr | None, bias: Expr | None, N: Size, C: Size, HxW: Size, group: Size,
    eps: float,
) -> tuple[Expr, Expr, Expr]:  # fmt: skip
    y = group_norm(b, input, group, weight, bias, eps)
    rows = b.reshape(input, newshape=by_group(b, input, group), allowzero=True)
    mean, rstd = (b.squeeze(m, axis=(2,)) for m in moments(b, rows, (2,), eps))
    return y, mean, rstd


def by_group(b: Emitter, x: Expr, group: Size) -> tuple[Dim, Dim, Dim]:
    """The shape of `x` as (batch, groups, what is in a group)."""
    batch, channels, *rest = b.dims_of(x)
    groups = b.size(group)
    return batch, groups, b.product((channels // groups, *rest))


@aten("rms_norm")
def rms_norm(
    b: Emitter, input: Expr, normalized_shape: Sequence[Size], weight: Expr | None = None, eps: float | None = None
) -> Expr:
    axes = _last(b, input, normalized_shape)
    gamma = weight if weight is not None else b.zeros_of([b.dim_of(input, n) for n in axes], b.dtype(input), 1)
    return b.nn.rms_norm(input, gamma, axes=axes, epsilon=_least(b, input) if eps is None else eps)


@aten("_fused_rms_norm")
def fused_rms_norm(
    b: Emitter, input: Expr, normalized_shape: Sequence[Size], weight: Expr | None, eps: float | None
) -> tuple[Expr, Expr]:
    axes, wide = _last(b, input, normalized_shape), b.wide(input)
    squares = b.mean(b.multiply(wide, wide), axis=axes, keepdims=True)
    rstd = b.rsqrt(b.add(squares, b.like(_least(b, input) if eps is None else eps, wide)))
    return rms_norm(b, input, normalized_shape, weight, eps), rstd


def _least(b: Emitter, x: Expr) -> float:
    """What is added to the mean of squares where nothing is said: the distance from 1 to the next number."""
    return 2.0**-52 if b.dtype(x) == float64 else 2.0**-23


def _last(b: Emitter, x: Expr, shape: Sequence[Size]) -> tuple[int, ...]:
    """The axes that a shape covers: the last ones."""
    rank = b.rank(x)
    for n, size in enumerate(b.sizes_of(shape)):
        own = b.dim_of(x, rank - len(shape) + n)
        if isinstance(size, Const) and isinstance(own, Const) and size is not own:
            raise UnsupportedError(f"a normalised shape {list(shape)} of {x.ty}")
    return tuple(range(rank - len(shape), rank))
