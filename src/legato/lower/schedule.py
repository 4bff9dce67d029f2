"""A group's stages → kernels: which tensors are stored, by which rule, in which layout.

Walks from the outputs. A stage without reductions is inlined where it is read. A tensor that is stored becomes one
kernel: `elementwise` without reductions, `tile` for one reduction with a kept axis along memory (contractions,
windows), `row` for reductions along memory. What a rule cannot hold (a reduction inside a reduction, padding around a
contraction, an operand whose order in memory does not fit) is stored in a temporary by a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from legato.arith.expr import Const, Expr, Select, Var, cdiv, const
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute, variables
from legato.base.precision import Precision
from legato.base.target import Target
from legato.lower.access import depends, static_bytes, stride
from legato.lower.algorithms.pairs import pair_up
from legato.lower.algorithms.phases import Phase, phases
from legato.lower.algorithms.winograd import detect, winograd
from legato.lower.chain import find_chain, is_product
from legato.lower.group import Group, stages
from legato.lower.inline import certain_loads, detect_pad, inline, loads, settled
from legato.lower.layout import choose_order
from legato.lower.packing import Copies, Packing
from legato.lower.phases import phases_of
from legato.lower.rules.chain import ChainJob, chain_nest, fits
from legato.lower.rules.elementwise import elementwise
from legato.lower.rules.halo import fill_halo
from legato.lower.rules.nest import extent_of, is_shared, is_unit, together
from legato.lower.rules.program import threaded
from legato.lower.rules.row import RowJob, RowReduction, row
from legato.lower.rules.scan import scan_program
from legato.lower.rules.tile import MANY_ROWS, TileJob, TileShape, combine, pick_shape, tile
from legato.lower.rules.winograd import WinogradJob, multiply, transform, whole
from legato.lower.rules.winograd_cost import WinogradPlan, choose
from legato.lower.traits import (
    choose_row,
    covers,
    in_memory_order,
    is_reduction,
    order_of_long,
    run_along_memory,
    tensors_read,
    units_first,
)
from legato.te.scan import Scan
from legato.te.tensor import Axis, Loops, Reduction, Stage, Tensor
from legato.tir.buffer import Buffer, Layout
from legato.tir.expr import Load
from legato.tir.stmt import Func, Stmt, block
from legato.tir.walk import bound_buffers, bound_vars, buffers_read, expressions

__all__ = ["Kernel", "Schedule", "schedule"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel and the tensors it is called with, in the order of its buffer parameters."""

    func: Func
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    dims: tuple[Var, ...]


@dataclass(slots=True)
class Schedule:
    """The kernels of a group, in order, and the constants that they want packed."""

    kernels: list[Kernel] = field(default_factory=list)
    packings: list[Packing] = field(default_factory=list)


def schedule(
    group: Group,
    constants: Sequence[Tensor],
    wanted: Sequence[Layout | None],
    target: Target,
    precision: Precision = Precision.DEFAULT,
) -> Schedule:
    """Kernels that compute the outputs of `group`.

    The inputs' layouts are facts; `wanted` fixes the layouts of outputs (None: the rule chooses; a halo only, if its
    order is empty). Outputs that are not computed by a stage of their own (an input returned as it is) are copied.
    """
    work = _Scheduler(set(constants), target, precision)
    work.has_chain = sum(is_product(t) for t in stages(group.outputs)) > 1
    for out, want in zip(group.outputs, wanted, strict=True):
        work.wanted.setdefault(out, want)
    work.normalise(group.outputs)
    work.use_halos(group.outputs)
    for out in group.outputs:
        work.store(out)
    return work.result


class _Scheduler:
    def __init__(self, constants: set[Tensor], target: Target, precision: Precision) -> None:
        self.constants, self.target, self.precision = constants, target, precision
        self.lanes = target.vector_bytes // 4
        self.has_chain = False  # more than one contraction
        self.wanted: dict[Tensor, Layout | None] = {}
        self.stored: set[Tensor] = set()
        self.result = Schedule()
        self.copies = Copies(
            constants, self.stored, self.result.packings, self._store_row_major, has_pairs=target.has_bf16
        )

    def normalise(self, outputs: Sequence[Tensor]) -> None:
        """A reduction over no axes is no reduction: its value is the body's."""
        for t in stages(outputs):
            stage = t.stage
            if isinstance(stage, Stage) and stage.reduction is not None and not stage.reduction.axes:
                init, body = stage.reduction.init, stage.body
                combined = body if init is None else combine(stage.reduction.combiner, init, body, self.target)
                t.stage = Stage(stage.axes, combined)

    def use_halos(self, outputs: Sequence[Tensor]) -> None:
        """Reads padding from the halo of an input where that holds it, instead of padding."""
        for t in stages(outputs):
            pad = detect_pad(t)
            if pad is not None and pad.source.stage is None and covers(pad.source.layout, pad):
                assert isinstance(t.stage, Stage)
                assert isinstance(t.stage.body, Select)
                t.stage = Stage(t.stage.axes, t.stage.body.a)

    # Storing

    def store(self, tensor: Tensor) -> None:
        """Appends the kernels that store `tensor`, and before them those of the temporaries it needs."""
        if tensor in self.stored or tensor.stage is None:
            return
        self.stored.add(tensor)
        if isinstance(tensor.stage, Loops):
            self._scan(tensor.stage) if isinstance(tensor.stage, Scan) else self._loops(tensor.stage)
            return
        if any(extent_of(d) == 0 for d in tensor.shape):
            self._choose_layout(tensor, const(0), reduced=False)
            body = block()  # there is nothing to store
        else:
            self._keep_order(tensor)
            body = self._scheduled(tensor, tensor.stage)
        if not tensor.layout.is_dense:
            body = block(body, fill_halo(tensor, self.target, is_shared(body)))
        self._kernel((tensor,), body)

    def _store_row_major(self, tensor: Tensor) -> None:
        self.wanted[tensor] = Layout.row_major(tensor.rank)
        self.store(tensor)

    def _keep_order(self, tensor: Tensor) -> None:
        """Where the order that is wanted is not one that a contraction computes well, its result is copied."""
        want, stage = self.wanted.get(tensor), tensor.stage
        if want is None or not want.order or not isinstance(stage, Stage):
            return
        body = inline(stage.body, self.stored)
        reductions = [tensor] if stage.reduction is not None else [t for t in tensors_read(body) if is_reduction(t)]
        if (
            len(reductions) != 1
            or not isinstance(reductions[0].stage, Stage)
            or not self._is_epilogue(
                tensor,
                body if stage.reduction is None else Load(tensor, tuple(a.var for a in stage.axes)),
                reductions[0],
            )
        ):
            return
        inner = inline(reductions[0].stage.body, self.stored)
        natural = choose_order(reductions[0].stage.axes, inner, self.constants, True, self.lanes).order
        if order_of_long(tensor, natural) == order_of_long(tensor, want.order):
            return
        copy = Tensor(tensor.name, tensor.shape, tensor.dtype, stage)
        self.store(copy)
        axes = tuple(Axis(Var(a.var.name, lo=0), a.extent) for a in stage.axes)
        tensor.stage = Stage(axes, copy[tuple(a.var for a in axes)])

    def _scan(self, stage: Scan) -> None:
        for t in stage.inputs:
            self.store(t)
        steps = phases_of(stage, self.stored)
        if steps is None:
            return self._loops(stage)
        body, memory = scan_program(stage, steps, self.target, self.copies.rearranged)
        for t in (*stage.results, *memory):
            self.stored.add(t)
            t.layout = Layout.row_major(t.rank)
        return self._kernel((*stage.results, *memory), body)

    def _loops(self, stage: Loops) -> None:
        for t in stage.inputs:
            self.store(t)
        for t in stage.outputs:
            self.stored.add(t)
            t.layout = Layout.row_major(t.rank)
        self._kernel(stage.outputs, stage.body, given=True)

    def _kernel(self, outputs: Sequence[Tensor], body: Stmt, *, given: bool = False) -> None:
        own = set(bound_buffers(body))
        written: list[Buffer] = list(outputs)  # in full: an output without elements is stored by nobody
        read = [b for b in buffers_read(body) if b not in own and b not in written]
        bound = set(bound_vars(body))
        shapes = [d for b in (*read, *written) for d in b.shape]
        used = [e for e in expressions(body) if isinstance(e, Var)]
        dims = [v for v in dict.fromkeys((*used, *variables(*shapes))) if v not in bound]
        func = Func(outputs[0].name, (*read, *written, *dims), body)
        func = threaded(func) if given else func
        self.result.kernels.append(Kernel(func, tuple(read), tuple(written), tuple(dims)))

    def _scheduled(self, tensor: Tensor, stage: Stage | Loops | None) -> Stmt:
        assert isinstance(stage, Stage)
        chained = self._chained(tensor, stage) if self.has_chain else None
        if chained is not None:
            return chained
        if stage.reduction is None:
            body = inline(stage.body, self.stored)
            reductions = [t for t in tensors_read(body) if is_reduction(t) and t not in self.stored]
            if not reductions:
                self._settle(body)
                body = settled(inline(stage.body, self.stored), stage.axes)
                self._choose_layout(tensor, body, reduced=False)
                return elementwise(tensor, body, self.target)
            if len(reductions) == 1 and self._is_epilogue(tensor, body, reductions[0]):
                return self._reduced(tensor, body, reductions[0])
        else:
            index = tuple(a.var for a in stage.axes)
            return self._reduced(tensor, Load(tensor, index), tensor)
        long = self._long_rows(reductions) if self.has_chain else []
        if long:
            for t in long:
                self.store(t)
            return self._scheduled(tensor, stage)
        job = self._row_job(tensor, body)
        if job is not None:
            return row(job, self.target)
        for t in reductions:
            self.store(t)
        return self._scheduled(tensor, stage)

    def _long_rows(self, reductions: Sequence[Tensor]) -> list[Tensor]:
        """What `reductions` reduce that is itself made of elements of a reduction: it is computed once and stored."""
        for t in stages(reductions):
            if not is_reduction(t) or t in self.stored:
                continue
            assert isinstance(t.stage, Stage)
            assert t.stage.reduction is not None
            along = {a.var for a in t.stage.reduction.axes}
            body = inline(t.stage.body, self.stored)
            read = {x.buffer for x in loads(body) if is_reduction(x.buffer) and x.buffer not in self.stored
                    and along & set(variables(x))}  # fmt: skip
            if not read:
                continue
            operands = [x for x in tensors_read(t.stage.body) if x not in self.stored and x.stage is not None]
            return [x for x in operands if read & set(tensors_read(inline(x[_own(x)], self.stored)))]
        return []

    def _settle(self, body: Expr) -> None:
        """Stores what `body` reads that is neither an input nor stored yet (outputs of loop programs)."""
        for t in tensors_read(body):
            self.store(t)

    def _is_epilogue(self, tensor: Tensor, body: Expr, reduction: Tensor) -> bool:
        """True if each element of `tensor` reads just the same element of `reduction`."""
        assert isinstance(tensor.stage, Stage)
        axes = tensor.stage.axes

        def same(x: Load) -> bool:
            return len(axes) == len(x.indices) and all(
                i is a.var or (is_unit(a.extent) and extent_of(i) == 0) for i, a in zip(x.indices, axes, strict=True)
            )

        return all(same(x) for x in loads(body) if x.buffer is reduction)

    # One reduction

    def _reduced(self, tensor: Tensor, body: Expr, reduction: Tensor) -> Stmt:
        """`tensor` = body, which reads `reduction` (`tensor` itself, if it is the reduction) at the same element."""
        assert isinstance(tensor.stage, Stage)
        assert isinstance(reduction.stage, Stage)
        assert reduction.stage.reduction is not None
        same = {a.var: b.var for a, b in zip(reduction.stage.axes, tensor.stage.axes, strict=True)}
        inner = substitute(self._operands(reduction.stage.body), dict(same))
        body = self._epilogue(tensor, body, reduction)
        axes = tensor.stage.axes
        old = reduction.stage.reduction
        init = None if old.init is None else substitute(inline(old.init, self.stored), dict(same))
        red_axes = tuple(Axis(a.var, substitute(a.extent, dict(same))) for a in old.axes)
        inner = settled(inner, (*tensor.stage.axes, *red_axes))
        red = Reduction(old.combiner, red_axes, init)
        self._choose_layout(tensor, inner, reduced=True)
        order = units_first([axes[d] for d in tensor.layout.order])
        found = phases(inner, axes, red)
        if found is not None:
            return together([self._tiled(tensor, substitute(body, p.index), reduction, p) for p in found])
        red = in_memory_order(red, inner, self.constants)
        rows = red if not order or is_unit(order[-1].extent) else self._rows_along(inner, order, red)
        if rows is not None:
            job = RowReduction(reduction, (), rows, self.copies.in_rows(inner, axes, rows))
            return row(RowJob(tensor, tuple(order), (), (job,), tuple(a.var for a in axes), body), self.target)
        plan = self._winograd_plan(inner, axes, red, order)
        if plan is not None:
            return self._winograd(tensor, body, reduction, plan)
        return self._tiled(tensor, body, reduction, Phase({}, axes, inner, red))

    def _operands(self, body: Expr) -> Expr:
        """The body of a reduction with stages inlined, but padding, reductions and loop programs stored first."""
        self._settle_chained(body)
        inner = inline(body, self.stored)
        while True:
            pending = [t for t in tensors_read(inner) if t.stage is not None and t not in self.stored]
            pads = [t for t in self._pads(body) if t not in self.stored]
            if not pending and not pads:
                return inner
            for t in (*pending, *pads):
                self.store(t)
            inner = inline(body, self.stored)

    def _settle_chained(self, body: Expr) -> None:
        """Stores what a contraction that was to be part of a chain reads and would compute again for every use: what is
        made of reductions, and what is more than an element of something else."""
        if not self.has_chain:
            return
        for t in tensors_read(body):
            if isinstance(t.stage, Stage) and not is_reduction(t) and t not in self.stored:
                value = inline(t[_own(t)], self.stored)
                if not isinstance(value, Load) or any(is_reduction(x) for x in tensors_read(value)):
                    self.store(t)

    def _pads(self, body: Expr) -> list[Tensor]:
        """Stages that pad what the reduction reads."""
        return [t for t in stages(tensors_read(body)) if isinstance(t.stage, Stage) and detect_pad(t) is not None]

    def _epilogue(self, tensor: Tensor, body: Expr, reduction: Tensor) -> Expr:
        self._settle_but(body, reduction)
        return body if tensor is reduction else inline(body, self.stored)

    def _settle_but(self, body: Expr, reduction: Tensor) -> None:
        for t in tensors_read(body):
            if t is not reduction:
                self.store(t)

    def _rows_along(self, inner: Expr, order: Sequence[Axis], red: Reduction) -> Reduction | None:
        """The reduction with the axis last along which memory runs, if vectors along it are better than a tile: what is
        read does not lie along the vector axis, and no operand would be reused by a tile."""
        vector = order[-1].var
        reads = [x for x in loads(inner) if x.buffer not in self.constants]  # constants are packed as is best
        if any(not depends(x, vector) for x in reads) or all(stride(x, vector) == 1 for x in reads):
            return None
        along = [a for a in red.axes if any(stride(x, a.var) == 1 for x in reads)]
        if not along:
            return None
        rest = tuple(a for a in red.axes if a is not along[-1])
        return Reduction(red.combiner, (*rest, along[-1]), red.init)

    def _tiled(self, tensor: Tensor, body: Expr, reduction: Tensor, part: Phase) -> Stmt:
        """The elements of `tensor` that `part` computes: `body`, which reads the sum as an element of `reduction`."""
        assert isinstance(tensor.stage, Stage)
        order = units_first([part.axes[d] for d in tensor.layout.order])
        inner, red = part.body, in_memory_order(part.reduction, part.body, self.constants)
        row_axis = choose_row(inner, order) if order else None
        shape = pick_shape(order[-1].extent, row_axis, [inner], self.target) if order else TileShape(1, 1, 1)
        channel = order[-1]
        block_var, within = Var("ob", lo=0), Var("oi", lo=0)
        packed: dict[Load, Expr] = {}
        certain = certain_loads(inner)  # a copy of what a Select guards would read outside its buffer
        last: tuple[Expr, Expr] | None = None
        pairs = pair_up(inner, red, channel, row_axis) if order else None
        if pairs is not None:
            if pairs.source in self.constants:
                self.copies.constant(pairs.weights.buffer, pairs.source)
            packed[pairs.weights] = self.copies.in_blocks(pairs.weights, order, pairs.words, shape, block_var, within)
            inner, red = pairs.body, pairs.reduction
            last = None if pairs.left is const(0) else (_replaced(pairs.last, packed), pairs.left)
        for x in loads(inner):
            if x not in packed and self.copies.wants(x, order, row_axis, red, x in certain):
                packed[x] = self.copies.in_blocks(x, order, red, shape, block_var, within)
        inner = _replaced(inner, packed)
        operands = {x.buffer for x in loads(inner) if x in packed.values()}
        weight = sum(static_bytes(b) for b in operands if all(isinstance(d, Const) for d in b.shape))
        job = TileJob(
            out=tensor,
            index=tuple(part.index.get(a.var, a.var) for a in tensor.stage.axes),
            order=tuple(order),
            row=row_axis,
            reduction=red,
            body=inner,
            dtype=reduction.dtype,
            epilogue=_epilogue_of(body, reduction),
            block=block_var,
            within=within,
            packed=frozenset(operands),
            last=last,
            blocks_first=weight > self.target.l2_bytes // 2,
            ahead=block_var if self._fetches_ahead(weight, order, row_axis, shape) else None,
        )
        assert channel is job.order[-1]
        return tile(job, shape, self.target)

    def _winograd_plan(
        self, inner: Expr, axes: Sequence[Axis], red: Reduction, order: Sequence[Axis]
    ) -> WinogradPlan | None:
        """How to compute a window's contraction by Winograd's algorithm; None where the sum as it stands is better."""
        window = detect(inner, axes, red, self.constants) if order else None
        if window is None or window.channel is not order[-1]:
            return None
        return choose(window, self.target, self.precision)

    def _winograd(self, tensor: Tensor, body: Expr, reduction: Tensor, plan: WinogradPlan) -> Stmt:
        """The kernel that stores `tensor`, and before it, where that is better, one that transforms the data."""
        stages = winograd(plan.window, plan.scheme, self.target)
        source, stage = plan.window.weights.buffer, stages.products.stage
        assert isinstance(source, Tensor)
        assert isinstance(stage, Stage)
        assert stage.reduction is not None
        dims = [plan.window.weights.indices.index(inside.var) for _, inside in plan.window.slides]
        self.stored.add(stages.weights)
        self.constants.add(stages.weights)
        self.result.packings.append(Packing(stages.weights, source, tuple((d, plan.scheme.weights) for d in dims)))
        (weights,) = [x for x in loads(stage.body) if x.buffer is stages.weights]
        block_var, within = Var("ob", lo=0), Var("oi", lo=0)
        points = Reduction("sum", (*stage.axes[:2], *stage.reduction.axes))  # in this order they are read for a block
        job = WinogradJob(
            stages=stages,
            out=tensor,
            epilogue=_epilogue_of(body, reduction),
            shape=plan.shape,
            tiles=plan.tiles,
            weights=self.copies.in_blocks(weights, stage.axes[-1:], points, plan.shape, block_var, within),
            block=block_var,
            within=within,
        )
        if plan.is_whole:
            return whole(job, self.target)
        data, transformed = transform(job, self.target)
        self.stored.add(data)
        self._kernel((data,), transformed)
        return multiply(job, self.target, data)

    def _fetches_ahead(self, weight: int, order: Sequence[Axis], row_axis: Axis | None, shape: TileShape) -> bool:
        """True if the weights come from memory, and a channel block's are used by several tiles while the next block's
        arrive: both fit the core's own cache with room for the data."""
        l2 = self.target.l2_bytes
        blocks = extent_of(simplify(cdiv(order[-1].extent, shape.width)))
        if weight <= l2 // 2 or blocks is None or weight // blocks > l2 // 4:
            return False
        rows = shape.rows if row_axis is not None else 1
        return any((extent_of(a.extent) or MANY_ROWS) > (rows if a is row_axis else 1) for a in order[:-1])

    # Chains

    def _chained(self, tensor: Tensor, stage: Stage) -> Stmt | None:
        """The kernel that stores `tensor`, which ends a chain of contractions; None where it does not, or where rows
        between them would not stay in a core's cache."""
        index = tuple(a.var for a in stage.axes)
        found = find_chain(
            tensor,
            Load(tensor, index) if stage.reduction is not None else inline(stage.body, self.stored),
            self.stored,
        )
        if found is None:
            return None
        pending = [t for t in found.operands() if t.stage is not None and t not in self.stored]
        if pending:
            for t in pending:
                self.store(t)
            return self._scheduled(tensor, stage)
        keys = self._shape(found.key.extent, found.row, found.keys)
        values = self._shape(found.channel.extent, found.row, found.values)
        if not fits(found, keys, self.target):
            return None
        self._chain_layout(tensor)
        shared = (*found.outer, found.row)
        job = ChainJob(
            out=tensor,
            chain=found,
            keys=self.copies.blocked("keys", (found.query, found.keys), keys, (*shared, found.key), found.reduced),
            values=self.copies.blocked(
                "values", (found.weight, found.values), values, (*shared, found.channel), found.key
            ),
        )
        return chain_nest(job, self.target)

    def _shape(self, channel: Expr, row_axis: Axis, operand: Expr) -> TileShape:
        return pick_shape(channel, row_axis, [operand], self.target)

    def _chain_layout(self, tensor: Tensor) -> None:
        want, order = self.wanted.get(tensor), tuple(range(tensor.rank))
        if want is None:
            tensor.layout = Layout(order)
        else:
            tensor.layout = want if want.order else Layout(order, want.halo, want.halo_value)

    # Rows

    def _row_job(self, tensor: Tensor, body: Expr) -> RowJob | None:
        """The job for `row` if every reduction that `body` needs is a function of the same outer axes of `tensor`."""
        assert isinstance(tensor.stage, Stage)
        axes = tensor.stage.axes
        found: dict[Tensor, RowReduction] = {}
        pending = [x for x in loads(body) if is_reduction(x.buffer) and x.buffer not in self.stored]
        outer_vars: set[Var] = {v for x in pending for i in x.indices for v in variables(i)}
        if not outer_vars <= {a.var for a in axes}:
            return None
        while pending:
            x = pending.pop()
            t = x.buffer
            assert isinstance(t, Tensor)
            if t in found:
                if found[t].indices != x.indices:
                    return None
                continue
            job = self._row_reduction(t, x.indices)
            if job is None:
                return None
            found[t] = job
            more = [y for y in loads(job.body) if is_reduction(y.buffer) and y.buffer not in self.stored]
            if any(not {v for i in y.indices for v in variables(i)} <= outer_vars for y in more):
                return None
            pending += more
        order = [t for t in stages(list(found)) if t in found]
        self._choose_layout(tensor, body, reduced=False)
        physical = units_first([axes[d] for d in tensor.layout.order])
        outer = tuple(a for a in physical if a.var in outer_vars)
        inner = tuple(a for a in physical if a.var not in outer_vars)
        if not run_along_memory(order, found):
            return None
        return RowJob(tensor, outer, inner, tuple(found[t] for t in order), tuple(a.var for a in axes), body)

    def _row_reduction(self, t: Tensor, indices: tuple[Expr, ...]) -> RowReduction | None:
        assert isinstance(t.stage, Stage)
        assert t.stage.reduction is not None
        env = {a.var: i for a, i in zip(t.stage.axes, indices, strict=True)}
        body = inline(t.stage.body, self.stored)
        if any(x.buffer.stage is not None and not is_reduction(x.buffer) and x.buffer not in self.stored
               for x in loads(body) if isinstance(x.buffer, Tensor)):  # fmt: skip
            return None
        # Each reduction of the row gets loop variables of its own.
        red = t.stage.reduction
        axes = tuple(Axis(a.var, substitute(a.extent, env)) for a in red.axes)
        init = None if red.init is None else substitute(inline(red.init, self.stored), env)
        return RowReduction(t, indices, Reduction(red.combiner, axes, init), substitute(body, env))

    # Layout

    def _choose_layout(self, tensor: Tensor, body: Expr, reduced: bool) -> None:
        want = self.wanted.get(tensor)
        if want is not None and want.order:
            tensor.layout = want
            return
        assert isinstance(tensor.stage, Stage)
        chosen = choose_order(tensor.stage.axes, body, self.constants, reduced, self.lanes)
        tensor.layout = chosen if want is None else Layout(chosen.order, want.halo, want.halo_value)


def _replaced(e: Expr, known: dict[Load, Expr]) -> Expr:
    """`e` with Loads replaced."""
    return rewrite(e, lambda node: known.get(node) if isinstance(node, Load) else None)


def _own(t: Tensor) -> tuple[Var, ...]:
    assert isinstance(t.stage, Stage)
    return tuple(a.var for a in t.stage.axes)


def _epilogue_of(body: Expr, reduction: Tensor) -> Callable[[Expr], Expr]:
    """What `body` makes of the element of `reduction` that it reads."""
    return lambda total: rewrite(body, lambda e: total if isinstance(e, Load) and e.buffer is reduction else None)
