"""`python -m legato.worker`: compiles LLVM modules that arrive on stdin and answers on stdout.

A request is three fields (`codegen.wire`): an id, the target's name, LLVM IR. The answer is the id, b"ok" or b"error",
and the object file or the error text. The process ends when stdin does.
"""

from __future__ import annotations

import sys

from legato.base.errors import LegatoError
from legato.base.target import target
from legato.codegen.compile import compile_object
from legato.codegen.wire import read_fields, write_fields

__all__ = ["main"]


def main() -> None:
    """Serves until stdin ends."""
    while (fields := read_fields(sys.stdin.buffer, 3)) is not None:
        ident, name, text = fields
        try:
            result, payload = b"ok", compile_object(text.decode(), target(name.decode()))
        except LegatoError as error:
            result, payload = b"error", str(error).encode()
        write_fields(sys.stdout.buffer, ident, result, payload)


if __name__ == "__main__":
    main()
