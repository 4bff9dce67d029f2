"""Modes of the machine: rounds of a benchmark sorted by the fork-join time before and after them.

Cores of a virtual machine are sometimes near each other and sometimes far apart, for seconds or minutes. Times on
several threads differ by 10 to 50 % between the two, so they are compared within one mode only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

__all__ = ["GAP", "SPAN", "largest", "modes", "rounds_in"]

SPAN: Final = 2.0  # up to so many times its shortest, the times of a mode are noise; far is 4 to 6 times near
GAP: Final = 1.25  # modes are so far apart at least; where there is no such gap there is nothing to tell apart
FLOOR: Final = 2e-8  # seconds; shorter ones are all the same, for differences of them are the clock's


def modes(samples: Sequence[float]) -> tuple[int, ...]:
    """The mode of each fork-join time, the mode of the shortest being 0.

    In order of length the samples are cut at the widest gap (as a ratio), and the parts again, until no part spans more
    than a factor of `SPAN`, or has a gap of `GAP`.
    """
    order = sorted(range(len(samples)), key=lambda n: samples[n])
    lengths = [max(samples[n], FLOOR) for n in order]
    cuts, pending = set[int](), [(0, len(lengths))]
    while pending:
        start, stop = pending.pop()
        if stop - start < 2 or lengths[stop - 1] <= SPAN * lengths[start]:
            continue
        cut = max(range(start + 1, stop), key=lambda n: lengths[n] / lengths[n - 1])
        if lengths[cut] >= GAP * lengths[cut - 1]:
            cuts.add(cut)
            pending += [(start, cut), (cut, stop)]
    found, mode = [0] * len(samples), 0
    for place, n in enumerate(order):
        mode += place in cuts
        found[n] = mode
    return tuple(found)


def rounds_in(samples: Sequence[float]) -> list[int | None]:
    """The mode of each round, where sample n was taken before round n, and one more after the last.

    None for a round that began in one mode and ended in another.
    """
    found = modes(samples)
    return [before if before == after else None for before, after in pairwise(found)]


def largest(samples: Sequence[float]) -> list[int]:
    """The numbers of the rounds in the mode that has most of them; of two, in the faster. [] where no mode has any."""
    found = rounds_in(samples)
    counts = Counter(mode for mode in found if mode is not None)
    if not counts:
        return []
    best = min(counts, key=lambda mode: (-counts[mode], mode))
    return [n for n, mode in enumerate(found) if mode == best]
