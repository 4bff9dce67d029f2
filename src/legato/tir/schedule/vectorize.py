"""Loops whose iterations become the lanes of vectors."""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Var
from legato.base.errors import ScheduleError
from legato.tir.schedule._dependence import blamed
from legato.tir.schedule._edit import literal, loop_path, replaced, understood
from legato.tir.stmt import For, Func, LoopKind
from legato.tir.walk import loops

__all__ = ["vectorize"]


def vectorize(func: Func, var: Var) -> Func:
    """Runs the iterations of a serial loop of literal extent as vector lanes; they must not depend on each other.

    for i in 16: s(i)   ->   vector i in 16: s(i)
    """
    path = loop_path(func, var)
    loop = path[-1]
    assert isinstance(loop, For)
    literal(loop, "vectorize")
    if loop.kind not in (LoopKind.SERIAL, LoopKind.VECTOR):
        raise ScheduleError(f"vectorize: {var.name} is a {loop.kind.value} loop")
    for other in [*path[:-1], *loops(loop.body)]:
        if isinstance(other, For) and other.kind is LoopKind.VECTOR:
            raise ScheduleError(f"vectorize: {var.name} and {other.var.name} are nested; one of them can be a vector")
    for inner in loops(loop.body):
        if inner.kind is LoopKind.PARALLEL:
            raise ScheduleError(f"vectorize: the parallel loop {inner.var.name} is inside {var.name}")
    understood(loop, "vectorize")
    carriers = blamed(loop, path[:-1])
    if carriers:
        names = ", ".join(b.name for b in carriers)
        raise ScheduleError(
            f"vectorize: iterations of {var.name} may depend on each other through {names}",
            hint="rfactor gives each lane of a reduction its own accumulator",
        )
    return replaced(func, path, replace(loop, kind=LoopKind.VECTOR))
