"""Locks that a fork respects.

A fork copies a process with one of its threads. A lock that another one holds is held in the copy for ever, and what it
protects is as that thread left it. A fork waits until nobody else holds one of these.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Any

__all__ = ["forkable_lock"]


def forkable_lock() -> Any:
    """A new re-entrant lock, free in every forked process but for what the forking thread holds. For modules: it lives
    as long as the process."""
    lock = RLock()
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
