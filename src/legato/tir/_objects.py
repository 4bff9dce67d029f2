"""Objects of `tir.interp`: what handles refer to, with their counts."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import InternalError

__all__ = ["Objects"]

_UNDEFINED = 0xFF  # in every byte of a fresh or ended payload: NaN as a float, and no handle
_MOST_TAGS = 1 << 16


@dataclass(slots=True)
class _Object:
    """An object: references left, its tag, how many words of its payload are handles, and the payload's bytes."""

    count: int
    tag: int
    pointers: int
    payload: np.ndarray[tuple[int], np.dtype[np.uint8]]


class Objects:
    """A table from handles to live objects. Handles are never used twice, so that a stale one is noticed.

    Every misuse is an InternalError: a handle that refers to nothing, or to an object that has ended.
    """

    def __init__(self) -> None:
        self._table: dict[int, _Object] = {}
        self._handles = itertools.count(16, 16)

    @property
    def live(self) -> int:
        """How many objects there are."""
        return len(self._table)

    def new(self, size: int, tag: int, pointers: int) -> int:
        """The handle of a new object with one reference and a payload of `size` undefined bytes."""
        if size < 8 * pointers:
            raise InternalError(f"an object of {size} bytes has no room for {pointers} pointers")
        handle = next(self._handles)
        self._table[handle] = _Object(1, tag, pointers, np.full(size, _UNDEFINED, np.uint8))
        return handle

    def payload(self, handle: int, dtype: DType, elements: int) -> np.ndarray:
        """The first `elements` of the payload, as an array of `dtype` over its memory."""
        raw = self._at(handle, "open").payload
        size = elements * dtype.bytes
        if size > raw.size:
            raise InternalError(f"open of {size} bytes of an object of {raw.size} bytes")
        return raw[:size].view(dtype.stored)

    def size(self, handle: int) -> int:
        """The bytes of the payload."""
        return int(self._at(handle, "size").payload.size)

    def pointers(self, handle: int) -> tuple[int, ...]:
        """The handles in the payload."""
        found = self._at(handle, "pointers")
        return tuple(int(word) for word in found.payload[: 8 * found.pointers].view(np.int64))

    def tag(self, handle: int) -> int:
        """The tag of an object, or of a handle that is one."""
        if handle & 1 and 0 < handle < 2 * _MOST_TAGS:
            return handle >> 1
        return self._at(handle, "tag").tag

    def retain(self, handle: int) -> None:
        """One more reference; nothing, where there is no object."""
        if not _is_plain(handle):
            self._at(handle, "retain").count += 1

    def release(self, handle: int) -> None:
        """One reference less; with the last one the object ends, and those that only it refers to."""
        stack = [handle]
        while stack:
            one = stack.pop()
            if _is_plain(one):
                continue
            found = self._at(one, "release")
            found.count -= 1
            if not found.count:
                stack += reversed(self.pointers(one))
                found.payload[:] = _UNDEFINED
                del self._table[one]

    def resize(self, handle: int, size: int) -> int:
        """The handle of a new object of `size` bytes that begins with what an object holds, which is released."""
        old = self._at(handle, "resize")
        if old.pointers:
            raise InternalError(f"resize of an object with {old.pointers} pointers")
        new = self.new(size, old.tag, 0)
        both = min(size, old.payload.size)
        self._table[new].payload[:both] = old.payload[:both]
        self.release(handle)
        return new

    def only_circles(self) -> bool:
        """True if nothing but other objects refers to those there are: no release of theirs was forgotten."""
        held = Counter(kid for handle in self._table for kid in self.pointers(handle))
        return all(found.count == held[handle] for handle, found in self._table.items())

    def clear(self) -> None:
        """Ends all objects, as the end of a call does."""
        self._table.clear()

    def _at(self, handle: int, what: str) -> _Object:
        found = self._table.get(handle)
        if found is None:
            raise InternalError(f"{what} of {handle}, which is no object, or none any more")
        return found


def _is_plain(handle: int) -> bool:
    """Whether there is no object behind a handle, nor should be: nothing, or a tag alone."""
    return handle == 0 or bool(handle & 1 and 0 < handle < 2 * _MOST_TAGS)
