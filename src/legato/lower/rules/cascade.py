"""The rule for cascades (contraction, then windows of one channel each): blocks of channels and rows at a time, what is
between the two in the cache of one core.

    parallel (batch axes, blocks of rows, blocks of channels):
        for rows:
            for rows that its windows cover and the last one's did not:
                wide[row mod kept][place][channel] = f(contraction)        the register tile of `tile`
            out = g(Σ wide · weights)                                      the register tile again

Rows and columns that the windows of two blocks cover are computed for each of them, by the same operations.
"""

from __future__ import annotations

from collections.abc import Mapping

from legato.arith.expr import Binary, Expr, Op, Var, const, eq, floormod, le, lt, max_, min_
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import extent_of
from legato.lower.cascade import Cascade
from legato.lower.rules.nest import loop, parallel, vector_loop, where
from legato.lower.rules.tile import row_tiles
from legato.lower.rules.tile_job import TileJob
from legato.lower.rules.tile_shape import TileShape
from legato.lower.slide import Blocks
from legato.te.tensor import Axis, Tensor
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, If, Stmt, Store, block

__all__ = ["CascadeJob", "cascade_nest"]


@dataclass(frozen=True, slots=True)
class CascadeJob:
    """What to compute: `cascade`, into `out`, `rows` rows in a block, columns in `columns`; `mix` and `weights` (None:
    there are none) read the packed operands of the contraction and of the windows, with `block` and `within` in place
    of the channel, as in TileJob."""

    out: Tensor
    cascade: Cascade
    shape: TileShape
    rows: int
    columns: Blocks
    mix: Load
    weights: Load | None
    block: Var
    within: Var


def cascade_nest(job: CascadeJob, target: Target) -> Stmt:
    """The scheduled nest of `job`."""
    c = job.cascade
    blocks = -(-c.down.results // job.rows)
    channels = -(-(extent_of(c.channel.extent) or 1) // job.shape.width)

    def body(values: list[Expr]) -> Stmt:
        *batch, number, across, ob = values
        env = {axis.var: v for axis, v in zip(c.batch, batch, strict=True)}
        return _Block(job, target, env, number * job.rows, across, ob).stmt()

    extents = [*(a.extent for a in c.batch), const(blocks), const(job.columns.count), const(channels)]
    return parallel(extents, body, threaded=True)


class _Block:
    """Rows from `first` on in block `number` of columns and block `ob` of channels; `env` has the values of the batch
    axes."""

    def __init__(
        self, job: CascadeJob, target: Target, env: Mapping[Var, Expr], first: Expr, number: Expr, ob: Expr
    ) -> None:
        self.job, self.c, self.target, self.env, self.first, self.ob = job, job.cascade, target, env, first, ob
        self.columns, self.number = job.columns, number
        shape = (const(self.c.down.kept), const(self.columns.kept), const(job.shape.width))
        self.wide = Buffer("wide", shape, self.c.wide.dtype, scope=Scope.LOCAL)

    def stmt(self) -> Stmt:
        """Everything."""
        down, rows = self.c.down, self.job.rows
        live: Expr = const(rows)
        if down.results % rows:
            live = simplify(min_(live, const(down.results) - self.first))
        lead, new = max(0, down.reach - down.step), min(down.step, down.reach)

        def row(i: Expr) -> Stmt:
            return block(loop("y", const(new), lambda y: self._filled(i * down.step + lead + y)), self._slid(i))

        return Alloc(self.wide, block(loop("y", const(lead), self._filled), loop("i", live, row)))

    def _kept(self, y: Expr) -> Expr:
        """Where row `y` lies in `wide`."""
        return simplify(floormod(y, const(self.c.down.kept)))

    def _filled(self, y: Expr) -> Stmt:
        """Stores row `y` of `wide`."""
        down, columns = self.c.down, self.columns
        place = simplify(self.first * down.step + y)
        kept = self._kept(y)
        # Padding is in the first and the last block of columns alone.
        left = self._outside(kept, columns.lead, columns.lead + self.c.across.before)
        end = columns.lead + self.c.across.extent - columns.start(columns.count - 1)
        right = self._outside(kept, end, columns.kept)
        row = block(
            where(eq(self.number, 0), left),
            where(eq(self.number, columns.count - 1), right),
            self._mixed(kept, place),
        )
        if not down.before and not down.after:
            return row
        inside = Binary(Op.AND, le(const(down.before), place), lt(place, const(down.before + down.extent)))
        return If(inside, row, self._outside(kept, 0, columns.kept))

    def _outside(self, y: Expr, start: int, stop: int) -> Stmt:
        """Stores what is around at places start..stop of row `y`."""
        value, shape = const(self.c.outside, self.wide.dtype), self.job.shape

        def place(x: Expr) -> Stmt:
            return vector_loop(
                const(shape.width), shape.lanes, lambda lane: Store(self.wide, (y, x + start, lane), value)
            )

        return loop("x", const(stop - start), place) if stop > start else block()

    def _mixed(self, y: Expr, place: Expr) -> Stmt:
        """Stores the elements of row `y`, which is row `place` of what windows slide over."""
        c, job, columns = self.c, self.job, self.columns
        column = Axis(Var("x", lo=0), const(columns.size))
        start = columns.start(self.number)
        first = simplify(min_(max_(start, const(0)), const(columns.last)))
        at = {c.column.var: first + column.var}
        tiles = TileJob(
            out=self.wide,
            index=(y, column.var + simplify(first - start + columns.lead), job.within),
            order=(column, c.wide_channel),
            row=column,
            reduction=c.mixed,
            body=substitute(c.data * job.mix, at),
            dtype=c.wide.dtype,
            epilogue=lambda total: substitute(c.widened(total), at),
            block=job.block,
            within=job.within,
            packed=frozenset({job.mix.buffer}),
            is_part=True,
        )
        return row_tiles(
            tiles, job.shape, self.target, {**c.same_batch(self.env), c.line.var: place - c.down.before}, self.ob
        )

    def _slid(self, y: Expr) -> Stmt:
        """Stores row `y` of the block's results."""
        columns = self.columns
        all_of_them = self._slid_places(y, columns.results)
        if columns.rest == columns.results:
            return all_of_them
        return If(eq(self.number, columns.count - 1), self._slid_places(y, columns.rest), all_of_them)

    def _slid_places(self, y: Expr, results: int) -> Stmt:
        """Stores the first `results` of row `y`."""
        c, job, columns = self.c, self.job, self.columns
        right = Axis(Var("x", lo=0), const(results))
        u, v = (axis.var for axis in c.windows.axes)
        at = {c.lower.var: self.first + y, c.right.var: simplify(self.number * columns.results) + right.var}
        place = (self._kept(y * c.down.step + u), right.var * c.across.step + v + columns.lead, job.within)
        read = Load(self.wide, place)
        tiles = TileJob(
            out=job.out,
            index=tuple(substitute(axis.var, at) for axis in c.axes),
            order=(right, c.channel),
            row=right,
            reduction=c.windows,
            body=read if job.weights is None else read * job.weights,
            dtype=c.wide.dtype,
            epilogue=lambda total: substitute(c.result(total), at),
            block=job.block,
            within=job.within,
            packed=frozenset() if job.weights is None else frozenset({job.weights.buffer}),
            is_part=True,
        )
        return row_tiles(tiles, job.shape, self.target, self.env, self.ob)
