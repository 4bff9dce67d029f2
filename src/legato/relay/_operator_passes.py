"""Passes over operators: casts, padding, divisions, matrix products side by side."""

from __future__ import annotations

from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.transform.canonicalize_cast import CanonicalizeCast as SplitCasts
from legato.transform.fold_padding import FoldPadding

__all__ = ["CanonicalizeCast", "FoldExplicitPadding"]


def CanonicalizeCast() -> Pass:
    """Casts to wider types are computed by each elementwise operator that reads them."""
    return of_steps("CanonicalizeCast", 3, (SplitCasts(),))


def FoldExplicitPadding() -> Pass:
    """Padding in front of convolutions and poolings becomes their own, where the elements are those around their data.

    (Relay's took the smallest finite number in front of a maximum for −∞.)
    """
    return of_steps("FoldExplicitPadding", 0, (FoldPadding(),))
