"""Layers."""

from __future__ import annotations

from typing import Any

from legato.relax.frontend.nn import op
from legato.relax.frontend.nn.core import Module, Parameter, Tensor

__all__ = ["Linear"]


class Linear(Module):
    """`x·weightᵀ + bias`, over the last axis of `x`."""

    def __init__(
        self, in_features: Any, out_features: Any, bias: bool = True, dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.in_features, self.out_features, self.out_dtype = in_features, out_features, out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Of (…, in_features): (…, out_features)."""
        found = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return found if self.bias is None else found + self.bias

    def to(self, dtype: str | None = None) -> None:
        """Another dtype of the weight, and of the bias where `out_dtype` does not give it."""
        self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)
