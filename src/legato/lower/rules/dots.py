"""The rule for sums along memory whose terms share an operand: dot products of many rows with the same vectors.

    parallel (outer axes, tiles of rows):
        dots[m][lanes] = 0
        for r in reduction, vectors along its last axis:
            for m: dots[m][:] = combine(dots[m][:], body at row m)        what all rows share is read once
        sums[m] = the lanes of dots[m], joined
        store epilogue(sums): vectors of rows

A convolution with one output channel is such: its data lies along the channels that it sums over. The rule for rows
would make one sum after the other, each waiting for itself. Of few channels, each has a sum for each row, side by side
as they are stored; register tiles of so few would leave most of each vector unused. Where the windows of neighbouring
rows overlap, each element is loaded once for all of a tile's rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from legato.arith.expr import Expr, Var, const, floordiv, floormod
from legato.arith.substitute import rewrite, substitute
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.rules.across import across
from legato.lower.rules.nest import extent_of, in_tiles, is_threaded, is_unit, lanes_for, loop, serial, vector
from legato.lower.rules.overlap import Meeting, Overlap, find_overlap
from legato.lower.rules.row import RowJob, RowReduction, along_vectors, lanes_along
from legato.lower.rules.tile_update import combine
from legato.lower.rules.unrolled import unrolled
from legato.te.inline import loads
from legato.te.lower import identity
from legato.te.tensor import Axis
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Stmt, Store, block

__all__ = ["DotsPlan", "dots", "plan_dots"]

FEWEST = 4  # sums that are worth a tile
FEW = 4  # channels whose sums are worth a tile however long they are
TERMS = 16  # a lane adds up at most so many terms that follow each other: longer sums lose too much
MOST = 4  # and so many for each lane there is, where windows bring several
JOIN = 4  # operations for each sum that join its lanes


@dataclass(frozen=True, slots=True)
class DotsPlan:
    """How dots go through a job: tiles of rows along `row`, for each of which there are `many` sums along `beside`, as
    long as there are registers for `most`; each adds up vectors of `lanes`."""

    outer: tuple[Axis, ...]
    row: Axis
    beside: Axis | None
    most: int
    lanes: int

    @property
    def many(self) -> int:
        return 1 if self.beside is None else extent_of(self.beside.extent) or 1


def plan_dots(job: RowJob, target: Target) -> DotsPlan | None:
    """How to compute `job`, if it is one reduction of vectors, rows share some of what it reads, and its sums can be
    formed in parts that are short enough; None for others."""
    outer = [a for a in job.outer if not is_unit(a.extent)]
    if job.inner or len(job.reductions) != 1 or not outer:
        return None
    (one,) = job.reductions
    lanes, dtype = lanes_along(one, target), one.tensor.dtype
    if lanes is None:
        return None
    found = _among(outer, one, min(target.vector_registers // 2, target.lanes(dtype)), lanes)
    *terms, last = (extent_of(a.extent) or 0 for a in one.reduction.axes)
    known = extent_of(found.row.extent)
    shares = any(not depends(x, found.row.var) for x in loads(one.body))
    if not shares or (known is not None and known * found.many < FEWEST):
        return None
    vectors, most = -(-last // lanes), MOST * lanes
    if found.beside is not None and found.many * (math.prod(terms) * vectors + JOIN) > math.prod(terms) * last:
        return None
    is_worth = vectors <= most or 1 < found.many <= FEW
    return found if is_worth and 0 < math.prod(terms) * vectors <= most * most else None


def _among(outer: Sequence[Axis], one: RowReduction, most: int, lanes: int) -> DotsPlan:
    """The plan for sums along the axes `outer`: the last is beside the rows if it is of few channels, each of which has
    factors of its own for the same data."""
    *others, last = outer
    channels, reads = extent_of(last.extent), loads(one.body)
    if others and channels is not None and 2 * channels <= most:
        *rest, row = others
        if all(not depends(x, last.var) or not depends(x, row.var) for x in reads):
            return DotsPlan(tuple(rest), row, last, most, lanes)
    return DotsPlan(tuple(others), last, None, most, lanes)


def dots(job: RowJob, plan: DotsPlan, target: Target) -> Stmt:
    """The scheduled nest of `job` as planned."""
    units = {a.var: const(0) for a in job.outer if is_unit(a.extent)}
    terms = math.prod(extent_of(a.extent) or 1 for a in job.reductions[0].reduction.axes)
    threaded = is_threaded([a.extent for a in job.outer], terms)

    def tile(env: dict[Var, Expr], first: Expr, rows: int) -> Stmt:
        return _Tile(job, target, plan, {**units, **env}, first, rows).build()

    return in_tiles([*plan.outer, plan.row], plan.most // plan.many, threaded, tile)


class _Tile:
    """The sums of `rows` rows, the first being `first`, at fixed outer axes."""

    def __init__(
        self, job: RowJob, target: Target, plan: DotsPlan, env: dict[Var, Expr], first: Expr, rows: int
    ) -> None:
        self.job, self.target, self.plan, self.env, self.first, self.rows = job, target, plan, env, first, rows
        (self.one,) = job.reductions
        self.most, self.lanes = plan.most, plan.lanes

    def build(self) -> Stmt:
        *rest, last = self.one.reduction.axes
        length = extent_of(last.extent) or 1
        vectors = -(-length // self.lanes)
        is_long = vectors > TERMS
        inner = list[Axis]()  # those of one part, beside the last
        while not is_long and rest and vectors * (extent_of(rest[-1].extent) or 1) <= MOST * self.lanes:
            vectors *= extent_of(rest[-1].extent) or 1
            inner.insert(0, rest.pop())
        if not is_long and not rest:
            return self._summed(inner, {}, const(0), length, self._joined)
        sums = self._partial("sums", Scope.LOCAL)
        zero = identity(self.one.reduction.combiner, sums.dtype)

        def more(acc: Buffer) -> Stmt:
            return self._each(lambda place: Store(sums, place, self._combined(Load(sums, place), Load(acc, place))))

        def parts(env: dict[Var, Expr]) -> Stmt:
            return _in_parts(
                length,
                TERMS * self.lanes if is_long else length,
                lambda first, terms: self._summed(inner, env, first, terms, more),
            )

        start = self._each(lambda place: Store(sums, place, zero))
        return Alloc(sums, block(start, serial(rest, parts), self._joined(sums)))

    def _partial(self, name: str, scope: Scope = Scope.REGISTER) -> Buffer:
        """A vector for each sum."""
        return Buffer(name, (const(self.most * self.lanes),), self.one.tensor.dtype, scope=scope)

    def _each(self, body: Callable[[tuple[Expr, ...]], Stmt]) -> Stmt:
        """`body` at the lanes of every vector."""
        lanes = self.lanes
        return vector(lanes, lambda lane: unrolled("n", self.most, lambda n: body((n * lanes + lane,))))

    def _joined(self, sums: Buffer) -> Stmt:
        return across(sums, self.most, self.lanes, self.target.lanes(sums.dtype), self._combined, self._stored)

    def _at(self, number: Expr, env: dict[Var, Expr]) -> dict[Var, Expr]:
        """The values of the axes at a sum, by its number: those of a row lie side by side."""
        many = const(self.plan.many)
        values = {**self.env, self.plan.row.var: self.first + floordiv(number, many), **env}
        if self.plan.beside is not None:
            values[self.plan.beside.var] = floormod(number, many)
        return values

    def _combined(self, a: Expr, b: Expr) -> Expr:
        return combine(self.one.reduction.combiner, a, b, self.target)

    def _summed(
        self,
        axes: Sequence[Axis],
        outside: dict[Var, Expr],
        first: Expr,
        terms: int,
        then: Callable[[Buffer], Stmt],
    ) -> Stmt:
        """`then` of the partial sums of every row, a vector of each: over `axes` and so many terms of the last axis,
        from `first` on."""
        rest, last = list(axes), self.one.reduction.axes[-1]
        acc = self._partial("dots")
        zero = identity(self.one.reduction.combiner, acc.dtype)
        overlap = self._overlap(rest)
        slides = rest.pop() if overlap is not None else None

        def of_lane(lane: Expr) -> Stmt:
            def add(env: dict[Var, Expr], n: Expr) -> Stmt:
                place = (n * self.lanes + lane,)
                value = substitute(self.one.body, self._at(n, env))
                return Store(acc, place, self._combined(Load(acc, place), value))

            def row(env: dict[Var, Expr], m: Expr) -> Stmt:
                return unrolled("n", self.plan.many, lambda n: add(env, m * self.plan.many + n))

            def meet(env: dict[Var, Expr], at: Meeting) -> Stmt:
                assert slides is not None
                return unrolled(
                    "r", at.count, lambda r: row({**env, slides.var: at.term + r * at.on}, at.row - r * at.back)
                )

            def step(env: dict[Var, Expr]) -> Stmt:
                if overlap is None:
                    return unrolled("m", self.rows, partial(row, env))
                return block(*(meet(env, at) for at in overlap.meetings(self.rows)))

            def along(env: dict[Var, Expr]) -> Stmt:
                return along_vectors(const(terms), self.lanes, 1, lane, lambda _, i: step({**env, last.var: first + i}))

            start = unrolled("n", self.most, lambda n: Store(acc, (n * self.lanes + lane,), zero))
            return block(start, serial(rest, along, outside))

        return Alloc(acc, block(vector(self.lanes, of_lane), then(acc)))

    def _overlap(self, axes: Sequence[Axis]) -> Overlap | None:
        """How windows slide along the rows with the last of `axes`; None where that saves no loads, or what is used
        again has no registers."""
        if not axes or not self.target.has_three_operands:
            return None
        found = find_overlap(self.one.body, self.plan.row, axes[-1])
        if found is None or self.most + found.reach * self.plan.many >= self.target.vector_registers:
            return None
        return found

    def _stored(self, joined: Buffer) -> Stmt:
        """The epilogue of every sum."""
        job, init, lanes = self.job, self.one.reduction.init, lanes_for(self.target, [self.job.body])

        def store(start: int, lane: Expr) -> Stmt:
            n = lane + start
            env = self._at(n, {})
            total: Expr = Load(joined, (n,))
            total = total if init is None else self._combined(substitute(init, env), total)
            body = rewrite(job.body, lambda e: total if isinstance(e, Load) and e.buffer is self.one.tensor else None)
            return Store(job.out, tuple(substitute(i, env) for i in job.index), substitute(body, env))

        sums = self.rows * self.plan.many
        return block(*(vector(min(lanes, sums - s), partial(store, s)) for s in range(0, sums, lanes)))


def _in_parts(length: int, most: int, part: Callable[[Expr, int], Stmt]) -> Stmt:
    """`part` of where each begins and of its length: as many as are full, and what is left."""
    full, left = divmod(length, most)
    parts = [loop("part", const(full), lambda n: part(n * most, most))] if full else []
    return block(*parts, *([part(const(full * most), left)] if left else []))
