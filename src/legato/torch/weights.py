"""Weights that a program has as constants: whether a call's are still these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import torch

__all__ = ["FrozenWeight", "can_freeze", "is_stale"]


class FrozenWeight:
    """A tensor as it was when it became a constant: the object, its version, and where its memory lies.

    `held` keeps that memory from being used for another tensor, until the tensor is no more.
    """

    __slots__ = ("held", "place", "position", "tensor", "version")

    def __init__(self, position: int, tensor: torch.Tensor) -> None:
        self.position = position
        self.tensor = ref(tensor, self._drop)
        self.version = tensor._version
        self.place = tensor.data_ptr()
        self.held: torch.Tensor | None = tensor.detach()

    def _drop(self, _: Any) -> None:
        self.held = None

    def is_same(self, tensor: Any) -> bool:
        """Whether `tensor` is this weight, unchanged as far as PyTorch counts (writes through `.data` it does not)."""
        if self.tensor() is not tensor or tensor is None:
            return False
        return bool(tensor._version == self.version and tensor.data_ptr() == self.place)


def can_freeze(tensor: Any) -> bool:
    """Whether changes of a tensor can be told: those of tensors made in inference mode are not counted."""
    return isinstance(tensor, torch.Tensor) and not tensor.is_inference()


def is_stale(weights: Sequence[FrozenWeight], inputs: Sequence[Any]) -> bool:
    """Whether one of the weights is another in the inputs of a call, or has changed."""
    return any(not weight.is_same(inputs[weight.position]) for weight in weights)
