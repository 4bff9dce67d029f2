"""Calls of what is outside of the program: of packed functions, and those that print and test values.

The runtime makes them when the program comes to a HostOp. Where a packed function decides on extents of what it gives,
the call tells these, memory for them is made, and a second HostOp puts there what the function has given.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.ir import expr as ir
from legato.ir.op import Op
from legato.ir.packed import MessageAttrs, PackedAttrs, packed_type, parts
from legato.ir.types import TensorType, TupleType, Type
from legato.lower.group import tensor_types
from legato.lower.hosts.body import Body
from legato.lower.hosts.cells import EXTENT, leaf_types
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.program import HostOpRecord
from legato.lower.hosts.results import known
from legato.lower.hosts.values import Value, flat, flat_all
from legato.runtime.outside import Message, PackedCall, Step
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import HostOp

__all__ = ["call_outside"]


def call_outside(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    """Appends the call of an operator of `ir.packed.OUTSIDE`; its results."""
    attrs = call.attrs
    assert call.ty is not None
    if isinstance(attrs, PackedAttrs):
        made = PackedCall(attrs.name, packed_type(call))
        if any(None in shape for shape in attrs.shapes):
            return _late(frame, var, call, made, dest, out)
        outs = frame.place(call.ty, var.name, dest, out)
        _append(frame, call, call.args, made, list(flat(outs)), tensor_types(call.ty), out)
        return outs
    assert isinstance(attrs, MessageAttrs)
    _append(frame, call, call.args, Message(attrs.format, tuple(parts(a.ty) for a in call.args)), (), (), out)
    return ()


def _late(frame: Frame, var: ir.Var, call: ir.Call, made: PackedCall, dest: Value | None, out: Body) -> Value:
    """A call that decides on extents of its results."""
    attrs = call.attrs
    assert isinstance(attrs, PackedAttrs)
    assert call.ty is not None
    own = {(n, k): fresh("d", 0) for n, s in enumerate(attrs.shapes) for k, d in enumerate(s) if d is None}
    words = [out.register(Buffer("extent", (), dt.int64, scope=Scope.REGISTER)) for _ in own]
    _append(frame, call, call.args, made.at(Step.EXTENTS), words, [EXTENT] * len(words), out)
    frame.bring({d: Load(w, ()) for d, w in zip(own.values(), words, strict=True)}, out)
    types = [
        TensorType(tuple(own.get((n, k), d) if d is None else d for k, d in enumerate(shape)), kind)  # type: ignore[misc]
        for n, (shape, kind) in enumerate(zip(attrs.dims, attrs.dtypes, strict=True))
    ]
    got: Type = types[0] if len(types) == 1 else TupleType(tuple(types))
    known(frame, got, call.ty, f"the result of packed function {attrs.name!r}", call, out)
    outs = frame.place(call.ty, var.name, dest, out)
    _append(frame, call, (), made.at(Step.RESULTS), list(flat(outs)), tensor_types(call.ty), out)
    return outs


def _append(
    frame: Frame, call: ir.Call, args: Sequence[ir.Expr], attrs: PackedCall | Message, outs: Sequence[Buffer],
    types: Sequence[TensorType], out: Body,
) -> None:  # fmt: skip
    """Appends a HostOp on `args`, which stores to `outs`."""
    assert isinstance(call.op, Op)
    passed = [t for a in args for t in leaf_types(a.ty)]
    inputs = tuple(t for t in passed if isinstance(t, TensorType))
    assert len(inputs) == len(passed)
    extents = [d for t in (*inputs, *types) for d in t.shape]
    values = flat_all(map(frame.atom, args))
    frame.program.host_ops.append(HostOpRecord(call.op, attrs, inputs, tuple(types)))
    out.append(HostOp((*values, *outs, *extents), len(frame.program.host_ops) - 1))
