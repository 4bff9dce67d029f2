"""Long float sums in parts: rounding errors grow with the length of a part plus the number of parts, not their product.

The parts of a sum do not depend on how many threads or rows there are: they follow from its axes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from legato.arith.bounds import bounds
from legato.arith.expr import Expr, Var, const, floordiv, lt, select
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.lower.rules.nest import extent_of, number_of, serial
from legato.te.tensor import Axis, Reduction
from legato.tir.buffer import Buffer
from legato.tir.expr import Call, Load
from legato.tir.stmt import Let, Stmt, Store, block

__all__ = ["Parts", "join_part", "parts_of"]


@dataclass(frozen=True, slots=True)
class Parts:
    """A reduction formed in parts: for all values of `outer`, for each of `which`, a part over `inner`; and one more
    over the `rest` of the first of `inner`. `cut` has the value of the axis that was cut into `which` and that."""

    outer: tuple[Axis, ...]
    which: Axis
    inner: tuple[Axis, ...]
    rest: Expr
    cut: Mapping[Var, Expr]

    @property
    def _counters(self) -> tuple[Axis, ...]:
        """The axes that number the parts."""
        return *self.outer, self.which if self.rest is const(0) else Axis(self.which.var, self.which.extent + 1)

    @property
    def count(self) -> Expr:
        """How many parts there are."""
        return simplify(math.prod((a.extent for a in self._counters), start=const(1)))

    def loops(self, part: Callable[[Sequence[Axis], dict[Var, Expr], Expr], Stmt]) -> Stmt:
        """The loops around the parts; `part` makes one over axes, at the values of the loops outside, by its number."""

        def one(axes: Sequence[Axis], env: dict[Var, Expr]) -> Stmt:
            return part(axes, env, number_of(self._counters, env))

        def along(env: dict[Var, Expr]) -> Stmt:
            full = serial([self.which], lambda inside: one(self.inner, inside), env)
            if self.rest is const(0):
                return full
            first, *others = self.inner
            return block(full, one((Axis(first.var, self.rest), *others), {**env, self.which.var: self.which.extent}))

        return serial(self.outer, along)


def parts_of(reduction: Reduction, dtype: DType, most: int, unroll: int) -> Parts | None:
    """How a float sum that may have more than `most` terms is cut into parts of at most so many; None for others. An
    innermost axis that is cut yields multiples of `unroll`."""
    if reduction.combiner != "sum" or not dtype.is_float:
        return None
    inner: list[Axis] = []
    terms = 1  # of all of inner
    for axis in reversed(reduction.axes):
        largest = bounds(axis.extent).hi
        if not largest or terms * largest > most:
            break
        inner.insert(0, axis)
        terms *= largest
    else:
        return None
    outer = reduction.axes[: -1 - len(inner)]
    step = _step(extent_of(axis.extent), most // terms, unroll if terms == 1 else 1)
    if step == 1:
        return Parts(outer, axis, tuple(inner), const(0), {})
    count = simplify(floordiv(axis.extent, const(step)))
    which, within = Axis(Var(axis.var.name, lo=0), count), Axis(Var(axis.var.name, lo=0), const(step))
    rest = simplify(axis.extent - count * step)
    return Parts(outer, which, (within, *inner), rest, {axis.var: which.var * step + within.var})


def _step(extent: int | None, room: int, unroll: int) -> int:
    """How many values of an axis make up a part that has room for so many: nearly as many, and a divisor of the extent,
    if there is one."""
    most = max(room // unroll, 1) * unroll
    fitting = range(most, room // 4, -unroll)
    return next((d for d in fitting if extent is not None and extent % d == 0), most)


def join_part(sums: Buffer, part: Buffer, lost: Buffer | None, place: tuple[Expr, ...]) -> Stmt:
    """Adds a part to the sum of those before. With `lost`, by how much that is too large, as exactly as if in twice the
    precision (Kahan 1965); nothing is lost of a sum that is infinite."""
    before, added = Load(sums, place), Load(part, place)
    if lost is None:
        return Store(sums, place, before + added)
    more, total = Var("more", sums.dtype), Var("total", sums.dtype)
    is_finite = lt(Call("abs", (total,), sums.dtype), const(float("inf"), sums.dtype))
    error = select(is_finite, (total - before) - more, const(0, sums.dtype))
    keep = block(Store(lost, place, error), Store(sums, place, total))
    return Let(more, added - Load(lost, place), Let(total, before + more, keep))
