"""Graphs of what uses what."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

__all__ = ["components"]

K = TypeVar("K", bound=Hashable)


def components(uses: Mapping[K, Iterable[K]]) -> list[list[K]]:
    """The strongly connected components, what is used before what uses it (Tarjan 1972, iterative)."""
    order: dict[K, int] = {}
    low: dict[K, int] = {}
    path: list[K] = []
    on_path: set[K] = set()
    found: list[list[K]] = []
    for root in uses:
        work = [] if root in order else [(root, iter(list(uses[root])))]
        while work:
            key, left = work[-1]
            if key not in order:
                order[key] = low[key] = len(order)
                path.append(key)
                on_path.add(key)
            used = next(left, None)
            if used is not None:
                if used not in order:
                    work.append((used, iter(list(uses[used]))))
                elif used in on_path:
                    low[key] = min(low[key], order[used])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[key])
            if low[key] == order[key]:
                at = len(path) - 1  # from the end: a long chain of components leaves all others on the path
                while path[at] != key:
                    at -= 1
                found.append(path[at:])
                on_path.difference_update(path[at:])
                del path[at:]
    return found
