"""Objects for many kernels: each looked up in the cache, the rest compiled by workers and by this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, PriorityQueue
from typing import Self

from legato.base.config import config
from legato.base.errors import InternalError
from legato.base.target import Target
from legato.codegen.cache import KernelCache
from legato.codegen.wire import read_fields, write_fields
from legato.runtime.binding import cpu_count

__all__ = ["build_objects"]

PACKAGE_ROOT = Path(__file__).parents[2]
FEW = 4  # so many modules compile faster here than a worker starts

Jobs = PriorityQueue[tuple[int, int]]  # (- length of the text, number), the longest first
_END = (1, -1)  # behind all others


def build_objects(
    modules: Iterable[str],
    expected: int,
    target: Target,
    *,
    cache: KernelCache,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[bytes], int]:
    """The ELF object of each LLVM module in `modules`, and how many of them had to be compiled.

    The workers compile while modules, about `expected` of them, are still being made.
    """
    keys: list[bytes] = []
    found: dict[int, bytes] = {}
    with _Workers(
        target, 0 if expected <= FEW else min((config().jobs or cpu_count()) - 1, expected // FEW)
    ) as workers:
        for n, text in enumerate(modules):
            keys.append(_key(text, target))
            hit = cache.get(keys[n])
            if hit is None:
                workers.add(n, text)
            else:
                found[n] = hit
        made = workers.finish()
    for done, (n, data) in enumerate(made.items(), 1):
        found[n] = data
        cache.put(keys[n], data)
        if progress is not None:
            progress(done, len(made))
    if made:
        cache.prune()
    return [found[n] for n in range(len(keys))], len(made)


def _key(text: str, target: Target) -> bytes:
    from legato.codegen.compile import llvm_version  # LLVM is loaded where there is something to compile

    return f"llvm {llvm_version()}\n{target.cpu} {','.join(target.features)}\n{text}".encode()


class _Workers:
    """`count` processes that compile what is added, and in the end this one with them: the longest of what there is
    first, so that they end together."""

    def __init__(self, target: Target, count: int) -> None:
        self._target = target
        self._jobs: Jobs = PriorityQueue()
        self._modules: dict[int, str] = {}
        self._results: dict[int, bytes] = {}
        self._pool = ThreadPoolExecutor(max(1, count))
        self._serving = [
            self._pool.submit(_serve, self._jobs, self._modules, target, self._results) for _ in range(count)
        ]

    def add(self, number: int, text: str) -> None:
        """One more module."""
        self._modules[number] = text
        self._jobs.put((-len(text), number))

    def finish(self) -> dict[int, bytes]:
        """The objects of all modules, by their numbers."""
        self._jobs.put(_END)
        while (n := _next(self._jobs)) is not None:
            from legato.codegen.compile import compile_object  # LLVM is loaded where there is something to compile

            self._results[n] = compile_object(self._modules[n], self._target)
        for served in self._serving:
            served.result()
        return self._results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends the workers, whatever they have not begun."""
        with suppress(Empty):
            while True:
                self._jobs.get_nowait()
        self._jobs.put(_END)
        self._pool.shutdown()


def _next(jobs: Jobs) -> int | None:
    """The next job, as soon as there is one; None behind the last."""
    job = jobs.get()
    if job == _END:
        jobs.put(_END)  # for the others
        return None
    return job[1]


def _serve(jobs: Jobs, modules: Mapping[int, str], target: Target, results: dict[int, bytes]) -> None:
    """Feeds one worker process from the queue until that is empty. What a worker cannot do is an error of ours."""
    # The worker imports this very package, however this process found it.
    start = f"import sys; sys.path.insert(0, {str(PACKAGE_ROOT)!r}); from legato.worker import main; main()"
    command = [sys.executable, "-c", start]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        while (n := _next(jobs)) is not None:
            write_fields(worker.stdin, b"%d" % n, target.name.encode(), modules[n].encode())
            answer = read_fields(worker.stdout, 3)
            if answer is None or answer[1] != b"ok":
                reason = "ended early" if answer is None else answer[2].decode(errors="replace")
                raise InternalError(f"a compile worker failed: {reason}")
            results[n] = answer[2]
        worker.stdin.close()
