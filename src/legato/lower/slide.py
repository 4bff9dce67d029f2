"""Windows that slide along a dimension, and the places under those of neighbouring results."""

from __future__ import annotations

from typing import TypeVar

from legato.arith.expr import Expr
from legato.base.dataclass import dataclass

N = TypeVar("N", int, Expr)

__all__ = ["Blocks", "Slide"]


@dataclass(frozen=True, slots=True)
class Slide:
    """How windows slide along a dimension: of `extent` places, with `before` and `after` of padding around them,
    windows of `reach` places, one every `step` places, give `results` results."""

    extent: int
    before: int
    after: int
    reach: int
    step: int
    results: int

    def under(self, results: N) -> N:
        """Places under the windows of so many neighbouring results."""
        return (results - 1) * self.step + self.reach

    @property
    def kept(self) -> int:
        """Places to remember while windows slide by: a power of two, so that finding them is cheap."""
        return 1 << (self.reach - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Blocks:
    """The results of `slide` in `count` blocks of as many, but for the last, and the places that each block needs.

    Each takes `size` places of the extent, of which no window of the first or the last block may need a few."""

    slide: Slide
    count: int

    @property
    def results(self) -> int:
        """Results of a block."""
        return -(-self.slide.results // self.count)

    @property
    def rest(self) -> int:
        """Results of the last one."""
        return self.slide.results - (self.count - 1) * self.results

    def start(self, number: N) -> N:
        """The place where the first window of a block begins; negative in the padding."""
        return number * (self.results * self.slide.step) - self.slide.before

    @property
    def size(self) -> int:
        """Places of the extent that a block takes: as many as are under the windows of any."""
        under, extent = self.slide.under, self.slide.extent
        results = (*[self.results] * (self.count - 1), self.rest)
        return max(min(self.start(n) + under(r), extent) - max(self.start(n), 0) for n, r in enumerate(results))

    @property
    def last(self) -> int:
        """The last place where those of a block may begin."""
        return self.slide.extent - self.size

    @property
    def lead(self) -> int:
        """How many places before the first window of a block it takes, at most."""
        return max(0, self.start(self.count - 1) - self.last)

    @property
    def kept(self) -> int:
        """Places of a block in all, with padding and what no window needs."""
        ends = (min(max(s, 0), self.last) + self.size - s for s in map(self.start, range(self.count)))
        return self.lead + max(self.slide.under(self.results), *ends)
