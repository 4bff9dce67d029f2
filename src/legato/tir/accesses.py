"""What statements read and store: each place with the conditions of the Selects around it.

A Select reads on its chosen side only, so a Load there happens where the condition says. Conditions of Ifs, and the
ranges of loops, are those of the statement: who walks over a function has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from legato.arith.expr import Expr, Select
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.tir.buffer import Buffer
from legato.tir.expr import Load, Size, Tag
from legato.tir.stmt import Stmt, Store

__all__ = ["Access", "Guard", "accesses", "limits"]


@dataclass(frozen=True, eq=False, slots=True)
class Guard:
    """Where `cond` holds (or does not), and what is around it holds as well. Compared by identity."""

    cond: Expr
    holds: bool
    outer: Guard | None


@dataclass(frozen=True, slots=True)
class Access:
    """`buffer[indices]`, read or stored to, where `guard` allows it (None: always)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    guard: Guard | None
    is_store: bool = False


def accesses(stmt: Stmt) -> Iterator[Access]:
    """The places that `stmt` itself reads and stores to, without the statements in it, in an order in which each comes
    behind those that its subscripts and conditions read. A Prefetch accesses nothing but what its subscripts do."""
    yield from read_by(stmt.exprs())
    if isinstance(stmt, Store):
        yield Access(stmt.buffer, stmt.indices, None, is_store=True)


def read_by(exprs: Iterable[Expr]) -> Iterator[Access]:
    """The places that `exprs` read, each once under the same conditions."""
    reads = _Reads()
    for root in exprs:
        yield from reads.of(root)


class _Reads:
    def __init__(self) -> None:
        self.reading: dict[Expr, bool] = {}  # whether a node reads memory, or looks at an object
        self.seen: set[tuple[Expr, Guard | None]] = set()

    def _reads(self, e: Expr) -> bool:
        known = self.reading
        if e not in known:
            for node in post_order([e], lambda n: n not in known):
                if node not in known:
                    known[node] = isinstance(node, Load | Size | Tag) or any(known[c] for c in node.children())
        return known[e]

    def of(self, root: Expr) -> Iterator[Access]:
        todo: list[tuple[Expr, Guard | None, bool]] = [(root, None, False)]
        while todo:
            e, guard, done = todo.pop()
            if done:
                if isinstance(e, Load):
                    yield Access(e.buffer, e.indices, guard)
                elif isinstance(e, Select):  # its condition has been read
                    sides = [(e.b, Guard(e.cond, False, guard)), (e.a, Guard(e.cond, True, guard))]
                    todo += [(side, g, False) for side, g in sides if self._reads(side)]
                continue
            if (e, guard) in self.seen or (e, None) in self.seen or not self._reads(e):
                continue
            self.seen.add((e, guard))
            if isinstance(e, Select) and (self._reads(e.a) or self._reads(e.b)):
                todo += [(e, guard, True), (e.cond, guard, False)]
            else:
                todo.append((e, guard, True))
                todo += [(child, guard, False) for child in reversed(e.children())]


def limits(buffer: Buffer) -> tuple[tuple[int, Expr], ...]:
    """Along each dimension the subscripts that are allowed, halo included: from `low` up to `end`, which is not."""
    halos = [buffer.layout.halo_of(d) for d in range(buffer.rank)]
    return tuple((-before, extent + after) for (before, after), extent in zip(halos, buffer.shape, strict=True))
