"""Nodes of the JSON of Apache TVM that may have the same parts, each read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from legato.ir._json_checks import Bad
from legato.ir.json_format import MAX_NESTING, MAX_TOTAL, MAX_TYPE

__all__ = ["Shared"]

T = TypeVar("T")
_MAX_AGAIN: Final = 1 << 18  # readings of nodes that were read before


class _Read(NamedTuple):
    """What a node means, in how many parts, each counted as often as it occurs, and how deeply they nest."""

    value: Any
    size: int
    depth: int


class Shared:
    """What nodes mean by number. `what` they are, in the plural.

    `Bad` for what is too large once it is written out, or nests too deeply: nothing behind a reader shares parts.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.opened = 0  # parts so far that mean something else each time they are read
        self._known: dict[int, _Read] = {}
        self._seen: set[int] = set()
        self._again = self._level = 0
        self._size = self._depth = 0  # of the parts of what is being read, so far

    def read(self, index: int, make: Callable[[], T]) -> T:
        """What a node means: `make` says it, which comes back here for its parts."""
        found = self._known.get(index) or self._made(index, make)
        self._size += found.size  # between readings of the outermost nodes: all of them
        self._require(self._level > 0 or self._size <= MAX_TOTAL, f"have more than {MAX_TOTAL} parts in all")
        self._depth = max(self._depth, found.depth)
        value: T = found.value
        return value

    def _made(self, index: int, make: Callable[[], Any]) -> _Read:
        self._again += index in self._seen
        if self._again > _MAX_AGAIN:
            raise Bad(f"{self.what} with dims that are not known have more than {_MAX_AGAIN} parts in common")
        self._seen.add(index)
        outer, opened = (self._size, self._depth), self.opened
        self._size = self._depth = 0
        self._level += 1
        self._require(self._level <= MAX_NESTING, f"are nested more than {MAX_NESTING} deep")
        found = _Read(make(), 1 + self._size, 1 + self._depth)
        self._require(found.depth <= MAX_NESTING, f"are nested more than {MAX_NESTING} deep")
        self._require(found.size <= MAX_TYPE, f"have more than {MAX_TYPE} parts")
        self._level -= 1
        self._size, self._depth = outer
        if opened == self.opened:
            self._known[index] = found
        return found

    def _require(self, is_right: bool, wrong: str) -> None:
        if not is_right:
            raise Bad(f"{self.what} {wrong}")
