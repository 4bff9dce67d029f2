"""A loss, in float64 and any other float, and the same one in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

import legato
from legato.ir.module import Module

TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 5), DTYPE], %v: Tensor[(3, 7), DTYPE], %w: Tensor[(7, 5), DTYPE], %b: Tensor[(7,), DTYPE],
          %y: Tensor[(n, 3), DTYPE]) {
  let %e = nn.dense(tanh(nn.dense(%x, %w) + %b), %v) - %y;
  sum(%e * %e)
}
"""
SHAPES = {"w": (7, 5), "b": (7,), "v": (3, 7)}


def squares(dtype: str = "float64") -> Module:
    """A network of two layers, and the sum of its squared errors."""
    return legato.parse(TEXT.replace("DTYPE", dtype))


def params(dtype: Any = "float64", seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Parameters of it."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in SHAPES.items()}


def batch(number: int, dtype: Any = "float64", rows: int = 6) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A batch of it."""
    rng = np.random.default_rng([1, number])
    return rng.normal(size=(rows, 5)).astype(dtype), rng.normal(size=(rows, 3)).astype(dtype)
