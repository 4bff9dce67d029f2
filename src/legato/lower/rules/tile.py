"""The rule for one reduction with a kept axis along memory: contractions and windows, as a register tile.

An output tile of MR × NV vectors is accumulated in registers while the reduction runs; the epilogue (bias, activation,
residual…) is computed on the tile as it is stored:

    parallel (rows, channel blocks):
        for tiles of MR along the second axis:
            acc[MR][NV] = init
            for r in reduction:
                w[NV] = operands that follow the channel            (packed: sequential vectors)
                for m: a = operands that do not (broadcast);  acc[m][:] = combine(acc[m][:], a, w[:])
            store epilogue(acc)

Where the target repeats a single element along a vector by a shuffle only, a channel has several sums side by side
(`algorithms.interleaved`), which the epilogue adds up.

Extents are split into nearly equal tiles, so there are at most two tile bodies per axis. Every element sees the same
operations in the same order whatever tile it falls in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from legato.arith.expr import Binary, Expr, Op, Var, cdiv, const, eq, floordiv, lt
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute
from legato.base.dtype import DType
from legato.base.target import Target
from legato.lower.rules.nest import Body, balanced, extent_of, is_threaded, is_unit, loop, number_of, parallel, where
from legato.lower.rules.parts import Parts, join_part, parts_of
from legato.lower.rules.tile_job import TileJob
from legato.lower.rules.tile_shape import FEW_ROWS, TileShape
from legato.lower.rules.tile_update import UNROLL, Place, TileUpdate, is_dot
from legato.lower.rules.unrolled import each, looped
from legato.te.lower import identity
from legato.te.tensor import Axis
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Call, Load
from legato.tir.stmt import Alloc, For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["is_long_epilogue", "register_tile", "row_tiles", "tile"]

PART = 64  # terms of a sum that are added up in one register: longer parts cost accuracy, shorter ones time
SHORT_PART = 16  # the same where time goes to loads: sums of what is read as it is, and weights that serve one row
LITTLE = 1 << 16  # products of one row that are little work: an image of one pixel, say
LONG = frozenset({"exp", "log", "tanh", "erf", "sin", "cos", "pow"})  # intrinsics that are whole polynomials


def tile(job: TileJob, shape: TileShape, target: Target) -> Stmt:
    """The scheduled nest of `job`."""
    channel = job.order[-1]
    outer = list(job.order[:-1])
    row = job.row
    units = {a.var: const(0) for a in outer if is_unit(a.extent)}
    outer = [a for a in outer if a is not row and a.var not in units]
    per_element = 1
    for axis in job.reduction.axes:
        per_element *= extent_of(axis.extent) or 64
    threaded = is_threaded([a.extent for a in job.order], per_element)
    blocks = simplify(cdiv(channel.extent, shape.width))
    tiles = const(1) if row is None else cdiv(row.extent, shape.rows)
    turns = simplify(math.prod((a.extent for a in outer), start=tiles))
    known, count = extent_of(turns), Var("turns", lo=0)
    is_shared = job.ahead is not None and job.blocks_first
    in_turns = job
    if job.ahead is not None and is_shared:
        in_turns = replace(job, ahead=replace(job.ahead, turns=count if known is None else known))

    def nest(values: list[Expr]) -> Stmt:
        values = list(values)
        block_index = values.pop(0 if job.blocks_first else -1)
        number = values.pop() if job.in_tiles else None
        env = {**units, **{a.var: v for a, v in zip(outer, values, strict=True)}, job.block: block_index}
        return _Tiles(in_turns, target, shape, env, number_of(outer, env) * tiles, number).rows(block_index)

    extents = [a.extent for a in outer]
    if job.in_tiles:
        extents.append(simplify(tiles))
    extents.insert(0 if job.blocks_first else len(extents), blocks)
    loops = parallel(extents, nest, threaded)
    return Let(count, turns, loops) if is_shared and known is None else loops


def register_tile(
    job: TileJob, shape: TileShape, target: Target, env: dict[Var, Expr], first: Expr, rows: int, turn: Expr
) -> Stmt:
    """One register tile: `rows` rows from `first` of the row axis, all channels of a block that starts at channel 0;
    `env` has the values of the other axes and of the block. turn: its number among those that use the same weights."""
    return _Tiles(job, target, shape, env, turn)._tile(const(0), shape.vectors, None, first, rows)


def row_tiles(job: TileJob, shape: TileShape, target: Target, env: Mapping[Var, Expr], block_index: Expr) -> Stmt:
    """All register tiles of channel block `block_index`, one after the other; `env` has the values of the axes but the
    row's and the channel's."""
    return _Tiles(job, target, shape, {**env, job.block: block_index}).rows(block_index)


def is_long_epilogue(epilogue: Callable[[Expr], Expr], dtype: DType) -> bool:
    """True if what becomes of each sum takes the time of a long one."""
    return any(isinstance(n, Call) and n.name in LONG for n in nodes(epilogue(const(0, dtype))))


class _Tiles:
    """The tiles of one channel block at fixed outer axes. turn: how many others use the same weights before them;
    number: which one along the row axis, if not all."""

    def __init__(
        self,
        job: TileJob,
        target: Target,
        shape: TileShape,
        env: dict[Var, Expr],
        turn: Expr | None = None,
        number: Expr | None = None,
    ) -> None:
        self.job, self.shape, self.row, self.number = job, shape, job.row, number
        self.turn = const(0) if turn is None else turn
        self.channel = job.order[-1]
        is_product = isinstance(job.body, Binary) and job.body.op is Op.MUL
        # What pairs are rounded to is coarser than what a long sum of them loses.
        self.is_load_bound = not is_product or self._serves_few_rows()
        part = SHORT_PART if self.is_load_bound else PART
        self.parts = None if is_dot(job.body) else parts_of(job.reduction, job.dtype, part, UNROLL)
        self.update = TileUpdate(job, target, shape, env, self.parts)

    def _serves_few_rows(self) -> bool:
        """True if there is one row, or few or nobody knows how many, and so little work in each that exactness costs
        nothing."""
        rows = 1 if self.row is None else extent_of(self.row.extent)
        if rows == 1:
            return True
        if self.job.is_part or (rows is not None and rows > FEW_ROWS):
            return False
        others = [extent_of(a.extent) or 0 for a in self.job.order if a is not self.row and a is not self.channel]
        terms = [extent_of(a.extent) or LITTLE for a in (*self.job.reduction.axes, self.channel)]
        return math.prod(others) == 1 and math.prod(terms) <= LITTLE

    def rows(self, block_index: Expr) -> Stmt:
        """All tiles along the row axis for channel block `block_index`, full or partial."""
        known = extent_of(self.channel.extent)
        width = self.shape.width
        start = block_index * width
        if known is not None and known % width == 0:
            return self._along(start, self.shape.vectors, None)
        if known is None:
            masked = self._along(start, self.shape.vectors, self.channel.extent)
            return If(lt(start + width - 1, self.channel.extent), self._along(start, self.shape.vectors, None), masked)
        left = known % width
        lanes, terms = self.shape.lanes, self.shape.terms
        vectors = -(-left * terms // lanes)
        partial = self._along(start, vectors, None if left * terms == vectors * lanes else const(known))
        if known < width:
            return partial
        return If(lt(block_index, known // width), self._along(start, self.shape.vectors, None), partial)

    def _along(self, start: Expr, vectors: int, limit: Expr | None) -> Stmt:
        """Tiles of nearly equal size along the row axis."""
        if self.row is None:
            return self._tile(start, vectors, limit, const(0), 1)
        known, unit = extent_of(self.row.extent), self.job.unit
        if known is None:
            return self._along_unknown(start, vectors, limit)
        turn, parts = 0, list[tuple[int, Body]]()

        def tiles(size: int, first: int, turn: int, t: Expr) -> Stmt:
            return self._tile(start, vectors, limit, t * size + first, size, t + turn)

        for size, count, first in balanced(known // unit, self.shape.rows // unit):
            parts.append((count, partial(tiles, size * unit, first * unit, turn)))
            turn += count
        if self.number is None:
            return block(*(loop("t", const(count), body) for count, body in parts))
        (count, larger), *others = parts
        if not others:
            return larger(self.number)
        ((_, smaller),) = others
        return If(lt(self.number, count), larger(self.number), smaller(self.number - count))

    def _along_unknown(self, start: Expr, vectors: int, limit: Expr | None) -> Stmt:
        """Full tiles along the row axis, whose extent is symbolic; the rows that are left over are one tile or two,
        nearly equal ones, of a height that is chosen at run time."""
        assert self.row is not None
        extent, rows = self.row.extent, self.shape.rows

        def of_height(first: Expr, height: Expr, number: Expr, low: int, high: int) -> Stmt:
            if low == high:
                return self._tile(start, vectors, limit, first, low, number)
            middle = (low + high) // 2
            lower, taller = (of_height(first, height, number, *ends) for ends in ((low, middle), (middle + 1, high)))
            return If(lt(height, middle + 1), lower, taller)

        def rest(n: Expr) -> Stmt:
            first, height = Var("first", lo=0), Var("height", lo=1, hi=most)
            tiles = Let(first, full * rows + n * cdiv(left, count), of_height(first, height, full + n, 1, most))
            return Let(height, floordiv(left + (count - 1 - n), count), tiles)

        full, most = floordiv(extent, const(rows)), max(1, rows // 2)
        left = extent - full * rows
        count = simplify(cdiv(left, const(most)))
        if simplify(full) is const(0):
            return loop("m", count, rest)
        main = loop("t", full, lambda t: self._tile(start, vectors, limit, t * rows, rows, t))
        return block(main, loop("m", count, rest))

    def _tile(
        self, start: Expr, vectors: int, limit: Expr | None, first: Expr, rows: int, number: Expr | None = None
    ) -> Stmt:
        """One register tile: rows first.. of the row axis, channels start.. of the vector axis. number: its own, among
        those along the row axis."""
        turn = self.turn if number is None else self.turn + number
        at = Place(start, vectors, limit, first, rows, self._lane(self.shape.lanes), turn)
        shape, is_long = self._shape(at), is_long_epilogue(self.job.epilogue, self.job.dtype)
        acc = Buffer("acc", shape, self.job.dtype, scope=Scope.REGISTER)
        sums = Buffer("sums", shape, self.job.dtype, scope=Scope.LOCAL) if self.parts or is_long else None
        stays = not is_long and (self.parts is None or self._has_known_parts())
        summands = [b for b in (sums, acc if stays else None) if b is not None]

        def read(*place: Expr) -> Expr:
            first, *others = (Load(b, place) for b in summands)
            return sum(others, start=first)

        def finish(end: Place, first: int, m: Expr, v: Expr) -> Stmt:
            return self._finish(end, m, v + first, self._total(read, end, m, v + first))

        # A long epilogue, written out for each vector, would push the accumulators out of the registers: one copy of it
        # runs over sums in memory.
        over = each if stays else looped
        ends = [(over(rows, count, partial(finish, end, first)), end) for end, first, count in self._ends(at)]
        loops = self._in_lanes((self._summed(sums, acc, at, stays), at), *ends)
        return Alloc(acc, loops) if sums is None else Alloc(sums, Alloc(acc, loops))

    def _ends(self, at: Place) -> list[tuple[Place, int, int]]:
        """The places of results: vectors, from a first one on so many. Sums side by side are other lanes': they are
        complete behind the loop over lanes, and their results may fill only some lanes of a last vector."""
        if self.shape.terms == 1:
            return [(at, 0, at.vectors)]
        lanes = self.shape.lanes
        full, left = divmod(at.vectors * lanes // self.shape.terms, lanes)
        whole = [(replace(at, lane=self._lane(lanes)), 0, full)] if full else []
        return [*whole, (replace(at, lane=self._lane(left)), full, 1)] if left else whole

    def _lane(self, lanes: int) -> Var:
        return Var("l", lo=0, hi=lanes - 1)

    def _in_lanes(self, *bodies: tuple[Stmt, Place]) -> Stmt:
        """Loops over the lanes of places; those that have the same lane in one."""
        together: dict[Var, list[Stmt]] = {}
        for body, at in bodies:
            together.setdefault(at.lane, []).append(body)
        return block(*(_over(lane, block(*found)) for lane, found in together.items()))

    def _shape(self, at: Place) -> tuple[Expr, ...]:
        """The shape of the sums of a tile."""
        if self.shape.terms == 1:
            return const(at.rows), const(at.vectors), const(self.shape.lanes)
        return const(at.rows), const(at.vectors * self.shape.lanes)

    def _total(self, read: Callable[..., Expr], at: Place, m: Expr, v: Expr) -> Expr:
        """Vector (m, v) of the results, from sums that `read` gives: the sums of a channel added up, if there are
        several, to the initial value."""
        terms, init = self.shape.terms, self.job.reduction.init
        if terms == 1:
            return read(m, v, at.lane)
        first = (v * self.shape.lanes + at.lane) * terms
        total = read(m, first)
        for n in range(1, terms):
            total = total + read(m, first + n)
        return total if init is None else substitute(init, self.update.point(at, m, v)) + total

    def _begin(self, acc: Buffer, at: Place) -> Stmt:
        """Sets every accumulator to the initial value."""
        init = self.job.reduction.init
        if init is None or self.shape.terms > 1:
            init = identity(self.job.reduction.combiner, self.job.dtype)
        return self._each(
            at, lambda m, v: Store(acc, self.update.slot(at, m, v), substitute(init, self.update.point(at, m, v)))
        )

    def _summed(self, sums: Buffer | None, acc: Buffer, at: Place, stays: bool) -> Stmt:
        """Forms the reduction in `acc` and leaves it in `sums`, if given, but for its last part if that `stays`."""
        if self.parts is not None:
            assert sums is not None
            return self._in_parts(self.parts, sums, acc, at, stays)
        summed = block(self._begin(acc, at), self.update.reduce(acc, at, self.job.reduction.axes, {}))
        return summed if sums is None else block(summed, self._moved(sums, acc, at))

    def _in_parts(self, parts: Parts, sums: Buffer, acc: Buffer, at: Place, stays: bool) -> Stmt:
        """Forms each part in `acc` and adds them up in `sums`, all or, if the last `stays`, all but that."""
        lost = Buffer("lost", sums.shape, sums.dtype, scope=Scope.LOCAL) if self.is_load_bound else None
        is_known, count = self._has_known_parts(), parts.count

        def part(axes: Sequence[Axis], env: dict[Var, Expr], number: Expr) -> Stmt:
            joined = self._each(at, lambda m, v: join_part(sums, acc, lost, self.update.slot(at, m, v)))
            if is_known:  # the first is not added to zeros that were stored for it
                joined = where(eq(number, const(0)), self._moved(sums, acc, at), joined)
            if stays:
                joined = where(lt(number, count - 1), joined)
            return block(self._cleared(acc, at), self.update.reduce(acc, at, axes, env), joined)

        summed = parts.loops(part)
        if is_known:
            return summed
        summed = block(self._begin(sums, at), summed)
        return summed if lost is None else Alloc(lost, block(self._cleared(lost, at), summed))

    def _has_known_parts(self) -> bool:
        """True if there surely is a first part and another that is the last, and the sum of all begins with the first.
        Others are added to an initial value in memory."""
        count = extent_of(self.parts.count) if self.parts is not None else None
        return count is not None and count > 1 and not self.is_load_bound and self.job.reduction.init is None

    def _cleared(self, buffer: Buffer, at: Place) -> Stmt:
        """Sets all of `buffer` to zero."""
        zero = const(0, buffer.dtype)
        return self._each(at, lambda m, v: Store(buffer, self.update.slot(at, m, v), zero))

    def _moved(self, to: Buffer, source: Buffer, at: Place) -> Stmt:
        """Copies all of `source`."""

        def one(m: Expr, v: Expr) -> Stmt:
            place = self.update.slot(at, m, v)
            return Store(to, place, Load(source, place))

        return self._each(at, one)

    def _each(self, at: Place, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """`body` for every vector of the tile, written out."""
        return each(at.rows, at.vectors, body)

    def _finish(self, at: Place, m: Expr, v: Expr, total: Expr) -> Stmt:
        """Stores the epilogue of `total`, the sum of vector (m, v)."""
        env = self.update.point(at, m, v)
        index = tuple(substitute(i, env) for i in self.job.index)
        return self.update.guarded(at, v, Store(self.job.out, index, substitute(self.job.epilogue(total), env)))


def _over(lane: Var, body: Stmt) -> Stmt:
    """`body` in every lane."""
    lanes = (lane.hi or 0) + 1
    return For(lane, const(lanes), body, LoopKind.VECTOR if lanes > 1 else LoopKind.SERIAL)
