"""Arrays from outside: what NumPy makes of a value, where nothing that the value says is lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.base.errors import LegatoError, RunError

__all__ = ["as_array"]


def as_array(value: Any, what: str = "an argument", error: type[LegatoError] = RunError) -> np.ndarray[Any, Any]:
    """`value` (an array, a number, a tensor of another library) as an array, without a copy where that is possible.

    An `error` that begins with `what` for a masked array, whose mask NumPy would drop, and for what NumPy refuses.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise error(f"{what} is a masked array, whose mask would be lost; x.filled(…) makes it an array")
    try:
        return np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as reason:
        raise error(f"{what} is no array, but a {type(value).__name__}: {reason}") from reason
