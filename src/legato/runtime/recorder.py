"""Runs a program and records every launch of a kernel: when, on which threads, with which arguments.

Host functions reach kernels through a table of services only, so a workspace with another table sees all of them; see
`lg_workspace_profile` in native/legato_rt.h. Programs that are not recorded have nothing of it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import RunError
from legato.runtime.arrays import by_name
from legato.runtime.binding import address
from legato.runtime.executable import Executable
from legato.runtime.kernels import KernelInfo

__all__ = ["Launch", "Recorder", "Run", "Share"]

_LAUNCH: Final = 6  # words of lg_launch: kernel, start, end, first_share, shares, first_word
_SHARE: Final = 5  # words of lg_share: tid, nt, thread, start, end
_FIRST: Final = 256  # launches that there is room for at first
_MOST: Final = 1 << 24  # launches for which there is no more room
_Areas = tuple[np.ndarray, np.ndarray, np.ndarray]  # launches, shares, words
_PIECES: Final = 32  # shares that a thread takes of a launch, at most (LG_CELLS of the runtime)


@dataclass(frozen=True, slots=True)
class Share:
    """What one thread did of a launch at a time: share `tid` of `nt`; times in nanoseconds."""

    tid: int
    nt: int
    thread: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: kernel number `kernel` of the program, or operator -1 - kernel run by its reference.

    start, end: nanoseconds, on the thread that launches; words: the arguments.
    """

    kernel: int
    start: int
    end: int
    shares: tuple[Share, ...]
    words: tuple[int, ...]

    @property
    def nanoseconds(self) -> int:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a program; start and end in nanoseconds, as those of the launches."""

    start: int
    end: int
    launches: tuple[Launch, ...]


class Recorder:
    """An executable whose calls are recorded. For one caller at a time."""

    def __init__(self, exe: Executable) -> None:
        self.kernels: tuple[KernelInfo, ...] = exe.kernels
        self._order = np.argsort([k.offset for k in self.kernels], kind="stable")
        table = [(exe.code_address + self.kernels[n].offset, len(self.kernels[n].params)) for n in self._order]
        self._table = np.array(table, np.int64).reshape(-1, 2)
        self._record = _Record(self._table)
        self._make_room(_FIRST, exe.threads)
        self._threads = exe.threads
        self._exe = exe.recorded(ctypes.addressof(self._record.header))

    def run(self, inputs: Mapping[str, object]) -> Run:
        """Runs the program once; RunError as `Executable.run` has it, or if the program does not list its kernels."""
        return self.runs(inputs, 0.0, 1, 1)[0]

    def runs(self, inputs: Mapping[str, object], seconds: float, least: int, most: int) -> list[Run]:
        """Runs the program for so many seconds, at least `least` and at most `most` times, one run right behind the
        other: what was recorded is read after all of them, since that takes the program's place in the caches."""
        values = by_name("input", self._exe.arguments, inputs, complete=True)
        records: list[tuple[int, int, _Areas]] = []
        end = time.monotonic() + seconds
        while len(records) < least or (time.monotonic() < end and len(records) < most):
            records.append(self._record_one(values))
        return [Run(begun, done, self._launches(*areas)) for begun, done, areas in records]

    def _record_one(self, inputs: Sequence[object]) -> tuple[int, int, _Areas]:
        """One call: when it began and ended, and what was recorded."""
        while True:
            self._record.clear()
            start = time.monotonic_ns()
            self._exe(*inputs)
            end = time.monotonic_ns()
            if self._record.header.unknown:
                raise RunError("the program does not list its kernels\n  hint: compile the model again")
            if not self._record.header.lost:
                return start, end, self._record.filled()
            if self._record.room > _MOST:
                raise RunError("the run launches more kernels than can be recorded\n  hint: profile smaller inputs")
            self._make_room(4 * self._record.room, self._threads)

    def _make_room(self, launches: int, threads: int) -> None:
        words = max((len(k.params) for k in self.kernels), default=0)
        shares = (launches + _FIRST * _PIECES) * threads  # few kernels run in pieces where there are many launches
        self._record.make_room(launches, shares, launches * max(words, 1))

    def _launches(self, launches: np.ndarray, shares: np.ndarray, words: np.ndarray) -> tuple[Launch, ...]:
        every = [Share(*share) for share in shares.tolist()]
        found = []
        for kernel, start, end, first_share, count, first_word in launches.tolist():
            number = int(self._order[kernel]) if kernel >= 0 else kernel
            size = len(self.kernels[number].params) if kernel >= 0 else 0
            mine = tuple(every[first_share : first_share + count])
            found.append(Launch(number, start, end, mine, tuple(words[first_word : first_word + size].tolist())))
        return tuple(found)


class _Header(ctypes.Structure):
    """lg_profile."""

    _fields_ = [(name, ctypes.c_int64) for name in (
        "kernel_count", "kernels", "launch_room", "launch_count", "launches",
        "share_room", "share_count", "shares", "word_room", "word_count", "words", "lost", "unknown",
    )]  # fmt: skip
    lost: int
    unknown: int
    launch_count: int
    share_count: int
    word_count: int


class _Record:
    """Where native code writes."""

    def __init__(self, table: np.ndarray) -> None:
        self.header = _Header(kernel_count=len(table), kernels=address(table))
        self.room = 0

    def make_room(self, launches: int, shares: int, words: int) -> None:
        """New areas for so many of each."""
        self.room = launches
        sizes = (launches * _LAUNCH, shares * _SHARE, words)
        self._areas = tuple(np.zeros(n, np.int64) for n in sizes)
        h = self.header
        h.launch_room, h.share_room, h.word_room = launches, shares, words
        h.launches, h.shares, h.words = map(address, self._areas)

    def clear(self) -> None:
        """Forgets what is recorded."""
        h = self.header
        h.launch_count = h.share_count = h.word_count = h.lost = h.unknown = 0

    def filled(self) -> _Areas:
        """A copy of what was recorded."""
        h = self.header
        launches, shares, words = self._areas
        return (
            launches.reshape(-1, _LAUNCH)[: h.launch_count].copy(),
            shares.reshape(-1, _SHARE)[: h.share_count].copy(),
            words[: h.word_count].copy(),
        )
