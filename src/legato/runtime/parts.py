"""What an executable is made of, however it came about: compiled in this process or read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from legato.runtime.binding import Memory, address
from legato.runtime.program import Program

__all__ = ["ALIGNMENT", "ConstantInfo", "Parts", "constant_offsets", "join_constants"]

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


def join_constants(constants: Sequence[tuple[str, np.ndarray]]) -> tuple[tuple[ConstantInfo, ...], Memory]:
    """The constant segment: the bytes of each array (in C order) at the offset that `constant_offsets` says."""
    offsets: Mapping[str, int] = constant_offsets(constants)
    infos = tuple(ConstantInfo(name, offsets[name], array.nbytes) for name, array in constants)
    memory = Memory(max((-(-(info.offset + info.size) // ALIGNMENT) * ALIGNMENT for info in infos), default=0))
    segment = memory.array()
    for info, (_, array) in zip(infos, constants, strict=True):
        flat = np.ascontiguousarray(array).reshape(-1)
        segment[info.offset : info.offset + info.size] = flat.view(np.uint8)
    return infos, memory
