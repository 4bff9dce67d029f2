"""Operators of layers."""

from __future__ import annotations

from typing import Any

from legato.relax.frontend.nn.tensor import Tensor, emit

__all__ = ["matmul", "softmax"]


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """a·b, of matrices, or of as many as the axes in front tell."""
    return emit("matmul", name, a, b, out_dtype)  # type: ignore[no-any-return]


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """eˣ / Σ eˣ along an axis."""
    return emit("nn.softmax", name, x, axis)  # type: ignore[no-any-return]
