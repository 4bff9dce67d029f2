"""A private copy of what is read."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Var, const
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.schedule._dependence import accesses, private
from legato.tir.schedule._edit import body_path, check_scope, loop_var, replaced, understood
from legato.tir.schedule._region import Box, Region
from legato.tir.schedule.compute_at import rebased
from legato.tir.stmt import Alloc, For, Func, If, LoopKind, Stmt, Store, block

__all__ = ["cache_read"]


def cache_read(func: Func, buffer: Buffer, var: Var, scope: Scope = Scope.LOCAL) -> tuple[Func, Buffer, list[Var]]:
    """Copies the box of `buffer` that an iteration of loop `var` reads, and reads the copy.

        for i in n:                           for i in n:
          for j in 4: s(x[i*4 + j])     ->      alloc t[4]
                                                for k in 4: t[k] = x[i*4 + k]
                                                for j in 4: s(t[j])

    The loop must not store to the buffer. Returns (func, t, [k, …]): one loop per dimension.
    """
    path = body_path(func, var)
    part = path[-1].children()[0]
    understood(part, "cache_read")
    if buffer in private(part):
        raise ScheduleError(f"cache_read: {buffer.name} is allocated inside {var.name}")
    if any(isinstance(s, For) and s.kind is LoopKind.VECTOR for s in path):
        raise ScheduleError(f"cache_read: {var.name} is a vector loop or inside one")
    found = [a for a in accesses(part) if a.buffer is buffer]
    if any(a.is_write for a in found) or not found:
        what = "stores to" if found else "does not read"
        raise ScheduleError(f"cache_read: {var.name} {what} {buffer.name}")
    region = Region(part, path)
    box = region.box(buffer, found)
    new = Buffer(f"{buffer.name}_local", tuple(s.size for s in box), buffer.dtype, scope=scope)
    check_scope(new, "cache_read")
    vars = [loop_var(f"{buffer.name}{d}") for d in range(buffer.rank)]
    body = block(_copy(buffer, new, box, vars, region), rebased(part, buffer, new, box))
    return replaced(func, path, path[-1].with_children((Alloc(new, body),))), new, vars


def _copy(old: Buffer, new: Buffer, box: Box, vars: Sequence[Var], region: Region) -> Stmt:
    indices = tuple(s.lo + v for s, v in zip(box, vars, strict=True))
    body: Stmt = Store(new, tuple(vars), Load(old, indices))
    for d in reversed(range(old.rank)):
        before, after = old.layout.halo_of(d)
        cond = region.guard(box[d], vars[d], const(-before), old.shape[d] + after)
        body = For(vars[d], box[d].size, body if cond is None else If(cond, body))
    return body
