"""Which statements of a host function may run behind which others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from legato.base.dataclass import dataclass
from legato.tir.stmt import For, If, Stmt, Switch, While
from legato.tir.walk import statements

__all__ = ["Flow"]


class _Inside(NamedTuple):
    """A place inside of the statement at `time`, branch number `side` or the body of a loop until time `end`, and in
    what that is; `depth` counts these."""

    around: _Inside | None
    time: int
    side: int
    end: int
    is_loop: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Flow:
    """The statements of a function, outer before inner; their times are their numbers. `places` says in what each is:
    the condition of a loop is a part of the loop. `loops` are the first and last times of each."""

    order: tuple[Stmt, ...]
    places: tuple[_Inside | None, ...]
    loops: tuple[tuple[int, int], ...]

    @staticmethod
    def of(root: Stmt) -> Flow:
        """The statements under `root`."""
        order: list[Stmt] = []
        places: list[_Inside | None] = []
        loops: list[tuple[int, int]] = []
        sizes = _sizes(root)
        stack: list[tuple[Stmt, _Inside | None]] = [(root, None)]
        while stack:
            stmt, place = stack.pop()
            time, depth = len(order), 0 if place is None else place.depth
            if isinstance(stmt, For | While):
                end = time + sizes[id(stmt)] - 1
                loops.append((time, end))
                place = _Inside(place, time, 0, end, True, depth + 1)
            order.append(stmt)
            places.append(place)
            children: Sequence[tuple[Stmt, _Inside | None]] = [(child, place) for child in stmt.children()]
            if isinstance(stmt, If | Switch):
                children = [(child, _Inside(place, time, side, 0, False, depth + 1))
                            for side, child in enumerate(stmt.children())]  # fmt: skip
            stack += reversed(children)
        return Flow(tuple(order), tuple(places), tuple(loops))

    def reaches(self, first: int, then: int, life: tuple[int, int]) -> bool:
        """Whether the statement at time `then` may run behind that at `first`, for something that lives from the first
        to the last time of `life`: a loop does not carry what lives inside of it."""
        a, b = self.places[first], self.places[then]
        while a is not b and a is not None and b is not None:
            if a.depth > b.depth:
                a = a.around
            elif b.depth > a.depth:
                b = b.around
            elif a.time == b.time:
                return _is_carried(a.around, life)
            else:
                a, b = a.around, b.around
        return first < then or _is_carried(a if a is b else None, life)


def _is_carried(place: _Inside | None, life: tuple[int, int]) -> bool:
    """Whether a loop around `place` carries what lives so long from turn to turn."""
    while place is not None:
        if place.is_loop and not (place.time <= life[0] and life[1] <= place.end):
            return True
        place = place.around
    return False


def _sizes(root: Stmt) -> dict[int, int]:
    """How many statements are in each statement, itself among them, by its identity."""
    found: dict[int, int] = {}
    for stmt in reversed([*statements(root)]):
        found[id(stmt)] = 1 + sum(found[id(child)] for child in stmt.children())
    return found
