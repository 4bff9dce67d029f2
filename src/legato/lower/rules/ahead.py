"""Weights that come from memory, asked for while those before them are used.

Several register tiles use the weights of a block one after the other: turns. Each asks for an equal share of the next
block, so that memory is busy all the time; if the first asked for all of it, it would wait for memory, and memory for
the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from legato.arith.expr import Const, Expr, Var, const, floordiv, le, min_, select
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.lower.rules.nest import extent_of, loop
from legato.te.tensor import Reduction
from legato.tir.expr import Load
from legato.tir.stmt import LoopKind, Prefetch, Stmt

__all__ = ["Ahead", "Share", "share_of"]

FEWEST_COUNTED: Final = 3  # where turns are counted by the running program, no more than a share of so many is written


@dataclass(frozen=True, slots=True)
class Ahead:
    """While weights are used, those at the next value of `along` are fetched; `turns` tiles use the same weights, as
    many as the running program counts where that is an expression."""

    along: Var
    turns: int | Expr = 1


@dataclass(frozen=True, slots=True)
class Share:
    """What one turn asks for: with every `steps` steps of the reduction (a sum over `terms` terms), a share of the
    `lines` lines, of `lanes` elements each, that those steps use of the next block, which lies in memory as it is used.
    Turns behind those that are needed for all lines ask for little of what follows, all for the same."""

    ahead: Ahead
    steps: int
    terms: int
    lines: int
    lanes: int

    @property
    def most(self) -> int:
        """Lines in the largest share."""
        turns = self.ahead.turns
        return -(-self.lines // (turns if isinstance(turns, int) else FEWEST_COUNTED))

    def _size(self) -> tuple[Expr, Expr]:
        """Lines in a share, and how many shares are all lines."""
        size: Expr = const(self.most)
        shares: Expr = const(-(-self.lines // self.most))
        if not isinstance(self.ahead.turns, int):
            for less in reversed(range(1, self.most)):
                needed = const(-(-self.lines // less))
                is_enough = le(needed, self.ahead.turns)
                size, shares = select(is_enough, const(less), size), select(is_enough, needed, shares)
        return size, shares

    def fetch(self, x: Load, turn: Expr, term: Expr, at_next: Mapping[Var, Expr]) -> Stmt:
        """Asks for the lines of the steps that begin at number `term` of the sum, in turn `turn`; x: the weights;
        at_next: where the next block begins."""
        size, shares = self._size()
        if not (isinstance(self.ahead.turns, int) and isinstance(shares, Const) and self.ahead.turns <= shares.value):
            turn = min_(turn, shares)
        group = turn * (self.terms // self.steps) + floordiv(term, const(self.steps))
        start = substitute(x, dict(at_next))
        assert isinstance(start, Load)
        *outer, within = start.indices

        def line(n: Expr) -> Stmt:
            place = group * size + (n if isinstance(size, Const) else min_(n, size - 1))
            return Prefetch(x.buffer, (*outer, simplify(place * self.lanes + within)))

        return loop("f", const(self.most), line, LoopKind.UNROLL)


def share_of(
    ahead: Ahead | None, x: Load, reduction: Reduction, within: Var, steps: int, width: int, lanes: int
) -> Share | None:
    """How the turns share the next block of `x`; None where they cannot: there is one, or the block (the sum's terms by
    `width` channels, `within` being the place among them) does not lie in memory as it is used.

    steps: terms of the sum that are written out; lanes: elements of a line.
    """
    if ahead is None or ahead.turns == 1:
        return None
    inner = tuple(axis.var for axis in reduction.axes)
    terms = 1
    for axis in reduction.axes:
        terms *= extent_of(axis.extent) or 0
    last = extent_of(reduction.axes[-1].extent) or 0
    follows = x.indices[-1 - len(inner) :] == (*inner, within) and x.buffer.layout.is_row_major
    if not follows or not terms or last % steps:
        return None
    return Share(ahead, steps, terms, -(-steps * width // lanes), lanes)
