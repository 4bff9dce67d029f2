"""Means and deviations, and the parameters of normalisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.base.dtype import DType
from legato.frontend.torch.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["moments", "scale_and_shift", "widest"]


def moments(b: Emitter, x: Expr, axes: Sequence[int], eps: float) -> tuple[Expr, Expr]:
    """The mean along axes, and 1 / √(variance + eps), with dims of 1 there."""
    wide = b.wide(x)
    mean = b.mean(wide, axis=tuple(axes), keepdims=True)
    centred = b.subtract(wide, mean)
    variance = b.mean(b.multiply(centred, centred), axis=tuple(axes), keepdims=True)
    return mean, b.rsqrt(b.add(variance, b.like(eps, variance)))


def scale_and_shift(
    b: Emitter, weight: Expr | None, bias: Expr | None, shape: Sequence[Dim], dtype: DType
) -> tuple[Expr, Expr, Mapping[str, bool]]:
    """gamma and beta, and the attributes that say which of them count."""
    own = b.dtype(weight) if weight is not None else b.dtype(bias) if bias is not None else dtype
    gamma = weight if weight is not None else b.zeros_of(shape, own, 1)
    beta = bias if bias is not None else b.zeros_of(shape, own)
    return gamma, beta, {"scale": weight is not None, "center": bias is not None}


def widest(b: Emitter, x: Expr, weight: Expr | None) -> DType:
    """The dtype of statistics: that of the data, or of parameters that are wider."""
    return b.dtype(x) if weight is None else b.dtype(weight)
