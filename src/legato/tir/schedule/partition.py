"""A loop in two halves."""

from __future__ import annotations

from legato.arith.expr import Const, Expr, ExprLike, Var, const, expr, max_, min_
from legato.arith.linear import gather
from legato.arith.simplify import Simplifier
from legato.arith.substitute import nodes
from legato.base.errors import ScheduleError
from legato.tir.expr import Load
from legato.tir.schedule._edit import (
    Names,
    check_two_loops,
    copied,
    limits,
    loop_path,
    loop_var,
    ranges,
    replaced,
    understood,
)
from legato.tir.stmt import For, Func, LoopKind, block

__all__ = ["partition"]


def partition(func: Func, var: Var, at: ExprLike) -> tuple[Func, Names]:
    """The iterations below `at`, then the others: so that a guard is decided in each half.

        for i in n: s(i)   ->   for i in at: s(i)
                                for i' in n - at: s(at + i')

    `at` may use the variables around the loop; it is cut to [0, n] unless that is proven. The first half keeps its
    names: returns (func, names), `names[i]` = i'. `tir.simplify` drops the guards.
    """
    path = loop_path(func, var)
    loop = path[-1]
    assert isinstance(loop, For)
    understood(loop, "partition")
    check_two_loops(loop, "partition")
    where = expr(at)
    bound = {s.var for s in path[:-1] if isinstance(s, For)}
    _check(func, loop, where, bound)
    outer = path[:-1]
    simplify = Simplifier(ranges(outer), limits(outer))
    if not simplify.nonnegative(*gather(simplify(where))):
        where = max_(where, const(0))
    if not simplify.nonnegative(*gather(simplify(loop.extent - where))):
        where = min_(where, loop.extent)
    where = simplify(where)
    rest = simplify(loop.extent - where)
    again = loop_var(var.name)
    body, names = copied(loop.body, {var: where + again})
    if loop.kind in (LoopKind.VECTOR, LoopKind.UNROLL) and not (isinstance(where, Const) and isinstance(rest, Const)):
        raise ScheduleError(f"partition: {var.name} is a {loop.kind.value} loop; its halves need literal extents")
    halves = block(For(var, where, loop.body, loop.kind), For(again, rest, body, loop.kind))
    return replaced(func, path, halves), Names({**names.vars, var: again}, names.buffers)


def _check(func: Func, loop: For, where: Expr, bound: set[Var]) -> None:
    params = {p for p in func.params if isinstance(p, Var)}
    for n in nodes(where):
        if isinstance(n, Load) or (isinstance(n, Var) and n not in bound and n not in params):
            raise ScheduleError(
                f"partition: the boundary {where} of {loop.var.name} uses {n}, which is not known there"
            )
