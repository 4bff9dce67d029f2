"""Tiles of one size for any extent."""

from __future__ import annotations

from legato.arith.expr import Const, Var, const, floordiv, le, min_
from legato.base.errors import ScheduleError
from legato.tir.schedule._dependence import private
from legato.tir.schedule._edit import Names, copied, loop_path, loop_var, normal, renamed, replaced, understood
from legato.tir.stmt import For, Func, If, Let, LoopKind
from legato.tir.walk import buffers_read, buffers_written, loops

__all__ = ["overlap_tail"]


def overlap_tail(func: Func, var: Var, factor: int) -> tuple[Func, Var, Var, Names | None]:
    """Tiles of exactly `factor` iterations: the last one is moved back to end at the extent, repeating some.

        for i in n: s(i)   ->   if 4 <= n:
                                  for io in (n + 3) // 4: let b = min(io*4, n - 4): for ii in 4: s(b + ii)
                                else:
                                  for i' in n: s(i')

    Iterations are repeated, so they must not read what the loop stores (buffers allocated inside do not count). The
    tiles keep the loop's kind. Returns (func, io, ii, names): `names[i]` = i' is the loop of a short extent; None where
    the extent is known.
    """
    if factor < 1:
        raise ScheduleError(f"overlap_tail: a factor of {factor}, wanted at least 1")
    path = loop_path(func, var)
    loop = path[-1]
    assert isinstance(loop, For)
    understood(loop, "overlap_tail")
    _check(loop)
    n = loop.extent
    if isinstance(n, Const) and int(n.value) < factor:
        raise ScheduleError(f"overlap_tail: {var.name} has {n} iterations, wanted at least {factor}")
    tiles = floordiv(normal(n + (factor - 1)), const(factor))
    outer, inner = loop_var(f"{var.name}o"), loop_var(f"{var.name}i")
    start = Var(f"{var.name}b", var.dtype, 0)
    body = Let(
        start, min_(outer * factor, n - factor), For(inner, const(factor), renamed(loop.body, {var: start + inner}))
    )
    main = For(outer, tiles, body, loop.kind)
    if isinstance(n, Const):
        return replaced(func, path, main), outer, inner, None
    again = loop_var(var.name)
    short, names = copied(loop.body, {var: again})
    new = If(le(const(factor), n), main, For(again, n, short, loop.kind))
    return replaced(func, path, new), outer, inner, Names({**names.vars, var: again}, names.buffers)


def _check(loop: For) -> None:
    if loop.kind is LoopKind.VECTOR or any(f.kind is LoopKind.PARALLEL for f in loops(loop.body)):
        raise ScheduleError(f"overlap_tail: {loop.var.name} is a vector loop or has a parallel loop inside")
    both = set(buffers_read(loop)) & set(buffers_written(loop)) - private(loop)
    if both:
        names = ", ".join(sorted(b.name for b in both))
        raise ScheduleError(
            f"overlap_tail: iterations of {loop.var.name} read {names}, which they store to",
            hint="accumulate in a tile with cache_write",
        )
