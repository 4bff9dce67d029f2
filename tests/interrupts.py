"""Ctrl-C while native code runs, and at no other moment, however slow the machine is."""

from __future__ import annotations

import ctypes
import signal
import time
from collections.abc import Callable
from threading import Thread

__all__ = ["when_inside"]


def when_inside(act: Callable[[], object]) -> Thread:
    """A thread that acts as soon as a call that the main thread begins after this listens for Ctrl-C in Python's
    place."""
    before = _action()

    def wait() -> None:
        while _action() == before:
            time.sleep(0.001)
        act()

    thread = Thread(target=wait, daemon=True)
    thread.start()
    return thread


def _action() -> bytes:
    """What the process does on SIGINT: as the system has it, which Python does not show."""
    found = ctypes.create_string_buffer(512)  # more than a struct sigaction
    assert ctypes.CDLL(None).sigaction(signal.SIGINT, None, found) == 0
    return found.raw[:8]  # its first field is the handler
