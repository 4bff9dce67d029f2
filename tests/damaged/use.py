"""What is done with a damaged model: it is compiled and called."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Final

import legato
from legato.runtime.executable import Executable
from legato.runtime.fill import feeds

__all__ = ["MEMORY", "called", "compiled_and_called", "ended"]

MEMORY: Final = 256 << 20  # bytes that a call may use
_PATIENCE: Final = 2.0  # seconds, after which a call is interrupted


def compiled_and_called(path: Path) -> bool:
    """True; LegatoError where the model is refused, or its call."""
    called(legato.compile(path, threads=1, memory_limit=MEMORY))
    return True


def called(exe: Executable) -> None:
    """Calls a program on random inputs."""
    arrays = feeds(exe.program.functions[exe.function], None, "random")
    ended(lambda: exe.run(arrays))


def ended(call: Callable[[], object]) -> None:
    """Makes a call, which may run for ever: it is told to end after a while, and has to hear that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = Timer(_PATIENCE, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        try:
            call()
        finally:
            timer.cancel()
            timer.join()
    except KeyboardInterrupt:
        pass
