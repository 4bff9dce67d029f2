"""External data: tensors in files beside the model, reachable only inside the model's own folder.

The folder is opened once. A location is walked component by component from there, each opened without following links,
and the file that was opened (not its name) is checked: it must be regular and have one name only, so that no link,
symbolic or hard, makes a model read what lies elsewhere.
"""

from __future__ import annotations

import mmap
import os
import stat
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from legato.base.errors import ImportModelError

__all__ = ["Folder"]

Bytes = NDArray[np.uint8]


class Folder:
    """The folder of a model file; gives read-only bytes of the data files in it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self._files: dict[str, Bytes] = {}

    def open(self, name: str) -> int:
        """A descriptor of the file `name`, which the user named, so that it may be a link. OSError as os.open's."""
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._descriptor)

    def slice(self, entries: Mapping[str, str], size: int, what: str) -> Bytes:
        """`size` bytes of the file that `entries` (location, offset, length) name; mapped into memory, not read.

        ImportModelError, beginning with `what`, where the entries are malformed, the location leaves the folder, or the
        file is missing, linked or too short.
        """
        location = entries.get("location", "")
        offset = _number(entries, "offset", what)
        length = _number(entries, "length", what)
        if "length" in entries and length != size:
            raise ImportModelError(f"{what}: external data of {length} bytes, but its type and shape need {size}")
        content = self._file(location, what)
        if offset + size > len(content):
            message = f"{what}: bytes {offset} to {offset + size} of external data file {location!r}"
            raise ImportModelError(f"{message}, which has {len(content)}")
        return content[offset : offset + size]

    def _file(self, location: str, what: str) -> Bytes:
        if location not in self._files:
            descriptor = _open_inside(self._descriptor, location, what)
            try:
                self._files[location] = _mapped(descriptor, location, what)
            finally:
                os.close(descriptor)
        return self._files[location]


def _number(entries: Mapping[str, str], key: str, what: str) -> int:
    text = entries.get(key, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ImportModelError(f"{what}: external data with {key} {text[:40]!r}, wanted a number of bytes")
    return int(text)


def _open_inside(folder: int, location: str, what: str) -> int:
    """A descriptor of the file `location` in `folder`; no component may lead elsewhere."""
    if not location or "\0" in location:
        raise ImportModelError(f"{what}: external data without the name of a file")
    if location.startswith("/"):
        raise ImportModelError(f"{what}: external data file {location!r} has an absolute path")
    parts = [part for part in location.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise ImportModelError(f"{what}: external data file {location!r} lies outside the model's folder")
    here = os.dup(folder)
    for part in parts[:-1]:
        here = _step(here, part, os.O_DIRECTORY, f"{what}: external data file {location!r}")
    return _step(here, parts[-1], os.O_NONBLOCK, f"{what}: external data file {location!r}")


def _step(here: int, part: str, flags: int, what: str) -> int:
    """Opens `part` in the folder `here`, which is closed."""
    try:
        return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=here)
    except OSError as error:
        raise ImportModelError(f"{what} {_why(here, part, error)}") from None
    finally:
        os.close(here)


def _why(here: int, part: str, error: OSError) -> str:
    try:
        found = os.stat(part, dir_fd=here, follow_symlinks=False)
    except OSError:
        return "is missing"
    if stat.S_ISLNK(found.st_mode):
        return "is reached through a symbolic link"
    return f"cannot be opened: {error.strerror}"


def _mapped(descriptor: int, location: str, what: str) -> Bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ImportModelError(f"{what}: external data file {location!r} is not a regular file")
    if status.st_nlink > 1:
        message = f"{what}: external data file {location!r} has other names (hard links)"
        raise ImportModelError(message, hint="copy the file, so that it has one name only")
    if status.st_size == 0:
        return np.zeros(0, np.uint8)
    return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), np.uint8)
