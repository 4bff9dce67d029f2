"""How widely a group pads what it reads: whoever stores that may keep so wide a halo around it."""

from __future__ import annotations

from legato.lower.conditions import detect_pad
from legato.lower.group import Group, stages

__all__ = ["paddings"]


def paddings(group: Group) -> tuple[tuple[int, float, tuple[tuple[int, int], ...]], ...]:
    """The paddings of inputs of `group`: the input's number, what it is filled with, (before, after) per dimension."""
    numbers = {t: n for n, t in enumerate(group.inputs)}
    found: list[tuple[int, float, tuple[tuple[int, int], ...]]] = []
    for t in stages(group.outputs):
        pad = detect_pad(t)
        if pad is None or t in group.outputs or pad.source not in numbers:
            continue
        if pad.value == 0 or t.dtype.is_float:
            found.append((numbers[pad.source], pad.value, tuple(zip(pad.before, pad.after, strict=True))))
    return tuple(found)
