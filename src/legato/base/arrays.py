"""Arrays from outside: what NumPy makes of a value, where nothing that the value says is lost."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from legato.base.errors import LegatoError, RunError

__all__ = ["as_array", "materialized"]


def as_array(value: Any, what: str = "an argument", error: type[LegatoError] = RunError) -> np.ndarray[Any, Any]:
    """`value` (an array, a number, a tensor of another library) as an array, without a copy where that is possible.

    As `materialized` has it; an `error` that begins with `what` for what NumPy refuses, too.
    """
    value = materialized(value, what, error)
    try:
        return np.asarray(value)
    except Exception as reason:  # of whoever made the value
        raise error(f"{what} is no array, but a {type(value).__name__}: {reason}") from reason


def materialized(value: Any, what: str, error: type[LegatoError] = RunError) -> Any:
    """`value` with all that it stands for: tensors of torch that are negated or conjugated lazily have their values.

    An `error` that begins with `what` for arrays with masked elements, whose mask NumPy would drop, and for tensors
    whose class keeps their data elsewhere, or has none: there NumPy would take whatever lies at an address.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise error(f"{what} has masked elements, which an array has not; x.filled(0) gives them values")
    tensor_class = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor_class is None or not isinstance(value, tensor_class):
        return value
    if type(value).__torch_dispatch__ is not tensor_class.__torch_dispatch__:
        raise error(f"{what} is a {type(value).__name__}, which only stands for a tensor: it has no data of its own")
    return value.resolve_conj().resolve_neg()
