"""How long calls take: in blocks, after a rest; and as scripts for TVM ask, a function that gives a BenchmarkResult.

(`legato.bench` compares programs: engines side by side, with a judgement.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import RunError

__all__ = ["BenchmarkResult", "Block", "block_of", "rest", "time_evaluator"]

PAUSE = 0.3  # seconds that a block waits, at most, until all threads of the engine before are asleep …
SLICE = 0.01  # … which they are once so many seconds of sleep …
AWAKE = 0.1  # … have cost the process less than this share of one processor
WARM_UP = 2  # calls at the beginning of a block that are not counted; one, where that takes as long as a block
LEAST = 2  # calls of a block that are counted, however long they take

Block = Sequence[float]  # seconds of each call


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Seconds per call, one number for each repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The average."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The median."""
        return float(np.median(self.results))

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.std(self.results))

    @property
    def min(self) -> float:
        """The least."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The largest."""
        return max(self.results)

    def __str__(self) -> str:
        """The figures in milliseconds."""
        names = ("mean", "median", "max", "min", "std")
        cells = [f"{1e3 * getattr(self, name):.4f}" for name in names]
        return f"{''.join(f'{name:>12}' for name in names)}   (ms)\n{''.join(f'{cell:>12}' for cell in cells)}"


def time_evaluator(
    function: Callable[..., object], number: int = 10, repeat: int = 1, min_repeat_ms: float = 0
) -> Callable[..., BenchmarkResult]:
    """A function of the arguments of `function` that says how long calls take: the average of `number` calls, `repeat`
    times.

    `number` grows until they take `min_repeat_ms`. RunError for less than one call.
    """
    if number < 1 or repeat < 1:
        raise RunError(f"{number} calls, {repeat} times: at least one of each")

    def evaluate(*args: Any) -> BenchmarkResult:
        function(*args)
        count = number
        results: list[float] = []
        while len(results) < repeat:
            seconds = _seconds(function, args, count)
            if seconds * 1e3 < min_repeat_ms:
                count *= 2
            else:
                results.append(seconds / count)
        return BenchmarkResult(tuple(results))

    return evaluate


def _seconds(function: Callable[..., object], args: Sequence[Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function(*args)
    return time.perf_counter() - start


def rest() -> None:
    """Sleeps until no thread of this process spins, but not longer than `PAUSE`."""
    slept, before = 0.0, time.process_time()
    while slept < PAUSE:
        time.sleep(SLICE)
        slept, now = slept + SLICE, time.process_time()
        if now - before < AWAKE * SLICE:
            return
        before = now


def block_of(call: Callable[[], object], seconds: float) -> Block:
    """The seconds of each of the calls that fit into `seconds`, `LEAST` at least, after some that are not counted."""
    start = time.perf_counter()
    for _ in range(WARM_UP):
        call()
        if time.perf_counter() - start > seconds > 0:
            break
    taken: list[float] = []
    start = time.perf_counter()
    end = start + seconds
    while start < end or len(taken) < LEAST:
        call()
        stop = time.perf_counter()
        taken.append(stop - start)
        start = stop
    return taken
