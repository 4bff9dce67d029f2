"""Scalars are computed in registers, by statements of the host function itself."""

from __future__ import annotations

from legato.arith.expr import Expr
from legato.arith.substitute import rewrite
from legato.ir import expr as ir
from legato.lower.group import Group
from legato.lower.hosts.body import Body
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.values import Value, flat, flat_all, nest
from legato.te.inline import inline
from legato.te.tensor import Tensor
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import Store

__all__ = ["compute"]


def compute(frame: Frame, var: ir.Var, call: ir.Call, group: Group, dest: Value | None, out: Body) -> Value:
    """Appends the stores of what `group`, the scalar function that `call` calls, gives; where it is."""
    assert call.ty is not None
    args = flat_all(map(frame.atom, call.args))
    known: dict[Buffer, Buffer] = dict(zip(group.inputs, args, strict=True))
    places = list(flat(frame.place(call.ty, var.name, dest, out)))
    for tensor, place in zip(group.outputs, places, strict=True):
        if tensor not in known:
            out.append(Store(place, (), _value(tensor, known)))
            known[tensor] = place
    return nest(call.ty, iter([known[t] for t in group.outputs]))


def _value(tensor: Tensor, known: dict[Buffer, Buffer]) -> Expr:
    """What `tensor` is, in terms of what is known."""

    def read(e: Expr) -> Expr | None:
        return Load(known[e.buffer], ()) if isinstance(e, Load) else None

    return rewrite(inline(Load(tensor, ()), {t for t in known if isinstance(t, Tensor)}), read)
