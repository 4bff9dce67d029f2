"""A primitive function as a graph of te stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import legato.te.tensor as te
from legato.arith.expr import Const, Expr, Var
from legato.arith.substitute import rewrite
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.node import post_order
from legato.ir import expr as ir
from legato.ir.types import TensorType, TupleType, Type
from legato.te.access import CLAMP, clamp
from legato.te.graph import Value, computed
from legato.te.order import in_order
from legato.te.tensor import Tensor
from legato.tir.buffer import Buffer
from legato.tir.expr import Load

__all__ = ["Group", "stages", "te_group", "tensor_types"]


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """The stages of a primitive function: its parameters and results as tensors, and the dims that their shapes use."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    dims: tuple[Var, ...]


def tensor_types(ty: Type | None) -> tuple[TensorType, ...]:
    """The tensors inside `ty` (a tensor or nested tuples of them), in order."""
    if isinstance(ty, TensorType):
        return (ty,)
    if isinstance(ty, TupleType):
        return tuple(t for f in ty.fields for t in tensor_types(f))
    raise InternalError(f"expected tensors, got {ty}")


def te_group(func: ir.Function) -> Group:
    """The stages that compute primitive function `func`."""
    inputs: list[Tensor] = []
    by_var: dict[ir.Var, Any] = {}
    for param in func.params:
        leaves = [te.placeholder(f"p{len(inputs) + n}", t.shape, t.dtype) for n, t in enumerate(tensor_types(param.ty))]
        inputs += leaves
        by_var[param] = _nest(param.ty, iter(leaves))
    outputs = tuple(_flat(computed(func.body, by_var)))
    _write_literals(outputs)
    if CLAMP in func.attrs:
        clamp(outputs)
    return Group(tuple(inputs), outputs, _dims((*inputs, *outputs)))


def _nest(ty: Type | None, leaves: Iterator[Tensor]) -> Value:
    if isinstance(ty, TupleType):
        return tuple(_nest(f, leaves) for f in ty.fields)
    return next(leaves)


def _flat(value: Value) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    else:
        for v in value:
            yield from _flat(v)


def _write_literals(outputs: tuple[Tensor, ...]) -> None:
    """Stages that read scalar constants have them as literals: what a pad is filled with is seen to be 0."""
    order = stages(outputs)
    scalars = [(t, t.stage) for t in order if isinstance(t.stage, te.Stage) and not t.rank]
    literals: dict[Buffer, Expr] = {
        t: stage.body for t, stage in scalars if isinstance(stage.body, Const) and stage.reduction is None
    }
    if not literals:
        return
    for t in order:
        if isinstance(t.stage, te.Stage):
            body = rewrite(t.stage.body, lambda e: literals.get(e.buffer) if isinstance(e, Load) else None)
            t.stage = te.Stage(t.stage.axes, body, t.stage.reduction)


def _dims(tensors: Iterable[Tensor]) -> tuple[Var, ...]:
    """The dim variables of the tensors' shapes, in order of first appearance."""
    found: dict[Var, None] = {}
    for t in in_order(tensors):
        exprs: list[Expr] = list(t.shape)
        if isinstance(t.stage, te.Stage) and t.stage.reduction is not None:
            exprs += [a.extent for a in t.stage.reduction.axes]
        for e in exprs:
            if not isinstance(e, Const):
                found.update((v, None) for v in post_order([e]) if isinstance(v, Var))
    return tuple(found)


def stages(outputs: Iterable[Tensor]) -> list[Tensor]:
    """The tensors that `outputs` are computed from, and themselves if they are, producers first."""
    return [t for t in in_order(outputs) if t.stage is not None]
