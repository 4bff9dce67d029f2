"""One loop nest as two, each with a part of the body."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Expr, Var
from legato.base.errors import ScheduleError
from legato.tir.schedule._dependence import Dependence, accesses, conflicts
from legato.tir.schedule._edit import Names, is_guard, loop_path, loop_var, nest, renamed, replaced, understood
from legato.tir.stmt import Block, For, Func, If, LoopKind, Stmt, block

__all__ = ["fission"]


def fission(func: Func, vars: Var | Sequence[Var], at: int = 1) -> tuple[Func, Names]:
    """Distributes nested loops over the first `at` statements of the innermost body and the others.

        for i: for j: a(i, j); b(i, j)   ->   for i': for j': a(i', j')        (for vars = [i, j])
                                              for i: for j: b(i, j)

    `vars` names the outermost and the innermost loop (or all from the one to the other, or one). The second nest keeps
    its names, the first gets new ones: returns (func, names) with `names[i]` = i'. Only what the first part does in an
    iteration may be used by the second part of the same iteration.
    """
    wanted = [vars] if isinstance(vars, Var) else list(vars)
    if not wanted:
        raise ScheduleError("fission: no loop is named")
    paths = [loop_path(func, v) for v in wanted]
    low = max(paths, key=len)
    top = min(len(p) for p in paths) - 1
    chain = low[top:]
    heads = _heads(chain)
    innermost = heads[-1]
    assert isinstance(innermost, For)
    body = innermost.body
    stmts = body.stmts if isinstance(body, Block) else (body,)
    if not 0 < at < len(stmts):
        raise ScheduleError(f"fission: {innermost.var.name} has {len(stmts)} statements, got at={at}")
    if any(isinstance(h, For) and h.kind is LoopKind.PARALLEL for h in heads):
        raise ScheduleError("fission: one of the loops is parallel", hint="make loops parallel last")
    understood(chain[0], "fission")
    first, second = block(*stmts[:at]), block(*stmts[at:])
    _check(low[: top + 1], heads, first, second)
    again: dict[Var, Var] = {h.var: loop_var(h.var.name) for h in heads if isinstance(h, For)}
    mapping: dict[Var, Expr] = {**again}
    before = renamed(nest(heads, first), mapping)
    return replaced(func, low[: top + 1], block(before, nest(heads, second))), Names(again)


def _heads(chain: Sequence[Stmt]) -> list[For | If]:
    heads: list[For | If] = []
    for s in chain:
        if not (isinstance(s, For) or (isinstance(s, If) and is_guard(s))):
            raise ScheduleError(
                f"fission: a {type(s).__name__} is between the loops", hint="distribute the inner loop first"
            )
        assert isinstance(s, For | If)
        heads.append(s)
    return heads


def _check(path: Sequence[Stmt], heads: Sequence[For | If], first: Stmt, second: Stmt) -> None:
    """Refuses if the second part of an iteration touches what the first part of a later one does."""
    a, b = accesses(first), accesses(second)
    shared = [h.var for h in heads if isinstance(h, For)]
    dependence = Dependence(path[-1], path[:-1], shared)
    for x, y in conflicts(a, b, ()):
        agreeing = dependence.agreeing(x, y)
        missing = ", ".join(v.name for v in shared if v not in agreeing)
        if missing:
            raise ScheduleError(f"fission: both parts use {x.buffer.name} in different iterations of {missing}")
