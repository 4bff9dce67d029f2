"""Attempts at what a stranger's file can reach, in processes of their own: with an end to memory and to time.

A child tries numbers one after another and says what came of each; where it ends or has to be ended, the number that it
was at is what is wrong, and another child goes on behind it. Time is the processor's, so that a busy machine changes
nothing; who sleeps for long is ended, too: there is nothing to wait for.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from legato.base.errors import InternalError, LegatoError

__all__ = ["ACCEPTED", "BYTES", "REFUSED", "SECONDS", "Attempt", "Limits", "Tried", "tried"]

Attempt = Callable[[int, Path], bool]  # a number and an empty folder; True where what was made was accepted

ACCEPTED, REFUSED = "accepted", "refused"
SECONDS = 10.0  # of the processor, for one attempt
BYTES = 2 << 30  # of addresses, beyond those that the parent has
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Limits:
    """What an attempt may use: seconds of the processor, seconds of waiting, bytes."""

    seconds: float = SECONDS
    waiting: float = 120.0
    bytes: int = BYTES


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a number, and what it took: `verdict` is ACCEPTED, REFUSED, or says what is wrong."""

    number: int
    verdict: str
    seconds: float
    bytes: int

    @property
    def is_right(self) -> bool:
        return self.verdict in (ACCEPTED, REFUSED)


def tried(
    attempt: Attempt,
    numbers: Sequence[int],
    folder: Path,
    *,
    jobs: int = 1,
    limits: Limits = Limits(),
    batch: int = 100,
) -> Iterator[Tried]:
    """What comes of each number, as it comes. What was made for one that is wrong stays in `folder`, by its number."""
    waiting = deque(list(numbers[n : n + batch]) for n in range(0, len(numbers), batch))
    running: list[_Child] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_started(attempt, waiting.popleft(), folder, limits))
        select.select([child.pipe for child in running], [], [], 0.2)
        for child in list(running):
            yield from child.heard()
            if child.is_over:
                running.remove(child)
                if child.left:
                    waiting.appendleft(child.left)


@dataclass
class _Child:
    """A process and the numbers that it has not yet said anything about."""

    process: int
    pipe: int
    left: list[int]
    limits: Limits
    is_over: bool = False
    _rest: bytes = b""
    _spent: float = 0.0  # of the processor, when the number that it is at began
    _seen: float = 0.0  # of the processor, when it was last looked at
    _asleep: float = field(default_factory=time.monotonic)  # since when it has done nothing

    def heard(self) -> Iterator[Tried]:
        """What it has said, and how it ended."""
        said = self._read()
        *lines, self._rest = (self._rest + said).split(b"\n")
        for line in lines:
            done = Tried(*json.loads(line))
            self.left.remove(done.number)
            self._spent, _ = _processor(self.process)
            yield done
        if self.is_over:
            yield from self._ended()
        elif self.left:
            yield from self._overdue()

    def _read(self) -> bytes:
        ready, _, _ = select.select([self.pipe], [], [], 0)
        found = os.read(self.pipe, 1 << 16) if ready else b""
        self.is_over = bool(ready) and not found
        return found

    def _ended(self) -> Iterator[Tried]:
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        code = os.waitstatus_to_exitcode(status)
        if self.left:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            yield Tried(self.left.pop(0), f"the process ended: {how}", 0.0, 0)

    def _overdue(self) -> Iterator[Tried]:
        spent, is_ready = _processor(self.process)
        if is_ready or spent != self._seen:
            self._seen, self._asleep = spent, time.monotonic()
        is_asleep = time.monotonic() - self._asleep > self.limits.waiting
        if spent - self._spent <= self.limits.seconds and not is_asleep:
            return
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.pipe)
        self.is_over = True
        verdict = "it waits for something" if is_asleep else "it takes too long"
        yield Tried(self.left.pop(0), verdict, spent - self._spent, 0)


def _processor(process: int) -> tuple[float, bool]:
    """The seconds that a process and those that it has waited for have used; whether it is using them, or would."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS, fields[0] == "R"
    return 0.0, False


def _started(attempt: Attempt, numbers: list[int], folder: Path, limits: Limits) -> _Child:
    mine, theirs = os.pipe()
    process = os.fork()
    if process:
        os.close(theirs)
        return _Child(process, mine, numbers, limits)
    code = 1
    try:
        os.close(mine)
        most = _pages("size") + limits.bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in numbers:
            os.write(theirs, json.dumps(_try(attempt, number, folder)).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def _pages(what: str) -> int:
    return int(Path("/proc/self/statm").read_text().split()[0 if what == "size" else 1]) * resource.getpagesize()


def _try(attempt: Attempt, number: int, folder: Path) -> tuple[int, str, float, int]:
    own = folder / str(number)
    own.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the most memory so far is forgotten
    start = sum(os.times()[:4])
    try:
        verdict = ACCEPTED if attempt(number, own) else REFUSED
    except InternalError:
        verdict = traceback.format_exc()
    except LegatoError:
        verdict = REFUSED
    except BaseException:
        verdict = traceback.format_exc()
    if verdict in (ACCEPTED, REFUSED):
        shutil.rmtree(own)
    return number, verdict, sum(os.times()[:4]) - start, _peak()


def _peak() -> int:
    """The most resident bytes since that was last forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)
