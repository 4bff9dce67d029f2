"""The rule for sums along memory whose terms share an operand: dot products of many rows with the same vectors.

    parallel (outer axes, tiles of rows):
        acc[m][lanes] = 0
        for r in reduction, vectors along its last axis:
            for m: acc[m][:] = combine(acc[m][:], body at row m)        what all rows share is read once
        sums[m] = the lanes of acc[m], joined
        store epilogue(sums): vectors of rows

A convolution with one output channel is such: its data lies along the channels that it sums over. The rule for rows
would make one sum after the other, each waiting for itself.
"""

from __future__ import annotations

import math
from functools import partial

from legato.arith.expr import Expr, Var, const
from legato.arith.substitute import rewrite, substitute
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.rules.across import across
from legato.lower.rules.nest import extent_of, in_tiles, is_threaded, is_unit, lanes_for, serial, vector
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

    def tile(env: dict[Var, Expr], first: Expr, rows: int) -> Stmt:
        return _Tile(job, target, {**units, **env}, row.var, first, rows, most).build()

    return in_tiles([*outer, row], most, threaded, tile)


class _Tile:
    """`rows` rows of axis `row`, the first being `first`, at fixed other axes; there are registers for `most`."""

    def __init__(
        self, job: RowJob, target: Target, env: dict[Var, Expr], row: Var, first: Expr, rows: int, most: int
    ) -> None:
        self.job, self.target, self.env, self.row, self.first, self.rows = job, target, env, row, first, rows
        (self.one,) = job.reductions
        self.most, self.lanes = most, lanes_along(self.one, target) or 1

    def build(self) -> Stmt:
        size = self.most * self.lanes
        acc = Buffer("dots", (const(size),), self.one.tensor.dtype, scope=Scope.REGISTER)
        joined = across(acc, self.most, self.lanes, self.target.lanes(acc.dtype), self._combined, self._stored)
        return Alloc(acc, block(self._summed(acc), joined))

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
