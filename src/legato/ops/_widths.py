"""Expressions of 16-bit floats, computed in float32 and rounded once."""

from __future__ import annotations

from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.ops._gradients import dtype_of
from legato.ops._tensors import accumulator

__all__ = ["narrowed", "widened"]


def widened(b: Builder, x: Expr) -> Expr:
    """`x` in the dtype in which sums are formed."""
    total = accumulator(dtype_of(x))
    return x if total == dtype_of(x) else b.cast(x, dtype=total)


def narrowed(b: Builder, x: Expr, like: Expr) -> Expr:
    """`x` in the dtype of `like`."""
    return x if dtype_of(x) == dtype_of(like) else b.cast(x, dtype=dtype_of(like))
