"""Arrays from outside: what NumPy makes of a value, where nothing that the value says is lost."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from legato.base.errors import LegatoError, RunError

__all__ = ["as_array"]

_LAZY: Final = ("resolve_conj", "resolve_neg")  # methods of torch's tensors


def as_array(value: Any, what: str = "an argument", error: type[LegatoError] = RunError) -> np.ndarray[Any, Any]:
    """`value` (an array, a number, a tensor of another library) as an array, without a copy where that is possible.

    Tensors that are negated or conjugated lazily have their values. An `error` that begins with `what` for an array
    with masked elements, whose mask NumPy would drop, and for what NumPy refuses.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise error(f"{what} has masked elements, which an array has not; x.filled(0) gives them values")
    try:
        for resolve in _LAZY:
            value = getattr(value, resolve)() if hasattr(value, resolve) else value
        return np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as reason:
        raise error(f"{what} is no array, but a {type(value).__name__}: {reason}") from reason
