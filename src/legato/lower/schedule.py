"""A group's stages → kernels: which tensors are stored, by which rule, in which layout.

Walks from the outputs. A stage without reductions is inlined where it is read. A tensor that is stored becomes one
kernel: `elementwise` without reductions, `tile` for one reduction with a kept axis along memory (contractions,
windows), `row` for reductions along memory. What a rule cannot hold (a reduction inside a reduction, padding around a
contraction, an operand whose order in memory does not fit) is stored in a temporary by a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Select, Var, const
from legato.base.precision import Precision
from legato.base.target import Target
from legato.lower.access import extent_of
from legato.lower.cascaded import cascaded, plan_cascade
from legato.lower.chain import is_product
from legato.lower.chained import chained
from legato.lower.conditions import detect_pad, settled
from legato.lower.gathers import gathered_again
from legato.lower.group import Group, stages
from legato.lower.reductions import reduced
from legato.lower.rowwise import long_rows, row_job
from legato.lower.rules.elementwise import elementwise
from legato.lower.rules.halo import fill_halo
from legato.lower.rules.nest import is_shared
from legato.lower.rules.row import row
from legato.lower.rules.scan import scan_program
from legato.lower.rules.tile_update import combine
from legato.lower.scheduling import Kernel, Schedule, Scheduling
from legato.lower.traits import (
    covers,
    element_of,
    index_of,
    is_epilogue,
    is_reduction,
    is_turned,
    order_of_long,
    tensors_read,
)
from legato.te.inline import inline
from legato.te.scan import Scan
from legato.te.steps import steps_of
from legato.te.tensor import Axis, Loops, Stage, Tensor
from legato.tir.buffer import Layout
from legato.tir.expr import Load
from legato.tir.stmt import Stmt, block

__all__ = ["Kernel", "Schedule", "schedule"]


def schedule(
    group: Group,
    constants: Sequence[Tensor],
    wanted: Sequence[Layout | None],
    target: Target,
    precision: Precision = Precision.DEFAULT,
    assign_layouts: bool = True,
) -> Schedule:
    """Kernels that compute the outputs of `group`.

    The inputs' layouts are facts; `wanted` fixes the layouts of outputs (None: the rule chooses; halo and stride
    padding only, if its order is empty). Outputs that are not computed by a stage of their own (an input returned as it
    is) are copied. Without `assign_layouts`, rules choose row-major order.
    """
    work = _Scheduler(set(constants), target, precision, assign_layouts)
    work.has_chain = sum(is_product(t) for t in stages(group.outputs)) > 1
    for out, want in zip(group.outputs, wanted, strict=True):
        work.wanted.setdefault(out, want)
    work.normalise(group.outputs)
    work.use_halos(group.outputs)
    for out in group.outputs:
        work.store(out)
    return work.result


class _Scheduler(Scheduling):
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

    def store(self, tensor: Tensor) -> None:
        """Appends the kernels that store `tensor`, and before them those of the temporaries it needs."""
        if tensor in self.stored or tensor.stage is None:
            return
        self.stored.add(tensor)
        if isinstance(tensor.stage, Loops):
            self._scan(tensor.stage) if isinstance(tensor.stage, Scan) else self._loops(tensor.stage)
            return
        if any(extent_of(d) == 0 for d in tensor.shape):
            self.choose_layout(tensor, const(0), reduced=False)
            body = block()  # there is nothing to store
        else:
            self._keep_order(tensor)
            body = self._scheduled(tensor, tensor.stage)
        if not tensor.layout.is_dense:
            body = block(body, fill_halo(tensor, self.target, is_shared(body)))
        self.append((tensor,), body)

    def _keep_order(self, tensor: Tensor) -> None:
        """Where the order that is wanted is not one that a contraction computes well, its result is copied."""
        want, stage = self.wanted.get(tensor), tensor.stage
        if want is None or not want.order or not isinstance(stage, Stage):
            return
        body = element_of(tensor, self.stored)
        reductions = [t for t in tensors_read(body) if is_reduction(t)]
        if len(reductions) != 1 or not is_epilogue(tensor, body, reductions[0]):
            return
        natural = self._natural_order(tensor, reductions[0])
        if order_of_long(tensor, natural) == order_of_long(tensor, want.order):
            return
        copy = Tensor(tensor.name, tensor.shape, tensor.dtype, stage)
        self.store(copy)
        axes = tuple(Axis(Var(a.var.name, lo=0), a.extent) for a in stage.axes)
        tensor.stage = Stage(axes, copy[tuple(a.var for a in axes)])

    def _natural_order(self, tensor: Tensor, reduction: Tensor) -> Sequence[int]:
        """The order in which `tensor`, which is `reduction` but for its epilogue, is computed well."""
        cascade = plan_cascade(tensor, self.constants, self.stored, self.target, self.assign_layouts)
        if cascade is not None:
            return cascade.cascade.order
        assert isinstance(reduction.stage, Stage)
        inner = inline(reduction.stage.body, self.stored)
        return self.order(reduction.stage.axes, inner, reduced=True)

    def _scan(self, stage: Scan) -> None:
        for t in stage.inputs:
            self.store(t)
        steps = steps_of(stage, self.stored)
        if steps is None:
            return self._loops(stage)
        body, memory = scan_program(stage, steps, self.target, self.copies.rearranged)
        for t in (*stage.results, *memory):
            self.stored.add(t)
            t.layout = Layout.row_major(t.rank)
        return self.append((*stage.results, *memory), body)

    def _loops(self, stage: Loops) -> None:
        for t in stage.inputs:
            self.store(t)
        for t in stage.outputs:
            self.stored.add(t)
            t.layout = Layout.row_major(t.rank)
        self.append(stage.outputs, stage.body, given=True)

    def _scheduled(self, tensor: Tensor, stage: Stage | Loops | None) -> Stmt:
        assert isinstance(stage, Stage)
        nest = chained(self, tensor, stage) if self.has_chain else None
        nest = nest or cascaded(self, tensor)
        if nest is not None:
            return nest
        if stage.reduction is not None:
            return reduced(self, tensor, Load(tensor, index_of(tensor)), tensor)
        body = inline(stage.body, self.stored)
        reductions = [t for t in tensors_read(body) if is_reduction(t) and t not in self.stored]
        if not reductions:
            self.settle(body)
            body = settled(inline(stage.body, self.stored), stage.axes)
            self.choose_layout(tensor, body, reduced=False)
            again = gathered_again(tensor, body, self.stored)
            if again is None:
                return elementwise(tensor, body, self.target)
            self.wanted.setdefault(again, Layout(tensor.layout.order))
            self.store(again)
            return self._scheduled(tensor, stage)
        if len(reductions) == 1 and is_epilogue(tensor, body, reductions[0]):
            return reduced(self, tensor, body, reductions[0])
        temporaries = long_rows(self, reductions) if self.has_chain else []
        if len(reductions) == 1 and is_turned(tensor, body, reductions[0]):
            temporaries = reductions  # a contraction is computed well in its own order only
        if not temporaries:
            job = row_job(self, tensor, body)
            if job is not None:
                return row(job, self.target)
            temporaries = reductions
        for t in temporaries:
            self.store(t)
        return self._scheduled(tensor, stage)
