"""What an executable is made of, however it came about: compiled in this process or read from a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import RunError
from legato.runtime.binding import Memory, address
from legato.runtime.program import Program

__all__ = [
    "ALIGNMENT",
    "ConstantInfo",
    "Constants",
    "Parts",
    "Segment",
    "constant_offsets",
    "join_constants",
    "new_segment",
]

ALIGNMENT: Final = 64  # of constants in their segment; the segment itself lies at least as well


@dataclass(frozen=True, slots=True)
class ConstantInfo:
    """A constant's place in the constant segment. The layout of its elements is known to the code alone."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A program, its code image (see `CodeImage`), and its constant segment: uint8, kept alive by `owner`."""

    program: Program
    image: np.ndarray
    code_size: int
    relocations: np.ndarray
    constants: tuple[ConstantInfo, ...]
    segment: np.ndarray
    owner: object

    @property
    def constants_address(self) -> int:
        """Where the constant segment begins."""
        return address(self.segment)


def constant_offsets(constants: Iterable[tuple[str, np.ndarray]]) -> dict[str, int]:
    """The offset of each named constant in the constant segment: in order, each aligned to 64 bytes."""
    offsets: dict[str, int] = {}
    end = 0
    for name, array in constants:
        offsets[name] = end
        end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """A finished constant segment: what lies where in it, its bytes, and what keeps them alive."""

    infos: tuple[ConstantInfo, ...]
    segment: np.ndarray
    owner: object

    @property
    def offsets(self) -> dict[str, int]:
        """Where each constant lies."""
        return {info.name: info.offset for info in self.infos}


class _Exposed:
    """Memory as NumPy takes it: arrays made of it keep it alive."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        place = (memory.address, False) if memory.size else (np.empty(1, np.uint8).ctypes.data, False)
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (memory.size,), "data": place}


def new_segment(size: int) -> tuple[np.ndarray, object]:
    """`size` zero bytes for constants, aligned as these are, and what keeps them alive; RunError: out of memory."""
    memory = Memory(size)
    return np.asarray(_Exposed(memory)), memory


class Segment:
    """A constant segment in the making: arrays that are made in it need not be copied into it.

    Memory for `capacity` bytes is reserved; the system gives it where it is written to. Arrays for which there is no
    room lie elsewhere.
    """

    __slots__ = ("_bytes", "_end", "_memory")

    def __init__(self, capacity: int) -> None:
        try:
            self._memory = Memory(capacity)
        except RunError:  # no address space for so much: the arrays themselves may still fit
            self._memory = Memory(0)
        self._bytes = np.asarray(_Exposed(self._memory))
        self._end = 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """An array to be filled; its bytes are undefined."""
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:  # strings: numbers take their place
            return np.empty(shape, dtype)
        if self._end + size > self._bytes.size:
            return np.empty(shape, dtype)
        found = self._bytes[self._end : self._end + size].view(dtype).reshape(shape)
        self._end += -(-size // ALIGNMENT) * ALIGNMENT
        return found

    def finished(self, constants: Sequence[tuple[str, np.ndarray]]) -> Constants:
        """The segment with these constants: those that were made in it where they are, the others behind them."""
        infos: list[ConstantInfo] = []
        for name, array in constants:
            offset = self._offset(array)
            if offset is None:
                flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                copy = self.empty(flat.shape, flat.dtype)
                copy[...] = flat
                offset = self._offset(copy)
            if offset is None:
                return join_constants(constants)
            infos.append(ConstantInfo(name, offset, array.nbytes))
        return Constants(tuple(infos), self._bytes[: self._end], self._memory)

    def _offset(self, array: np.ndarray) -> int | None:
        """Where `array` lies in the segment; None if it does not."""
        offset = address(array) - self._memory.address
        inside = offset >= 0 and offset + array.nbytes <= self._end and array.flags.c_contiguous
        return offset if inside and self._bytes.size and not offset % ALIGNMENT else None


def join_constants(constants: Sequence[tuple[str, np.ndarray]]) -> Constants:
    """The segment with the bytes of each array (in C order) at the offset that `constant_offsets` says."""
    offsets: Mapping[str, int] = constant_offsets(constants)
    infos = tuple(ConstantInfo(name, offsets[name], array.nbytes) for name, array in constants)
    size = max((-(-(info.offset + info.size) // ALIGNMENT) * ALIGNMENT for info in infos), default=0)
    segment, memory = new_segment(size)
    for info, (_, array) in zip(infos, constants, strict=True):
        flat = np.ascontiguousarray(array).reshape(-1)
        segment[info.offset : info.offset + info.size] = flat.view(np.uint8)
    return Constants(infos, segment, memory)
