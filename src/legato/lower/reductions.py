"""One reduction and what is made of its elements: a kernel of rows, of register tiles, by parts, or by Winograd."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from legato.arith.expr import Const, Expr, Var, cdiv, const, lt, select
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute
from legato.base.target import Target
from legato.lower.access import depends, extent_of, is_unit, static_bytes, stride
from legato.lower.algorithms.groups import grouped
from legato.lower.algorithms.interleaved import Interleaved, interleave
from legato.lower.algorithms.pairs import factors, pair_up
from legato.lower.algorithms.part import Part
from legato.lower.algorithms.polyphase import polyphase
from legato.lower.algorithms.unflatten import unflatten
from legato.lower.algorithms.winograd import detect, winograd
from legato.lower.chained import settle_chained
from legato.lower.conditions import detect_pad, settled
from legato.lower.group import stages
from legato.lower.merged import merged
from legato.lower.packing import Packing
from legato.lower.rules.ahead import Ahead
from legato.lower.rules.dots import dots, plan_dots
from legato.lower.rules.nest import PIECES, together
from legato.lower.rules.row import MIN_LANES, RowJob, RowReduction, row
from legato.lower.rules.tile import tile
from legato.lower.rules.tile_job import TileJob
from legato.lower.rules.tile_shape import (
    FEW_ROWS,
    MANY_ROWS,
    TileShape,
    interleaved_shapes,
    pick_shape,
    single_shape,
    streamed_shape,
    tallest,
)
from legato.lower.rules.winograd import WinogradJob, multiply, transform, whole
from legato.lower.rules.winograd_cost import WinogradPlan, choose
from legato.lower.scheduling import Scheduling
from legato.lower.traits import choose_row, epilogue_of, in_memory_order, index_of, tensors_read, units_first
from legato.te.inline import certain_loads, inline, loads, replaced
from legato.te.tensor import Axis, Reduction, Stage, Tensor, compute
from legato.tir.buffer import Buffer, Layout
from legato.tir.expr import Load, cast
from legato.tir.stmt import If, Stmt

__all__ = ["reduced"]

MANY_CHANNELS = 32  # that are worth another kernel, which prepares the data of them all
STAYS = 8  # weights of less than so much of a core's own cache may be there still from the run before


def reduced(work: Scheduling, tensor: Tensor, body: Expr, reduction: Tensor) -> Stmt:
    """The loops that store `tensor` = body, which reads `reduction` (`tensor` itself, if it is the reduction) at the
    same element. What they read is stored before."""
    assert isinstance(tensor.stage, Stage)
    assert isinstance(reduction.stage, Stage)
    inner = _operands(work, reduction.stage.body)
    work.settle(body, but=reduction)
    inner, red = _over(work, tensor, reduction.stage, inner)
    body = body if tensor is reduction else inline(body, work.stored)
    axes = tensor.stage.axes
    inner, red = unflatten(inner, axes, red)
    work.choose_layout(tensor, inner, reduced=True)
    everything = Part({}, axes, inner, red)
    parts = [grouped(p, tensor.layout.order) for p in polyphase(inner, axes, red) or [everything]]
    ordered = [replace(p, reduction=in_memory_order(p.reduction, p.body, work.constants)) for p in parts]
    if parts != [everything]:
        return together([_phase(work, tensor, substitute(body, p.index), reduction, p) for p in ordered])
    (everything,) = ordered
    rows = _in_rows(work, tensor, body, reduction, everything)
    if rows is not None:
        return _of_rows(work, everything, rows)
    plan = _winograd_plan(work, inner, axes, everything.reduction, _order(tensor, everything))
    if plan is not None:
        return _winograd(work, tensor, body, reduction, plan)
    return _tiled(work, tensor, body, reduction, everything)


def _phase(work: Scheduling, tensor: Tensor, body: Expr, reduction: Tensor, part: Part) -> Stmt:
    """The loops that store the elements of `tensor` that `part` computes."""
    rows = _in_rows(work, tensor, body, reduction, part)
    if rows is None or plan_dots(rows, work.target) is None:
        return _tiled(work, tensor, body, reduction, part)
    return _of_rows(work, part, rows)


def _in_rows(work: Scheduling, tensor: Tensor, body: Expr, reduction: Tensor, part: Part) -> RowJob | None:
    """The elements of `tensor` that `part` computes as sums along memory; None where a tile is better."""
    order = _order(tensor, part)
    is_one = not order or is_unit(order[-1].extent)
    along = part.reduction if is_one else _rows_along(work, part.body, order, part.reduction)
    narrow = None if along is not None else _narrow_along(work, part.body, order, part.reduction)
    reduced_over = along or narrow
    if reduced_over is None:
        return None
    index = tuple(part.index.get(v, v) for v in index_of(tensor))
    job = RowJob(tensor, tuple(order), (), (RowReduction(reduction, (), reduced_over, part.body),), index, body)
    if narrow is None:
        return job
    plan = plan_dots(job, work.target)
    return None if plan is None or plan.beside is None else job


def _of_rows(work: Scheduling, part: Part, job: RowJob) -> Stmt:
    """The loops of `job`, whose constants are laid out as they are read."""
    (one,) = job.reductions
    axes = part.loops(range(len(part.axes)))
    packed = replace(job, reductions=(replace(one, body=work.copies.in_rows(one.body, axes, one.reduction)),))
    plan = plan_dots(packed, work.target)
    return row(packed, work.target) if plan is None else dots(packed, plan, work.target)


def _order(tensor: Tensor, part: Part) -> list[Axis]:
    """The axes of `part` as they lie in the memory of `tensor`, the last one being worth a vector loop."""
    return units_first(part.loops(tensor.layout.order))


def _over(work: Scheduling, tensor: Tensor, stage: Stage, inner: Expr) -> tuple[Expr, Reduction]:
    """What `stage` reduces (`inner`), and over what, written over the axes of `tensor`."""
    assert isinstance(tensor.stage, Stage)
    assert stage.reduction is not None
    old = stage.reduction
    same: dict[Var, Expr] = {a.var: b.var for a, b in zip(stage.axes, tensor.stage.axes, strict=True)}
    inner = substitute(inner, same)
    init = None if old.init is None else substitute(inline(old.init, work.stored), same)
    axes = tuple(Axis(a.var, substitute(a.extent, same)) for a in old.axes)
    return settled(inner, (*tensor.stage.axes, *axes)), Reduction(old.combiner, axes, init)


def _operands(work: Scheduling, body: Expr) -> Expr:
    """The body of a reduction with stages inlined, but padding, reductions and loop programs stored first."""
    settle_chained(work, body)
    inner = inline(body, work.stored)
    while True:
        pending = [t for t in tensors_read(inner) if t.stage is not None and t not in work.stored]
        pads = [t for t in _pads(body) if t not in work.stored]
        if not pending and not pads:
            return inner
        for t in (*pending, *pads):
            work.store(t)
        inner = inline(body, work.stored)


def _pads(body: Expr) -> list[Tensor]:
    """Stages that pad what the reduction reads."""
    return [t for t in stages(tensors_read(body)) if isinstance(t.stage, Stage) and detect_pad(t) is not None]


def _rows_along(work: Scheduling, inner: Expr, order: Sequence[Axis], red: Reduction) -> Reduction | None:
    """The reduction with the axis last along which memory runs, if vectors along it are better than a tile: what is
    read does not lie along the vector axis, and no operand would be reused by a tile."""
    vector = order[-1].var
    reads = [x for x in loads(inner) if x.buffer not in work.constants]  # constants are packed as is best
    if any(not depends(x, vector) for x in reads) or all(stride(x, vector) == 1 for x in reads):
        return None
    return _along_memory(reads, red)


def _narrow_along(work: Scheduling, inner: Expr, order: Sequence[Axis], red: Reduction) -> Reduction | None:
    """The reduction with the axis last along which memory runs, where all data does and each of few channels has
    constants of its own."""
    channel = order[-1]
    reads = [x for x in loads(inner) if x.buffer not in work.constants]
    along = _along_memory(reads, red)
    if along is None or not reads or any(depends(x, channel.var) for x in reads):
        return None
    return along if all(stride(x, along.axes[-1].var) == 1 for x in reads) else None


def _along_memory(reads: Sequence[Load], red: Reduction) -> Reduction | None:
    """The reduction with the axis last along which memory runs; None where that is too short for vectors."""
    along = [a for a in red.axes if any(stride(x, a.var) == 1 for x in reads)]
    if not along or (extent_of(along[-1].extent) or MIN_LANES) < MIN_LANES:
        return None
    rest = tuple(a for a in red.axes if a is not along[-1])
    return Reduction(red.combiner, (*rest, along[-1]), red.init)


# Register tiles


def _tiled(work: Scheduling, tensor: Tensor, body: Expr, reduction: Tensor, part: Part) -> Stmt:
    """The elements of `tensor` that `part` computes: `body`, which reads the sum as an element of `reduction`."""
    assert isinstance(tensor.stage, Stage)
    order = _order(tensor, part)
    inner, red = part.body, part.reduction
    row_axis = choose_row(inner, order) if order else None
    if order and tensor.stage.axes == part.axes:
        inner = _widened(work, inner, order, row_axis, red)
    shape = _shape(work, order, row_axis, inner, red) if order else TileShape(1, 1, 1)
    channel = order[-1]
    block_var, within = Var("ob", lo=0), Var("oi", lo=0)
    packed: dict[Load, Expr] = {}
    certain = certain_loads(inner)  # a copy of what a Select guards would read outside its buffer
    last: tuple[Expr, Expr] | None = None
    pairs = pair_up(inner, red, channel, row_axis) if order else None
    if pairs is not None:
        if pairs.source in work.constants:
            work.copies.constant(pairs.weights.buffer, pairs.source)
        packed[pairs.weights] = work.copies.in_blocks(pairs.weights, order, pairs.words, shape, block_var, within)
        inner, red = pairs.body, pairs.reduction
        last = None if pairs.left is const(0) else (replaced(pairs.last, packed), pairs.left)
    apart: Interleaved | None = None
    if order and (beside := _interleaved(work, inner, order, row_axis, red)) is not None:
        apart, shape = beside
        places, steps = (*order[:-1], apart.place), apart.reduction
        read = work.copies.in_blocks(apart.weights, places, steps, shape, block_var, within)
        inner, red, packed[read] = apart.data * read, steps, read
    for x in loads(inner):
        if x not in packed and work.copies.wants(x, order, row_axis, red, x in certain):
            packed[x] = work.copies.in_blocks(x, order, red, shape, block_var, within)
    inner = replaced(inner, packed)
    operands = {x.buffer for x in loads(inner) if x in packed.values()}
    weight = sum(static_bytes(b) for b in operands if all(isinstance(d, Const) for d in b.shape))
    data = sum(static_bytes(b) for b in {x.buffer for x in loads(inner)} - operands)  # for symbolic extents of 1
    # Other kernels have pushed the weights of blocks that come first, each used once, out of the near caches. Where
    # rows go through all weights again, only what cannot have stayed is fetched.
    come_first = _blocks_come_first(weight, data, order, work.target) or _is_by_channel(inner, channel, operands)
    is_fetched = come_first or weight > work.target.l2_bytes // 2
    job = TileJob(
        out=tensor,
        index=tuple(part.index.get(v, v) for v in index_of(tensor)),
        order=tuple(order),
        row=row_axis,
        reduction=red,
        body=inner,
        dtype=reduction.dtype,
        epilogue=epilogue_of(body, reduction),
        block=block_var,
        within=within,
        packed=frozenset(operands),
        last=last,
        term=None if apart is None else apart.term,
        blocks_first=come_first,
        ahead=Ahead(block_var) if is_fetched and _has_room_ahead(work, weight, order, row_axis, shape) else None,
    )
    assert channel is job.order[-1]
    return tile(*_in_one_loop(job, shape, work.target), work.target)


def _widened(work: Scheduling, body: Expr, order: Sequence[Axis], row: Axis | None, red: Reduction) -> Expr:
    """`body` with its data converted from bfloat16 by a kernel before, where the target would do that for each block of
    channels anew: it has no instruction that multiplies pairs, and there are more channels and rows than a few. Where a
    product replaces an operand, weights would be converted for each row then."""
    rows = None if row is None else extent_of(row.extent) or MANY_ROWS
    if work.target.has_bf16 or not work.target.has_three_operands or rows is None or rows <= FEW_ROWS:
        return body
    found, channels = factors(body, red, order[-1], row), extent_of(order[-1].extent) or MANY_CHANNELS
    if found is None or channels < MANY_CHANNELS:
        return body
    data, source = found[0], found[0].buffer
    read = [extent_of(a.extent) or 1 for a in (*order, *red.axes) if depends(data, a.var)]
    if any(h != (0, 0) for h in source.layout.halo) or static_bytes(source) > 2 * math.prod(read) * source.dtype.bytes:
        return body  # what lies around it is read too, or little of it is
    wide = compute(source.shape, lambda *i: cast(Load(source, i), body.dtype), f"wide_{source.name}")
    work.wanted[wide] = Layout(source.layout.order, pad=source.layout.pad)
    work.store(wide)
    return rewrite(body, {cast(data, body.dtype): wide[data.indices]}.get)


def _shape(work: Scheduling, order: Sequence[Axis], row_axis: Axis | None, inner: Expr, red: Reduction) -> TileShape:
    """The register tile for `inner`, reduced over `red`."""
    channel = order[-1].extent
    streamed = None
    if all(stride(x, order[-1].var) == 1 for x in loads(inner)):
        streamed = streamed_shape(channel, row_axis, inner, red, work.target)
    if streamed is not None:
        return streamed
    if row_axis is None:
        return single_shape(channel, [inner], work.target)
    return pick_shape(channel, row_axis, [inner], work.target)


def _in_one_loop(job: TileJob, shape: TileShape, target: Target) -> tuple[TileJob, TileShape]:
    """`job` with rows merged where blocks of channels are enough for threads to share, or lines are so short that
    several fit into a register tile, and its tile."""
    blocks = extent_of(simplify(cdiv(job.order[-1].extent, shape.width)))
    most = tallest(shape, job.body, target)
    if job.blocks_first and blocks is not None and blocks >= PIECES:
        # Windows slide along one line: a tile of several would load what they share again.
        slides = _is_by_channel(job.body, job.order[-1], job.packed)
        job = merged(job, 0 if job.ahead is None or slides else most)
    elif _is_read_once(job):
        job = replace(job, in_tiles=True)
    else:
        job = _short_lines(job, most)
    return job, shape if job.unit == 1 else replace(shape, rows=most // job.unit * job.unit)


def _is_read_once(job: TileJob) -> bool:
    """True if what a block of channels reads no other reads, and all of it follows the rows, whose number is known: a
    tile then goes through all channels before the next, and memory is read as it lies."""
    if job.row is None or extent_of(job.row.extent) is None:
        return False
    walked = (job.row.var, job.order[-1].var)
    return all(depends(x, v) for x in loads(job.body) for v in walked)


def _short_lines(job: TileJob, most: int) -> TileJob:
    """`job` with lines merged of which several fit into a tile of `most` rows, if their number is known and the same
    weights serve them all."""
    line = None if job.row is None else extent_of(job.row.extent)
    if not job.packed or line is None or 2 * line > most:
        return job
    found = merged(job, most)
    assert found.row is not None
    rows, weights = extent_of(found.row.extent), [x for x in loads(found.body) if x.buffer in job.packed]
    if found is job or rows is None or rows <= FEW_ROWS or any(depends(x, found.row.var) for x in weights):
        return job
    return replace(found, in_tiles=True)


def _blocks_come_first(weight: int, data: int, order: Sequence[Axis], target: Target) -> bool:
    """True if each block of so many bytes of weights is better used for all rows of the data before the next: the
    weights do not stay in a core's own cache while the rows pass through it; or they are more than the data, and each
    block can come from memory, where other kernels' work has left it, while the one before it is used.

    Threads then share the weights, and each reads all data, much of it out of another core's cache. Where data are
    more and the weights nearly fit, threads share the data.
    """
    if weight < data:
        return weight > 3 * target.l2_bytes // 4
    is_known = all(extent_of(axis.extent) is not None for axis in order)  # else data may be many times as much
    return weight > target.l2_bytes // (STAYS if is_known else 2)


def _is_by_channel(inner: Expr, channel: Axis, packed: Collection[Buffer]) -> bool:
    """True if a channel's result comes from data of that channel alone, by weights: a block of channels then stays in
    the first cache from one row to the next, whole rows may not."""
    data = [x for x in loads(inner) if x.buffer not in packed]
    return bool(packed) and bool(data) and all(depends(x, channel.var) for x in data)


def _interleaved(
    work: Scheduling, body: Expr, order: Sequence[Axis], row_axis: Axis | None, red: Reduction
) -> tuple[Interleaved, TileShape] | None:
    """How the sum of `body` over `red` is formed as several sums side by side, of weights that are packed for it, and
    the register tile for them; None where that is not better."""
    channel, rows = order[-1], 1 if row_axis is None else extent_of(row_axis.extent) or MANY_ROWS
    for shape in interleaved_shapes(channel.extent, rows, body.dtype, work.target):
        apart = interleave(body, red, channel, row_axis, shape.terms)
        if apart is not None:
            (weights,) = [x for x in loads(body) if depends(x, channel.var)]
            return (apart, shape) if work.copies.wants(weights, order, row_axis, red, is_certain=True) else None
    return None


def _has_room_ahead(
    work: Scheduling, weight: int, order: Sequence[Axis], row_axis: Axis | None, shape: TileShape
) -> bool:
    """True if a channel block's weights are used by several tiles while the next block's, if any, arrive: there
    is room for nearly two blocks in the core's own cache. What the last tile has used need not stay."""
    blocks = extent_of(simplify(cdiv(order[-1].extent, shape.width)))
    if blocks is None or blocks < 2 or weight // blocks > 5 * work.target.l2_bytes // 8:
        return False
    rows = shape.rows if row_axis is not None else 1
    return any((extent_of(a.extent) or MANY_ROWS) > (rows if a is row_axis else 1) for a in order[:-1])


# Winograd's algorithm


def _winograd_plan(
    work: Scheduling, inner: Expr, axes: Sequence[Axis], red: Reduction, order: Sequence[Axis]
) -> WinogradPlan | None:
    """How to compute a window's contraction by Winograd's algorithm; None where the sum as it stands is better."""
    window = detect(inner, axes, red, work.constants) if order else None
    if window is None or window.channel is not order[-1]:
        return None
    return choose(window, work.target, work.precision)


def _winograd(work: Scheduling, tensor: Tensor, body: Expr, reduction: Tensor, plan: WinogradPlan) -> Stmt:
    """The kernel that stores `tensor`, and before it, where that is better, one that transforms the data. Where that
    depends on how many tiles there are, it is decided when the kernels run."""
    made = winograd(plan.window, plan.schemes, work.target)
    source, stage = plan.window.weights.buffer, made.products.stage
    assert isinstance(source, Tensor)
    assert isinstance(stage, Stage)
    assert stage.reduction is not None
    work.stored.add(made.weights)
    work.constants.add(made.weights)
    work.result.packings.append(Packing(made.weights, source, made.factors))
    block_var, within = Var("ob", lo=0), Var("oi", lo=0)
    sums = interleave(stage.body, stage.reduction, stage.axes[-1], None, plan.shape.terms)
    assert sums is not None  # the plan says so
    points = Reduction("sum", (*stage.axes[:2], *sums.reduction.axes))  # in this order they are read for a block
    job = WinogradJob(
        stages=made,
        out=tensor,
        epilogue=epilogue_of(body, reduction),
        shape=plan.shape,
        tiles=plan.tiles,
        sums=sums,
        weights=work.copies.in_blocks(sums.weights, (sums.place,), points, plan.shape, block_var, within),
        block=block_var,
        within=within,
    )
    if plan.is_whole:
        return whole(job, work.target)
    if plan.many is None:
        data, transformed = transform(job, work.target)
        work.stored.add(data)
        work.append((data,), transformed)
        return multiply(job, work.target, data)
    enough, tiles = plan.many
    are_few = lt(job.total, enough)
    data, transformed = transform(job, work.target, select(are_few, job.blocks, const(0)))
    work.stored.add(data)
    work.append((data,), If(are_few, transformed))
    return If(are_few, multiply(job, work.target, data), whole(replace(job, tiles=tiles), work.target))
