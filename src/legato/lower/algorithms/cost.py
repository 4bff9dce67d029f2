"""Which algorithm computes a window's contraction in the least time, by nominal figures of the target."""

from __future__ import annotations

from dataclasses import dataclass

from legato.base.precision import Precision
from legato.base.target import Target
from legato.lower.algorithms.cook_toom import Scheme
from legato.lower.algorithms.winograd import Window

__all__ = ["WinogradPlan", "choose"]


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """The algorithm and the tiles of a block. `is_whole`: transforms and products in one kernel."""

    window: Window
    scheme: Scheme
    tiles: int
    is_whole: bool


def choose(window: Window, target: Target, precision: Precision) -> WinogradPlan | None:
    """The plan for `window`; None where the sum as it stands is as fast."""
    return None
