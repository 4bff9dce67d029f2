"""How a kernel is launched, as its loops and barriers want it."""

from __future__ import annotations

import enum
from typing import Final

from legato.arith.expr import Const
from legato.base.node import post_order
from legato.tir.stmt import Alloc, Barrier, Block, Check, For, Func, If, Let, LoopKind, Stmt, Store
from legato.tir.walk import loops, statements

__all__ = ["LaunchKind", "launch_kind"]

# Stores (of vectors, to registers too) from which a kernel is worth cutting: 25 µs on one thread, or more. Pieces cost
# each thread about half a microsecond to take.
FEWEST_STORES: Final = 1 << 17


class LaunchKind(enum.IntEnum):
    """The numbers are those of the runtime's header."""

    ALONE = 0  # on one thread
    SHARES = 1  # in one share for each thread, which any thread may compute
    GANG = 2  # in shares that are computed at the same time: the threads wait for each other
    PIECES = 3  # in smaller shares, of which faster threads take more
    PARTS = 4  # in one share for each thread, in parts if it takes long: only the running program knows


def launch_kind(func: Func) -> LaunchKind:
    """The kind that a kernel needs: whether it has PARALLEL loops, and Barriers, and enough to do, or who knows how
    much, in loops that may be divided into any number of shares."""
    found = LaunchKind.ALONE
    for s in statements(func):
        if isinstance(s, Barrier):
            return LaunchKind.GANG
        if isinstance(s, For) and s.kind is LoopKind.PARALLEL:
            found = LaunchKind.SHARES
    if found is not LaunchKind.SHARES:
        return found
    stores = _stores_to_cut(func.body)
    if stores is None:
        return LaunchKind.SHARES
    if stores >= FEWEST_STORES:
        return LaunchKind.PIECES
    is_known = all(isinstance(loop.extent, Const) for loop in loops(func))
    return LaunchKind.SHARES if is_known else LaunchKind.PARTS


def _stores_to_cut(root: Stmt) -> int | None:
    """How many stores `root` makes, if all that it does is in PARALLEL loops, none of which another loop repeats (each
    piece would read what all its turns read); else None. A kernel that may fail is left alone: its first failure
    counts."""
    stores = 0
    outside: list[Stmt] = [root]
    while outside:
        s = outside.pop()
        if isinstance(s, For) and s.kind is LoopKind.PARALLEL:
            stores += _stores(s)
        elif isinstance(s, Block | Let | Alloc):
            outside += s.children()
        else:
            return None
    return None if any(isinstance(s, Check) for s in statements(root)) else stores


def _stores(loop: Stmt) -> int:
    """About how many stores `loop` makes, at least; one of a vector counts once, and so does an extent that only the
    running program knows."""
    counts: dict[int, int] = {}
    for s in post_order([loop]):
        inside = [counts[id(child)] for child in s.children()]
        count = max(inside, default=0) if isinstance(s, If) else sum(inside)
        if isinstance(s, For) and s.kind is not LoopKind.VECTOR and isinstance(s.extent, Const):
            count *= int(s.extent.value)
        counts[id(s)] = count + isinstance(s, Store)
    return counts[id(loop)]
