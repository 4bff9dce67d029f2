"""Tensors of torch as arrays, and back: those of bfloat16, too, for which NumPy has no dtype of its own."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.arrays import as_array
from legato.base.errors import LegatoError

__all__ = ["from_torch", "to_torch"]


def from_torch(value: Any, what: str, error: type[LegatoError]) -> Any:
    """A tensor of torch as an array over its memory, without its gradient; anything else as it is.

    An `error` that begins with `what` where it has no memory that NumPy sees.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach()
    if tensor.dtype != torch.bfloat16:
        return as_array(tensor, what, error)
    return as_array(tensor.contiguous().view(torch.int16), what, error).view(dt.bfloat16.numpy)


def to_torch(value: np.ndarray[Any, Any]) -> Any:
    """An array as a tensor of torch over its memory."""
    import torch

    if value.dtype != dt.bfloat16.numpy:
        return torch.from_numpy(value)
    return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
