"""Engines in turn, in blocks: call by call, the spinning threads of one would steal the other's cores.

Blocks are short, and those that are compared lie side by side: a virtual machine changes its speed by 5 to 20 % several
times a second, so many short rounds say more in a minute than few long ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.bench.engines import Engine
from legato.bench.modes import largest
from legato.runtime.timing import Block, rest

__all__ = ["LOOK", "Rounds", "Wanted", "measure"]

LOOK = 10  # rounds from one question whether they are enough to the next


@dataclass(frozen=True, slots=True)
class Rounds:
    """Seconds of each call, by engine and number of the round; fork-join times before each round and after the last.

    Engines whose figures are narrow already take no part in later rounds.
    """

    blocks: Mapping[str, Mapping[int, Block]]
    fork_join: Sequence[float]

    @property
    def count(self) -> int:
        """How many rounds there are."""
        return len(self.fork_join) - 1

    def of(self, engine: str, numbers: Collection[int]) -> list[Block]:
        """The blocks of one engine in those of the rounds that it took part in."""
        return [block for number, block in self.blocks[engine].items() if number in numbers]

    def pairs(self, one: str, other: str, numbers: Collection[int]) -> tuple[list[Block], list[Block]]:
        """The blocks of two engines in those of the rounds that both took part in."""
        ours, theirs = self.blocks[one], self.blocks[other]
        both = [number for number in ours if number in theirs and number in numbers]
        return [ours[number] for number in both], [theirs[number] for number in both]


Wanted = Callable[[Rounds, Collection[int]], Collection[str]]


def measure(
    engines: Sequence[Engine],
    rounds: int,
    block: float,
    probe: Callable[[], float],
    progress: Callable[[int], None] | None = None,
    *,
    most: int | None = None,
    wanted: Wanted | None = None,
) -> Rounds:
    """Runs engines until `rounds` rounds lie in one mode of the machine and `wanted` names none, or `most` were run.

    Every round runs one block of each engine; every other round turns the order around. A block lasts `block` seconds,
    and at least some calls. probe: gives the fork-join time; asked before each round and after the last.
    wanted: asked with the rounds so far, and the numbers of those in the mode that has most, once they are `rounds` and
    then after every `LOOK` more; names the engines that take part in the rounds that follow.
    most: three times `rounds` where it is None.
    """
    found: dict[str, dict[int, Block]] = {engine.name: {} for engine in engines}
    so_far = Rounds(found, between := list[float]())
    part, look = list(engines), rounds
    limit = 3 * rounds if most is None else max(rounds, most)
    while True:
        rest()
        between.append(probe())
        if so_far.count == limit:
            return so_far
        if so_far.count >= look and len(within := set(largest(between))) >= rounds:
            names = () if wanted is None else wanted(so_far, within)
            part, look = [engine for engine in engines if engine.name in names], so_far.count + LOOK
            if not part:
                return so_far
        number = so_far.count
        for engine in part if number % 2 == 0 else part[::-1]:
            rest()
            found[engine.name][number] = engine.block(block)
        if progress is not None:
            progress(number + 1)
