"""The rule for sums along memory whose terms share an operand: dot products of many rows with the same vectors.

    parallel (outer axes, tiles of rows):
        acc[m][lanes] = 0
        for r in reduction, vectors along its last axis:
            for m: acc[m][:] = combine(acc[m][:], body at row m)        what all rows share is read once
        sums[m] = the lanes of acc[m], neighbours joined, then pairs of neighbours, …
        store epilogue(sums): vectors of rows

A convolution with one output channel is such: its data lies along the channels that it sums over. The rule for rows
would make one sum after the other, each waiting for itself.
"""

from __future__ import annotations

import math
from functools import partial

from legato.arith.expr import Expr, Var, const, floordiv, floormod
from legato.arith.substitute import rewrite, substitute
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.rules.nest import (
    balanced,
    extent_of,
    is_threaded,
    is_unit,
    lanes_for,
    parallel,
    serial,
    together,
    vector,
)
from legato.lower.rules.row import RowJob, along_vectors, lanes_along
from legato.lower.rules.tile_update import combine
from legato.lower.rules.unrolled import unrolled
from legato.te.inline import loads
from legato.te.lower import identity
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Stmt, Store, block

__all__ = ["dots", "suits_dots"]

FEWEST = 4  # rows that are worth a tile
MOST = 4  # a lane adds up at most so many terms for each lane there is: longer sums lose too much


def suits_dots(job: RowJob, target: Target) -> bool:
    """True if `job` is one reduction of vectors, rows share some of what it reads, and its sums are short enough that
    they need not be formed in parts."""
    outer = [a for a in job.outer if not is_unit(a.extent)]
    if job.inner or len(job.reductions) != 1 or not outer:
        return False
    (one,) = job.reductions
    lanes, row = lanes_along(one, target), outer[-1]
    *terms, last = (extent_of(a.extent) or 0 for a in one.reduction.axes)
    known = extent_of(row.extent)
    shares = any(not depends(x, row.var) for x in loads(one.body))
    if lanes is None or not shares or (known is not None and known < FEWEST):
        return False
    return 0 < math.prod(terms) * -(-last // lanes) <= MOST * lanes


def dots(job: RowJob, target: Target) -> Stmt:
    """The scheduled nest of a `job` that suits."""
    units = {a.var: const(0) for a in job.outer if is_unit(a.extent)}
    *outer, row = [a for a in job.outer if a.var not in units]
    most = min(target.vector_registers // 2, target.lanes(job.out.dtype))
    terms = math.prod(extent_of(a.extent) or 1 for a in job.reductions[0].reduction.axes)
    threaded = is_threaded([a.extent for a in job.outer], terms)

    def tiles(first: Expr, count: Expr, rows: int) -> Stmt:
        def tile(values: list[Expr]) -> Stmt:
            *others, number = values
            env = {**units, **{a.var: v for a, v in zip(outer, others, strict=True)}}
            return _Tile(job, target, env, row.var, first + number * rows, rows, most).build()

        return parallel([*(a.extent for a in outer), count], tile, threaded)

    known = extent_of(row.extent)
    if known is None:
        full = floordiv(row.extent, const(most))
        return together([tiles(const(0), full, most), tiles(full * most, floormod(row.extent, const(most)), 1)])
    return together([tiles(const(first), const(count), rows) for rows, count, first in balanced(known, most)])


class _Tile:
    """`rows` rows of axis `row`, the first being `first`, at fixed other axes; there are registers for `most`."""

    def __init__(
        self, job: RowJob, target: Target, env: dict[Var, Expr], row: Var, first: Expr, rows: int, most: int
    ) -> None:
        self.job, self.target, self.env, self.row, self.first, self.rows = job, target, env, row, first, rows
        (self.one,) = job.reductions
        self.most, self.lanes = most, lanes_along(self.one, target) or 1

    def build(self) -> Stmt:
        acc = self._registers("acc", self.most * self.lanes)
        return Alloc(acc, block(self._summed(acc), self._joined(acc, self.most * self.lanes)))

    def _registers(self, name: str, size: int) -> Buffer:
        return Buffer(name, (const(size),), self.one.tensor.dtype, scope=Scope.REGISTER)

    def _at(self, m: Expr, env: dict[Var, Expr]) -> dict[Var, Expr]:
        return {**self.env, self.row: self.first + m, **env}

    def _combined(self, a: Expr, b: Expr) -> Expr:
        return combine(self.one.reduction.combiner, a, b, self.target)

    def _summed(self, acc: Buffer) -> Stmt:
        """The partial sums of every row: a vector of each."""
        *rest, last = self.one.reduction.axes
        zero = identity(self.one.reduction.combiner, acc.dtype)

        def of_lane(lane: Expr) -> Stmt:
            def update(env: dict[Var, Expr], m: Expr) -> Stmt:
                value = substitute(self.one.body, self._at(m, env))
                place = (m * self.lanes + lane,)
                return Store(acc, place, self._combined(Load(acc, place), value))

            def along(env: dict[Var, Expr]) -> Stmt:
                def step(_: int, i: Expr) -> Stmt:
                    return unrolled("m", self.rows, partial(update, {**env, last.var: i}))

                return along_vectors(last.extent, self.lanes, 1, lane, step)

            start = unrolled("m", self.most, lambda m: Store(acc, (m * self.lanes + lane,), zero))
            return block(start, serial(rest, along))

        return vector(self.lanes, of_lane)

    def _joined(self, sums: Buffer, size: int) -> Stmt:
        """Joins neighbours until there is one sum for each row; then stores what is made of them."""
        if size == self.most:
            return self._stored(sums)
        joined, width = self._registers("joined", size // 2), min(self.lanes, size // 2)

        def joins(v: Expr) -> Stmt:
            def join(lane: Expr) -> Stmt:
                i = v * width + lane
                return Store(joined, (i,), self._combined(Load(sums, (i * 2,)), Load(sums, (i * 2 + 1,))))

            return vector(width, join)

        return Alloc(joined, block(unrolled("v", size // 2 // width, joins), self._joined(joined, size // 2)))

    def _stored(self, sums: Buffer) -> Stmt:
        """The epilogue of every sum."""
        job, init, lanes = self.job, self.one.reduction.init, lanes_for(self.target, [self.job.body])

        def store(start: int, lane: Expr) -> Stmt:
            m = lane + start
            env = self._at(m, {})
            total: Expr = Load(sums, (m,))
            total = total if init is None else self._combined(substitute(init, env), total)
            body = rewrite(job.body, lambda e: total if isinstance(e, Load) and e.buffer is self.one.tensor else None)
            return Store(job.out, tuple(substitute(i, env) for i in job.index), substitute(body, env))

        starts = range(0, self.rows, lanes)
        return block(*(vector(min(lanes, self.rows - s), partial(store, s)) for s in starts))
