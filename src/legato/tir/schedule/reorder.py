"""Interchanging the loops of a nest."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Var
from legato.arith.substitute import nodes
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer
from legato.tir.schedule._dependence import Dependence, accesses, conflicts, private
from legato.tir.schedule._edit import is_guard, loop_path, nest, replaced, understood
from legato.tir.schedule._update import commutes, is_exact
from legato.tir.stmt import For, Func, If, LoopKind, Stmt

__all__ = ["reorder"]


def reorder(func: Func, vars: Sequence[Var], *, reassociate: bool = False) -> Func:
    """The loops `vars` of a perfect nest in the given order, outermost first.

        for i: for j: for k: c[i, j] = …   ->   for j: for k: for i: c[i, j] = …        (for vars = [j, k, i])

    Loops in between that are not named keep their depth; guards move inside the innermost of the loops. Iterations
    that touch the same element must keep their order: so reduction loops may pass the others, but change their order
    among themselves only where an accumulation is exact in any order, or `reassociate` allows other roundings.
    """
    if len(set(vars)) != len(vars):
        raise ScheduleError("reorder: a loop is named twice", details=[", ".join(v.name for v in vars)])
    if not vars:
        return func
    paths = [loop_path(func, v) for v in vars]
    deepest = max(paths, key=len)
    for var, path in zip(vars, paths, strict=True):
        if deepest[: len(path)] != path:
            raise ScheduleError(f"reorder: {var.name} is not in one nest with {_loop(deepest[-1]).var.name}")
    top = min(len(p) for p in paths) - 1
    chain = deepest[top:]
    loops, guards = _perfect(chain)
    new = _ordered(loops, vars)
    _check_kinds(new)
    _check_rectangular(loops)
    understood(chain[0], "reorder")
    _check_order(deepest[: top + 1], loops, new, reassociate)
    body = nest([*new, *guards], _loop(deepest[-1]).body)
    return replaced(func, deepest[: top + 1], body)


def _loop(s: Stmt) -> For:
    assert isinstance(s, For)
    return s


def _perfect(chain: Sequence[Stmt]) -> tuple[list[For], list[If]]:
    """The loops and the guards of a chain of statements."""
    loops: list[For] = []
    guards: list[If] = []
    for s in chain:
        if isinstance(s, For):
            loops.append(s)
        elif isinstance(s, If) and is_guard(s):
            guards.append(s)
        else:
            raise ScheduleError(
                f"reorder: the nest of {loops[0].var.name} is not perfect: a {type(s).__name__} is inside "
                f"{loops[-1].var.name}",
                hint="take it apart with fission, or move allocations with lift_alloc",
            )
    return loops, guards


def _ordered(loops: Sequence[For], vars: Sequence[Var]) -> list[For]:
    by_var = {f.var: f for f in loops}
    wanted = iter(vars)
    named = set(vars)
    return [by_var[next(wanted)] if f.var in named else f for f in loops]


def _check_kinds(loops: Sequence[For]) -> None:
    kinds = [f.kind for f in loops]
    if LoopKind.VECTOR in kinds and LoopKind.PARALLEL in kinds[kinds.index(LoopKind.VECTOR) :]:
        raise ScheduleError("reorder: a parallel loop would be inside a vector loop")


def _check_rectangular(loops: Sequence[For]) -> None:
    seen: set[object] = set()
    for f in loops:
        for n in nodes(f.extent):
            if n in seen:
                raise ScheduleError(f"reorder: the extent of {f.var.name}, {f.extent}, depends on {n}")
        seen.add(f.var)


def _check_order(path: Sequence[Stmt], old: list[For], new: list[For], reassociate: bool) -> None:
    """Refuses if two iterations that touch the same element would change their order."""
    top = path[-1]
    found = accesses(top)
    shared = [f.var for f in old]
    order = [f.var for f in new]
    dependence = Dependence(top, path[:-1], shared)
    for buffer in dict.fromkeys(a.buffer for a in found if a.is_write):
        mine = [a for a in found if a.buffer is buffer]
        free = dependence.separated(conflicts(mine, mine, private(top)))
        carried = [v for v in shared if v not in free]
        if carried != [v for v in order if v not in free]:
            _check_accumulation(top, buffer, carried, reassociate)


def _check_accumulation(top: Stmt, buffer: Buffer, carried: Sequence[Var], reassociate: bool) -> None:
    op = commutes(top, buffer)
    names = ", ".join(v.name for v in carried)
    if op is None:
        raise ScheduleError(f"reorder: iterations of {names} depend on each other through {buffer.name}")
    if not reassociate and not is_exact(op, buffer.dtype):
        raise ScheduleError(
            f"reorder: the order of {names} decides how sums in {buffer.name} ({buffer.dtype}) are rounded",
            hint="reassociate=True allows other roundings",
        )
