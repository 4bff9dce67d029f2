"""Loops that write at places which data gives, divided among threads where places never meet.

Writes to one place happen in row-major order of what is written, in one thread: threads share the dimensions in which
every element of the result is written from its own part of the data. So the result has the same bits for any number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.arith.expr import Expr, Var, cdiv, const, gt, land, min_
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.types import Dim
from legato.ops._tensors import as_int, known_int
from legato.te.tensor import Tensor
from legato.tir.stmt import For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["Combine", "Free", "Write", "Writes"]

BLOCK = 64  # elements of the last dimension that are written side by side

Free = tuple[Expr, ...]
Combine = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True, slots=True)
class Write:
    """A value to be written at place `at`, if the conditions hold, which come first, and those `inside`."""

    at: Sequence[Expr]
    value: Expr
    conditions: Sequence[Expr] = ()
    inside: Callable[[Sequence[Expr]], Sequence[Expr]] = lambda at: ()


@dataclass(frozen=True, slots=True)
class Writes:
    """What is written: for each element of `before` and `after`, and of `steps`, the values that `write` says.

    The result's dims are `before`, in which every element is written from its own part of the data, `own`, in which
    the data says where, and `after`, which are like `before`. With `alike`, place and conditions are the same for all
    elements of the last of `after`.
    """

    before: Sequence[Dim]
    own: Sequence[Dim]
    after: Sequence[Dim]
    steps: Sequence[Dim]
    write: Callable[[Free, Free, Free], Sequence[Write]]
    alike: bool

    def program(self, out: Tensor, start: Callable[[Free], Expr], combine: Combine) -> Stmt:
        """`out` holds `start` and then combines what is there with each value, some elements of `before` and `after`
        after the other."""
        lead, row = (self.after[:-1], self.after[-1]) if self.after else ((), const(1))
        known = known_int(row)
        width = row if known is not None and 0 < known <= BLOCK else const(BLOCK)
        is_whole = known is not None and known % as_int(width) == 0

        def body(free: Free) -> Stmt:
            outer, rest, first = free[: len(self.before)], free[len(self.before) : -1], free[-1] * width
            lanes = width if is_whole else min_(width, row - first)

            def index(own: Sequence[Expr], lane: Expr) -> Free:
                return (*outer, *own, *after(lane))

            def after(lane: Expr) -> Free:
                return (*rest, first + lane) if self.after else ()

            begin = _nest(self.own, lambda o: _lanes(lanes, lambda k: Store(out, index(o, k), start(index(o, k)))), "o")
            return block(begin, self._writing(out, outer, after, index, lanes, combine))

        return _nest((*self.before, *lead, cdiv(row, width)), body, "f")

    def _writing(
        self,
        out: Tensor,
        outer: Free,
        after: Callable[[Expr], Free],
        index: Callable[[Sequence[Expr], Expr], Free],
        lanes: Expr,
        combine: Combine,
    ) -> Stmt:
        def one(s: Free, nth: int) -> Stmt:
            def put(at: Sequence[Expr], lane: Expr) -> Stmt:
                here = index(at, lane)
                return Store(out, here, combine(out[here], self.write(outer, s, after(lane))[nth].value))

            def placed(lane: Expr, body: Callable[[Sequence[Expr]], Stmt]) -> Stmt:
                found = self.write(outer, s, after(lane))[nth]
                at = [Var(f"at{n}", dt.index, None) for n in range(len(found.at))]
                stmt = _guarded(found.inside(at), body(at))
                for name, value in zip(reversed(at), reversed(found.at), strict=True):
                    stmt = Let(name, value, stmt)
                return _guarded(found.conditions, stmt)

            if self.alike:
                return placed(const(0), lambda at: _lanes(lanes, lambda lane: put(at, lane)))
            return _lanes(lanes, lambda lane: placed(lane, lambda at: put(at, lane)), LoopKind.SERIAL)

        def step(s: Free) -> Stmt:
            count = len(self.write(outer, s, after(const(0))))
            return block(*(one(s, n) for n in range(count)))

        some = [gt(n, 0) for n in self.own if (known_int(n) or 0) <= 0]  # nothing is written into an empty dimension
        return _guarded(some, _nest(self.steps, step, "s"))


def _nest(extents: Sequence[Dim], body: Callable[[Free], Stmt], name: str) -> Stmt:
    """Loops over `extents` around `body(subscripts)`."""
    variables = [Var(f"{name}{d}", dt.index, 0) for d in range(len(extents))]
    stmt = body(tuple(variables))
    for v, extent in zip(reversed(variables), reversed(extents), strict=True):
        stmt = For(v, extent, stmt)
    return stmt


def _lanes(extent: Expr, body: Callable[[Expr], Stmt], kind: LoopKind = LoopKind.VECTOR) -> Stmt:
    known = known_int(extent)
    if known == 1:
        return body(const(0))
    lane = Var("lane", dt.index, 0, None if known is None else known - 1)
    return For(lane, extent, body(lane), kind if known is not None else LoopKind.SERIAL)


def _guarded(conditions: Sequence[Expr], body: Stmt) -> Stmt:
    if not conditions:
        return body
    every = conditions[0]
    for c in conditions[1:]:
        every = land(every, c)
    return If(every, body)
