"""Contractions in groups of channels that share what they read: the axis of channels as two.

    y[i, c] = Σ_k x[i, c // n · m + k] · w[c, k]   =   Σ_k x[i, g · m + k] · w[g · n + o, k]   where c = g · n + o

For each group that is a contraction like any other: its data does not depend on the channel, and serves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.arith.substitute import substitute
from legato.lower.access import depends, extent_of
from legato.lower.algorithms.part import Part
from legato.lower.algorithms.unflatten import parted
from legato.lower.conditions import simplified
from legato.te.inline import loads
from legato.te.tensor import Axis, Reduction
from legato.tir.expr import Load

__all__ = ["grouped"]

FEWEST = 4  # channels of a group that are worth vectors of their own


def grouped(part: Part, order: Sequence[int]) -> Part:
    """`part` with the last of its axes in `order` as two, if that is one of channels in groups; itself if it is not."""
    if not order:
        return part
    channel = part.axes[order[-1]]
    loops, value = parted(channel, part.body)
    if len(loops) != 2:
        return part
    group, within = loops
    if (extent_of(within.extent) or 0) < FEWEST:
        return part
    env = {channel.var: value}
    body = simplified(substitute(part.body, env), (*part.axes, *loops, *part.reduction.axes))
    if not any(_is_of_group(x, group, within, part.reduction) for x in loads(body)):
        return part
    index = {**env, **{var: substitute(e, env) for var, e in part.index.items()}}
    return replace(part, index=index, body=body, cut={**part.cut, channel.var: tuple(loops)})


def _is_of_group(x: Load, group: Axis, within: Axis, reduction: Reduction) -> bool:
    """True if `x` reads the same for all channels of a group, and one after the other those that are summed over."""
    along = [i for i in x.indices if depends(i, group.var)]
    return not depends(x, within.var) and any(depends(i, a.var) for i in along for a in reduction.axes)
