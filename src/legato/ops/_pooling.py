"""What pooling operators share: the value outside the data, and means that are defined for every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.arith.expr import Expr, const, floordiv, lt, select
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.ops._tensors import Array, accumulator
from legato.tir.expr import cast

__all__ = ["divided", "floor_value", "mean_dtype", "mean_of"]


def floor_value(dtype: DType) -> float | int:
    """What no element is smaller than: −∞, or the smallest integer."""
    return float("-inf") if dtype.is_float else dtype.min


def mean_dtype(dtype: DType) -> DType:
    """The dtype in which a mean over elements of `dtype` is formed."""
    return dt.int32 if dtype.is_int and dtype.bits < 32 else accumulator(dtype)


def divided(total: Array, count: Any) -> Array:
    """total / count in the dtype of `total`; integers round towards zero."""
    if np.issubdtype(total.dtype, np.integer):
        return np.asarray(np.sign(total) * (np.abs(total) // count)).astype(total.dtype)
    return np.asarray(total / np.asarray(count).astype(total.dtype))


def mean_of(total: Expr, count: Expr) -> Expr:
    """As `divided`, on scalars; `count` is a positive index."""
    n = cast(count, total.dtype)
    if total.dtype.is_float:
        return total / n
    return select(lt(total, 0), const(0, total.dtype) - floordiv(const(0, total.dtype) - total, n), floordiv(total, n))
