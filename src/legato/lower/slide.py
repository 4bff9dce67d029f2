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
        # The most are under the first block without padding before it, the last without any behind, or one at an end.
        slide, stride = self.slide, self.results * self.slide.step
        first = -(-slide.before // stride)
        last = (slide.extent + slide.before - slide.under(self.results)) // stride
        most = self.count - 1
        return max(self._inside(min(max(n, 0), most)) for n in (0, first, last, most - 1, most))

    def _inside(self, number: int) -> int:
        """Places of the extent under the windows of a block."""
        under = self.slide.under(self.results if number < self.count - 1 else self.rest)
        return min(self.start(number) + under, self.slide.extent) - max(self.start(number), 0)

    @property
    def last(self) -> int:
        """The last place where those of a block may begin."""
        return self.slide.extent - self.size

    @property
    def lead(self) -> int:
        """How many places before the first window of a block it takes, at most: the last block, if any."""
        return max(0, self.start(self.count - 1) - self.last)

    @property
    def kept(self) -> int:
        """Places of a block in all, with padding and what no window needs: behind the first block's, if anywhere."""
        return self.lead + max(self.slide.under(self.results), self.slide.before + self.size)
