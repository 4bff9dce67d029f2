"""How long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable


def least_seconds(run: Callable[[], object], times: int = 10) -> float:
    """The least time of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)
