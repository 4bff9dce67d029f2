"""The on-disk cache of compiled kernels: plain bytes under the SHA-256 of their key.

An entry holds the whole key, which is compared on reading: a hash is a file name here, never a proof. The folder is
private to the user. Entries are written to a temporary file and renamed, so readers see all or nothing; the oldest are
removed when the folder outgrows its bound. A cache that cannot be read or written is no error: kernels are compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from legato.base.config import config
from legato.base.dataclass import dataclass

__all__ = ["KernelCache"]

MAGIC = b"legato-kernel-1\n"


@dataclass(frozen=True, slots=True)
class KernelCache:
    """Bytes by key in `folder`, at most `limit` bytes in all; a limit of 0 turns the cache off."""

    folder: Path
    limit: int

    @staticmethod
    def default() -> KernelCache:
        """The cache that the configuration names."""
        return KernelCache(config().kernel_cache, config().cache_bytes)

    def _path(self, key: bytes) -> Path:
        return self.folder / (hashlib.sha256(key).hexdigest() + ".bin")

    def get(self, key: bytes) -> bytes | None:
        """The bytes stored under `key`, or None."""
        if not self.limit:
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
            os.utime(path)  # marks it as used: pruning removes the least recently used
        except OSError:
            return None
        head = MAGIC + len(key).to_bytes(8, "little") + key
        body, digest = data[len(head) : -32], data[-32:]
        if not data.startswith(head) or hashlib.sha256(body).digest() != digest:
            return None
        return body

    def put(self, key: bytes, value: bytes) -> None:
        """Stores `value` under `key`."""
        if not self.limit:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd, name = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(MAGIC + len(key).to_bytes(8, "little") + key + value + hashlib.sha256(value).digest())
                os.replace(name, self._path(key))
            except OSError:
                os.unlink(name)
                raise

    def prune(self) -> int:
        """Removes the least recently used entries until the bound holds; returns the bytes removed."""
        removed = 0
        if not self.limit:
            return removed  # turned off: what others keep there is theirs
        with contextlib.suppress(OSError):
            found = [(p.stat(), p) for p in self.folder.glob("*.bin")]
            total = sum(s.st_size for s, _ in found)
            for stat, path in sorted(found, key=lambda f: f[0].st_mtime):
                if total - removed <= self.limit:
                    break
                path.unlink(missing_ok=True)
                removed += stat.st_size
        return removed
