"""Chains of contractions (attention) as one kernel each."""

from __future__ import annotations

from legato.arith.expr import Expr
from legato.lower.chain import find_chain
from legato.lower.rules.chain import ChainJob, chain_nest, fits
from legato.lower.rules.tile_shape import TileShape, pick_shape
from legato.lower.scheduling import Scheduling
from legato.lower.traits import element_of, index_of, is_reduction, tensors_read
from legato.te.inline import inline
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.expr import Load
from legato.tir.stmt import Stmt

__all__ = ["chained", "settle_chained"]


def chained(work: Scheduling, tensor: Tensor, stage: Stage) -> Stmt | None:
    """The kernel that stores `tensor`, which ends a chain of contractions; None where it does not, or where rows
    between them would not stay in a core's cache."""
    while True:
        found = find_chain(tensor, element_of(tensor, work.stored), work.stored)
        if found is None:
            return None
        pending = [t for t in found.operands() if t.stage is not None and t not in work.stored]
        if not pending:
            break
        for t in pending:
            work.store(t)
    keys = _shape(work, found.key.extent, found.row, found.keys)
    values = _shape(work, found.channel.extent, found.row, found.values)
    if not fits(found, keys, work.target):
        return None
    tensor.layout = work.in_order(tensor, range(tensor.rank))
    shared = (*found.outer, found.row)
    job = ChainJob(
        out=tensor,
        chain=found,
        keys=work.copies.blocked("keys", (found.query, found.keys), keys, (*shared, found.key), found.reduced),
        values=work.copies.blocked("values", (found.weight, found.values), values, (*shared, found.channel), found.key),
    )
    return chain_nest(job, work.target)


def _shape(work: Scheduling, channel: Expr, row_axis: Axis, operand: Expr) -> TileShape:
    return pick_shape(channel, row_axis, [operand], work.target)


def settle_chained(work: Scheduling, body: Expr) -> None:
    """Stores what a contraction that was to be part of a chain reads and would compute again for every use: what is
    made of reductions, and what is more than an element of something else."""
    if not work.has_chain:
        return
    for t in tensors_read(body):
        if isinstance(t.stage, Stage) and not is_reduction(t) and t not in work.stored:
            value = inline(t[index_of(t)], work.stored)
            if not isinstance(value, Load) or any(is_reduction(x) for x in tensors_read(value)):
                work.store(t)
