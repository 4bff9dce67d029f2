"""Times in words: percentiles, and the ratio of two engines with its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import Final

import numpy as np

from legato.base.dataclass import dataclass

__all__ = ["ENOUGH", "TIGHT", "Ratio", "Times", "ratio", "times", "undecided"]

NOISE: Final = 0.05  # the share of intervals that may miss the true median
ENOUGH: Final = 30  # rounds from which on a ratio counts …
TIGHT: Final = 0.02  # … if its interval is within this share of it


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per call of one engine, over all its blocks."""

    calls: int
    median: float
    p90: float
    p99: float
    min: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as another an engine is: the median over rounds, and an interval of it.

    The interval is the sign test's: with `confidence`, whatever the distribution of times, the true median lies inside.
    rounds: how many of them lie in one mode of the machine, all or none.
    """

    median: float
    low: float
    high: float
    confidence: float
    rounds: int

    @property
    def clear(self) -> bool:
        """Whether the difference is outside the noise."""
        return not self.low <= 1 <= self.high and self.confidence >= 1 - NOISE

    @property
    def counts(self) -> bool:
        """Whether there were rounds enough, and they agree."""
        near = self.low >= (1 - TIGHT) * self.median and self.high <= (1 + TIGHT) * self.median
        return self.rounds >= ENOUGH and near

    def __str__(self) -> str:
        if self.confidence < 1 - NOISE:
            return f"{self.median:.2f}×, from too few rounds to tell"
        interval = f"{self.low:.2f} to {self.high:.2f}"
        return f"{self.median:.2f}×  ({interval})" if self.clear else f"no difference outside the noise ({interval})"


def times(blocks: Sequence[Sequence[float]]) -> Times:
    """The statistics of all calls in `blocks`."""
    flat = np.concatenate([np.asarray(block) for block in blocks])
    median, p90, p99 = np.percentile(flat, [50, 90, 99])
    return Times(len(flat), float(median), float(p90), float(p99), float(flat.min()))


def ratio(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], alike: bool = True) -> Ratio:
    """Their time divided by ours: each round's medians are compared with each other, so slow drifts cancel.

    alike: whether the rounds lie in one mode.
    """
    rounds = sorted(float(np.median(b) / np.median(a)) for a, b in zip(ours, theirs, strict=True))
    count = len(rounds)
    inner, misses = 0, 2 / 2**count
    while inner + 1 < count / 2 and (more := misses + 2 * comb(count, inner + 1) / 2**count) <= NOISE:
        inner, misses = inner + 1, more
    low, high = rounds[inner], rounds[count - 1 - inner]
    return Ratio(float(np.median(rounds)), low, high, max(0.0, 1 - misses), count if alike else 0)


def undecided(ratios: Mapping[str, Ratio]) -> set[str]:
    """The engines that need more rounds: none once the ratio to the fastest counts, else all that may be the fastest.

    To stop as soon as an interval is narrow costs confidence: of those of 95 %, 93 % or more then hold the true median.
    """
    if not ratios:
        return set()
    fastest = min(ratios.values(), key=lambda found: found.median)
    return set() if fastest.counts else {name for name, found in ratios.items() if found.low <= fastest.high}
