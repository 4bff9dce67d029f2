"""Several reductions along the same rows, and what is computed from them, as one kernel (softmax, norms)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var
from legato.arith.substitute import substitute, variables
from legato.lower.group import stages
from legato.lower.rules.nest import SOME
from legato.lower.rules.row import RowJob, RowReduction
from legato.lower.scheduling import Scheduling
from legato.lower.traits import index_of, is_reduction, run_along_memory, tensors_read, units_first
from legato.te.inline import inline, loads
from legato.te.tensor import Axis, Reduction, Stage, Tensor

__all__ = ["long_rows", "row_job"]


def row_job(work: Scheduling, tensor: Tensor, body: Expr) -> RowJob | None:
    """The job for `row` if every reduction that `body` needs is a function of the same outer axes of `tensor`, and
    computed for them but once."""
    assert isinstance(tensor.stage, Stage)
    axes = tensor.stage.axes
    found: dict[Tensor, RowReduction] = {}
    pending = [x for x in loads(body) if is_reduction(x.buffer) and x.buffer not in work.stored]
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
        job = _row_reduction(work, t, x.indices)
        if job is None:
            return None
        found[t] = job
        more = [y for y in loads(job.body) if is_reduction(y.buffer) and y.buffer not in work.stored]
        if any(not {v for i in y.indices for v in variables(i)} <= outer_vars for y in more):
            return None
        pending += more
    rows = _count([a.extent for a in axes if a.var in outer_vars])
    if any(_count(t.shape) < rows for t in found):
        return None  # many rows would compute the same
    order = [t for t in stages(list(found)) if t in found]
    work.choose_layout(tensor, body, reduced=False)
    physical = units_first([axes[d] for d in tensor.layout.order])
    outer = tuple(a for a in physical if a.var in outer_vars)
    inner = tuple(a for a in physical if a.var not in outer_vars)
    if not run_along_memory(order, found):
        return None
    return RowJob(tensor, outer, inner, tuple(found[t] for t in order), index_of(tensor), body)


def _count(extents: Iterable[Expr]) -> int:
    """The number of elements, symbolic dims counted as a few."""
    return math.prod(evaluate(e, dict.fromkeys(variables(e), SOME)) for e in extents)


def _row_reduction(work: Scheduling, t: Tensor, indices: tuple[Expr, ...]) -> RowReduction | None:
    """Reduction `t` at `indices`; None if it reads what is not stored and cannot be inlined."""
    assert isinstance(t.stage, Stage)
    assert t.stage.reduction is not None
    env = {a.var: i for a, i in zip(t.stage.axes, indices, strict=True)}
    body = inline(t.stage.body, work.stored)
    if any(x.buffer.stage is not None and not is_reduction(x.buffer) and x.buffer not in work.stored
           for x in loads(body) if isinstance(x.buffer, Tensor)):  # fmt: skip
        return None
    # Each reduction of the row gets loop variables of its own.
    red = t.stage.reduction
    axes = tuple(Axis(a.var, substitute(a.extent, env)) for a in red.axes)
    init = None if red.init is None else substitute(inline(red.init, work.stored), env)
    return RowReduction(t, indices, Reduction(red.combiner, axes, init), substitute(body, env))


def long_rows(work: Scheduling, reductions: Sequence[Tensor]) -> list[Tensor]:
    """What `reductions` reduce that is itself made of elements of a reduction: it is computed once and stored."""
    for t in stages(reductions):
        if not is_reduction(t) or t in work.stored:
            continue
        assert isinstance(t.stage, Stage)
        assert t.stage.reduction is not None
        along = {a.var for a in t.stage.reduction.axes}
        body = inline(t.stage.body, work.stored)
        read = {x.buffer for x in loads(body) if is_reduction(x.buffer) and x.buffer not in work.stored
                and along & set(variables(x))}  # fmt: skip
        if not read:
            continue
        operands = [x for x in tensors_read(t.stage.body) if x not in work.stored and x.stage is not None]
        return [x for x in operands if read & set(tensors_read(inline(x[index_of(x)], work.stored)))]
    return []
