"""The rule for the stages of Winograd's algorithm: a block of tiles at a time, all in the cache of one core.

    parallel (blocks of tiles):
        data[a][b][tile][channel] = transformed windows                 vectors of channels
        for channel blocks:
            for a, b: products[a][b][tile][:] = data · weights          the register tile of `tile`, rows are tiles
            for tiles: epilogue(transformed products), stored           vectors of output channels

`data` and `products` of a block are a thread's own. Where there are few blocks for the weights that each must read, the
data of all blocks is transformed by a kernel of its own and the threads share (channel block, block of tiles).

Tiles are numbered through batch, rows and columns; the last block may have fewer. Every element sees the same
operations in the same order in whatever block it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from legato.arith.expr import Expr, Var, cdiv, const, floormod, lt, max_, min_
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.algorithms.interleaved import Interleaved
from legato.lower.algorithms.winograd import Winograd, linear
from legato.lower.rules.ahead import Ahead
from legato.lower.rules.nest import balanced, extent_of, loop, parallel, unfused, vector, vector_loop
from legato.lower.rules.tile import register_tile
from legato.lower.rules.tile_job import TileJob
from legato.lower.rules.tile_shape import TileShape
from legato.lower.rules.winograd_cost import PAD
from legato.te.inline import loads
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Load, cast
from legato.tir.stmt import Alloc, If, LoopKind, Stmt, Store, block

__all__ = ["WinogradJob", "multiply", "transform", "whole"]


@dataclass(frozen=True, slots=True)
class WinogradJob:
    """out[axes] = epilogue(result of `stages`), by blocks of `tiles` tiles. `sums` are the products' sums over
    channels; `weights` reads their packed weights with `block` and `within` in place of the channel, as in TileJob."""

    stages: Winograd
    out: Tensor
    epilogue: Callable[[Expr], Expr]
    shape: TileShape
    tiles: int
    sums: Interleaved
    weights: Load
    block: Var
    within: Var

    @property
    def points(self) -> tuple[Expr, ...]:
        """Extents of the axes (a, b) of the data and of the products."""
        return self.stages.products.shape[:2]

    @property
    def total(self) -> Expr:
        """Number of tiles."""
        total: Expr = const(1)
        for d in self.stages.tiles:
            total = total * d
        return simplify(total)

    @property
    def blocks(self) -> Expr:
        """Number of blocks of tiles."""
        return simplify(cdiv(self.total, self.tiles))

    @property
    def channel_blocks(self) -> Expr:
        """Number of blocks of output channels."""
        return simplify(cdiv(self.stages.window.channel.extent, self.shape.width))

    @property
    def are_full(self) -> bool:
        """True if no block has fewer tiles than others, however many there are."""
        return extent_of(simplify(floormod(self.total, const(self.tiles)))) == 0

    def live(self, number: Expr) -> Expr:
        """Tiles in block `number`."""
        return const(self.tiles) if self.are_full else min_(const(self.tiles), self.total - number * self.tiles)

    def tile(self, number: Expr, t: Expr) -> list[Expr]:
        """Where tile `t` of block `number` lies: batch axes, down, across. Behind the last tile is the last again."""
        at = number * self.tiles + t
        return unfused(at if self.are_full else min_(at, self.total - 1), self.stages.tiles)


def whole(job: WinogradJob, target: Target) -> Stmt:
    """Everything in one kernel; threads share the blocks of tiles."""

    def of_block(values: list[Expr]) -> Stmt:
        (number,) = values
        data = _scratch("data", job, extent_of(job.stages.window.reduced.extent) or 1)
        fill = loop("t", _rounded(job, number), lambda t: _transformed(job, target, data, (), number, t))
        each = loop("ob", job.channel_blocks, lambda ob: _block(job, target, data, (), number, ob))
        return Alloc(data, block(fill, each))

    return parallel([job.blocks], of_block, threaded=True)


def transform(job: WinogradJob, target: Target, room: Expr | None = None) -> tuple[Tensor, Stmt]:
    """The transformed data of all blocks, and the kernel that stores it; `room` is for how many blocks, if not all."""
    window = job.stages.window
    shape = (job.blocks if room is None else room, *job.points, const(job.tiles), window.reduced.extent)
    data = Tensor("data", shape, window.dtype)
    data.layout = Layout((0, 1, 2, 3, 4), pad=(0, 0, 0, 0, PAD))

    def of_tile(values: list[Expr]) -> Stmt:
        (p,) = values
        number, t = unfused(p, (job.blocks, const(job.tiles)))
        return _transformed(job, target, data, (number,), number, t)

    return data, parallel([simplify(job.blocks * job.tiles)], of_tile, threaded=True)


def multiply(job: WinogradJob, target: Target, data: Tensor) -> Stmt:
    """The kernel that computes the result from transformed data; threads share channel blocks and blocks of tiles."""

    def of_block(values: list[Expr]) -> Stmt:
        ob, number = values
        return _block(job, target, data, (number,), number, ob)

    return parallel([job.channel_blocks, job.blocks], of_block, threaded=True)


def _scratch(name: str, job: WinogradJob, channels: int) -> Buffer:
    """A block's own [a][b][tile][channel]."""
    shape = (*job.points, const(job.tiles), const(channels))
    return Buffer(name, shape, job.stages.products.dtype, Layout((0, 1, 2, 3), pad=(0, 0, 0, PAD)), Scope.LOCAL)


def _transformed(job: WinogradJob, target: Target, data: Buffer, front: Sequence[Expr], number: Expr, t: Expr) -> Stmt:
    """Stores the transformed window of tile `t` in `data`, whose indices begin with `front`."""
    stages, tile = job.stages, job.tile(number, t)

    def along(c: Expr) -> Stmt:
        def store(a: Expr, b: int, value: Expr) -> Stmt:
            return Store(data, (*front, a, const(b), t, c), value)

        return _two_passes((stages.rows, stages.data), (*tile, c), lambda x: x, store, target)

    return vector_loop(stages.window.reduced.extent, target.lanes(data.dtype), along)


def _two_passes(
    stages: tuple[Tensor, Tensor],
    at: Sequence[Expr],
    read: Callable[[Load], Expr],
    use: Callable[[Expr, int, Expr], Stmt],
    target: Target,
) -> Stmt:
    """`use(k, n, value)` for every (k, n) of the second stage at `at`, which reads the first; both are chains.

    `read` gives what the first stage reads. What is between the passes stays in registers if it fits there.
    """
    first, second = stages
    rows, columns = (extent_of(d) or 1 for d in first.shape[:2])
    results = extent_of(second.shape[1]) or 1
    fits = (rows + 1) * columns <= target.vector_registers * 3 // 4
    kind, scope = (LoopKind.UNROLL, Scope.REGISTER) if fits else (LoopKind.SERIAL, Scope.LOCAL)
    between = Buffer("t", (const(rows), const(columns)), first.dtype, scope=scope)

    def one_column(j: Expr) -> Stmt:
        values = [linear(first, (const(k), j, *at)) for k in range(rows)]
        return _held(values, read, lambda k, value: Store(between, (const(k), j), value))

    def one_row(k: Expr) -> Stmt:
        values = [linear(second, (k, const(n), *at)) for n in range(results)]
        return _held(values, lambda x: Load(between, (k, x.indices[1])), lambda n, value: use(k, n, value))

    passes = block(loop("j", const(columns), one_column, kind), loop("k", const(rows), one_row, kind))
    return Alloc(between, passes)


def _held(values: Sequence[Expr], read: Callable[[Load], Expr], use: Callable[[int, Expr], Stmt]) -> Stmt:
    """`use(n, value)` of every value, what they load being read once, before."""
    found = list(dict.fromkeys(x for value in values for x in loads(value)))
    held = Buffer("d", (const(len(found)),), values[0].dtype, scope=Scope.REGISTER)
    place: dict[Expr, Expr] = {x: Load(held, (const(n),)) for n, x in enumerate(found)}
    fetch = [Store(held, (const(n),), cast(read(x), held.dtype)) for n, x in enumerate(found)]
    uses = [use(n, rewrite(value, lambda e: place.get(e))) for n, value in enumerate(values)]
    return Alloc(held, block(*fetch, *uses))


def _rows(job: WinogradJob, live: Expr) -> list[tuple[int, Expr, Expr]]:
    """(rows, number of tiles, first row) of the taller and of the lower register tiles that make up a block of `live`
    tiles. Together they have more rows than that only where no number of them is as many."""
    pieces = balanced(job.tiles, job.shape.rows)
    if extent_of(live) is not None:
        return [(rows, const(count), const(first)) for rows, count, first in pieces]
    big = pieces[0][0]
    small = max(1, big - 1)
    needed = cdiv(live, big)
    some = max_(const(0), live - needed * small)
    return [(big, some, const(0)), (small, needed - some, some * big)]


def _rounded(job: WinogradJob, number: Expr) -> Expr:
    """Rows of block `number` that register tiles cover."""
    live = job.live(number)
    small, count, start = _rows(job, live)[-1]
    return const(job.tiles) if extent_of(live) is not None else start + count * small


def _block(job: WinogradJob, target: Target, data: Buffer, front: Sequence[Expr], number: Expr, ob: Expr) -> Stmt:
    """The results of block `number` in channel block `ob`."""
    tall, wide = job.points
    products = _scratch("products", job, job.shape.width)
    live = job.live(number)

    def point(a: Expr, b: Expr) -> Stmt:
        return _product(job, target, products, data, (*front, a, b), live, ob)

    multiplied = loop("a", tall, lambda a: loop("b", wide, lambda b: point(a, b)))
    stored = loop("t", live, lambda t: _stored(job, target, products, job.tile(number, t), t, ob))
    return Alloc(products, block(multiplied, stored))


def _product(
    job: WinogradJob, target: Target, out: Buffer, data: Buffer, front: Sequence[Expr], live: Expr, ob: Expr
) -> Stmt:
    """out[a][b] = data[…, a, b] · weights[a][b]: the tiles of a block by the channels of a block."""
    stage = job.stages.products.stage
    assert isinstance(stage, Stage)
    *_, a, b = front
    first, second, *_, channel = stage.axes
    row = Axis(Var("t", lo=0), const(job.tiles))
    channel = replace(channel, extent=const(job.shape.width))
    read = Load(data, (*front, row.var, job.sums.data.indices[-1]))
    product = TileJob(
        out=out,
        index=(first.var, second.var, row.var, channel.var),
        order=(first, second, row, channel),
        row=row,
        reduction=job.sums.reduction,
        body=read * job.weights,
        dtype=job.stages.products.dtype,
        epilogue=lambda total: total,
        block=job.block,
        within=job.within,
        term=job.sums.term,
        packed=frozenset({job.weights.buffer}),
        ahead=_ahead(job, second.var, live),  # other kernels have been in the caches since these were used
    )
    env: dict[Var, Expr] = {first.var: a, second.var: b, job.block: ob}

    def tiles(rows: int, start: Expr, turn: Expr, i: Expr) -> Stmt:
        return register_tile(product, job.shape, target, env, i * rows + start, rows, i + turn)

    parts = []
    turn: Expr = const(0)
    for rows, count, start in _rows(job, live):
        parts.append(loop("i", count, partial(tiles, rows, start, turn)))
        turn = turn + count
    return block(*parts)


def _ahead(job: WinogradJob, along: Var, live: Expr) -> Ahead:
    """The register tiles of a block of `live` tiles share what is fetched ahead."""
    count = simplify(sum((some for _, some, _ in _rows(job, live)), const(0)))
    return Ahead(along, extent_of(count) or count)


def _stored(job: WinogradJob, target: Target, products: Buffer, tile: Sequence[Expr], t: Expr, ob: Expr) -> Stmt:
    """Stores the results of tile `t`, which lies at `tile`, in channel block `ob`."""
    stages, window, lanes, width = job.stages, job.stages.window, job.shape.lanes, job.shape.width
    channels, left = extent_of(window.channel.extent) or 1, width % lanes
    is_full = channels % (width if left else lanes) == 0
    *batch, down, across = tile
    (y, _), (x, _) = window.slides
    tall, wide = (scheme.outputs for scheme in stages.schemes)

    def of_channel(v: Expr, lane: Expr) -> Stmt:
        within = v * lanes + lane
        channel = ob * width + within

        def store(k: Expr, n: int, total: Expr) -> Stmt:
            env: dict[Var, Expr] = {axis.var: i for axis, i in zip(window.batch, batch, strict=True)}
            env |= {y.var: down * tall + k, x.var: across * wide + n, window.channel.var: channel}
            index = tuple(env[axis.var] for axis in window.axes)
            done: Stmt = Store(job.out, index, substitute(job.epilogue(total), env))
            done = done if is_full else If(lt(channel, channels), done)
            done = _if_exists(x, wide, const(n), env[x.var], done)
            return _if_exists(y, tall, k, env[y.var], done)

        def read(x: Load) -> Expr:
            return Load(products, (*x.indices[:2], t, within))

        return _two_passes((stages.columns, stages.patches), (*tile, channel), read, store, target)

    count: Expr = const(width // lanes)
    if channels % width:
        count = min_(count, cdiv(channels - ob * width, lanes))
    vectors = loop("v", count, lambda v: vector(lanes, partial(of_channel, v)))
    return block(vectors, vector(left, partial(of_channel, const(width // lanes)))) if left else vectors


def _if_exists(axis: Axis, m: int, offset: Expr, at: Expr, stmt: Stmt) -> Stmt:
    """`stmt` if place `at` of `axis`, `offset` behind the first of its tile, is not beyond the end."""
    known = extent_of(axis.extent)
    if extent_of(offset) == 0 or (known is not None and known % m == 0):
        return stmt
    return If(lt(at, axis.extent), stmt)
