"""Engines in turn, in blocks: call by call, the spinning threads of one would steal the other's cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from legato.bench.engines import Engine
from legato.bench.modes import largest

__all__ = ["Rounds", "measure"]

PAUSE = 0.3  # seconds before each block: until then all threads of the engine before are asleep
WARM_UP = 2  # calls at the beginning of a block that are not counted
PATIENCE = 3  # at most so many times as many rounds are run as are wanted in one mode


@dataclass(frozen=True, slots=True)
class Rounds:
    """Seconds of each call, in blocks, by engine; and the fork-join times before each round and after the last."""

    blocks: Mapping[str, Sequence[Sequence[float]]]
    fork_join: Sequence[float]

    @property
    def count(self) -> int:
        """How many rounds there are."""
        return len(self.fork_join) - 1

    def only(self, numbers: Sequence[int]) -> dict[str, list[Sequence[float]]]:
        """The blocks of some rounds."""
        return {name: [blocks[n] for n in numbers] for name, blocks in self.blocks.items()}


def measure(
    engines: Sequence[Engine],
    rounds: int,
    block: float,
    probe: Callable[[], float],
    progress: Callable[[int], None] | None = None,
) -> Rounds:
    """Runs engines until `rounds` rounds lie in one mode of the machine, or `PATIENCE` times as many have been run.

    Every round runs one block of each engine; every other round turns the order around. A block lasts `block` seconds,
    and at least three calls. probe: gives the fork-join time; asked before each round and after the last.
    """
    found: dict[str, list[list[float]]] = {engine.name: [] for engine in engines}
    between: list[float] = []
    done = 0
    while done < PATIENCE * rounds:
        for place, engine in enumerate(engines if done % 2 == 0 else engines[::-1]):
            time.sleep(PAUSE)
            if place == 0:
                between.append(probe())
                if len(largest(between)) >= rounds:
                    return Rounds(found, between)
            found[engine.name].append(_block(engine.call, block))
        done += 1
        if progress is not None:
            progress(done)
    time.sleep(PAUSE)
    return Rounds(found, [*between, probe()])


def _block(call: Callable[[], object], seconds: float) -> list[float]:
    for _ in range(WARM_UP):
        call()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    start = time.perf_counter()
    while start < end or len(taken) < 3:
        call()
        stop = time.perf_counter()
        taken.append(stop - start)
        start = stop
    return taken
