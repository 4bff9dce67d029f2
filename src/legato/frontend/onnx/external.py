"""External data: tensors in files beside the model, reachable only inside the model's own folder.

The folder is opened once. A location is walked component by component from there, each opened without following links,
and the file that was opened (not its name) is checked: it must be regular and have one name only, so that no link,
symbolic or hard, makes a model read what lies elsewhere. One layout of links is known: where the model's own name is a
link into another folder, as in the caches of model hubs, a data file may be one into that same folder.

Data are read, not mapped: what becomes of a file later does no harm.
"""

from __future__ import annotations

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
_PIECE = 1 << 20  # bytes that are read at once, and no more than once
_READ = os.O_RDONLY | os.O_CLOEXEC


class Folder:
    """The folder of a model file; gives read-only bytes of the data files in it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, _READ | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._descriptor)
        self._files: dict[str, _File] = {}
        self._store: tuple[int, int] | None = None

    def open(self, name: str) -> int:
        """A descriptor of the file `name`, which the user named, so that it may be a link. OSError as os.open's."""
        found = os.open(name, _READ | os.O_NONBLOCK, dir_fd=self._descriptor)
        self._store = _store(self._descriptor, name)
        return found

    def slice(self, entries: Mapping[str, str], size: int, what: str) -> Bytes:
        """`size` bytes of the file that `entries` (location, offset, length) name.

        ImportModelError, beginning with `what`, where the entries are malformed, the location leaves the folder, or the
        file is missing, linked or too short.
        """
        location = entries.get("location", "")
        offset = _number(entries, "offset", what)
        length = _number(entries, "length", what)
        if "length" in entries and length != size:
            raise ImportModelError(f"{what}: external data of {length} bytes, but its type and shape need {size}")
        if location not in self._files:
            descriptor = _open_inside(self._descriptor, location, self._store, what)
            self._files[location] = _File(descriptor, location, what)
        return self._files[location].slice(offset, size, what)


class _File:
    """A data file: a piece of it is read when a tensor wants it first. Tensors that share bytes share memory."""

    def __init__(self, descriptor: int, location: str, what: str) -> None:
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self._location = location
        try:
            self._bytes: Bytes = np.empty(_size(descriptor, location, what), np.uint8)  # memory where it is written to
        except MemoryError:
            raise ImportModelError(f"{what}: no memory for the external data file {location!r}") from None
        self._is_read = np.zeros(-(-self._bytes.size // _PIECE), np.bool_)

    def slice(self, offset: int, size: int, what: str) -> Bytes:
        """These bytes; ImportModelError where the file is too short or cannot be read."""
        if offset + size > self._bytes.size:
            message = f"{what}: bytes {offset} to {offset + size} of external data file {self._location!r}"
            raise ImportModelError(f"{message}, which has {self._bytes.size}")
        first, end = offset // _PIECE, -(-(offset + size) // _PIECE)
        for n in range(first, end):
            if not self._is_read[n]:
                self._read(n, what)
        if self._is_read.all():
            self._close()  # a model may have a file for each tensor
        found = self._bytes[offset : offset + size]
        found.setflags(write=False)
        return found

    def _read(self, n: int, what: str) -> None:
        piece, done = self._bytes[n * _PIECE : (n + 1) * _PIECE], 0
        while done < piece.size:
            try:
                got = os.preadv(self._descriptor, [piece[done:].data], n * _PIECE + done)
            except OSError as error:
                message = f"{what}: external data file {self._location!r} cannot be read: {error.strerror}"
                raise ImportModelError(message) from None
            if not got:
                raise ImportModelError(f"{what}: external data file {self._location!r} has become shorter")
            done += got
        self._is_read[n] = True


def _number(entries: Mapping[str, str], key: str, what: str) -> int:
    text = entries.get(key, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ImportModelError(f"{what}: external data with {key} {text[:40]!r}, wanted a number of bytes")
    return int(text)


def _open_inside(folder: int, location: str, store: tuple[int, int] | None, what: str) -> int:
    """A descriptor of the file `location` in `folder`; no component may lead elsewhere, but the last into `store`."""
    if not location or "\0" in location:
        raise ImportModelError(f"{what}: external data without the name of a file")
    if location.startswith("/"):
        raise ImportModelError(f"{what}: external data file {location!r} has an absolute path")
    parts = [part for part in location.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise ImportModelError(f"{what}: external data file {location!r} lies outside the model's folder")
    what = f"{what}: external data file {location!r}"
    here = os.dup(folder)
    try:
        for part in parts[:-1]:
            inner = _step(here, part, os.O_DIRECTORY, what)
            os.close(here)
            here = inner
        stored = None if store is None else _stored(here, parts[-1], store)
        return _step(here, parts[-1], os.O_NONBLOCK, what) if stored is None else stored
    finally:
        os.close(here)


def _step(here: int, part: str, flags: int, what: str) -> int:
    """Opens `part` in the folder `here`."""
    try:
        return os.open(part, _READ | os.O_NOFOLLOW | flags, dir_fd=here)
    except OSError as error:
        raise ImportModelError(f"{what} {_why(here, part, error)}") from None


def _why(here: int, part: str, error: OSError) -> str:
    try:
        found = os.stat(part, dir_fd=here, follow_symlinks=False)
    except OSError:
        return "is missing"
    if stat.S_ISLNK(found.st_mode):
        return "is reached through a symbolic link"
    return f"cannot be opened: {error.strerror}"


def _link(here: int, name: str) -> str | None:
    """Where `name` in the folder `here` leads, if it is a link."""
    try:
        return os.readlink(name, dir_fd=here)
    except OSError:
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _store(here: int, name: str) -> tuple[int, int] | None:
    """The identity of the folder that the link `name` leads into, by one step; None: it is no such link."""
    target = _link(here, name)
    if target is None or not stat.S_ISREG(os.stat(target, dir_fd=here, follow_symlinks=False).st_mode):
        return None
    return _identity(os.stat(os.path.dirname(target) or ".", dir_fd=here))


def _stored(here: int, name: str, store: tuple[int, int]) -> int | None:
    """A descriptor of what the link `name` leads to, by one step, if that lies in the folder `store`; else None."""
    target = _link(here, name)
    if target is None or os.path.basename(target) in ("", "..", "."):
        return None
    try:
        folder = os.open(os.path.dirname(target) or ".", _READ | os.O_DIRECTORY, dir_fd=here)
    except OSError:
        return None
    try:
        if _identity(os.fstat(folder)) != store:
            return None
        return os.open(os.path.basename(target), _READ | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)


def _size(descriptor: int, location: str, what: str) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ImportModelError(f"{what}: external data file {location!r} is not a regular file")
    if status.st_nlink > 1:
        message = f"{what}: external data file {location!r} has other names (hard links)"
        raise ImportModelError(message, hint="copy the file, so that it has one name only")
    return status.st_size
