"""Two nested loops as one."""

from __future__ import annotations

from legato.arith.expr import Expr, Var, floordiv, floormod
from legato.arith.substitute import nodes
from legato.base.errors import ScheduleError
from legato.tir.schedule._edit import loop_path, loop_var, normal, renamed, replaced
from legato.tir.stmt import For, Func, LoopKind

__all__ = ["fuse"]


def fuse(func: Func, outer: Var, inner: Var) -> tuple[Func, Var]:
    """One loop over all iterations of two perfectly nested loops, in the same order. Returns (func, var).

        for i in n: for j in m: s(i, j)   ->   for ij in n*m: s(ij // m, ij % m)

    The kind is the outer loop's; a VECTOR loop cannot be fused.
    """
    path = loop_path(func, outer)
    first = path[-1]
    assert isinstance(first, For)
    second = first.body
    if not isinstance(second, For) or second.var is not inner:
        raise ScheduleError(
            f"fuse: {inner.name} is not directly inside {outer.name}", hint="reorder brings loops together"
        )
    if outer in nodes(second.extent):
        raise ScheduleError(f"fuse: the extent of {inner.name}, {second.extent}, depends on {outer.name}")
    if LoopKind.VECTOR in (first.kind, second.kind) or second.kind is LoopKind.PARALLEL:
        raise ScheduleError(f"fuse: cannot fuse a {first.kind.value} loop with a {second.kind.value} loop")
    total: Expr = normal(first.extent * second.extent)
    var = loop_var(f"{outer.name}{inner.name}")
    parts = {outer: floordiv(var, second.extent), inner: floormod(var, second.extent)}
    return replaced(func, path, For(var, total, renamed(second.body, parts), first.kind)), var
