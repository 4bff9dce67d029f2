"""Weights that a program has as constants: whether a call's are still these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from weakref import ref

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided

__all__ = ["FrozenWeight", "can_freeze", "is_stale"]

_SAMPLES: Final = 4  # elements of a weight that each call looks at, two by two


class FrozenWeight:
    """A tensor as it was when it became a constant: the object, its version, where its memory lies, and a few elements,
    for PyTorch counts no writes through `.data` and NumPy.

    `held` keeps that memory from being used for another tensor, until the tensor is no more.
    """

    __slots__ = ("held", "place", "position", "sample", "seen", "tensor", "version")

    def __init__(self, position: int, tensor: torch.Tensor) -> None:
        self.position = position
        self.tensor = ref(tensor, self._drop)
        self.version = tensor._version
        self.place = tensor.data_ptr()
        self.held: torch.Tensor | None = tensor.detach()
        self.sample: np.ndarray[Any, Any] | None = _sampled(tensor)
        self.seen = b"" if self.sample is None else self.sample.tobytes()

    def _drop(self, _: Any) -> None:
        self.held = self.sample = None

    def is_same(self, tensor: Any) -> bool:
        """Whether `tensor` is this weight, unchanged as far as PyTorch counts, and in the sample."""
        if self.tensor() is not tensor or tensor is None:
            return False
        if tensor._version != self.version or tensor.data_ptr() != self.place:
            return False
        sample = self.sample
        return sample is None or sample.tobytes() == self.seen


def _sampled(tensor: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """Elements over the memory of a tensor, from its first to its last; None where it has gaps, or none, and for
    elements that Legato has not, or that are not as they lie in memory."""
    if not tensor.is_cpu or tensor.is_complex() or tensor.is_quantized or tensor.is_nested:
        return None
    if tensor.is_neg() or not tensor.numel():
        return None
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    dense = tensor.detach().permute(order)
    if not dense.is_contiguous():
        return None
    last = tensor.numel() - 1
    flat = np.asarray(dense.reshape(-1).view(torch.uint8).numpy()).reshape(last + 1, -1)
    if last < _SAMPLES - 1:
        return flat
    size, third = flat.shape[1], last // 3
    return as_strided(flat, (2, 2, size), ((last - third) * size, third * size, 1))  # one view: it is read in each call


def can_freeze(tensor: Any) -> bool:
    """Whether changes of a tensor can be told: those of tensors made in inference mode are not counted, and not all
    have one memory."""
    return isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_inference()


def is_stale(weights: Sequence[FrozenWeight], inputs: Sequence[Any]) -> bool:
    """Whether one of the weights is another in the inputs of a call, or has changed."""
    return any(not weight.is_same(inputs[weight.position]) for weight in weights)
