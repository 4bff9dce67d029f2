"""Options of executables, checked."""

from __future__ import annotations

from legato.base.config import config
from legato.base.errors import RunError
from legato.runtime.binding import MAX_THREADS, cpu_count

__all__ = ["checked_limit", "thread_count"]


def checked_limit(limit: int) -> int:
    """`memory_limit` as it was given; RunError if it is no number of bytes."""
    if type(limit) is not int or limit < 0:
        raise RunError(f"memory_limit: got {limit!r}, wanted a number of bytes, or 0 for none")
    return limit


def thread_count(threads: int | None) -> int:
    """How many threads `threads` asks for: None, those of LEGATO_THREADS, else as many as run at once here."""
    if threads is not None and type(threads) is not int:
        raise RunError(f"threads: got {threads!r}, wanted 1 to {MAX_THREADS}")
    count = cpu_count() if threads is None and not config().threads else threads or config().threads
    if not 1 <= count <= MAX_THREADS:
        raise RunError(f"threads: got {count}, wanted 1 to {MAX_THREADS}")
    return count
