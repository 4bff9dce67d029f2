"""The rule for stages that are given as loop programs (scans, sorts, …): their outermost loops in parallel.

Such a program is taken as it is. Its outermost loops are divided among the threads if `tir.schedule.parallel` can show,
of every one, that the iterations do not depend on each other; otherwise the kernel runs on one thread.
"""

from __future__ import annotations

from legato.arith.expr import Const
from legato.base.errors import ScheduleError
from legato.lower.rules.nest import PIECES, extent_of, is_threaded
from legato.tir import schedule
from legato.tir.stmt import Block, For, Func, If, Let, Stmt, Store

__all__ = ["threaded"]


def threaded(func: Func) -> Func:
    """`func` with its outermost loops PARALLEL where that is legal and worth it; else `func` itself."""
    outermost = _outermost_loops(func.body)
    if outermost is None or not all(is_threaded([loop.extent], _cost(loop.body)) for loop in outermost):
        return func
    divided = func
    try:
        for loop in outermost:
            divided = _divided(divided, loop)
    except ScheduleError:  # its answer to "is this legal?"; the program as it is has the same meaning
        return func
    return divided


def _outermost_loops(body: Stmt) -> list[For] | None:
    """The loops with no loop around them; None if something else stores or allocates, which every thread would do."""
    found: list[For] = []
    todo = [body]
    while todo:
        s = todo.pop()
        if isinstance(s, For):
            found.append(s)
        elif isinstance(s, Block | If | Let):
            todo += s.children()
        else:
            return None
    return found


def _cost(body: Stmt) -> int:
    """Stores that one iteration does, symbolic extents counted once."""
    total = 0
    todo = [(body, 1)]
    while todo:
        s, times = todo.pop()
        total += times * isinstance(s, Store)
        if isinstance(s, For):
            times *= extent_of(s.extent) or 1
        todo += [(child, times) for child in s.children()]
    return total


def _divided(func: Func, loop: For) -> Func:
    """`func` with `loop` PARALLEL, fused with the loops directly inside until there are pieces enough to share."""
    var, inner = loop.var, loop.body
    pieces = extent_of(loop.extent) or 1  # of a symbolic extent at least
    while pieces < PIECES and isinstance(inner, For) and isinstance(inner.extent, Const):
        candidate = schedule.fuse(func, var, inner.var)
        try:
            schedule.parallel(*candidate)
        except ScheduleError:  # the loop that a scan goes along, for one
            break
        func, var = candidate
        pieces *= int(inner.extent.value)
        inner = inner.body
    return schedule.parallel(func, var)
