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

Extents are split into nearly equal tiles, so there are at most two tile bodies per axis. Every element sees the same
operations in the same order whatever tile it falls in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from legato.arith.expr import Binary, Const, Expr, Op, Var, binary, cdiv, const, floordiv, lt
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute
from legato.base.dtype import DType
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.inline import loads
from legato.lower.rules.nest import extent_of, is_threaded, is_unit, lanes_for, loop, parallel
from legato.te.tensor import Axis, Reduction, Tensor
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Call, Load
from legato.tir.stmt import Alloc, For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["TileJob", "TileShape", "combine", "identity", "pick_shape", "tile"]

UNROLL = 4  # of the innermost reduction loop; longer bodies make LLVM spill
COMBINE = {"sum": Op.ADD, "prod": Op.MUL, "max": Op.MAX, "min": Op.MIN}


@dataclass(frozen=True, slots=True)
class TileJob:
    """What to compute: out[axes] = epilogue(Σ body), where `epilogue` maps the sum to the stored value.

    `order` lists the axes as `out` lies in memory; the last is the vector axis, and
    tiles run along `row` beside it. Reads of packed operands are written with
    `block` (which channel block) and `within` (the channel's place in it) instead of the channel itself.
    """

    out: Tensor
    axes: tuple[Axis, ...]
    order: tuple[Axis, ...]
    row: Axis | None
    reduction: Reduction
    body: Expr
    dtype: DType
    epilogue: Callable[[Expr], Expr]
    block: Var
    within: Var
    packed: frozenset[Buffer] = frozenset()
    blocks_first: bool = False  # weights do not stay in cache: each block of them is used for all rows before the next


def identity(combiner: str, dtype: DType) -> Expr:
    """The value that changes nothing: 0, 1, the smallest or the largest of `dtype`."""
    if combiner in ("sum", "prod"):
        return const(0 if combiner == "sum" else 1, dtype)
    if dtype.is_float:
        return const(float("-inf") if combiner == "max" else float("inf"), dtype)
    return const(dtype.min if combiner == "max" else dtype.max, dtype)


def combine(combiner: str, total: Expr, value: Expr, target: Target) -> Expr:
    """`total` combined with `value`; a float sum of products becomes a fused multiply-add where the target has it."""
    if combiner == "sum" and value.dtype.is_float and isinstance(value, Binary) and value.op is Op.MUL and target.fma:
        return Call("fma", (value.a, value.b, total), value.dtype)
    return binary(COMBINE[combiner], total, value)


@dataclass(frozen=True, slots=True)
class TileShape:
    """A register tile: `rows` × `vectors` of `lanes`."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Channels in a block."""
        return self.vectors * self.lanes


def pick_shape(channel: Expr, exprs: Sequence[Expr], target: Target) -> TileShape:
    """The register tile: as many channel vectors as divide the channels, and rows for 24 or so accumulators."""
    channels = extent_of(channel)
    lanes = lanes_for(target, exprs)
    if channels is not None:
        lanes = min(lanes, 1 << max(0, (channels - 1).bit_length()))
    blocks = 4 if channels is None else -(-channels // lanes)
    budget = target.vector_registers - 2
    widest = 4 if target.vector_registers >= 32 else 2
    vectors = next(v for v in (4, 3, 2, 1) if v <= widest and (blocks % v == 0 or v == 1))
    if blocks > widest and vectors == 1:
        vectors = 2
    return TileShape(max(1, min({4: 6, 3: 8, 2: 12, 1: 14}[vectors], (budget - vectors) // vectors)), vectors, lanes)


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

    def nest(values: list[Expr]) -> Stmt:
        values = list(values)
        block_index = values.pop(first)
        env = {**units, **{a.var: v for a, v in zip(outer, values, strict=True)}, job.block: block_index}
        return _Tiles(job, target, shape, env, row).rows(block_index)

    extents = [a.extent for a in outer]
    extents.insert(first, blocks)
    return parallel(extents, nest, threaded)


class _Tiles:
    """The tiles of one channel block at fixed outer axes."""

    def __init__(self, job: TileJob, target: Target, shape: TileShape, env: dict[Var, Expr], row: Axis | None) -> None:
        self.job, self.target, self.shape, self.env, self.row = job, target, shape, env, row
        self.channel = job.order[-1]

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
        vectors = -(-left // self.shape.lanes)
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
            full = floordiv(extent, const(rows))
            main = loop("t", full, lambda t: self._tile(start, vectors, limit, t * rows, rows))
            rest = loop("m", extent - full * rows, lambda m: self._tile(start, vectors, limit, full * rows + m, 1))
            return block(main, rest)
        count = -(-known // rows)
        big, small = -(-known // count), known // count
        n_big = known - small * count if big != small else count
        parts = [loop("t", const(n_big), lambda t: self._tile(start, vectors, limit, t * big, big))]
        if n_big < count:
            offset = n_big * big
            parts.append(
                loop("t", const(count - n_big), lambda t: self._tile(start, vectors, limit, t * small + offset, small))
            )
        return block(*parts)

    def _tile(self, start: Expr, vectors: int, limit: Expr | None, first: Expr, rows: int) -> Stmt:
        """One register tile: rows first.. of the row axis, channels start.. of the vector axis."""
        lanes, job = self.shape.lanes, self.job
        shape = (const(rows), const(vectors), const(lanes))
        acc = Buffer("acc", shape, job.dtype, scope=Scope.REGISTER)
        init = job.reduction.init or identity(job.reduction.combiner, job.dtype)
        lane = Var("l", lo=0, hi=lanes - 1)

        def each(body: Callable[[Expr, Expr], Stmt]) -> Stmt:
            return _unrolled("m", rows, lambda m: _unrolled("v", vectors, lambda v: body(m, v)))

        def finish(m: Expr, v: Expr) -> Stmt:
            env = self._point(first + m, start, v * lanes + lane)
            index = tuple(substitute(a.var, env) for a in job.axes)
            value = substitute(job.epilogue(Load(acc, (m, v, lane))), env)
            store = Store(job.out, index, value)
            return store if limit is None else If(lt(start + v * lanes + lane, limit), store)

        reduce = self._reduce(acc, lane, start, vectors, limit, first, rows)
        body = block(each(lambda m, v: Store(acc, (m, v, lane), substitute(init, self.env))), reduce, each(finish))
        return Alloc(acc, For(lane, const(lanes), body, LoopKind.VECTOR))

    def _point(self, row: Expr, start: Expr, within: Expr) -> dict[Var, Expr]:
        env = {**self.env, self.channel.var: start + within, self.job.within: within}
        if self.row is not None:
            env[self.row.var] = row
        return env

    def _follows_channel(self, x: Load) -> bool:
        return depends(x, self.channel.var) or depends(x, self.job.within)

    def _reduce(
        self, acc: Buffer, lane: Var, start: Expr, vectors: int, limit: Expr | None, first: Expr, rows: int
    ) -> Stmt:
        """The reduction loops around the update of every accumulator of the tile."""
        axes = self.job.reduction.axes

        def step(env: dict[Var, Expr]) -> Stmt:
            return self._update(acc, lane, start, vectors, limit, first, rows, env)

        def nest(left: Sequence[Axis], env: dict[Var, Expr]) -> Stmt:
            if not left:
                return step(env)
            axis, rest = left[0], left[1:]
            if rest:
                return loop(axis.var.name, axis.extent, lambda v: nest(rest, {**env, axis.var: v}))
            return _by_four(axis, lambda v: step({**env, axis.var: v}))

        return nest(axes, {})

    def _update(
        self,
        acc: Buffer,
        lane: Var,
        start: Expr,
        vectors: int,
        limit: Expr | None,
        first: Expr,
        rows: int,
        reduced: dict[Var, Expr],
    ) -> Stmt:
        """acc[m][v] = combine(acc[m][v], body): operands that do not depend on the row are read once per vector,
        those that do not depend on the channel once per row."""
        job, lanes = self.job, self.shape.lanes
        row_var = self.row.var if self.row is not None else None
        per_vector = [x for x in loads(job.body) if row_var is not None and not depends(x, row_var)]
        per_vector = [x for x in per_vector if self._follows_channel(x) and not _is_inside(x, per_vector)]
        per_row = [x for x in loads(job.body) if not self._follows_channel(x)]
        per_row = [x for x in per_row if not _is_inside(x, per_row)]
        held = {x: Buffer("w", (const(vectors), const(lanes)), x.dtype, scope=Scope.REGISTER) for x in per_vector}
        scalars = {x: Var("a", x.dtype) for x in per_row}

        def at(row: Expr, within: Expr) -> dict[Var, Expr]:
            return {**self._point(row, start, within), **reduced}

        def fetch(x: Load, v: Expr) -> Stmt:
            within = v * lanes + lane
            store = Store(held[x], (v, lane), substitute(x, at(first, within)))
            return store if limit is None or x.buffer in job.packed else If(lt(start + within, limit), store)

        def one(m: Expr, v: Expr) -> Stmt:
            known: dict[Load, Expr] = {x: Load(b, (v, lane)) for x, b in held.items()}
            known |= scalars
            value = rewrite(job.body, lambda e: known.get(e) if isinstance(e, Load) else None)
            value = substitute(value, at(first + m, v * lanes + lane))
            total = Load(acc, (m, v, lane))
            update = Store(acc, (m, v, lane), combine(job.reduction.combiner, total, value, self.target))
            rest = [x for x in loads(job.body) if x not in known]
            guarded = limit is not None and any(self._follows_channel(x) for x in rest)
            return If(lt(start + v * lanes + lane, limit), update) if guarded and limit is not None else update

        def of_row(m: Expr) -> Stmt:
            body = _unrolled("v", vectors, lambda v: one(m, v))
            for x, var in scalars.items():
                body = Let(var, substitute(x, at(first + m, const(0))), body)
            return body

        fetches = [_unrolled("v", vectors, lambda v, x=x: fetch(x, v)) for x in held]  # type: ignore[misc]  # a default binds x
        out = block(*fetches, _unrolled("m", rows, of_row))
        for b in held.values():
            out = Alloc(b, out)
        return out


def _is_inside(x: Load, others: Sequence[Load]) -> bool:
    """True if `x` is only a subscript of another of `others`."""
    return any(x is not o and x in loads(o) for o in others)


def _unrolled(name: str, extent: int, body: Callable[[Expr], Stmt]) -> Stmt:
    return loop(name, const(extent), body, LoopKind.UNROLL)


def _by_four(axis: Axis, body: Callable[[Expr], Stmt]) -> Stmt:
    """A reduction loop unrolled by UNROLL; what is left over runs behind it."""
    known = extent_of(axis.extent)
    if known is not None and known <= UNROLL:
        return _unrolled("r", known, body)
    full = floordiv(axis.extent, const(UNROLL))
    main = loop("r", full, lambda v: _unrolled("u", UNROLL, lambda u: body(v * UNROLL + u)))
    left = simplify(axis.extent - full * UNROLL)
    if isinstance(left, Const):
        if not left.value:
            return main
        return block(main, _unrolled("u", int(left.value), lambda u: body(full * UNROLL + u)))
    return block(main, loop("u", left, lambda u: body(full * UNROLL + u)))
