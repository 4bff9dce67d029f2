"""Normalisations of ONNX Runtime's own domain, which its optimiser fuses with what is added before them."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import const
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import norm
from legato.ir.expr import Expr
from legato.ir.types import Dim

DOMAIN = "com.microsoft"


def skip_layer_normalization(
    b: Emitter,
    x: Expr,
    skip: Expr,
    gamma: Expr,
    beta: Expr | None = None,
    bias: Expr | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Expr | None, ...]:
    """Of x + skip (+ bias), over the last dim; the fourth output is that sum."""
    total = _total(b, x, skip, bias)
    y = _over_last(b, total, gamma, beta, epsilon)
    return b.to(y, b.dtype(x)), None, None, b.to(total, b.dtype(x))


def _total(b: Emitter, x: Expr, skip: Expr, bias: Expr | None) -> Expr:
    """x (+ bias) + skip, in the dtype to compute in."""
    first = b.wide(x) if bias is None else b.add(b.wide(x), b.wide(bias))
    return b.add(first, b.wide(skip))


def _over_last(b: Emitter, x: Expr, gamma: Expr, beta: Expr | None, epsilon: float) -> Expr:
    """The normalisation of a layer, over the last dim."""
    shape = b.dims_of(x)[-1:]
    shift = b.full(b.like(0, x), shape=shape) if beta is None else b.broadcast(b.to(beta, b.dtype(x)), shape)
    scale = b.broadcast(b.to(gamma, b.dtype(x)), shape)
    return b.nn.layer_norm(x, scale, shift, axis=-1, epsilon=epsilon, center=beta is not None)


def skip_simplified_layer_normalization(
    b: Emitter, x: Expr, skip: Expr, gamma: Expr, bias: Expr | None = None, *, epsilon: float = 1e-12
) -> tuple[Expr | None, ...]:
    """By the root of the mean of squares; the fourth output is what is normalised."""
    total = _total(b, x, skip, bias)
    y = norm.rms_normalization(b, total, b.to(gamma, b.dtype(total)), epsilon=epsilon)
    return b.to(y, b.dtype(x)), None, None, b.to(total, b.dtype(x))


def embed_layer_normalization(
    b: Emitter,
    ids: Expr,
    segments: Expr | None = None,
    words: Expr | None = None,
    positions: Expr | None = None,
    segment_rows: Expr | None = None,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    mask: Expr | None = None,
    position_ids: Expr | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int | None = None,
) -> tuple[Expr, ...]:
    """The rows of words, positions and segments, added and normalised; how many places of each row the mask has; and
    the sum."""
    if words is None or positions is None or gamma is None or beta is None:
        raise ImportModelError("EmbedLayerNormalization lacks its words, its positions, gamma or beta")
    n, length = b.dims_of_rank(ids, 2, "words")
    total = b.wide(b.take(words, ids, axis=0))
    if position_ids is None:
        places = b.arange(start=const(0), stop=length, step=1, dtype=dt.int64)
        total = b.add(total, b.wide(b.take(positions, places, axis=0)))
    else:
        total = b.add(total, b.wide(b.take(positions, position_ids, axis=0)))
    if segments is not None and segment_rows is not None:
        total = b.add(total, b.wide(b.take(segment_rows, segments, axis=0)))
    y = _over_last(b, total, gamma, beta, epsilon)
    if mask is None:
        counts = b.zeros(shape=(n,), dtype=dt.int32)
    else:
        counts = b.sum(b.cast(b.equal(mask, b.like(1, mask)), dtype=dt.int32), axis=(1,))
    return b.to(y, b.dtype(words)), counts, b.to(total, b.dtype(words))


def group_norm(
    b: Emitter,
    x: Expr,
    gamma: Expr,
    beta: Expr,
    *,
    activation: int,
    channels_last: bool = True,
    epsilon: float = 1e-5,
    groups: int,
) -> Expr:
    """Over groups of channels, with SiLU behind it where `activation` is 1."""
    if activation not in (0, 1):
        raise ImportModelError(f"activation is {activation}, wanted 0 or 1")
    axis = b.rank(x) - 1 if channels_last else 1
    wide = b.wide(x)
    y = b.nn.group_norm(wide, b.to(gamma, b.dtype(wide)), b.to(beta, b.dtype(wide)), num_groups=groups, axis=axis,
                        epsilon=epsilon)  # fmt: skip
    return b.to(b.nn.silu(y) if activation else y, b.dtype(x))


def skip_group_norm(
    b: Emitter,
    x: Expr,
    gamma: Expr,
    beta: Expr,
    skip: Expr,
    bias: Expr | None = None,
    *,
    activation: int,
    channels_last: bool = True,
    epsilon: float = 1e-5,
    groups: int,
) -> tuple[Expr, Expr]:
    """Of x + skip (+ bias), which is the second output; a skip of rank 2 has a number for each row and channel."""
    inner = b.rank(x) - 2
    if b.rank(skip) == 2:
        skip = b.expand_dims(skip, axis=1 if channels_last else 2, num_newaxis=inner)
    if bias is not None and not channels_last:
        bias = b.expand_dims(bias, axis=1, num_newaxis=inner)
    total = _total(b, x, skip, bias)
    y = group_norm(b, total, gamma, beta, activation=activation, channels_last=channels_last, epsilon=epsilon,
                   groups=groups)  # fmt: skip
    return b.to(y, b.dtype(x)), b.to(total, b.dtype(x))


def gated_rms_norm(
    b: Emitter, x: Expr, scale: Expr, gate: Expr, *, activation: str = "silu", epsilon: float = 1e-5
) -> Expr:
    """Of groups of the last dim that are as long as `scale`, times silu or sigmoid of the gate."""
    if activation not in ("silu", "swish", "sigmoid"):
        raise ImportModelError(f"activation is {activation!r}, wanted silu, swish or sigmoid")
    wide, z = b.wide(x), b.wide(gate)
    extent, outer = b.dim_of(x, -1), b.dims_of(x)[:-1]
    (size,) = b.dims_of_rank(scale, 1, "the scale")
    groups = simplify(extent // size)
    b.require(simplify(groups * size), extent, "groups as long as the scale")
    parts = b.reshape(wide, newshape=(*outer, groups, size), allowzero=True)
    y = norm.rms_normalization(b, parts, b.to(scale, b.dtype(wide)), epsilon=epsilon)
    y = b.reshape(y, newshape=(*outer, extent), allowzero=True)
    return b.to(b.multiply(y, b.sigmoid(z) if activation == "sigmoid" else b.nn.silu(z)), b.dtype(x))


def branchwise_rms_norm(
    b: Emitter, x: Expr, scale: Expr | None = None, *, epsilon: float = 1e-5, num_branches: int = 0
) -> Expr:
    """Of each branch, [branches, size] of the last dims, or `num_branches` in the last one."""
    wide, dims = b.wide(x), b.dims_of(x)
    if num_branches and dims:
        size = simplify(dims[-1] // num_branches)
        b.require(simplify(size * num_branches), dims[-1], "branches of one size")
        wide = b.reshape(wide, newshape=(*dims[:-1], num_branches, size), allowzero=True)
    if b.rank(wide) < 2:
        raise ImportModelError(f"branches of {x.ty}")
    y = norm.rms_normalization(b, wide, b.full(b.like(1, wide), shape=b.dims_of(wide)[-1:]), epsilon=epsilon)
    if scale is not None:
        y = b.multiply(y, _of_branches(b, b.to(scale, b.dtype(y)), b.dims_of(wide)[-2:]))
    return b.to(b.reshape(y, newshape=dims, allowzero=True), b.dtype(x))


def _of_branches(b: Emitter, scale: Expr, shape: Sequence[Dim]) -> Expr:
    """A scale of branches of `shape`: of one, which all have, or of all, whose dims may be one."""
    if b.rank(scale) not in (1, 2):
        raise ImportModelError(f"a scale {scale.ty}, wanted one of rank 1 or 2")
    extent, size = b.dims_of(scale)[0], shape[-1]
    if b.rank(scale) == 2 or prove_equal(extent, size):
        return scale
    if not provably_different(extent, size):
        raise UnsupportedError(f"whether a scale {scale.ty} is of all branches or of one of {size}",
                               hint=b.way_out(extent, 1))  # fmt: skip
    return b.reshape(scale, newshape=tuple(shape), allowzero=True)
