"""Stages anew, over other inputs and dims: schedules choose layouts for tensors, so that each use has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.arith.expr import Expr, Var
from legato.arith.substitute import rewrite
from legato.base import dtype as dt
from legato.base.errors import InternalError
from legato.te.order import in_order
from legato.te.tensor import Axis, Reduction, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["fresh_stages"]


def fresh_stages(
    outputs: Sequence[Tensor], inputs: Mapping[Tensor, Tensor], dims: Mapping[Var, Expr]
) -> tuple[Tensor, ...]:
    """`outputs` as computed from other `inputs`, with values for `dims`."""
    new = dict(inputs)
    for t in in_order(outputs, inputs.keys()):
        new[t] = _fresh(t, new, dims)
    return tuple(new[t] for t in outputs)


def _fresh(t: Tensor, tensors: Mapping[Tensor, Tensor], dims: Mapping[Var, Expr]) -> Tensor:
    stage = t.stage
    if not isinstance(stage, Stage):
        raise InternalError(f"{t.name} is not computed by a stage")
    known: dict[Var, Expr] = dict(dims)

    def put(e: Expr) -> Expr:
        def step(node: Expr) -> Expr | None:
            if isinstance(node, Var):
                return known.get(node)
            if not isinstance(node, Load) or not isinstance(node.buffer, Tensor):
                return None
            new = tensors.get(node.buffer)  # None: a choice between equals has become one of them, seen again
            return None if new is None else Load(new, node.indices)

        return rewrite(e, step)

    def axis(a: Axis) -> Axis:
        new = Axis(Var(a.var.name, dt.index, 0), put(a.extent))
        known[a.var] = new.var
        return new

    axes = tuple(axis(a) for a in stage.axes)
    red = stage.reduction
    new = None
    if red is not None:
        summed = tuple(axis(a) for a in red.axes)
        new = Reduction(red.combiner, summed, None if red.init is None else put(red.init))
    return Tensor(t.name, tuple(a.extent for a in axes), t.dtype, Stage(axes, put(stage.body), new))
