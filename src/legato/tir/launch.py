"""How a kernel is launched, as its loops and barriers want it."""

from __future__ import annotations

import enum

from legato.tir.stmt import Barrier, For, Func, LoopKind
from legato.tir.walk import statements

__all__ = ["LaunchKind", "launch_kind"]


class LaunchKind(enum.IntEnum):
    """The numbers are those of the runtime's header."""

    ALONE = 0  # on one thread
    SHARES = 1  # in shares that any threads may compute
    GANG = 2  # in shares that are computed at the same time: the threads wait for each other


def launch_kind(func: Func) -> LaunchKind:
    """The kind that a kernel needs: whether it has PARALLEL loops, and Barriers."""
    found = LaunchKind.ALONE
    for s in statements(func):
        if isinstance(s, Barrier):
            return LaunchKind.GANG
        if isinstance(s, For) and s.kind is LoopKind.PARALLEL:
            found = LaunchKind.SHARES
    return found
