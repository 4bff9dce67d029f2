"""`python -m legato.worker`: compiles LLVM modules that arrive on stdin and answers on stdout.

A request is three length-prefixed fields (8-byte little-endian length, then bytes): an id, the target's name, LLVM IR.
The answer is the id, b"ok" or b"error", and the object file or the error text. The process ends when stdin does.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO

from legato.base.errors import LegatoError
from legato.base.target import target

__all__ = ["main", "read_fields", "write_fields"]


def read_fields(stream: BinaryIO, count: int) -> list[bytes] | None:
    """The next `count` fields of `stream`, or None at its end."""
    fields = []
    for _ in range(count):
        head = stream.read(8)
        if len(head) < 8:
            return None
        (size,) = struct.unpack("<Q", head)
        fields.append(stream.read(size))
    return fields


def write_fields(stream: BinaryIO, *fields: bytes) -> None:
    """Writes length-prefixed `fields` and flushes."""
    stream.write(b"".join(struct.pack("<Q", len(f)) + f for f in fields))
    stream.flush()


def main() -> None:
    """Serves until stdin ends."""
    from legato.codegen.compile import compile_object  # brings in LLVM

    while (fields := read_fields(sys.stdin.buffer, 3)) is not None:
        ident, name, text = fields
        try:
            result, payload = b"ok", compile_object(text.decode(), target(name.decode()))
        except LegatoError as error:
            result, payload = b"error", str(error).encode()
        write_fields(sys.stdout.buffer, ident, result, payload)


if __name__ == "__main__":
    main()
