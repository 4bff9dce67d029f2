"""Blocks: bindings in order, results written where they are wanted."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import const, le
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.base.node import post_order
from legato.ir import expr as ir
from legato.ir.call_tir import CALL_TIR
from legato.ir.devices import DEVICE_COPY
from legato.ir.let import Binding, chain
from legato.ir.op import Op
from legato.ir.packed import OUTSIDE
from legato.ir.tensor_to_shape import NEGATIVE, TENSOR_TO_SHAPE
from legato.ir.types import ShapeType, TensorType, Type
from legato.ir.updates import APPEND, PUT
from legato.ir.views import JOIN, PART, PartAttrs
from legato.lower.homes import Homes
from legato.lower.hosts.body import Body
from legato.lower.hosts.calls import host_op, invoke, launch
from legato.lower.hosts.cells import leaf_types
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.matches import lower_match
from legato.lower.hosts.objects import box, construct, read, ref, write
from legato.lower.hosts.outside import call_outside
from legato.lower.hosts.ownership import Owners
from legato.lower.hosts.results import Place, known, new_place, registers, store_dims, taken
from legato.lower.hosts.scalars import compute
from legato.lower.hosts.updates import append, put
from legato.lower.hosts.values import Value, flat
from legato.lower.late_updates import is_update
from legato.lower.supported import DEFAULT_PASSES
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Check, If, View

__all__ = ["lower_block"]


def lower_block(frame: Frame, body: ir.Expr, place: Place, out: Body, given: Sequence[Buffer] = ()) -> None:
    """Appends the statements that evaluate `body` into `place`; the handles `given` are the block's."""
    bindings, result = chain(body)
    placed, boxed = _place_results(frame, bindings, result, place.value)
    boxed = boxed.union(_boxed(frame, bindings)) - placed.keys()
    outside = frame.homes, frame.owners, frame.known, frame.out, frame.ends_turn
    frame.homes, frame.owners = Homes(frame.views), Owners.of(frame.borrowed, bindings, result, given, frame.env)
    frame.out, frame.ends_turn = out, frame.jump is not None and result in frame.jump.calls
    frame.homes.plan(bindings, placed)
    frame.owners.release(out)
    for n, (var, value) in enumerate(bindings):
        frame.owners.now = n
        if var in boxed and var not in frame.homes.places.of and not frame.late(var.ty) and not is_update(value):
            placed[var] = _box(frame, var, out)
        if var == result and isinstance(value, ir.If | ir.Match) and frame.late(value.ty):
            _branch(frame, value, place, out)  # its dims come with the result of the block
            frame.owners.release(out)
            break
        frame.env[var] = _bind(frame, var, value, placed.get(var), out)
        frame.owners.uses(var, frame.env[var])
        frame.owners.release(out)
    else:
        if frame.jump is None or result not in frame.jump.calls:
            store_dims(frame, place, result, out)
            _return(frame, list(flat(frame.atom(result))), list(flat(place.value)), out)
    frame.homes, frame.owners, frame.known, frame.out, frame.ends_turn = outside


def _return(frame: Frame, values: Sequence[Buffer], places: Sequence[Buffer], out: Body) -> None:
    """Appends what is left to do for a block to have its results in their places, and nothing else."""
    frame.owners.now += 1
    pairs = list(zip(values, places, strict=True))
    pairs = [(box(frame, v, out) if p.dtype == dt.handle and v.dtype != dt.handle else v, p) for v, p in pairs]
    moved = [(v, p) for v, p in pairs if v is not p]
    handles = [v for v, _ in moved if v.dtype == dt.handle]
    for n, v in enumerate(handles):
        frame.owners.take(v, handles[n + 1 :], out)
    out.extend(frame.copy(v, p) for v, p in moved)
    frame.owners.release(out)


def _boxed(frame: Frame, bindings: Sequence[Binding]) -> set[ir.Var]:
    """Tensors that calls give and the block stores into objects: they are computed in objects of their own at once."""
    calls = {v for v, value in bindings if isinstance(value, ir.Call) and isinstance(v.ty, TensorType) and v.ty.rank}
    found: set[ir.Var] = set()
    for _, value in bindings:
        if isinstance(value, ir.RefCreate | ir.RefWrite) or (
            isinstance(value, ir.Call) and isinstance(value.op, ir.Constructor)
        ):
            found |= {v for v in post_order(value.children()) if isinstance(v, ir.Var) and v in calls}
    return found


def _box(frame: Frame, var: ir.Var, out: Body) -> Buffer:
    assert isinstance(var.ty, TensorType)
    return frame.boxed(Buffer(var.name, var.ty.shape, var.ty.dtype), out)


def _place_results(
    frame: Frame, bindings: Sequence[Binding], result: ir.Expr, dest: Value
) -> tuple[dict[ir.Var, Value], set[ir.Var]]:
    """Where bindings that the block returns may be computed at once, instead of being copied; and those that it returns
    as objects.

    Of a launch of which only some results are returned, these are noted in `items`.
    """
    bound = {var for var, value in bindings if isinstance(value, ir.Call | ir.If | ir.Match | ir.RefCreate)}
    parts = {var: value for var, value in bindings if isinstance(value, ir.TupleGetItem | ir.Var)}
    found: dict[ir.Var, Value] = {}
    boxed: set[ir.Var] = set()
    stack = [(result, dest)]
    while stack:
        expr, target = stack.pop()
        if isinstance(expr, ir.Tuple) and isinstance(target, tuple):
            stack += zip(expr.fields, target, strict=True)
        elif isinstance(expr, ir.Var) and _has_boxes(expr.ty, target):
            boxed |= {expr} & bound if isinstance(expr.ty, TensorType) else set()
        elif isinstance(expr, ir.Var) and expr in bound and expr not in found:
            found[expr] = target
        elif isinstance(expr, ir.Var) and expr in parts:
            part = parts[expr]
            if isinstance(part, ir.Var):
                stack.append((part, target))
            elif isinstance(part.value, ir.Var) and part.value in bound and isinstance(target, Buffer):
                frame.items.setdefault(part.value, {}).setdefault(part.index, target)
    return found, boxed


def _has_boxes(ty: Type | None, target: Value) -> bool:
    """Whether tensors in a value of type `ty` are wanted as objects."""
    leaves = zip(leaf_types(ty), flat(target), strict=True)
    return any(isinstance(t, TensorType) and leaf.dtype == dt.handle for t, leaf in leaves)


def _bind(frame: Frame, var: ir.Var, value: ir.Expr, dest: Value | None, out: Body) -> Value:
    """Appends the statements that evaluate `value`, in `dest` if it must be computed at all; where it is."""
    match value:
        case ir.Call():
            return _call(frame, var, value, dest, out)
        case ir.If() | ir.Match():
            return _branches(frame, var, value, dest, out)
        case ir.MatchCast():
            return _cast(frame, value, out)
        case ir.RefCreate():
            return ref(frame, var, value, dest, out)
        case ir.RefRead():
            return read(frame, var, value, out)
        case ir.RefWrite():
            return write(frame, var, value, out)
        case ir.TupleGetItem():
            inner = frame.atom(value.value)
            assert isinstance(inner, tuple)
            return inner[value.index]
        case ir.Var() | ir.Constant() | ir.Tuple():
            return frame.atom(value)
        case _:
            raise UnsupportedError(f"{type(value).__name__} in compiled code", span=value.span, hint=DEFAULT_PASSES)


def _call(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    if frame.jump is not None and var in frame.jump.calls:
        frame.jump.emit(call, out)
        return ()
    if isinstance(call.op, Op):
        return _operator(frame, var, call, dest, out)
    if isinstance(call.op, ir.GlobalVar):
        return invoke(frame, var, call, dest, out)
    if isinstance(call.op, ir.Function):
        return compute(frame, var, call, frame.lowered.scalars[call.op], dest, out)
    if isinstance(call.op, ir.Constructor):
        return construct(frame, var, call, dest, out)
    what = f"a call of a {type(call.op).__name__} in compiled code"
    raise UnsupportedError(what, span=call.span, hint=DEFAULT_PASSES)


def _operator(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    if call.op is CALL_TIR:
        return launch(frame, var, call, dest, out)
    if call.op is JOIN:
        return frame.homes.joined(var)
    if call.op is PART:
        source = frame.atom(call.args[0])
        assert isinstance(source, Buffer)
        assert isinstance(call.attrs, PartAttrs)
        return _part(frame, var, source, call.attrs, out)
    if call.op is APPEND:
        return append(frame, var, call, out)
    if call.op is PUT:
        return put(frame, var, call, out)
    if call.op is TENSOR_TO_SHAPE:
        return _dims(frame, call, out)
    if call.op is DEVICE_COPY:
        return _copy(frame, var, call, dest, out)
    return (call_outside if call.op in OUTSIDE else host_op)(frame, var, call, dest, out)


def _copy(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    """The copy of a tensor on another device."""
    source = frame.atom(call.args[0])
    assert isinstance(source, Buffer)
    assert call.ty is not None
    target = frame.place(call.ty, var.name, dest, out)
    assert isinstance(target, Buffer)
    out.append(frame.copy(source, target, between_devices=True))
    return target


def _cast(frame: Frame, value: ir.MatchCast, out: Body) -> Value:
    """The value itself, when the dims that it shall have are checked; those that are new have their values then."""
    assert value.value.ty is not None
    known(frame, value.value.ty, value.target, "match_cast", value, out)
    return frame.atom(value.value)


def _dims(frame: Frame, call: ir.Call, out: Body) -> Value:
    """The elements of a tensor as dims, which are known from here on."""
    source = frame.on_host(call.args[0], out)
    assert isinstance(call.ty, ShapeType)
    dims = call.ty.dims or ()
    values = [Load(source, (const(n),)) for n in range(len(dims))]
    negative = frame.program.check(NEGATIVE)
    out.extend(Check(le(const(0, v.dtype), v), negative) for v in values)
    late = frame.late(call.ty)
    frame.bring({d: v for d, v in zip(dims, values, strict=True) if d in late}, out)
    return frame.atom(ir.Shape(dims))


def _part(frame: Frame, var: ir.Var, source: Buffer, attrs: PartAttrs, out: Body) -> Buffer:
    """A block of `source`. The memory plan names those of its own memory, and of what functions are given."""
    part = frame.views.part(var.name, source, attrs)
    base, offset = frame.views.within[part]
    if base in frame.borrowed.sources:
        del frame.views.within[part]
        frame.borrowed.sources[part] = source
        out.inside(lambda rest: View(part, base, offset, rest))
    return part


def _branches(frame: Frame, var: ir.Var, value: ir.If | ir.Match, dest: Value | None, out: Body) -> Value:
    """Appends the branches of `value`; what they give."""
    place = _joined(frame, var, value, dest, out)
    _branch(frame, value, place, out)
    return _owned(frame, value, place, dest, out)


def _branch(frame: Frame, value: ir.If | ir.Match, place: Place, out: Body) -> None:
    """Appends the branches of `value`, which leave their results in `place`."""
    given = frame.owners.give(place.value)
    if isinstance(value, ir.If):
        return _if(frame, value, place, given, out)

    def lower(body: ir.Expr, side: Body) -> None:
        lower_block(frame, body, place, side, given)

    return lower_match(frame, value, lower, out)


def _if(frame: Frame, value: ir.If, place: Place, given: tuple[Buffer, ...], out: Body) -> None:
    cond = frame.atom(value.cond)
    assert isinstance(cond, Buffer)
    sides = []
    for branch in (value.then, value.orelse):
        side = Body()
        lower_block(frame, branch, place, side, given)
        sides.append(side.done())
    out.append(If(Load(cond, ()), *sides))


def _joined(frame: Frame, var: ir.Var, value: ir.Expr, dest: Value | None, out: Body) -> Place:
    """Where all branches of `value` put their results."""
    assert value.ty is not None
    late = frame.late(value.ty)
    if late:
        return registers(new_place(value.ty, var.name, late, Scope.REGISTER), frame, out)
    return Place(value.ty, frame.place(value.ty, var.name, dest, out))


def _owned(frame: Frame, value: ir.Expr, place: Place, dest: Value | None, out: Body) -> Value:
    """What is in `place`; the block owns its handles, unless they are in the place of its own results."""
    if place.dims:
        return taken(frame, place, place.ty, value, out)
    return frame.stored(place.value, dest)
