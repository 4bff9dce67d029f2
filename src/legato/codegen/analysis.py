"""What emission must know about a function beforehand: what each loop writes, and how wide register slots are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from legato.arith.expr import Expr, Var
from legato.base.node import post_order
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import For, Func, HostOp, If, Invoke, Launch, LoopKind, Stmt, Store, While

__all__ = ["Analysis", "analyse", "is_parallel"]


@dataclass(frozen=True, slots=True)
class Analysis:
    """`written`: buffers stored to under each For, If and While; `widths`: the vector width that most accesses to a
    register buffer have; `words`: the largest number of arguments of a call."""

    written: dict[Stmt, tuple[Buffer, ...]]
    widths: dict[Buffer, int]
    words: int


def is_parallel(func: Func) -> bool:
    """Whether a kernel has a PARALLEL loop."""
    stack = [func.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
            return True
        stack += stmt.children()
    return False


def analyse(func: Func) -> Analysis:
    """Walks `func` once."""
    written: dict[Stmt, dict[Buffer, None]] = {}
    accesses: dict[Buffer, Counter[int]] = {}
    words = 0
    stack: list[tuple[Stmt, tuple[Stmt, ...], tuple[tuple[Var, int], ...]]] = [(func.body, (), ())]
    while stack:
        stmt, around, lanes = stack.pop()
        for buffer in _written_by(stmt):
            for outer in around:
                written[outer][buffer] = None
        if isinstance(stmt, Launch | Invoke | HostOp):
            words = max(words, len(stmt.args))
        if lanes:
            _count(stmt, lanes, accesses)
        if isinstance(stmt, For | If | While):
            written.setdefault(stmt, {})
            around = (*around, stmt)
        if isinstance(stmt, For) and stmt.kind is LoopKind.VECTOR and not lanes:
            extent = getattr(stmt.extent, "value", 1)
            lanes = ((stmt.var, extent),)
        stack += [(child, around, lanes) for child in reversed(stmt.children())]
    widths = {b: max(c, key=lambda width: (c[width], width)) for b, c in accesses.items()}
    return Analysis({s: tuple(b) for s, b in written.items()}, widths, words)


def _written_by(stmt: Stmt) -> tuple[Buffer, ...]:
    if isinstance(stmt, Store):
        return (stmt.buffer,)
    if isinstance(stmt, Launch | Invoke | HostOp):
        return tuple([a for a in stmt.args if isinstance(a, Buffer)])
    return ()


def _count(stmt: Stmt, lanes: tuple[tuple[Var, int], ...], accesses: dict[Buffer, Counter[int]]) -> None:
    places: list[tuple[Buffer, tuple[Expr, ...]]] = []
    if isinstance(stmt, Store):
        places.append((stmt.buffer, stmt.indices))
    places += [(e.buffer, e.indices) for e in post_order(stmt.exprs()) if isinstance(e, Load)]
    for buffer, indices in places:
        if buffer.scope is Scope.REGISTER:
            used = set(post_order(indices))
            for var, extent in lanes:
                if var in used:
                    accesses.setdefault(buffer, Counter())[extent] += 1
