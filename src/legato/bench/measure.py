"""Engines in turn, in blocks: call by call, the spinning threads of one would steal the other's cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from legato.bench.engines import Engine

__all__ = ["measure"]

PAUSE = 0.3  # seconds before each block: until then all threads of the engine before are asleep
WARM_UP = 2  # calls at the beginning of a block that are not counted


def measure(
    engines: Sequence[Engine], rounds: int, block: float, progress: Callable[[int], None] | None = None
) -> dict[str, list[list[float]]]:
    """Seconds of each call, in blocks, by engine. A block lasts `block` seconds, and at least three calls.

    Every round runs one block of each engine; every other round turns the order around.
    """
    found: dict[str, list[list[float]]] = {engine.name: [] for engine in engines}
    for done in range(rounds):
        for engine in engines if done % 2 == 0 else engines[::-1]:
            time.sleep(PAUSE)
            found[engine.name].append(_block(engine.call, block))
        if progress is not None:
            progress(done + 1)
    return found


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
