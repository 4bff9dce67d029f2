"""Means and deviations, and the parameters of normalisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.base.dtype import DType
from legato.frontend.torch.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["moments", "scale_and_shift"]


def moments(b: Emitter, x: Expr, axes: Sequence[int], eps: float) -> tuple[Expr, Expr]:
    """The mean along axes, and 1 / √(variance + eps), with dims of 1 there, in the dtype of `x`."""
    wide = b.wide(x)
    mean = b.mean(wide, axis=tuple(axes), keepdims=True)
    centred = b.subtract(wide, mean)
    variance = b.mean(b.multiply(centred, centred), axis=tuple(axes), keepdims=True)
    return b.to(mean, b.dtype(x)), b.to(b.rsqrt(b.add(variance, b.like(eps, variance))), b.dtype(x))


def scale_and_shift(
    b: Emitter, weight: Expr | None, bias: Expr | None, shape: Sequence[Dim], dtype: DType
) -> tuple[Expr, Expr, Mapping[str, bool]]:
    """gamma and beta, and the attributes that say which of them count."""
    own = b.dtype(weight) if weight is not None else b.dtype(bias) if bias is not None else dtype
    gamma = weight if weight is not None else b.zeros_of(shape, own, 1)
    beta = bias if bias is not None else b.zeros_of(shape, own)
    return gamma, beta, {"scale": weight is not None, "center": bias is not None}
