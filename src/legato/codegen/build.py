"""Objects for many kernels: each looked up in the cache, the rest compiled by workers and by this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue

from legato.base.config import config
from legato.base.errors import InternalError
from legato.base.target import Target
from legato.codegen.cache import KernelCache
from legato.codegen.wire import read_fields, write_fields
from legato.runtime.binding import cpu_count

__all__ = ["build_objects"]

PACKAGE_ROOT = Path(__file__).parents[2]
FEW = 4  # so many modules compile faster here than a worker starts


def build_objects(
    modules: Sequence[str], target: Target, *, cache: KernelCache, progress: Callable[[int, int], None] | None = None
) -> tuple[list[bytes], int]:
    """The ELF object of each LLVM module in `modules`, and how many of them had to be compiled."""
    keys = [_key(text, target) for text in modules]
    found: dict[int, bytes] = {}
    for n, key in enumerate(keys):
        hit = cache.get(key)
        if hit is not None:
            found[n] = hit
    missing = [n for n in range(len(modules)) if n not in found]
    for done, (n, data) in enumerate(_compiled({n: modules[n] for n in missing}, target).items(), 1):
        found[n] = data
        cache.put(keys[n], data)
        if progress is not None:
            progress(done, len(missing))
    if missing:
        cache.prune()
    return [found[n] for n in range(len(modules))], len(missing)


def _key(text: str, target: Target) -> bytes:
    from legato.codegen.compile import llvm_version  # LLVM is loaded where there is something to compile

    return f"llvm {llvm_version()}\n{target.cpu} {','.join(target.features)}\n{text}".encode()


def _compiled(modules: Mapping[int, str], target: Target) -> dict[int, bytes]:
    """Every module compiled; the longest first, so that the processes end together."""
    if not modules:
        return {}
    from legato.codegen.compile import compile_object  # LLVM is loaded where there is something to compile

    jobs: SimpleQueue[int] = SimpleQueue()
    for n in sorted(modules, key=lambda n: -len(modules[n])):
        jobs.put(n)
    results: dict[int, bytes] = {}
    helpers = 0 if len(modules) <= FEW else min((config().jobs or cpu_count()) - 1, len(modules) // FEW)
    with ThreadPoolExecutor(max(1, helpers)) as pool:
        waiting = [pool.submit(_serve, jobs, modules, target, results) for _ in range(helpers)]
        while (job := _next(jobs)) is not None:
            results[job] = compile_object(modules[job], target)
        for w in waiting:
            w.result()
    return results


def _next(jobs: SimpleQueue[int]) -> int | None:
    try:
        return jobs.get_nowait()
    except Empty:
        return None


def _serve(jobs: SimpleQueue[int], modules: Mapping[int, str], target: Target, results: dict[int, bytes]) -> None:
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
