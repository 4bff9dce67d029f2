"""Loops whose iterations are divided among the threads."""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Var
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Scope
from legato.tir.schedule._dependence import accesses, blamed, private
from legato.tir.schedule._edit import loop_path, replaced, understood
from legato.tir.schedule._region import Region
from legato.tir.stmt import Alloc, For, Func, LoopKind, Stmt
from legato.tir.walk import buffers_read, buffers_written, loops

__all__ = ["parallel"]


def parallel(func: Func, var: Var) -> Func:
    """Divides the iterations of a serial loop among the threads; they must not depend on each other.

    for i in n: s(i)   ->   parallel i in n: s(i)

    Memory that a thread has for itself (LOCAL, REGISTER) must be allocated inside the loop to be stored to.
    """
    path = loop_path(func, var)
    loop = path[-1]
    assert isinstance(loop, For)
    if loop.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL):
        raise ScheduleError(f"parallel: {var.name} is a {loop.kind.value} loop")
    for other in [*path[:-1], *loops(loop.body)]:
        if isinstance(other, For) and other.kind is LoopKind.PARALLEL:
            raise ScheduleError(f"parallel: {var.name} and {other.var.name} are nested; one of them can be parallel")
        if other in path and isinstance(other, For) and other.kind is LoopKind.VECTOR:
            raise ScheduleError(f"parallel: {var.name} is inside the vector loop {other.var.name}")
    understood(loop, "parallel")
    outside = {s.buffer for s in path if isinstance(s, Alloc) and s.buffer.scope is not Scope.GLOBAL}
    for buffer in buffers_written(loop):
        if buffer in outside and buffer not in private(loop):
            raise ScheduleError(
                f"parallel: {buffer.name} ({buffer.scope.value}) is stored inside {var.name} but allocated outside",
                hint="each thread would have its own; allocate it inside with sink_alloc or compute_at",
            )
    _check_others(func, path, loop)
    carriers = blamed(loop, path[:-1])
    if carriers:
        names = ", ".join(b.name for b in carriers)
        raise ScheduleError(f"parallel: iterations of {var.name} may depend on each other through {names}")
    return replaced(func, path, replace(loop, kind=LoopKind.PARALLEL))


def _check_others(func: Func, path: tuple[Stmt, ...], loop: For) -> None:
    """Refuses if another parallel loop exchanges data with this one: threads do not wait for each other in between."""
    for other in loops(func):
        if other.kind is not LoopKind.PARALLEL or other is loop:
            continue
        shared = {*buffers_written(loop)} & {*buffers_read(other)} | {*buffers_read(loop)} & {*buffers_written(other)}
        both = {*buffers_written(loop)} & {*buffers_written(other)} - shared
        shared |= {b for b in both if not _apart(b, path, loop_path(func, other.var))}
        if shared:
            names = ", ".join(sorted(b.name for b in shared))
            raise ScheduleError(
                f"parallel: {loop.var.name} and the parallel loop {other.var.name} may both touch elements of {names}",
                hint="threads do not wait between the loops: bring them together with compute_at, or make two kernels",
            )


def _apart(buffer: Buffer, path: tuple[Stmt, ...], other: tuple[Stmt, ...]) -> bool:
    """Whether the last statements of both paths store to different parts of `buffer`, provably."""
    here, there = Region(path[-1], path[:-1]), Region(other[-1], other[:-1])
    boxes = zip(here.box(buffer, accesses(path[-1])), there.box(buffer, accesses(other[-1])), strict=True)
    return any(here.holds(x.lo - y.lo - y.size) or here.holds(y.lo - x.lo - x.size) for x, y in boxes)
