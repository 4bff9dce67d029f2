"""Calls: of kernels, of operators that are run by their reference, of other functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from legato.arith.expr import Expr
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.infer.replace import replace_vars
from legato.ir import expr as ir
from legato.ir._dims import free_dims
from legato.ir.call_tir import CallTirAttrs
from legato.ir.op import Op
from legato.ir.types import TensorType, Type
from legato.lower.group import tensor_types
from legato.lower.hosts.body import Body
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.ownership import handle
from legato.lower.hosts.program import HostOpRecord, Site
from legato.lower.hosts.results import RESULT, known, new_place, registers, taken
from legato.lower.hosts.updates import begun
from legato.lower.hosts.values import Value, flat, flat_all, function_dims, instantiate
from legato.lower.hosts.written import arguments, bound_dims
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.stmt import HostOp, Invoke, Launch

__all__ = ["host_op", "invoke", "launch"]


def launch(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    """Appends the launch of the kernel that `call`, a call_tir, names; what it stores to."""
    kernel_var, args = call.args
    assert isinstance(kernel_var, ir.GlobalVar)
    assert isinstance(call.attrs, CallTirAttrs)
    inputs = list(flat(frame.atom(args)))
    written = frame.program.written.get(kernel_var.name)
    dims = call.attrs.dims if written is None else bound_dims(written, call, inputs)
    _require_known(frame, [*dims, *(d for t in tensor_types(call.attrs.out_type) for d in t.shape)], call)
    layouts = frame.program.layouts(kernel_var.name, len(inputs), call.attrs.inplace)
    began = _began(frame, var, call.attrs, inputs, dest, out)
    outs = _outs(frame, var, call.attrs.out_type, layouts, dest, began, out)
    frame.program.sites.append(Site(kernel_var.name, call.attrs.operators, call.span))
    if written is None:
        out.append(Launch((*inputs, *flat(outs), *dims), kernel_var.name))
    else:
        out.append(arguments(frame, written, call, inputs, list(flat(outs)), dims, began, out))
    return outs


def _began(
    frame: Frame, var: ir.Var, attrs: CallTirAttrs, inputs: Sequence[Buffer], dest: Value | None, out: Body
) -> dict[int, Buffer]:
    """Where those outputs lie, by number, that can be written in the memory of an argument as it is: not where they
    are wanted elsewhere."""
    if dest is not None or var in frame.items or var in frame.homes.places.of:
        return {}
    found: dict[int, Buffer] = {}
    for arg, n in attrs.begins.items():
        data, others = inputs[arg], [b for m, b in enumerate(inputs) if m != arg]
        is_alike = data.shape == attrs.out[n].shape and data.layout.is_row_major
        place = begun(frame, var.name, data, others, out) if is_alike else None
        if place is not None:
            found[n] = place
    return found


def _require_known(frame: Frame, dims: Iterable[Expr], call: ir.Call) -> None:
    """UnsupportedError where a call needs dims that nothing tells: those of results of functions that are values."""
    unknown = [d.name for d in variables(*dims) if d not in frame.known]
    if unknown:
        raise UnsupportedError(
            f"nothing that compiled code has tells the dims {', '.join(unknown)}",
            span=call.span,
            hint="let match_cast name the dims of what is computed here",
        )


def _outs(
    frame: Frame, var: ir.Var, ty: Type, layouts: Sequence[Layout], dest: Value | None, began: Mapping[int, Buffer],
    out: Body,
) -> Value:  # fmt: skip
    """What a kernel stores its results to: where they are wanted, if their layout is that of the kernel, or where they
    began."""
    types = tensor_types(ty)
    places = dict(enumerate(flat(dest))) if dest is not None else frame.items.get(var, began)
    found: list[Buffer] = []
    if var in frame.homes.places.of:
        (layout,) = layouts
        return frame.homes.buffer(var, var.name, layout)
    for n, (t, layout) in enumerate(zip(types, layouts, strict=True)):
        if n not in places or places[n].layout != layout:
            name = var.name if len(types) == 1 else f"{var.name}_{n}"
            found.append(frame.placed(Buffer(name, t.shape, t.dtype, layout, _scope(t)), out))
        else:
            found.append(places[n])
    return found[0] if isinstance(ty, TensorType) else tuple(found)


def _scope(ty: TensorType) -> Scope:
    return Scope.GLOBAL if ty.rank else Scope.REGISTER


def host_op(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    """Appends the call of an operator that is run by its reference; its results."""
    assert isinstance(call.op, Op)
    assert call.ty is not None
    inputs = tuple(t for a in call.args for t in tensor_types(a.ty))
    outs = frame.place(call.ty, var.name, dest, out)
    record = HostOpRecord(call.op, call.attrs, inputs, tensor_types(call.ty))
    frame.program.host_ops.append(record)
    values = flat_all(map(frame.atom, call.args))
    extents = [d for t in (*record.inputs, *record.outputs) for d in t.shape]
    out.append(HostOp((*values, *flat(outs), *extents), len(frame.program.host_ops) - 1))
    return outs


def invoke(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    """Appends the call of another host function; its results."""
    assert isinstance(call.op, ir.GlobalVar)
    assert call.ty is not None
    callee = frame.lowered.module[call.op]
    assert isinstance(callee, ir.Function)
    assert callee.body.ty is not None
    dims = dict(zip(function_dims(callee), instantiate(callee, call), strict=True))
    _require_known(frame, dims.values(), call)
    frame.require_held(dims.values(), out)
    inputs = [handle(b) if b.dtype == dt.handle else b for b in flat_all(map(frame.atom, call.args))]
    ty = replace_vars(callee.body.ty, {}, dims)
    late = tuple(d for d in free_dims(callee.body.ty) if d not in dims)
    if late:
        place = registers(new_place(ty, var.name, late, Scope.REGISTER), frame, out)
        out.append(Invoke((*inputs, *dims.values(), *place.words), call.op.name))
        return taken(frame, place, call.ty, call, out)
    known(frame, ty, call.ty, RESULT, call, out)
    outs = frame.place(call.ty, var.name, dest, out)
    out.append(Invoke((*inputs, *dims.values(), *flat(outs)), call.op.name))
    return frame.stored(outs, dest)
