"""Where the workers of a cluster get a program from: a file that each node has, or the cluster's own memory.

Either way a node has its weights once: workers map the file's pages, or the block of shared memory that Ray keeps the
program in, and read them there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from legato.base.errors import MissingError, RunError
from legato.base.kinds import integer, require
from legato.runtime import artifact
from legato.runtime.executable import Executable

__all__ = ["Source", "require_ray", "require_threads", "threads_of"]

Source = str | os.PathLike[str] | Executable


def require_ray(*modules: str) -> None:
    """MissingError where Ray, or one of these parts of what it needs, is not installed."""
    missing = [name for name in ("ray", *modules) if find_spec(name) is None]
    if missing:
        what = f"legato.ray needs Ray, and {', '.join(missing)} is not installed"
        raise MissingError(f'{what}\n  hint: pip install "legato[ray]"', name=missing[0])


def require_threads(threads: object) -> None:
    """RunError unless it is a number of threads, or None."""
    is_right = threads is None or (integer(threads) or 0) >= 1
    require(is_right, threads, "threads", "a positive number, or None", RunError)


class Program:
    """A program on its way to workers."""

    def __init__(self, source: Source) -> None:
        """A path is not looked at: it is one of the nodes'. An executable is put into the cluster's memory."""
        self.path = None if isinstance(source, Executable) else Path(os.path.abspath(source))
        self._block: Any = None
        self._options: dict[str, Any] = {}
        if isinstance(source, Executable):
            import ray

            data, self._options = source.pickled()
            self._block = ray.put(np.frombuffer(data, np.uint8))

    def load(self, threads: int) -> Executable:
        """The executable, in a worker."""
        import legato

        if self.path is not None:
            return legato.load(self.path, threads=threads, mapped=True)
        import ray

        parts = artifact.from_bytes(ray.get(self._block).data, mapped=True)
        return Executable(parts, **{**self._options, "threads": threads})


def threads_of(resources: Mapping[str, float], asked: int | None) -> int:
    """The threads of a worker that the scheduler has given these resources: one for each CPU, at least one. RunError
    where more are asked for: those would be other workers'."""
    own = max(1, int(resources.get("CPU", 0)))
    if asked is not None and asked > own:
        raise RunError(f"threads: got {asked}, and Ray has given this worker {own}\n  hint: num_cpus={asked}")
    return own if asked is None else asked
