"""Element types and tensors of PyTorch as Legato has them."""

from __future__ import annotations

import numpy as np
import torch

from legato.base.arrays import viewed
from legato.base.dtype import BY_NAME, DType
from legato.base.errors import ImportModelError, UnsupportedError

__all__ = ["array_of", "from_torch", "to_torch"]

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def from_torch(dtype: torch.dtype) -> DType:
    """The dtype of the same name; UnsupportedError for complex and quantised ones."""
    found = BY_NAME.get(str(dtype).removeprefix("torch."))
    if found is None:
        hint = "give the real and the imaginary part as tensors of their own" if dtype.is_complex else None
        raise UnsupportedError(f"tensors of {dtype}", hint=hint)
    return found


def to_torch(dtype: DType) -> torch.dtype:
    """The dtype of the same name in PyTorch; UnsupportedError where it has none."""
    found = getattr(torch, dtype.name.removesuffix("_"), None)
    if not isinstance(found, torch.dtype):
        raise UnsupportedError(f"PyTorch has no dtype {dtype}")
    return found


def array_of(tensor: torch.Tensor, what: str) -> Array:
    """The elements of a dense tensor on the CPU: its memory where that is in row-major order."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise UnsupportedError(f"{what} is a {kind} tensor", hint="give a dense one (`to_dense()`, `dequantize()`)")
    from_torch(tensor.dtype)
    if tensor.is_meta:
        raise UnsupportedError(f"{what} is a meta tensor, which has no data", hint="load its data")
    plain = tensor.detach().cpu().contiguous().resolve_neg()
    found = viewed(plain, what, ImportModelError)
    assert found is not None
    return found
