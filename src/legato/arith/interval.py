"""Closed integer intervals, open-ended where a bound is unknown."""

from __future__ import annotations

from legato.base.dataclass import dataclass

__all__ = ["BOOL", "Interval", "point"]


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `lo` to `hi`, both included; None means no bound is known on that side."""

    lo: int | None = None
    hi: int | None = None

    @property
    def is_point(self) -> bool:
        """True if exactly one value is possible."""
        return self.lo is not None and self.lo == self.hi

    @property
    def is_empty(self) -> bool:
        """True if no value is possible: the variable of a loop that never runs."""
        return self.lo is not None and self.hi is not None and self.lo > self.hi

    def __contains__(self, value: int) -> bool:
        return (self.lo is None or self.lo <= value) and (self.hi is None or value <= self.hi)

    def intersect(self, other: Interval) -> Interval:
        """The values in both."""
        los = [x for x in (self.lo, other.lo) if x is not None]
        his = [x for x in (self.hi, other.hi) if x is not None]
        return Interval(max(los) if los else None, min(his) if his else None)

    def union(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Interval(lo, hi)

    def __str__(self) -> str:
        return f"[{'-∞' if self.lo is None else self.lo}, {'∞' if self.hi is None else self.hi}]"


BOOL = Interval(0, 1)


def point(value: int) -> Interval:
    """The interval of one value."""
    return Interval(value, value)
