"""A private tile that results are accumulated in."""

from __future__ import annotations

from legato.arith.expr import Var
from legato.arith.substitute import nodes
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.schedule._cover import Place, roots, uncovered
from legato.tir.schedule._dependence import accesses, private
from legato.tir.schedule._edit import (
    alloc_path,
    body_path,
    check_scope,
    copied,
    is_guard,
    nest,
    normal,
    replaced,
    understood,
)
from legato.tir.schedule._region import Box, Region
from legato.tir.schedule.compute_at import rebased
from legato.tir.stmt import Alloc, For, Func, If, Let, LoopKind, Stmt, Store, block
from legato.tir.walk import loops

__all__ = ["cache_write"]


def cache_write(
    func: Func, buffer: Buffer, var: Var | None = None, scope: Scope = Scope.LOCAL
) -> tuple[Func, Buffer, list[list[Var]]]:
    """Lets an iteration of loop `var` (None: all code) work on a private tile, copied out at its end.

        for i in n:                             for i in n:
          for j in 4: c[i*4 + j] = 0              alloc t[4]
          for r in m: for j' in 4:          ->    for j in 4: t[j] = 0
            c[i*4 + j'] = c[i*4 + j'] + …         for r in m: for j' in 4: t[j'] = t[j'] + …
                                                  for k in 4: c[i*4 + k] = t[k]

    An iteration must store every element before it reads it. Returns (func, t, [[k, …], …]): the loops that copy, one
    nest for each store that is the first to its elements.
    """
    path = body_path(func, var) if var is not None else () if buffer in func.params else alloc_path(func, buffer)
    part = path[-1].children()[0] if path else func.body
    where = var.name if var is not None else func.name
    understood(part, "cache_write")
    found = [a for a in accesses(part) if a.buffer is buffer]
    _check(part, path, buffer, where, [a.is_write for a in found])
    missing = uncovered(part, path, buffer)
    if missing is not None:
        raise ScheduleError(
            f"cache_write: {where} reads {missing} before it stores it",
            hint="put the initialisation inside the loop as well",
        )
    region = Region(part, path)
    box = region.box(buffer, found)
    tile = Buffer(f"{buffer.name}_tile", tuple(s.size for s in box), buffer.dtype, scope=scope)
    check_scope(tile, "cache_write")
    copies: list[Stmt] = []
    vars: list[list[Var]] = []
    for root in roots(part, path, buffer):
        copy = _copy_out(root, tile, box)
        copies.append(copy)
        vars.append([f.var for f in loops(copy)])
    body = Alloc(tile, block(rebased(part, buffer, tile, box), *copies))
    return (replaced(func, path, path[-1].with_children((body,))) if path else func.with_body(body)), tile, vars


def _check(part: Stmt, path: tuple[Stmt, ...], buffer: Buffer, where: str, writes: list[bool]) -> None:
    if buffer in private(part):
        raise ScheduleError(f"cache_write: {buffer.name} is allocated inside {where}")
    if not any(writes):
        raise ScheduleError(f"cache_write: {where} does not store to {buffer.name}")
    if any(isinstance(s, For) and s.kind is LoopKind.VECTOR for s in path):
        raise ScheduleError(f"cache_write: {where} is a vector loop or inside one")
    for inner in loops(part):
        if inner.kind is LoopKind.PARALLEL:
            raise ScheduleError(
                f"cache_write: the parallel loop {inner.var.name} is inside; threads cannot share a tile"
            )


def _copy_out(root: Place, tile: Buffer, box: Box) -> Stmt:
    """The nest of a root store with the tile's element as value."""
    lets = [s.value for s in root.around if isinstance(s, Let)]
    if any(isinstance(n, Load) for n in nodes(*root.indices, *lets)):
        raise ScheduleError(f"cache_write: where {root} is stored depends on memory")
    heads: list[For | If | Let] = []
    for s in root.around:
        if isinstance(s, If) and not is_guard(s):
            raise ScheduleError(f"cache_write: {root} is stored under a condition that reads memory or has an else")
        if isinstance(s, For | If | Let):
            heads.append(s)
    indices = tuple(normal(i - s.lo) for i, s in zip(root.indices, box, strict=True))
    return copied(nest(heads, Store(root.buffer, root.indices, Load(tile, indices))))[0]
