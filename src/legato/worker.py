"""Compiles LLVM modules that arrive on stdin and answers on stdout: one end of `codegen.workers`.

First the worker says what code it runs (`codegen.build.identity`). A request is one field (`codegen.wire`): LLVM IR.
The answer is b"ok" or b"error", and the object file or the error text. The process ends when stdin does, or with the
thread that started it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from legato.base.errors import LegatoError
from legato.base.target import target
from legato.codegen.build import identity
from legato.codegen.compile import compile_object
from legato.codegen.wire import read_fields, write_fields

__all__ = ["main"]

_SET_PARENT_DEATH_SIGNAL = 1


def main(name: str) -> None:
    """Serves the target called `name` until stdin ends."""
    # Who forked the parent may hold the other end of stdin, so that it does not end with the parent.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no answer
    wanted = target(name)
    write_fields(answers, str(identity(wanted)).encode())
    while (fields := read_fields(sys.stdin.buffer, 1)) is not None:
        try:
            result, payload = b"ok", compile_object(fields[0].decode(), wanted)
        except LegatoError as error:
            result, payload = b"error", str(error).encode()
        write_fields(answers, result, payload)
