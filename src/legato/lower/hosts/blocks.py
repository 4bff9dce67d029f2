"""Blocks: bindings in order, results written where they are wanted."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.errors import UnsupportedError
from legato.ir import expr as ir
from legato.ir.call_tir import CALL_TIR
from legato.ir.let import Binding, chain
from legato.ir.op import Op
from legato.ir.views import JOIN, PART, PartAttrs
from legato.lower.homes import Homes
from legato.lower.hosts.body import Body
from legato.lower.hosts.calls import host_op, invoke, launch
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.scalars import compute
from legato.lower.hosts.values import Value, flat
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import If

__all__ = ["lower_block"]


def lower_block(frame: Frame, body: ir.Expr, dest: Value, out: Body) -> None:
    """Appends the statements that evaluate `body` into `dest`."""
    bindings, result = chain(body)
    placed = _place_results(frame, bindings, result, dest)
    outside, frame.homes = frame.homes, Homes(frame.views)
    frame.homes.plan(bindings, placed)
    for var, value in bindings:
        frame.env[var] = _bind(frame, var, value, placed.get(var), out)
    frame.homes = outside
    if frame.jump is not None and result in frame.jump.calls:
        return
    for source, target in zip(flat(frame.atom(result)), flat(dest), strict=True):
        if source is not target:
            out.append(frame.copy(source, target))


def _place_results(frame: Frame, bindings: Sequence[Binding], result: ir.Expr, dest: Value) -> dict[ir.Var, Value]:
    """Where bindings that the block returns may be computed at once, instead of being copied.

    Of a launch of which only some results are returned, these are noted in `items`.
    """
    bound = {var for var, value in bindings if isinstance(value, ir.Call | ir.If)}
    parts = {var: value for var, value in bindings if isinstance(value, ir.TupleGetItem | ir.Var)}
    found: dict[ir.Var, Value] = {}
    stack = [(result, dest)]
    while stack:
        expr, target = stack.pop()
        if isinstance(expr, ir.Tuple) and isinstance(target, tuple):
            stack += zip(expr.fields, target, strict=True)
        elif isinstance(expr, ir.Var) and expr in bound and expr not in found:
            found[expr] = target
        elif isinstance(expr, ir.Var) and expr in parts:
            part = parts[expr]
            if isinstance(part, ir.Var):
                stack.append((part, target))
            elif isinstance(part.value, ir.Var) and part.value in bound and isinstance(target, Buffer):
                frame.items.setdefault(part.value, {}).setdefault(part.index, target)
    return found


def _bind(frame: Frame, var: ir.Var, value: ir.Expr, dest: Value | None, out: Body) -> Value:
    """Appends the statements that evaluate `value`, in `dest` if it must be computed at all; where it is."""
    match value:
        case ir.Call():
            return _call(frame, var, value, dest, out)
        case ir.If():
            return _if(frame, var, value, dest, out)
        case ir.TupleGetItem():
            inner = frame.atom(value.value)
            assert isinstance(inner, tuple)
            return inner[value.index]
        case ir.Var() | ir.Constant() | ir.Tuple():
            return frame.atom(value)
        case _:
            raise UnsupportedError(f"{type(value).__name__} in compiled code", span=value.span)


def _call(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    if frame.jump is not None and var in frame.jump.calls:
        frame.jump.emit(call.args, out)
        return ()
    if call.op is CALL_TIR:
        return launch(frame, var, call, dest, out)
    if call.op is JOIN:
        return frame.homes.joined(var)
    if call.op is PART:
        source = frame.atom(call.args[0])
        assert isinstance(source, Buffer)
        assert isinstance(call.attrs, PartAttrs)
        return frame.views.part(var.name, source, call.attrs)
    if isinstance(call.op, Op):
        return host_op(frame, var, call, dest, out)
    if isinstance(call.op, ir.GlobalVar):
        return invoke(frame, var, call, dest, out)
    if isinstance(call.op, ir.Function):
        return compute(frame, var, call, frame.lowered.scalars[call.op], dest, out)
    raise UnsupportedError(f"a call of a {type(call.op).__name__} in compiled code", span=call.span)


def _if(frame: Frame, var: ir.Var, value: ir.If, dest: Value | None, out: Body) -> Value:
    assert value.ty is not None
    outs = frame.fresh(value.ty, var.name, out) if dest is None else dest
    cond = frame.atom(value.cond)
    assert isinstance(cond, Buffer)
    branches = []
    for branch in (value.then, value.orelse):
        side = Body()
        lower_block(frame, branch, outs, side)
        branches.append(side.done())
    out.append(If(Load(cond, ()), *branches))
    return outs
