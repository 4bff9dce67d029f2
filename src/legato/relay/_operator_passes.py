"""Passes over operators: casts, padding, divisions, matrix products side by side."""

from __future__ import annotations

from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.transform.canonicalize_cast import CanonicalizeCast as SplitCasts
from legato.transform.combine_batch_matmul import CombineBatchMatmul
from legato.transform.combine_conv2d import CombineConv2D
from legato.transform.combine_dense import CombineDense
from legato.transform.fold_padding import FoldPadding

__all__ = ["CanonicalizeCast", "CombineParallelBatchMatmul", "CombineParallelConv2D",
           "CombineParallelDense", "FoldExplicitPadding"]  # fmt: skip


def CanonicalizeCast() -> Pass:
    """Casts to wider types are computed by each elementwise operator that reads them."""
    return of_steps("CanonicalizeCast", 3, (SplitCasts(),))


def CombineParallelConv2D(min_num_branches: int = 3) -> Pass:
    """Convolutions of the same images, at least so many, become one of all their filters."""
    return of_steps("CombineParallelConv2d", 4, (CombineConv2D(min_num_branches),))


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> Pass:
    """Products of the same data, at least so many, become one of a batch (where the weights have one shape), or else
    one of all their units."""
    return of_steps("CombineParallelDense", 4, (CombineDense(min_num_branches, to_batch),))


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> Pass:
    """Products of the same batch, at least so many, become one of all their columns."""
    return of_steps("CombineParallelBatchMatmul", 4, (CombineBatchMatmul(min_num_branches),))


def FoldExplicitPadding() -> Pass:
    """Padding in front of convolutions and poolings becomes their own, where the elements are those around their data.

    (Relay's took the smallest finite number in front of a maximum for −∞.)
    """
    return of_steps("FoldExplicitPadding", 0, (FoldPadding(),))
