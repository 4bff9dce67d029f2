"""A digest of the compiler's own sources: what was compiled by other sources is not used again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["sources_digest"]

# Imported with the package itself: no module of it that can be imported was read before.
STARTED = time.time()
_SLACK = 0.05  # seconds by which a file's time may lag behind the clock
_PACKAGE = Path(__file__).parents[1]


def sources_digest() -> str | None:
    """The SHA-256 of the package's sources, in hexadecimal; None if any of them changed while this process runs.

    A file that is newer than the process may not be what the process has imported, so then nobody can say what runs.
    """
    latest, digest = _read(_PACKAGE), _digest(_PACKAGE)
    return None if latest > STARTED - _SLACK else digest


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The source files below `folder`, in an order of their own."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            yield from () if entry.name == "__pycache__" else _files(Path(entry.path))
        elif entry.name.endswith(".py"):
            yield entry


def _read(folder: Path) -> float:
    """When the latest change was made."""
    return max((entry.stat().st_mtime for entry in _files(folder)), default=0.0)


@cache
def _digest(folder: Path) -> str:
    import hashlib  # not with the package

    total, skip = hashlib.sha256(), len(str(folder))
    for entry in _files(folder):
        with open(entry.path, "rb") as file:
            data = file.read()
        total.update(f"{entry.path[skip:]}\n{len(data)}\n".encode())
        total.update(data)
    return total.hexdigest()
