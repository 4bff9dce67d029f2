"""Two engines against each other, alone: what benchmarks beside the table of models need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legato.base.target import cpu_name, host
from legato.bench.engines import Engine
from legato.bench.measure import measure
from legato.bench.statistics import Ratio, ratio
from legato.runtime.timing import Block

__all__ = ["Pair", "compare", "machine"]

BLOCK = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Pair:
    """Milliseconds of one call of each, medians over blocks; the second one's time divided by the first one's."""

    first: float
    second: float
    ratio: Ratio
    rounds: int


def compare(engines: Sequence[Engine], rounds: int) -> Pair:
    """Two engines in alternating blocks."""
    first, second = engines
    found = measure(engines, rounds, BLOCK, lambda: 0.0)
    ours, theirs = found.pairs(first.name, second.name, range(found.count))
    return Pair(_milliseconds(ours), _milliseconds(theirs), ratio(ours, theirs), found.count)


def _milliseconds(blocks: list[Block]) -> float:
    return 1e3 * float(np.median([np.median(block) for block in blocks]))


def machine() -> str:
    """This machine, as tables name it."""
    return f"{cpu_name()} ({host().name})"
