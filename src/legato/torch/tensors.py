"""Tensors of PyTorch as arrays, and the other way round, over the same memory."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from legato.base.dtype import dtype
from legato.frontend.torch.dtypes import array_of, to_torch

__all__ = ["as_array", "as_tensor"]

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
_SHARED: Final = frozenset({
    torch.float32, torch.float64, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.bool,
})  # fmt: skip  # NumPy has them, and PyTorch gives them to it
_CLASSES: Final = (torch.Tensor, torch.nn.Parameter)


def as_array(tensor: torch.Tensor, what: str) -> Array:
    """The elements of a tensor, without a copy where they lie in row-major order on the CPU."""
    if (
        type(tensor) in _CLASSES
        and tensor.dtype in _SHARED
        and tensor.layout is torch.strided
        and tensor.is_cpu
        and tensor.is_contiguous()
        and not tensor.is_neg()
    ):
        return tensor.detach().numpy()  # small programs wait for this: `array_of` takes 10 times as long
    return array_of(tensor, what)


def as_tensor(array: Array) -> torch.Tensor:
    """A tensor over the memory of an array."""
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    bits = array.view(np.dtype(f"i{array.dtype.itemsize}"))
    return torch.from_numpy(bits).view(to_torch(dtype(array.dtype)))
