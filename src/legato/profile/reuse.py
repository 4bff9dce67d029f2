"""Which cache the operands of each kernel come from at best, told from what was touched since they were last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.runtime.kernels import Work

__all__ = ["moved_bytes"]

Capacity = Mapping[str, int]  # bytes by level, the smallest first; "memory" is what no cache holds


def moved_bytes(launches: Sequence[tuple[Work, Sequence[int]]], capacities: Capacity) -> list[dict[str, int]]:
    """For each launch (its work and argument words) the bytes that it reads or writes, by the level they lie in.

    Runs follow each other, so the second of two rounds counts. An operand lies in the smallest level that holds all
    that was touched since it was touched itself, and what its own kernel touches. Operands are told by their address.
    What lies in L3 since the run before is told apart, as "last run": others may have taken its place.
    """
    recent: dict[int, int] = {}  # address -> bytes, the latest last
    found: list[dict[str, int]] = []
    for _ in range(2):
        touched: set[int] = set()  # in this run
        found = [_one(work, words, recent, touched, capacities) for work, words in launches]
    return found


def _one(
    work: Work, words: Sequence[int], recent: dict[int, int], touched: set[int], capacities: Capacity
) -> dict[str, int]:
    operands = [(words[word], read + written) for word, _, read, written in work.buffers if read + written]
    own = sum(size for _, size in operands)
    found: dict[str, int] = {}
    for address, size in operands:
        level = _level(_touched_since(address, recent) + own, capacities)
        if level == "L3" and address not in touched:
            level = "last run"
        found[level] = found.get(level, 0) + size
    for address, size in operands:
        recent.pop(address, None)
        recent[address] = size
        touched.add(address)
    return found


def _touched_since(address: int, recent: Mapping[int, int]) -> int:
    """Bytes that were touched after the operand at `address` was."""
    if address not in recent:
        return 1 << 62
    total = 0
    for other in reversed(recent):
        if other == address:
            break
        total += recent[other]
    return total


def _level(distance: int, capacities: Capacity) -> str:
    return next((name for name, size in capacities.items() if distance <= size), "memory")
