"""Loops of a program that somebody wrote, divided among threads only where that does not change what it computes.

    for i in 0..n { y[i] = x[i]; }                       parallel one in 0..1 { for i in 0..n { y[i] = x[i]; } }
    parallel i in 0..n { z[i] = y[n - 1 - i]; }     ⇒    barrier;
                                                         parallel i in 0..n { z[i] = y[n - 1 - i]; }

A PARALLEL or VECTOR loop says that its iterations may run in any order. Where that is not proven, it runs in order, on
one thread. Statements that exchange data are kept apart by Barriers, unless a thread may leave the program early: then
all of it runs on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from legato.arith.expr import Const, Var, const
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import VerifyError
from legato.base.node import transform
from legato.tir.buffer import Scope
from legato.tir.prove_access import prove_accesses
from legato.tir.schedule._dependence import blamed, private
from legato.tir.stmt import Alloc, Barrier, Block, Check, For, Func, Let, LoopKind, Stmt, While, block
from legato.tir.verify import may_meet, verify
from legato.tir.walk import buffers_read, buffers_written, loads, loops, statements

__all__ = ["settled"]

_KINDS = (LoopKind.PARALLEL, LoopKind.VECTOR)


def settled(func: Func) -> Func:
    """`func` with the loop kinds that its meaning allows; the same object where it has these."""
    if any(s.kind in _KINDS for s in loops(func)):
        serial = set(_dependent(func.body))
        func = _with_serial(func, lambda s: s in serial)
    if _is_divided(func) and not _fits(func):
        apart = None if _may_leave(func) else _apart(func.body)
        made = None if apart is None else func.with_body(apart)
        func = made if made is not None and _fits(made) else _with_serial(func, lambda s: s.kind is LoopKind.PARALLEL)
    return func if _is_divided(func) else func.with_body(_without_barriers(func.body))


def _with_serial(func: Func, chosen: Callable[[For], bool]) -> Func:
    """`func` with the loops of which `chosen` holds in order, on one thread."""
    changed = {s.var for s in loops(func) if chosen(s)}

    def step(s: Stmt) -> Stmt | None:
        return replace(s, kind=LoopKind.SERIAL) if isinstance(s, For) and s.var in changed else None

    return func.with_body(transform(func.body, step)) if changed else func


def _without_barriers(body: Stmt) -> Stmt:
    """What one thread runs, which waits for nobody: with a Barrier all threads would run it."""
    return transform(body, lambda s: block() if isinstance(s, Barrier) else None)


def _dependent(body: Stmt) -> Iterator[For]:
    """PARALLEL and VECTOR loops whose iterations are not proven independent, or that another one is around; those of
    threads in a While, and of lanes around one: each would have turns of its own."""
    todo: list[tuple[Stmt, tuple[Stmt, ...], bool]] = [(body, (), False)]
    while todo:
        s, path, inside = todo.pop()
        divided = inside
        if isinstance(s, For) and s.kind in _KINDS:
            nested = inside if s.kind is LoopKind.PARALLEL else _has_while(s)
            if nested or _shares_own_memory(s, path) or (not _runs_once(s) and blamed(s, path)):
                yield s
            else:
                divided = True
        divided = divided or isinstance(s, While)
        todo += [(child, (*path, s), divided) for child in reversed(s.children())]


def _has_while(s: For) -> bool:
    return any(isinstance(inner, While) for inner in statements(s))


def _runs_once(s: For) -> bool:
    return isinstance(s.extent, Const) and s.extent.value <= 1


def _shares_own_memory(s: For, path: tuple[Stmt, ...]) -> bool:
    """Whether a PARALLEL loop stores to memory of a thread's own that is allocated outside of it."""
    own = {p.buffer for p in path if isinstance(p, Alloc) and p.buffer.scope is not Scope.GLOBAL}
    return s.kind is LoopKind.PARALLEL and bool(own.intersection(buffers_written(s)) - private(s))


def _is_divided(func: Func) -> bool:
    return any(s.kind is LoopKind.PARALLEL for s in loops(func))


def _fits(func: Func) -> bool:
    """Whether the threads of a program need not wait for each other where they do not."""
    try:
        verify(func)
    except VerifyError:
        return False
    parallel = [s for s in loops(func) if s.kind is LoopKind.PARALLEL]
    both = (pair for pair in combinations(parallel, 2) if _store_to_one(*pair))
    if _decides(func) or any(may_meet(func.body, *pair) for pair in both):
        return False
    return not any(_meets_itself(s) for s in loops(func) if s.kind is LoopKind.SERIAL)


def _store_to_one(a: For, b: For) -> bool:
    """Whether two loops store to the same memory of all threads."""
    return any(buffer.scope is Scope.GLOBAL for buffer in {*buffers_written(a)}.intersection(buffers_written(b)))


def _decides(func: Func) -> bool:
    """Whether what the program stores is read outside of parallel loops, where each thread would see some of it."""
    stored = {b for b in buffers_written(func) if b.scope is Scope.GLOBAL}
    todo: list[Stmt] = [func.body]
    while todo:
        s = todo.pop()
        if any(x.buffer in stored for e in s.exprs() for x in loads(e)):
            return True
        if not (isinstance(s, For) and s.kind is LoopKind.PARALLEL):
            todo += s.children()
    return False


def _meets_itself(loop: For) -> bool:
    """Whether iterations of a serial loop exchange data through parallel loops in it."""
    inner = [s for s in loops(loop.body) if s.kind is LoopKind.PARALLEL]
    if not inner or any(isinstance(s, Barrier) for s in statements(loop.body)):
        return False
    written = {b for b in buffers_written(loop.body) if b.scope is Scope.GLOBAL}
    moves = any(loop.var in variables(s.extent) for s in inner)
    return moves or bool(written.intersection(buffers_read(loop.body))) or len(inner) > 1


def _may_leave(func: Func) -> bool:
    """Whether a thread may leave the program early: others would wait for it at a Barrier for ever."""
    is_checked = any(isinstance(s, Check) for s in statements(func))
    return is_checked or any(f.reason is not None for f in prove_accesses(func))


def _apart(body: Stmt) -> Stmt | None:
    """The statements of a program with Barriers between; None where a parallel loop is inside of another statement."""
    if isinstance(body, Alloc):
        inner = _apart(body.body) if body.buffer.scope is Scope.GLOBAL else None
        return None if inner is None else Alloc(body.buffer, inner)
    if isinstance(body, Let):
        inner = _apart(body.body)
        return None if inner is None else Let(body.var, body.value, inner)
    if isinstance(body, Block):
        parts = [_apart(s) for s in body.stmts if not isinstance(s, Barrier)]
        if None in parts:
            return None
        pairs = [p for part in parts if part is not None for p in (Barrier(), part)]
        return block(*pairs[1:])
    if isinstance(body, For) and body.kind is LoopKind.PARALLEL:
        return body
    if any(s.kind is LoopKind.PARALLEL for s in loops(body)):
        return None
    return For(Var("one", dt.index, 0, 0), const(1), body, LoopKind.PARALLEL)
