"""Loops that code generation expands."""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Var
from legato.base.errors import ScheduleError
from legato.tir.schedule._edit import literal, loop_path, replaced
from legato.tir.stmt import For, Func, LoopKind

__all__ = ["unroll"]


def unroll(func: Func, var: Var) -> Func:
    """Marks a serial loop of literal extent to be expanded.

    for i in 4: s(i)   ->   unroll i in 4: s(i)
    """
    path = loop_path(func, var)
    loop = path[-1]
    assert isinstance(loop, For)
    literal(loop, "unroll")
    if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLL):
        raise ScheduleError(f"unroll: {var.name} is a {loop.kind.value} loop")
    return replaced(func, path, replace(loop, kind=LoopKind.UNROLL))
