"""Normal floats: those that are as precise as their dtype allows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from legato.base import dtype as dt

__all__ = ["is_normal", "smallest"]

Array = np.ndarray[Any, Any]

_SMALLEST: Final = {dt.float16: 2.0**-14, dt.bfloat16: 2.0**-126, dt.float32: 2.0**-126, dt.float64: 2.0**-1022}


def smallest(x: Array) -> Any:
    """The smallest normal number of the dtype of `x`."""
    return x.dtype.type(_SMALLEST[dt.dtype(x.dtype)])


def is_normal(x: Array) -> Array:
    """Where finite numbers are as precise as their dtype allows: neither 0 nor subnormal."""
    return np.asarray(np.abs(x) >= smallest(x))
