"""A digest of the compiler's own code: what was compiled by other code is not used again.

Code is the package's sources; where it is installed without them, its compiled modules; and where it is imported from
an archive, that. What cannot be read, or was put there while this process runs, has no digest: what the process has
imported may be something else then, and nobody can say what runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["is_as_it_was", "sources_digest"]

# Imported with the package itself: no module of it that can be imported was read before.
STARTED = time.time()
_SLACK = 0.05  # seconds by which a file's time may lag behind the clock
_PACKAGE = Path(__file__).parents[1]


def _identity(path: Path) -> tuple[int, int] | None:
    """Which folder is at `path`: None for none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


_FIRST = _identity(_PACKAGE)


def sources_digest(part: str = "") -> str | None:
    """The SHA-256 of the package's code, or of that in its folder `part`, in hexadecimal; None if any of it is not
    known to be what this process runs."""
    try:
        is_known = [is_as_it_was(path) for path in _files(_PACKAGE)]
        return _digest(_PACKAGE / part) if is_known and all(is_known) and _identity(_PACKAGE) == _FIRST else None
    except OSError:
        return None


def is_as_it_was(path: str | Path) -> bool:
    """Whether the file `path` was there, as it is, before this process started.

    A copy may carry the time of its original; when it came to its place is another time, which nobody can set.
    """
    status = os.stat(path)
    return max(status.st_mtime, status.st_ctime) <= STARTED - _SLACK


def _files(folder: Path) -> Iterator[str]:
    """The files of code at and below `folder`, in an order of their own: one archive, if that is where it lies."""
    if not folder.is_dir():
        yield str(next(path for path in (folder, *folder.parents) if path.is_file() or path == Path(path.anchor)))
        return
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    sources = {entry.name for entry in entries if entry.name.endswith(".py")}
    for entry in entries:
        if entry.is_dir():
            yield from () if entry.name == "__pycache__" else _files(Path(entry.path))
        elif entry.name in sources or (entry.name.endswith(".pyc") and entry.name[:-1] not in sources):
            yield entry.path


@cache
def _digest(folder: Path) -> str:
    import hashlib  # not with the package

    total, skip = hashlib.sha256(), len(str(folder))
    for path in _files(folder):
        with open(path, "rb") as file:
            data = file.read()
        total.update(f"{path[skip:]}\n{len(data)}\n".encode())
        total.update(data)
    return total.hexdigest()
