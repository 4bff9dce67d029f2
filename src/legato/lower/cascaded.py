"""Cascades (a contraction, then windows of one channel each) as one kernel."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import takewhile

from legato.arith.expr import Var
from legato.arith.linear import gather
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import depends, extent_of, static_bytes
from legato.lower.cascade import Cascade, find_cascade
from legato.lower.group import stages
from legato.lower.rules.cascade import CascadeJob, cascade_nest
from legato.lower.rules.nest import PIECES, is_unit
from legato.lower.rules.tile import is_long_epilogue
from legato.lower.rules.tile_shape import TileShape, narrow_shape, pick_shape, tallest
from legato.lower.scheduling import Scheduling
from legato.lower.slide import Blocks
from legato.lower.traits import is_reduction
from legato.te.tensor import Stage, Tensor
from legato.tir.buffer import Layout
from legato.tir.stmt import Stmt

__all__ = ["CascadePlan", "cascaded", "plan_cascade"]

FEW_TERMS = 64  # sums that are longer, over windows at every place, have algorithms of their own
READ_AGAIN = 16  # weights of a block are no more than so much of a core's own cache: every row reads them again
NEAR = 30 << 10  # bytes: with so many, the rows that are kept stay in the first cache, beside what else is read
FEW_AGAIN = 16  # columns that two blocks take are less than so much of all: what near rows gain is not much more
WORTH = 4  # what is less than so much of a core's own cache is still there when windows slide over it


@dataclass(frozen=True, slots=True)
class CascadePlan:
    """How to compute `cascade` as one kernel: by which register tile, how many rows at a time, and columns in which
    blocks."""

    cascade: Cascade
    shape: TileShape
    rows: int
    columns: Blocks


def plan_cascade(
    tensor: Tensor, constants: Collection[Tensor], stored: Collection[Tensor], target: Target, assign_layouts: bool
) -> CascadePlan | None:
    """How to compute `tensor`; None where it does not end a cascade that is all of its group, what is between the two
    is better stored, or the result would lie in another order than row-major without `assign_layouts`."""
    if not isinstance(tensor.stage, Stage) or sum(is_reduction(t) for t in stages((tensor,))) != 2:
        return None
    found = find_cascade(tensor, constants, stored)
    if found is None or static_bytes(found.wide) <= target.l2_bytes // WORTH:
        return None
    if not assign_layouts and not Layout(found.order).is_row_major:
        return None
    shape, columns = _shape(found, target)
    rows = _rows(found, shape, columns, target)
    if shape.lanes < target.lanes(tensor.dtype) or rows is None:
        return None
    plan = CascadePlan(found, shape, rows, columns)
    return plan if _is_worth(plan, target) else None


def _shape(found: Cascade, target: Target) -> tuple[TileShape, Blocks]:
    """The register tile of the contraction, and the blocks of columns: few columns, or else one vector of channels,
    where the rows that are kept stay near with these alone."""
    shape = pick_shape(found.channel.extent, found.column, [found.data], target)
    whole, most = Blocks(found.across, 1), found.across.results // shape.rows
    if _kept_bytes(found, shape, whole) <= NEAR:
        return shape, whole
    if not is_long_epilogue(found.widened, found.wide.dtype):  # then loads cost little, and doing it again much
        parts = takewhile(_is_split_well, (Blocks(found.across, n) for n in range(2, most + 1)))
        near = next((b for b in parts if _kept_bytes(found, shape, b) <= NEAR), None)
        if near is not None:
            return shape, near
    narrow = narrow_shape(shape.lanes, [found.data], target)
    return (narrow if _kept_bytes(found, narrow, whole) <= NEAR else shape), whole


def _is_split_well(columns: Blocks) -> bool:
    """True if padding is in the outermost blocks alone, and few places are in two."""
    slide, again = columns.slide, columns.size * columns.count - columns.slide.extent
    is_outside = columns.results * slide.step >= slide.before and columns.rest * slide.step >= slide.after
    return columns.rest > 0 and is_outside and again * FEW_AGAIN <= slide.extent


def _kept_bytes(found: Cascade, shape: TileShape, columns: Blocks) -> int:
    """Size of the rows that windows still need, of a block of channels."""
    return found.down.kept * columns.kept * shape.width * found.wide.dtype.bytes


def _rows(found: Cascade, shape: TileShape, columns: Blocks, target: Target) -> int | None:
    """Rows of a block, of which those that windows still need stay in a core's own cache; blocks enough for threads to
    share: as many as take one, two and four threads the least time together, each waiting for the last."""
    down, channels = found.down, -(-(extent_of(found.channel.extent) or 1) // shape.width)
    if _kept_bytes(found, shape, columns) > target.l2_bytes // 2:
        return None
    others = columns.count * channels * math.prod(extent_of(axis.extent) or 1 for axis in found.batch)
    least = -(-PIECES // 2 // others)

    def cost(rows: int) -> float:
        blocks = others * -(-down.results // rows)
        return sum(-(-blocks // threads) * threads for threads in (1, 2, 4)) * down.under(rows)

    counts = (n for n in range(least, 2 * least + 1) if n == least or down.results % n == 0)
    return min((-(-down.results // n) for n in counts), key=cost)


def _is_worth(plan: CascadePlan, target: Target) -> bool:
    """True if what is computed more than once takes less time than to store and read again what is between, and
    neither sum is better computed by itself."""
    found, shape, columns = plan.cascade, plan.shape, plan.columns
    down, size = found.down, static_bytes(found.wide)
    terms, windows = (math.prod(extent_of(a.extent) or 1 for a in r.axes) for r in (found.mixed, found.windows))
    if windows > FEW_TERMS or (terms > FEW_TERMS and _has_dense_windows(found)):
        return False
    has_short_lines = 2 * columns.size <= tallest(shape, found.data, target)  # several of them share a tile
    if has_short_lines or terms * shape.width * found.wide.dtype.bytes > target.l2_bytes // READ_AGAIN:
        return False
    lines = -(-down.results // plan.rows) * down.under(plan.rows) / down.extent
    again = lines * columns.count * columns.size / columns.slide.extent - 1
    return again * 2 * terms * size / found.wide.dtype.bytes / target.gflops < 2 * size / target.memory_gbs


def _has_dense_windows(found: Cascade) -> bool:
    """True if the contraction has windows of its own, one at every place."""
    along = [axis.var for axis in found.mixed.axes if not is_unit(axis.extent)]
    slides = [i for i in found.data.indices if any(depends(i, v) for v in along) and depends(i, found.line.var)]
    return any(gather(i)[0].get(found.line.var) == 1 for i in slides)


def cascaded(work: Scheduling, tensor: Tensor) -> Stmt | None:
    """The kernel that stores `tensor`, which ends a cascade; None where `plan_cascade` has no plan."""
    plan = plan_cascade(tensor, work.constants, work.stored, work.target, work.assign_layouts)
    if plan is None:
        return None
    work.settle(plan.cascade.data)
    found, shape = plan.cascade.in_memory_order(work.constants), plan.shape
    # Channels lie last: where another order is wanted of a contraction's result, that is copied.
    work.lay_out(tensor, found.order)
    block_var, within = Var("ob", lo=0), Var("oi", lo=0)
    wide = (found.line, found.column, found.wide_channel)
    axes = (found.lower, found.right, found.channel)
    weights = found.weights
    if weights is not None:
        weights = work.copies.in_blocks(weights, axes, found.windows, shape, block_var, within)
    job = CascadeJob(
        out=tensor,
        cascade=found,
        shape=shape,
        rows=plan.rows,
        columns=plan.columns,
        mix=work.copies.in_blocks(found.mix, wide, found.mixed, shape, block_var, within),
        weights=weights,
        block=block_var,
        within=within,
    )
    return cascade_nest(job, work.target)
