"""Tensors of PyTorch as arrays, and the other way round, over the same memory."""

from __future__ import annotations

import numpy as np
import torch

from legato.base.dtype import dtype
from legato.frontend.torch.dtypes import array_of, to_torch

__all__ = ["as_array", "as_tensor"]

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def as_array(tensor: torch.Tensor, what: str) -> Array:
    """The elements of a tensor, without a copy where they lie in row-major order on the CPU."""
    return array_of(tensor, what)


def as_tensor(array: Array) -> torch.Tensor:
    """A tensor over the memory of an array."""
    kind = dtype(array.dtype)
    if kind.numpy.isbuiltin == 1:
        return torch.from_numpy(array)
    bits = array.view(np.dtype(f"i{array.dtype.itemsize}"))
    return torch.from_numpy(bits).view(to_torch(kind))
