"""Facts and conversions of element types that several families need."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.codes import decode, encode
from legato.base.dtype import DType
from legato.base.storage import decoded, encoded, whole
from legato.ops._families import Array
from legato.ops._tensors import accumulator

__all__ = ["convert", "largest", "shortest", "smallest", "wide_numpy"]

_DECIMALS: Final = 9  # of a float of fewer than 32 bits, and more


def wide_numpy(x: Array) -> np.dtype[Any]:
    """The NumPy dtype in which `x` is accumulated."""
    return accumulator(dt.dtype(x.dtype)).numpy


def smallest(d: DType) -> Any:
    """The identity of max."""
    return d.numpy.type(-np.inf) if d.is_float else d.numpy.type(d.min)


def largest(d: DType) -> Any:
    """The identity of min."""
    return d.numpy.type(np.inf) if d.is_float else d.numpy.type(d.max)


def convert(x: Array, d: DType) -> Array:
    """`x` as `d`: float to integer truncates and saturates (NaN gives 0), integers wrap, anything but 0 is True."""
    if d.numpy.names:  # without ml_dtypes
        return encode(x, d)
    if d.is_storage:
        return encoded(np.asarray(x), d)
    x = decoded(np.asarray(x))
    if d.is_bool:
        return np.asarray(x != 0)
    if not d.is_int or x.dtype.kind in "iub":
        return x.astype(d.numpy)
    return whole(x, d.min, d.max, d.numpy)


def shortest(value: Any, dtype: DType) -> str:
    """A float of ml_dtypes, rounded to the fewest digits that give it back: NumPy knows how many only of its own."""
    if not np.isfinite(value):
        return str(value)
    rounded = (float(f"{value:.{n}e}") for n in range(_DECIMALS))
    return str(next(r for r in rounded if decode(convert(np.array(r), dtype)) == value))
