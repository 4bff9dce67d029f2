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
(`algorithms.interleaved`), which the epilogue adds up. Where a product replaces an operand, it takes a weight that is
loaded for it.

Extents are split into nearly equal tiles, so there are at most two tile bodies per axis. Every element sees the same
operations in the same order whatever tile it falls in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from legato.arith.expr import Binary, Expr, Op, Var, binary, cdiv, const, floordiv, floormod, lt
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, rewrite, substitute
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.rules.ahead import Share, number_of, share_of
from legato.lower.rules.nest import balanced, extent_of, is_threaded, is_unit, loop, parallel, serial
from legato.lower.rules.parts import Parts, join_part, parts_of
from legato.lower.rules.tile_job import TileJob
from legato.lower.rules.tile_shape import FEW_ROWS, TileShape
from legato.lower.rules.unrolled import each, unrolled, unrolled_by
from legato.te.inline import certain_loads, loads
from legato.te.lower import identity
from legato.te.tensor import COMBINERS, Axis
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Call, Load
from legato.tir.stmt import Alloc, For, If, Let, LoopKind, Prefetch, Stmt, Store, block

__all__ = ["combine", "register_tile", "row_tiles", "tile"]

PART = 64  # terms of a sum that are added up in one register: longer parts cost accuracy, shorter ones time
SHORT_PART = 16  # the same where time goes to loads: sums of what is read as it is, and weights that serve one row
LITTLE = 1 << 16  # products of one row that are little work: an image of one pixel, say
UNROLL = 4  # of the innermost reduction loop; longer bodies make LLVM spill
LONG = frozenset({"exp", "log", "tanh", "erf", "sin", "cos", "pow"})  # intrinsics that are whole polynomials


def combine(combiner: str, total: Expr, value: Expr, target: Target) -> Expr:
    """`total` combined with `value`; a float sum of products becomes a fused multiply-add where the target has it, one
    of dot products adds to them."""
    if _is_dot(value):
        assert isinstance(value, Call)
        return Call(value.name, (total, *value.args[1:]), value.dtype)
    if combiner == "sum" and value.dtype.is_float and isinstance(value, Binary) and value.op is Op.MUL and target.fma:
        return Call("fma", (value.a, value.b, total), value.dtype)
    return binary(COMBINERS[combiner], total, value)


def _is_dot(e: Expr) -> bool:
    """True for the sum of two products of pairs: `e` is that sum and 0."""
    return isinstance(e, Call) and e.name == "dot2"


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
    first = len(outer) if not job.blocks_first else 0
    tiles = const(1) if row is None else cdiv(row.extent, shape.rows)
    turns = simplify(math.prod((a.extent for a in outer), start=tiles))
    known, count = extent_of(turns), Var("turns", lo=0)
    is_shared = job.ahead is not None and job.blocks_first
    in_turns = job
    if job.ahead is not None and is_shared:
        in_turns = replace(job, ahead=replace(job.ahead, turns=count if known is None else known))

    def nest(values: list[Expr]) -> Stmt:
        values = list(values)
        block_index = values.pop(first)
        env = {**units, **{a.var: v for a, v in zip(outer, values, strict=True)}, job.block: block_index}
        return _Tiles(in_turns, target, shape, env, row, number_of(outer, env) * tiles).rows(block_index)

    extents = [a.extent for a in outer]
    extents.insert(first, blocks)
    loops = parallel(extents, nest, threaded)
    return Let(count, turns, loops) if is_shared and known is None else loops


def register_tile(
    job: TileJob, shape: TileShape, target: Target, env: dict[Var, Expr], first: Expr, rows: int, turn: Expr
) -> Stmt:
    """One register tile: `rows` rows from `first` of the row axis, all channels of a block that starts at channel 0;
    `env` has the values of the other axes and of the block. turn: its number among those that use the same weights."""
    return _Tiles(job, target, shape, env, job.row, turn)._tile(const(0), shape.vectors, None, first, rows)


def row_tiles(job: TileJob, shape: TileShape, target: Target, env: Mapping[Var, Expr], block_index: Expr) -> Stmt:
    """All register tiles of channel block `block_index`, one after the other; `env` has the values of the axes but the
    row's and the channel's."""
    return _Tiles(job, target, shape, {**env, job.block: block_index}, job.row).rows(block_index)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tile lies: channels from `start`, rows from `first`; lanes at or beyond `limit` are no channels."""

    start: Expr
    vectors: int
    limit: Expr | None
    first: Expr
    rows: int
    lane: Var
    turn: Expr


class _Tiles:
    """The tiles of one channel block at fixed outer axes. turn: how many others use the same weights before them."""

    def __init__(
        self,
        job: TileJob,
        target: Target,
        shape: TileShape,
        env: dict[Var, Expr],
        row: Axis | None,
        turn: Expr | None = None,
    ) -> None:
        self.job, self.target, self.shape, self.env, self.row = job, target, shape, env, row
        self.turn = const(0) if turn is None else turn
        self.channel = job.order[-1]
        is_product = isinstance(job.body, Binary) and job.body.op is Op.MUL
        # What pairs are rounded to is coarser than what a long sum of them loses.
        self.is_load_bound = not is_product or self._serves_few_rows()
        part = SHORT_PART if self.is_load_bound else PART
        self.parts = None if _is_dot(job.body) else parts_of(job.reduction, job.dtype, part, UNROLL)

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
        vectors = -(-left // self.shape.lanes) * self.shape.terms
        partial = self._along(start, vectors, const(known) if left % self.shape.lanes else None)
        if known < width:
            return partial
        return If(lt(block_index, known // width), self._along(start, self.shape.vectors, None), partial)

    def _along(self, start: Expr, vectors: int, limit: Expr | None) -> Stmt:
        """Tiles of nearly equal size along the row axis."""
        if self.row is None:
            return self._tile(start, vectors, limit, const(0), 1)
        extent, rows = self.row.extent, self.shape.rows
        known = extent_of(extent)
        if known is None:
            return self._along_unknown(start, vectors, limit)
        unit, turn, parts = self.job.unit, 0, list[Stmt]()

        def tiles(size: int, first: int, turn: int, t: Expr) -> Stmt:
            return self._tile(start, vectors, limit, t * size + first, size, t + turn)

        for size, count, first in balanced(known // unit, rows // unit):
            parts.append(loop("t", const(count), partial(tiles, size * unit, first * unit, turn)))
            turn += count
        return block(*parts)

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
        at = _Place(start, vectors, limit, first, rows, self._lane(), turn)
        shape = self._shape(at)
        acc = Buffer("acc", shape, self.job.dtype, scope=Scope.REGISTER)
        parts = self.parts
        # Sums side by side are other lanes': they are complete behind the loop over lanes.
        end = at if self.shape.terms == 1 else replace(at, lane=self._lane())
        results = vectors // self.shape.terms
        if parts is None and not self._has_long_epilogue():
            summed = block(self._begin(acc, at), self._reduce(acc, at, self.job.reduction.axes, {}))
            finish = each(rows, results, lambda m, v: self._finish(end, m, v, self._total(acc, end, m, v)))
            return Alloc(acc, self._in_lanes((summed, at), (finish, end)))
        # The sums go through memory: because they are formed in parts, or because a long epilogue, written out for each
        # vector, would push the accumulators out of the registers. One copy of it runs over them.
        sums = Buffer("sums", shape, self.job.dtype, scope=Scope.LOCAL)

        def each_sum(m: Expr) -> Stmt:
            return loop("v", const(results), lambda v: self._finish(end, m, v, self._total(sums, end, m, v)))

        summed = self._into(sums, acc, at, parts)
        return Alloc(sums, Alloc(acc, self._in_lanes((summed, at), (loop("m", const(rows), each_sum), end))))

    def _lane(self) -> Var:
        return Var("l", lo=0, hi=self.shape.lanes - 1)

    def _in_lanes(self, *bodies: tuple[Stmt, _Place]) -> Stmt:
        """Loops over the lanes of places; those that have the same lane in one."""
        together: dict[Var, list[Stmt]] = {}
        for body, at in bodies:
            together.setdefault(at.lane, []).append(body)
        lanes = const(self.shape.lanes)
        return block(*(For(lane, lanes, block(*found), LoopKind.VECTOR) for lane, found in together.items()))

    def _has_long_epilogue(self) -> bool:
        value = self.job.epilogue(const(0, self.job.dtype))
        return any(isinstance(n, Call) and n.name in LONG for n in nodes(value))

    def _shape(self, at: _Place) -> tuple[Expr, ...]:
        """The shape of the sums of a tile."""
        if self.shape.terms == 1:
            return const(at.rows), const(at.vectors), const(self.shape.lanes)
        return const(at.rows), const(at.vectors * self.shape.lanes)

    def _slot(self, at: _Place, m: Expr, v: Expr) -> tuple[Expr, ...]:
        """Where the sums of vector (m, v) are among those of a tile."""
        return (m, v, at.lane) if self.shape.terms == 1 else (m, v * self.shape.lanes + at.lane)

    def _total(self, sums: Buffer, at: _Place, m: Expr, v: Expr) -> Expr:
        """Vector (m, v) of the results: the sums of a channel added up, if there are several, to the initial value."""
        terms, init = self.shape.terms, self.job.reduction.init
        if terms == 1:
            return Load(sums, (m, v, at.lane))
        first = (v * self.shape.lanes + at.lane) * terms
        total: Expr = Load(sums, (m, first))
        for n in range(1, terms):
            total = total + Load(sums, (m, first + n))
        return total if init is None else substitute(init, self._point(at, m, v)) + total

    def _begin(self, acc: Buffer, at: _Place) -> Stmt:
        """Sets every accumulator to the initial value."""
        init = self.job.reduction.init
        if init is None or self.shape.terms > 1:
            init = identity(self.job.reduction.combiner, self.job.dtype)
        return self._each(at, lambda m, v: Store(acc, self._slot(at, m, v), substitute(init, self._point(at, m, v))))

    def _into(self, sums: Buffer, acc: Buffer, at: _Place, parts: Parts | None) -> Stmt:
        """Leaves the reduction in `sums`, formed in `acc`: at once, or part by part."""
        if parts is None:
            store = self._each(at, lambda m, v: Store(sums, self._slot(at, m, v), Load(acc, self._slot(at, m, v))))
            return block(self._begin(acc, at), self._reduce(acc, at, self.job.reduction.axes, {}), store)

        lost = Buffer("lost", sums.shape, sums.dtype, scope=Scope.LOCAL)
        zero = const(0, self.job.dtype)

        def clear(buffer: Buffer) -> Stmt:
            return self._each(at, lambda m, v: Store(buffer, self._slot(at, m, v), zero))

        def join(m: Expr, v: Expr) -> Stmt:
            return join_part(sums, acc, lost if self.is_load_bound else None, self._slot(at, m, v))

        def part(axes: Sequence[Axis], env: dict[Var, Expr]) -> Stmt:
            return block(clear(acc), self._reduce(acc, at, axes, env), self._each(at, join))

        all_parts = block(self._begin(sums, at), parts.loops(part))
        return Alloc(lost, block(clear(lost), all_parts)) if self.is_load_bound else all_parts

    def _each(self, at: _Place, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """`body` for every vector of the tile, written out."""
        return each(at.rows, at.vectors, body)

    def _finish(self, at: _Place, m: Expr, v: Expr, total: Expr) -> Stmt:
        """Stores the epilogue of `total`, the sum of vector (m, v)."""
        env = self._point(at, m, v)
        index = tuple(substitute(i, env) for i in self.job.index)
        return self._guarded(at, v, Store(self.job.out, index, substitute(self.job.epilogue(total), env)))

    def _guarded(self, at: _Place, v: Expr, stmt: Stmt) -> Stmt:
        """`stmt`, for the lanes of vector `v` that are channels."""
        return stmt if at.limit is None else If(lt(at.start + v * self.shape.lanes + at.lane, at.limit), stmt)

    def _point(self, at: _Place, m: Expr, v: Expr) -> dict[Var, Expr]:
        """The values of the axes at row `m` and vector `v` of the tile."""
        within = v * self.shape.lanes + at.lane
        env = {**self.env, self.channel.var: at.start + within, self.job.within: within}
        if self.row is not None:
            env[self.row.var] = at.first + m
        if self.job.term is not None:
            env[self.job.term] = floormod(at.lane, const(self.shape.terms))
        return env

    def _follows_channel(self, x: Load) -> bool:
        return depends(x, self.channel.var) or depends(x, self.job.within)

    def _reduce(self, acc: Buffer, at: _Place, axes: Sequence[Axis], env: dict[Var, Expr]) -> Stmt:
        """The loops over reduction axes `axes` around the update of every accumulator; `env` has those outside."""
        *outer, last = axes

        def innermost(inside: dict[Var, Expr]) -> Stmt:
            known = {**env, **inside}
            times = self._times()
            shares = self._shares(times)

            def ahead(v: Expr) -> Stmt:
                if not shares:
                    return block()
                values = self._resolved({**known, last.var: v})
                term = number_of(self.job.reduction.axes, values)
                return block(*(share.fetch(x, at.turn, term, self._next(share, x, at)) for x, share in shares.items()))

            main = unrolled_by(
                times, last, lambda v: self._update(acc, at, self._resolved({**known, last.var: v})), ahead
            )
            if self.job.last is None:
                return main
            body, count = self.job.last
            behind = loop("r", count, lambda r: self._update(acc, at, {**known, last.var: last.extent + r}, body))
            return block(main, behind)

        return serial(outer, innermost)

    def _times(self) -> int:
        """How often the innermost loop is unrolled: pairs that are taken apart are twice as many operations."""
        return UNROLL // 2 if _is_dot(self.job.body) and not self.target.has_bf16 else UNROLL

    def _shares(self, times: int) -> dict[Load, Share]:
        """What each turn asks for of the weights that are wanted next; `times` terms of the sum are written out."""
        job, shape = self.job, self.shape
        found = {}
        for x in self._operands(job.body)[0] if job.ahead is not None else ():
            if x.buffer in job.packed and job.last is None:
                share = share_of(job.ahead, x, job.reduction, job.within, times, shape.width * shape.terms, shape.lanes)
                if share is not None:
                    found[x] = share
        return found

    def _next(self, share: Share, x: Load, at: _Place) -> dict[Var, Expr]:
        """Where the block of `x` that is wanted next begins."""
        here = {**self._point(at, const(0), const(0)), at.lane: const(0)}
        along = share.ahead.along
        zeros = {axis.var: const(0) for axis in self.job.reduction.axes}
        return {**here, self.job.within: const(0), along: here[along] + 1, **zeros}

    def _resolved(self, values: dict[Var, Expr]) -> dict[Var, Expr]:
        """`values` of loop variables, and with them those of the axes that are cut."""
        cut = self.parts.cut if self.parts is not None else {}
        return {**values, **{var: substitute(e, values) for var, e in cut.items()}}

    def _update(self, acc: Buffer, at: _Place, reduced: dict[Var, Expr], body: Expr | None = None) -> Stmt:
        """acc[m][v] = combine(acc[m][v], body): operands that do not depend on the row are read once per vector,
        those that do not depend on the channel once per row. `body` is the job's by default."""
        job, lane = self.job, at.lane
        term = job.body if body is None else body
        zero = const(0)
        vectors, rows = self._operands(term)
        shared = self._shares(self._times())
        shape = (const(at.vectors), const(self.shape.lanes))
        held = {x: Buffer("w", shape, x.dtype, scope=Scope.REGISTER) for x in vectors}
        again = self._loaded_again(at, vectors, term)
        scalars = {x: Var("a", x.dtype) for x in rows}
        rest = [x for x in loads(term) if x not in held and x not in scalars]
        # Sums side by side are of packed weights, which go on, with zeros, behind the last channel.
        is_guarded = self.shape.terms == 1 and any(self._follows_channel(x) for x in rest)

        def fetch(x: Load, v: Expr) -> Stmt:
            value = substitute(x, {**self._point(at, zero, v), **reduced})
            store = Store(held[x], (v, lane), value)
            if x.buffer not in job.packed:
                return self._guarded(at, v, store)
            if job.ahead is None or x in shared:
                return store
            return block(store, self._fetch(x, job.ahead.along, at, v, reduced))

        def one(m: Expr, v: Expr, *, is_held: bool = True) -> Stmt:
            known: dict[Expr, Expr] = {x: Load(b, (v, lane)) for x, b in held.items()} if is_held else {}
            known |= scalars
            value = rewrite(term, lambda e: known.get(e) if isinstance(e, Load | Call) else None)
            value = substitute(value, {**self._point(at, m, v), **reduced})
            place = self._slot(at, m, v)
            total = Load(acc, place)
            update = Store(acc, place, combine(job.reduction.combiner, total, value, self.target))
            return self._guarded(at, v, update) if is_guarded else update

        def of_row(m: Expr) -> Stmt:
            body = unrolled("v", at.vectors, lambda v: one(m, v), again)
            if again:
                body = block(unrolled("v", again, lambda v: one(m, v, is_held=False)), body)
            for x, var in scalars.items():
                body = Let(var, substitute(x, {**self._point(at, m, zero), **reduced}), body)
            return body

        fetches = [unrolled("v", at.vectors, partial(fetch, x), again) for x in held]
        out = block(*fetches, unrolled("m", at.rows, of_row))
        for b in held.values():
            out = Alloc(b, out)
        return out

    def _loaded_again(self, at: _Place, weights: Sequence[Load], term: Expr) -> int:
        """How many vectors of `weights` are loaded for every product. Where a product replaces an operand, it takes one
        that is loaded for it; the last of a row takes the row's data."""
        if self.target.has_three_operands or _is_dot(term) or not weights:
            return 0
        is_padded = at.limit is None or all(x.buffer in self.job.packed for x in weights)
        return at.vectors - 1 if is_padded else 0

    def _fetch(self, x: Load, along: Var, at: _Place, v: Expr, reduced: dict[Var, Expr]) -> Stmt:
        """Fetches what `x` is at the next value of `along`."""
        here = self._point(at, const(0), v)
        there = substitute(x, {**here, **reduced, at.lane: const(0), along: here[along] + 1})
        assert isinstance(there, Load)
        return Prefetch(there.buffer, there.indices)

    def _operands(self, body: Expr) -> tuple[list[Load], list[Expr]]:
        """The Loads of the body that follow the channel but not the row, and those that do not follow the channel;
        a pair of these is one operand.

        What a Select guards stays where it is: it may lie outside its buffer."""
        if _is_dot(body):
            assert isinstance(body, Call)
            _, data, weights = body.args
            assert isinstance(weights, Load)
            return [weights], [data]
        reads = certain_loads(body)
        row = None if self.row is None else self.row.var
        vectors = [x for x in reads if row is not None and not depends(x, row) and self._follows_channel(x)]
        rows = [x for x in reads if not self._follows_channel(x)]
        return ([x for x in vectors if not _is_inside(x, vectors)], [x for x in rows if not _is_inside(x, rows)])


def _is_inside(x: Load, others: Sequence[Load]) -> bool:
    """True if `x` is only a subscript of another of `others`."""
    return any(x is not o and x in loads(o) for o in others)
