"""Length-prefixed fields over pipes, between the compiler and its workers."""

from __future__ import annotations

import struct
from typing import IO

__all__ = ["read_fields", "write_fields"]

LONGEST = 1 << 40  # bytes of a field: more than anything has


def read_fields(stream: IO[bytes], count: int) -> list[bytes] | None:
    """The next `count` fields of `stream`, or None where it ends before they do, or says a length that none has."""
    fields = []
    for _ in range(count):
        head = stream.read(8)
        if len(head) < 8:
            return None
        (size,) = struct.unpack("<Q", head)
        if size > LONGEST:
            return None
        field = stream.read(size)
        if len(field) < size:
            return None
        fields.append(field)
    return fields


def write_fields(stream: IO[bytes], *fields: bytes) -> None:
    """Writes `fields`, each behind its length in 8 little-endian bytes, and flushes."""
    stream.write(b"".join(struct.pack("<Q", len(f)) + f for f in fields))
    stream.flush()
