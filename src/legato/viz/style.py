"""Colours of nodes and clusters, by kind: the ground and the edge."""

from __future__ import annotations

from typing import Final

__all__ = ["CLUSTERS", "EDGE", "LEAST", "NODES", "TEXT", "share_text"]

NODES: Final = {
    "constant": ("#eceff1", "#90a4ae"),
    "parameter": ("#e8f5e9", "#66a96b"),
    "shape": ("#eceff1", "#90a4ae"),
    "global": ("#ede7f6", "#8d7bc2"),
    "operator": ("#e3effc", "#5b8fd6"),
    "kernel": ("#e3effc", "#5b8fd6"),
    "call": ("#ede7f6", "#8d7bc2"),
    "construct": ("#fff3e0", "#d9a05b"),
    "function": ("#ede7f6", "#8d7bc2"),
    "if": ("#fff8d6", "#c7a93a"),
    "match": ("#fff8d6", "#c7a93a"),
    "tuple": ("#f5f5f5", "#b0b0b0"),
    "field": ("#f5f5f5", "#b0b0b0"),
    "reference": ("#fdecea", "#d0766c"),
    "cast": ("#f5f5f5", "#b0b0b0"),
    "pattern": ("#fff8d6", "#c7a93a"),
    "recursion": ("#ede7f6", "#8d7bc2"),
}
CLUSTERS: Final = {
    "function": ("#fbfbfc", "#9aa3ad"),
    "group": ("#f1f7ff", "#8fb3e0"),
    "closure": ("#f7f4fc", "#b3a6d6"),
    "branch": ("#fffdf2", "#d8c77d"),
    "clause": ("#fffdf2", "#d8c77d"),
}
EDGE: Final = "#8a939c"
TEXT: Final = "#20242a"
LEAST: Final = 5e-4  # a share that is told as a number


def share_text(share: float | None) -> str:
    """` 12.0 %`, ` <0.1 %`, or nothing."""
    if share is None:
        return ""
    return f" {100 * share:.1f} %" if share >= LEAST else " <0.1 %"
