"""The on-disk cache of compiled kernels: plain bytes under the SHA-256 of their key.

An entry holds the whole key, which is compared on reading: a hash is a file name here, never a proof. Entries are
machine code that will run, so the folder must be the user's own: it is read where nobody but the user or root can have
written to it, and written to where it is the user's alone. Entries are written to a temporary file and renamed, so
readers see all or nothing. The oldest are removed when the folder has outgrown its bound: now and then, one that is
stored takes a look. A cache that cannot be read or written is no error: kernels are compiled.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

from legato.base.config import config
from legato.base.dataclass import dataclass

__all__ = ["KernelCache", "objection"]

MAGIC = b"legato-kernel-1\n"
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ABANDONED = 3600.0  # seconds after which nobody is writing a temporary file any more
_SELDOM = 256  # one entry in so many takes a look at the folder, and each that is as large a part of its bound


@dataclass(frozen=True, slots=True)
class KernelCache:
    """Bytes by key in `folder` (None: nowhere), at most `limit` bytes in all; a limit of 0 turns the cache off."""

    folder: Path | None
    limit: int

    @staticmethod
    def default() -> KernelCache:
        """The cache that the configuration names; a warning where it is not used."""
        found = KernelCache(config().kernel_cache, config().cache_bytes)
        if found.folder is not None and found.limit and (why := objection(found.folder)) is not None:
            _warn(f"the kernel cache is not used: {why}")
            return KernelCache(None, found.limit)
        return found

    def get(self, key: bytes) -> bytes | None:
        """The bytes stored under `key`, or None."""
        folder = self._opened()
        if folder is None:
            return None
        try:
            return _body(_read(_name(key), folder, self.limit), key)
        except OSError:
            return None
        finally:
            os.close(folder)

    def put(self, key: bytes, value: bytes) -> None:
        """Stores `value` under `key`, and prunes where it is this entry's turn."""
        if self.folder is None or not self.limit:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self._opened(to_write=True)
        if folder is None:
            return
        name, data = _name(key), MAGIC + len(key).to_bytes(8, "little") + key + value + _digest(value)
        try:
            with suppress(OSError):
                _write(name, folder, data)
                if _takes_a_look(name, len(data), self.limit):
                    self.prune()
        finally:
            os.close(folder)

    def prune(self) -> int:
        """Removes what was left half-written, and the least recently used entries until the bound holds; returns the
        bytes removed."""
        folder = self._opened(to_write=True)
        if folder is None:
            return 0
        try:
            with suppress(OSError):
                return _pruned(folder, self.limit)
            return 0
        finally:
            os.close(folder)

    def _opened(self, *, to_write: bool = False) -> int | None:
        """A descriptor of the folder; None where it may not be used: what is opened below it is what was looked at."""
        if self.folder is None or not self.limit:
            return None
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        status = os.fstat(folder)
        if _is_safe(status) and not (to_write and status.st_uid != os.geteuid()):
            return folder
        os.close(folder)
        return None


def objection(folder: Path) -> str | None:
    """Why nothing is read from the cache at `folder`; None if it may be read, or is not there yet."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is no folder"
    if _is_safe(status):
        return None
    if status.st_mode & _OTHERS:
        return f"others may write to {folder} (chmod go-w {folder})"
    return f"{folder} belongs to another user (user {status.st_uid}); LEGATO_CACHE_DIR names another folder"


@cache
def _warn(text: str) -> None:
    """Once."""
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _is_safe(status: os.stat_result) -> bool:
    """Whether only the user or root can have written there."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _OTHERS


def _name(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest() + ".bin"


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _read(name: str, folder: int, limit: int) -> bytes:
    """All of the entry `name`; nothing of what is no file of the user's or root's."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe would wait, a device might not end
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_safe(status) or status.st_size > limit:
            return b""
        with suppress(OSError):  # where the folder may be read only
            os.utime(file.fileno())  # marks it as used: pruning removes the least recently used
        return file.read()


def _body(data: bytes, key: bytes) -> bytes | None:
    """What was stored under `key`, if `data` is an entry of that key, whole."""
    head = MAGIC + len(key).to_bytes(8, "little") + key
    body = data[len(head) : -32]
    return body if data.startswith(head) and _digest(body) == data[-32:] else None


def _takes_a_look(name: str, size: int, limit: int) -> bool:
    """Whether the cache is pruned after this entry: a look at all files of a full one takes longer than to compile a
    kernel. Names are hashes: it is one in so many of all that are stored, by whatever process."""
    return int(name[:8], 16) % _SELDOM == 0 or size * _SELDOM >= limit


def _write(name: str, folder: int, data: bytes) -> None:
    temporary = f"{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # an interrupt, too, leaves nothing
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _pruned(folder: int, limit: int) -> int:
    removed, kept, old = 0, [], time.time() - _ABANDONED
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # somebody else was faster
                status = entry.stat(follow_symlinks=False)
                if entry.name.endswith(".bin"):
                    kept.append((status.st_mtime, status.st_size, entry.name))
                elif entry.name.endswith(".tmp") and status.st_mtime < old:
                    os.unlink(entry.name, dir_fd=folder)
                    removed += status.st_size
    total = sum(size for _, size, _ in kept)
    for _, size, name in sorted(kept):
        if total <= limit:
            break
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        total -= size
        removed += size
    return removed
