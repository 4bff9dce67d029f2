"""Moving an allocation out of a loop or into one."""

from __future__ import annotations

from legato.arith.expr import Var
from legato.arith.substitute import nodes
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Scope
from legato.tir.schedule._cover import uncovered
from legato.tir.schedule._edit import alloc_path, loop_path, replaced, understood
from legato.tir.stmt import Alloc, For, Func, Let, LoopKind, Stmt
from legato.tir.walk import buffers_used

__all__ = ["lift_alloc", "sink_alloc"]


def lift_alloc(func: Func, buffer: Buffer, var: Var) -> Func:
    """Allocates `buffer` once, around loop `var`, instead of in each iteration.

    for i in n: alloc t[4]: s(i, t)   ->   alloc t[4]: for i in n: s(i, t)
    """
    path = alloc_path(func, buffer)
    outer = loop_path(func, var)
    alloc, loop = path[-1], outer[-1]
    assert isinstance(alloc, Alloc)
    assert isinstance(loop, For)
    if path[: len(outer)] != outer:
        raise ScheduleError(f"lift_alloc: {buffer.name} is not allocated inside {var.name}")
    crossed = path[len(outer) - 1 : -1]
    bound = {s.var for s in crossed if isinstance(s, For | Let)}
    depends = [n for d in buffer.shape for n in nodes(d) if n in bound]
    if depends:
        raise ScheduleError(f"lift_alloc: the shape of {buffer.name} depends on {depends[0]}")
    shared = [s for s in crossed if isinstance(s, For) and s.kind in (LoopKind.PARALLEL, LoopKind.VECTOR)]
    if shared:
        loop_name = f"{shared[0].kind.value} loop {shared[0].var.name}"
        raise ScheduleError(f"lift_alloc: iterations of the {loop_name} cannot share {buffer.name}")
    func = replaced(func, path, alloc.body)
    outer = loop_path(func, var)
    return replaced(func, outer, Alloc(buffer, outer[-1]))


def sink_alloc(func: Func, buffer: Buffer, var: Var) -> Func:
    """Allocates `buffer` in each iteration of loop `var` instead of around it.

    alloc t[4]: for i in n: s(i, t)   ->   for i in n: alloc t[4]: s(i, t)

    Every iteration must store what it reads.
    """
    path = alloc_path(func, buffer)
    inner = loop_path(func, var)
    alloc, loop = path[-1], inner[-1]
    assert isinstance(alloc, Alloc)
    assert isinstance(loop, For)
    if inner[: len(path)] != path:
        raise ScheduleError(f"sink_alloc: {var.name} is not where {buffer.name} is allocated")
    understood(alloc, "sink_alloc")
    if buffer.scope is Scope.GLOBAL and any(isinstance(s, For) and s.kind is LoopKind.VECTOR for s in inner):
        raise ScheduleError(f"sink_alloc: {var.name} is a vector loop or inside one")
    _check_only_inside(path, inner, buffer)
    missing = uncovered(loop.body, inner, buffer)
    if missing is not None:
        raise ScheduleError(f"sink_alloc: an iteration of {var.name} reads {missing} before it stores it")
    func = replaced(func, path, alloc.body)
    return replaced(func, loop_path(func, var), loop.with_children((Alloc(buffer, loop.body),)))


def _check_only_inside(path: tuple[Stmt, ...], inner: tuple[Stmt, ...], buffer: Buffer) -> None:
    for n in range(len(path) - 1, len(inner) - 1):
        for child in inner[n].children():
            if child is not inner[n + 1] and buffer in buffers_used(child):
                raise ScheduleError(f"sink_alloc: {buffer.name} is used outside the loop as well")
