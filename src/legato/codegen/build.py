"""Objects for many kernels: each looked up in the cache, the rest compiled by workers and by this process."""

from __future__ import annotations

from collections.abc import Iterable

from legato.base.config import config
from legato.base.forks import forkable_lock
from legato.base.sources import sources_digest
from legato.base.target import Target
from legato.codegen.cache import KernelCache
from legato.codegen.level import toolchain
from legato.codegen.workers import Progress, Workers

__all__ = ["build_objects", "identity"]

FEW = 4  # so many modules compile faster here than a worker starts
_importing = forkable_lock()  # what another thread imports half is half imported in a forked process


def build_objects(
    modules: Iterable[str],
    expected: int,
    target: Target,
    *,
    cache: KernelCache,
    progress: Progress | None = None,
) -> tuple[list[bytes], int]:
    """The ELF object of each LLVM module in `modules`, and how many of them had to be compiled.

    The workers compile while modules, about `expected` of them, are still being made. progress: told how many of those
    that have to be compiled are, while this process waits for the last.
    """
    code = (
        identity(target) if cache.limit or expected > FEW else None
    )  # else nobody asks: it reads the package's folder
    keys: list[bytes] = []
    found: dict[int, bytes] = {}
    few = expected <= FEW or code is None
    count = 0 if few else min((config().jobs or _processors()) - 1, expected // FEW)
    with Workers(target, count, code or "", lambda text: _compiled(text, target)) as workers:
        for n, text in enumerate(modules):
            keys.append(f"{code}\n{text}".encode())
            hit = None if code is None else cache.get(keys[n])
            if hit is None:
                workers.add(n, text)
            else:
                found[n] = hit
        made = workers.finish(progress)
    lasts = cache.limit > 0 and code is not None and code == identity(target)
    for n, data in made.items():
        found[n] = data
        if lasts:
            cache.put(keys[n], data)
    return [found[n] for n in range(len(keys))], len(made)


def identity(target: Target) -> str | None:
    """What tells the code that makes objects for `target` from other code: the sources of code generation, LLVM, and
    the target; None where that is not known."""
    sources, library = sources_digest("codegen"), toolchain()
    return None if sources is None or library is None else f"{sources}\n{library}\n{target}"


def _processors() -> int:
    from legato.runtime.binding import cpu_count  # NumPy comes with it, which a worker does without

    return cpu_count()


def _compiled(text: str, target: Target) -> bytes:
    with _importing:
        from legato.codegen.compile import compile_object  # LLVM is loaded where there is something to compile

    return compile_object(text, target)
