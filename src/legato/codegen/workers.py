"""Compile workers: processes that compile what waits in a queue, beside this one.

They are a help, never a need. A worker that cannot be started, runs other code than this process, dies or says nothing
leaves its work to this process, and is not replaced. Only an interpreter of Python is started as a worker: a frozen
program, or one that embeds Python, would start itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from threading import Condition, Thread
from typing import Final, Self

from legato.base.forks import forkable_lock
from legato.base.target import Target
from legato.codegen.wire import read_fields, write_fields

__all__ = ["Progress", "Workers", "interpreter", "search_path"]

Compile = Callable[[str], bytes]
Progress = Callable[[int, int], None]
Process = subprocess.Popen[bytes]
PATIENCE: Final = 60.0  # seconds: what a worker has not compiled by then is compiled here, too
_PACKAGE_ROOT: Final = str(Path(__file__).parents[2])
_PYTHON: Final = re.compile(r"python[\d.]*[a-z]?(-dbg)?")
_START: Final = "import sys; sys.path[:] = {path!r}; from legato.worker import main; main({target!r})"
_starting = forkable_lock()  # a process forked in between would keep the other ends of a worker's pipes


def interpreter() -> str | None:
    """The program that runs Python code as this process does; None where this process is no interpreter."""
    if getattr(sys, "frozen", False) or not sys.executable or not _PYTHON.fullmatch(Path(sys.executable).name):
        return None
    return sys.executable


def search_path() -> list[str]:
    """Where a worker finds modules: where this process does, but for the current folder; this package in any case."""
    here = os.path.realpath(".")
    found = [os.path.abspath(entry) for entry in filter(None, sys.path) if os.path.realpath(entry) != here]
    return found if _PACKAGE_ROOT in found else [*found, _PACKAGE_ROOT]


class Workers:
    """`count` processes that compile modules for `target` as they are added, and in the end this one with them by
    `compile_here`: the longest of what there is first, so that they end together.

    `identity` is what a worker says when it runs the same code as this process.
    """

    def __init__(self, target: Target, count: int, identity: str, compile_here: Compile) -> None:
        self._target, self._identity, self._compile = target, identity, compile_here
        self._changed = Condition()  # guards all that follows
        self._texts: dict[int, str] = {}
        self._waiting: list[tuple[int, int]] = []  # a heap of (- length of the text, number)
        self._served: set[int] = set()  # numbers of what workers are at
        self._results: dict[int, bytes] = {}
        self._is_complete = self._is_closed = False
        self._processes: list[Process] = []
        program = interpreter()
        self._threads: list[Thread] = []
        for _ in range(0 if program is None else count):
            thread = Thread(target=self._serve, args=(program,), daemon=True, name="legato compile worker")
            try:
                thread.start()
            except RuntimeError:  # there may be no more threads
                break
            self._threads.append(thread)

    def add(self, number: int, text: str) -> None:
        """One more module."""
        with self._changed:
            self._texts[number] = text
            heappush(self._waiting, (-len(text), number))
            self._changed.notify()

    def finish(self, progress: Progress | None = None) -> dict[int, bytes]:
        """The objects of all modules, by their numbers. progress: told how many of how many there are."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()
        while (n := self._next_here()) is not None:
            self._finished(n, self._compile(self._texts[n]))
            if progress is not None:
                progress(len(self._results), len(self._texts))
        return self._results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends the workers, whatever they are at."""
        with self._changed:
            self._is_closed = True
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(1.0)  # it ends with its process, unless somebody else holds the ends of the pipes

    def _next_here(self) -> int | None:
        """What this process compiles next: what waits; then, out of patience, what a worker has; None when all is
        done."""
        with self._changed:
            while not self._waiting and self._served:
                if not self._changed.wait(PATIENCE):
                    return min(self._served)
            return heappop(self._waiting)[1] if self._waiting else None

    def _finished(self, number: int, data: bytes) -> None:
        with self._changed:
            self._results[number] = data
            self._served.discard(number)
            self._changed.notify_all()

    def _serve(self, program: str) -> None:
        """One worker, from its start to its end."""
        process = self._started(program)
        if process is None:
            return
        number = None
        try:
            while (number := self._next_served()) is not None:
                data = _asked(process, self._texts[number])
                if data is None:
                    break
                self._finished(number, data)
        finally:
            process.kill()
            process.communicate()
            with self._changed:
                if number in self._served:  # it is not done: back to the others
                    self._served.discard(number)
                    heappush(self._waiting, (-len(self._texts[number]), number))
                    self._changed.notify_all()

    def _started(self, program: str) -> Process | None:
        """A worker that is ready; None where there is none, or where it runs other code."""
        # Isolated: no variable, site or current folder has a say in what it imports.
        command = [program, "-I", "-S", "-c", _START.format(path=search_path(), target=self._target.name)]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        try:
            with _starting:  # a group of its own: Ctrl-C is for this process
                process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, process_group=0)
        except OSError:
            return None
        with self._changed:
            self._processes.append(process)
            if self._is_closed:
                process.kill()
        assert process.stdout is not None
        said = read_fields(process.stdout, 1)
        if said == [self._identity.encode()]:
            return process
        process.kill()
        process.communicate()
        return None

    def _next_served(self) -> int | None:
        """What a worker compiles next, as soon as there is something; None when nothing more will come."""
        with self._changed:
            while not self._waiting:
                if self._is_complete or self._is_closed:
                    return None
                self._changed.wait()
            if self._is_closed:
                return None
            number = heappop(self._waiting)[1]
            self._served.add(number)
            return number


def _asked(process: Process, text: str) -> bytes | None:
    """The object that a worker makes of a module; None if it does not."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        write_fields(process.stdin, text.encode())
        answer = read_fields(process.stdout, 2)
    except OSError:
        return None
    return answer[1] if answer is not None and answer[0] == b"ok" else None
