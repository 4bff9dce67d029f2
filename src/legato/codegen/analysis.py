"""What emission must know about a function beforehand: what each loop writes, and how wide register slots are."""

from __future__ import annotations

from collections import Counter

from legato.arith.expr import Const, Expr, Var
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, For, Func, HostOp, If, Invoke, Launch, LoopKind, Stmt, Store, Switch, While

__all__ = ["POLLS", "Analysis", "analyse"]

# Turns of Whiles until a function asks again whether the call is to end: written by each of them.
POLLS = Buffer("polls", (), dt.int32, scope=Scope.REGISTER)

Lane = tuple[Var, int]


@dataclass(frozen=True, slots=True)
class Analysis:
    """`written`: buffers stored to under each For, If, Switch and While; `widths`: the vector width that most stores to
    a register buffer have, or most loads of it; `split`: buffers that live inside a vector loop and of which every lane
    uses its own part, so that one copy serves all; `words`: the most that a call takes, its arguments and, of a launch,
    the call of the program behind them."""

    written: dict[Stmt, tuple[Buffer, ...]]
    widths: dict[Buffer, int]
    split: frozenset[Buffer]
    words: int


def analyse(func: Func) -> Analysis:
    """Walks `func` once."""
    written: dict[Stmt, dict[Buffer, None]] = {}
    accesses = _Accesses()
    words = 0
    stack: list[tuple[Stmt, tuple[Stmt, ...], Lane | None]] = [(func.body, (), None)]
    while stack:
        stmt, around, lane = stack.pop()
        for buffer in _written_by(stmt):
            for outer in around:
                written[outer][buffer] = None
        if isinstance(stmt, Launch | Invoke | HostOp):
            words = max(words, len(stmt.args) + isinstance(stmt, Launch))
        if lane is not None:
            accesses.visit(stmt, lane)
        if isinstance(stmt, For | If | Switch | While):
            written[stmt] = {POLLS: None} if isinstance(stmt, While) else {}
            around = (*around, stmt)
        if isinstance(stmt, For) and stmt.kind is LoopKind.VECTOR and lane is None and isinstance(stmt.extent, Const):
            lane = (stmt.var, int(stmt.extent.value))
        stack += [(child, around, lane) for child in reversed(stmt.children())]
    widths = {b: max(c, key=lambda width: (c[width], width)) for b, c in (accesses.loads | accesses.stores).items()}
    split = frozenset(b for b, dims in accesses.own.items() if dims)
    return Analysis({s: tuple(b) for s, b in written.items()}, widths, split, words)


def _written_by(stmt: Stmt) -> tuple[Buffer, ...]:
    if isinstance(stmt, Store):
        return (stmt.buffer,)
    if isinstance(stmt, Launch | Invoke | HostOp):
        return tuple([a for a in stmt.args if isinstance(a, Buffer)])
    return (POLLS,) if isinstance(stmt, While) else ()


class _Accesses:
    """Collects how statements inside vector loops use buffers that are not in memory for all."""

    def __init__(self) -> None:
        self.stores: dict[Buffer, Counter[int]] = {}  # of each width
        self.loads: dict[Buffer, Counter[int]] = {}
        self.own: dict[Buffer, set[int]] = {}  # dimensions whose index is the lane in every access so far

    def visit(self, stmt: Stmt, lane: Lane) -> None:
        """Takes note of one statement inside the vector loop of `lane`."""
        if isinstance(stmt, Alloc):
            self.own[stmt.buffer] = set(range(stmt.buffer.rank))
        if isinstance(stmt, Store):
            self._access(stmt.buffer, stmt.indices, lane, self.stores)
        for e in post_order(stmt.exprs()):
            if isinstance(e, Load):
                self._access(e.buffer, e.indices, lane, self.loads)

    def _access(
        self, buffer: Buffer, indices: tuple[Expr, ...], lane: Lane, widths: dict[Buffer, Counter[int]]
    ) -> None:
        var, extent = lane
        if buffer in self.own:
            self.own[buffer] -= {d for d, index in enumerate(indices) if index is not var}
        if buffer.scope is Scope.REGISTER and any(e is var for e in post_order(indices)):
            widths.setdefault(buffer, Counter())[extent] += 1
