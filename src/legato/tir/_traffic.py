"""What a kernel reads again because a cache does not hold it until it is used the next time.

An access runs again with the same index in every iteration of a loop that its index does not mention. Between two such
iterations lies what one of them touches: where that is more than a cache holds, the operand comes from beyond it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from legato.arith.expr import Expr, Var
from legato.base.dataclass import dataclass
from legato.tir._count import Count, plus, quotient, size_of, times
from legato.tir._iterations import Frame, Frames
from legato.tir.buffer import Buffer

__all__ = ["Access", "Traffic"]


@dataclass(frozen=True, slots=True)
class Access:
    """A load from, or a store to, memory that other kernels share; `variables` are what its indices depend on."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    variables: frozenset[Var]
    at: Frame


class Traffic:
    """The accesses of a kernel."""

    def __init__(self, frames: Frames, accesses: Iterable[Access]) -> None:
        self.frames = frames
        self.accesses = [(a, _loops(a.at)) for a in accesses]
        self.distances: dict[Frame, int | None] = {}

    def again(self, capacity: int) -> Count:
        """Bytes that are read or written again although a cache of `capacity` bytes is there.

        Where a loop's extent is not a literal, what lies inside is taken to fit.
        """
        total: Count = 0
        for access, loops in self.accesses:
            times_again = self._repeats(access, loops, capacity)
            if times_again != 1:
                once = times(access.buffer.dtype.bytes, access.at.points(access.variables))
                total = plus(total, plus(times(once, times_again), times(-1, once)))
        return total

    def stepped(self, loops: Container[Frame], capacity: int) -> tuple[Count, int]:
        """Bytes that each iteration of `loops`, which cannot be done in another order, has to touch again beyond those
        that a cache of `capacity` bytes may still hold; and the most that one of these iterations touches, 0 if none
        does so. Distances that are not literals are taken to fit."""
        total: Count = 0
        most = 0
        for access, around in self.accesses:
            frame, var = next((f for f in around if f[0] in loops), (None, None))
            if frame is None or var is None or var in access.variables:
                continue
            distance = self._distance(frame)
            if distance is not None and distance > capacity:
                once = times(access.buffer.dtype.bytes, access.at.points(access.variables))
                lost = quotient(times(once, distance - capacity), distance)
                total = plus(total, times(lost, plus(self.frames.extents[var], -1)))
                most = max(most, distance)
        return total, most

    def _repeats(self, access: Access, loops: list[tuple[Frame, Var]], capacity: int) -> Count:
        """How often the elements that the access touches are fetched."""
        repeats: Count = 1
        for frame, var in loops:
            if var in access.variables:
                continue
            distance = self._distance(frame)
            if distance is not None and distance > capacity:
                repeats = times(repeats, self.frames.extents[var])
        return repeats

    def _distance(self, loop: Frame) -> int | None:
        """Bytes that one iteration of `loop` touches; None where that is not a literal."""
        if loop not in self.distances:
            self.distances[loop] = self._touched(loop)
        return self.distances[loop]

    def _touched(self, loop: Frame) -> int | None:
        found: dict[Buffer, dict[tuple[Expr, ...], int]] = {}
        for access, loops in self.accesses:
            inner: list[Var] = []
            for frame, var in loops:
                if frame is loop:
                    break
                inner.append(var)
            else:
                continue
            elements: Count = 1
            for var in access.variables.intersection(inner):
                elements = times(elements, self.frames.extents[var])
            if not isinstance(elements, int):
                return None
            found.setdefault(access.buffer, {})[access.indices] = elements
        total = 0
        for buffer, parts in found.items():
            size = size_of(buffer.shape)
            elements = sum(parts.values())
            total += buffer.dtype.bytes * (min(elements, size) if isinstance(size, int) else elements)
        return total


def _loops(at: Frame) -> list[tuple[Frame, Var]]:
    """The loops around a place and their variables, innermost first."""
    found = []
    frame = at.loop
    while frame.outer is not None:
        assert frame.var is not None
        found.append((frame, frame.var))
        frame = frame.outer.loop
    return found
