"""`append` and `put`, and calls in place: they write where the old value lies, if nothing needs that any more.

Whether a tensor that is an object is still needed is known when the program runs: by its count. Of what a loop holds in
its own memory it is known here.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Expr, const, land, le, lt, select
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.ir import expr as ir
from legato.ir.types import TensorType
from legato.lower.hosts.body import Body
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.magnitude import buffer_fits
from legato.lower.hosts.objects import box
from legato.lower.hosts.ownership import handle
from legato.lower.hosts.values import flat
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Address, Load, cast
from legato.tir.stmt import If, Stmt, Store, View

__all__ = ["append", "begun", "put"]


def append(frame: Frame, var: ir.Var, call: ir.Call, out: Body) -> Buffer:
    """Appends what adds rows to a tensor; the object that this becomes."""
    data, rows = _buffers(frame, call)
    assert isinstance(var.ty, TensorType)
    whole = _resized(frame, data, Buffer(var.name, var.ty.shape, var.ty.dtype), (rows,), out)
    out.append(_written(frame, rows, whole, data.elements() * data.dtype.bytes))
    return whole


def put(frame: Frame, var: ir.Var, call: ir.Call, out: Body) -> Buffer:
    """Appends what puts a row into a tensor; where that is then."""
    data, index, row = _buffers(frame, call)
    whole = Buffer(var.name, data.shape, data.dtype)
    if data in frame.borrowed.boxes:
        _resized(frame, data, whole, (index, row), out)
    elif _is_left(frame, data):
        whole = data
    else:
        out.append(frame.copy(data, frame.placed(whole, out)))
    at = out.register(Buffer("at", (), dt.int64, scope=Scope.REGISTER))
    given = cast(Load(index, (const(0),) * index.rank), dt.int64)
    extent = cast(data.shape[0], dt.int64)
    out.append(Store(at, (), select(lt(given, const(0, dt.int64)), given + extent, given)))
    inside = land(le(const(0, dt.int64), Load(at, ())), lt(Load(at, ()), extent))
    offset = cast(Load(at, ()), dt.index) * (row.elements() * row.dtype.bytes)
    out.append(If(inside, _written(frame, row, whole, offset)))
    return whole


def begun(frame: Frame, name: str, data: Buffer, others: Sequence[Buffer], out: Body) -> Buffer | None:
    """Where a call that also reads `others` may write what begins as `data`; None if only a copy will do, of which the
    memory plan may find that it is none."""
    if data in frame.borrowed.boxes:
        return _resized(frame, data, Buffer(name, data.shape, data.dtype), others, out)
    is_read = any(_base(frame, b) is data for b in others)
    return data if not is_read and _is_left(frame, data) else None


def _buffers(frame: Frame, call: ir.Call) -> list[Buffer]:
    return [b for arg in call.args for b in flat(frame.atom(arg))]


def _written(frame: Frame, rows: Buffer, whole: Buffer, offset: Expr) -> Stmt:
    """Copies `rows` to where they belong, from byte `offset` of `whole` on."""
    place = Buffer(f"{whole.name}_rows", rows.shape, rows.dtype)
    return View(place, whole, offset, frame.copy(rows, place))


def _resized(frame: Frame, data: Buffer, whole: Buffer, read: Sequence[Buffer], out: Body) -> Buffer:
    """`whole`, as the payload of an object of the block's own that begins with what `data` holds; `read` are still to
    be read then."""
    place = box(frame, data, out)
    frame.owners.take(place, list(frame.borrowed.roots(tuple(read))), out)
    if variables(*whole.shape):
        out.append(frame.require(buffer_fits(whole)))
    out.resized(whole, handle(place))
    new = out.register(Buffer(whole.name, (), dt.handle, scope=Scope.REGISTER))
    out.append(Store(new, (), Address(whole)))
    frame.borrowed.box(whole, frame.owners.own(new))
    return whole


def _is_left(frame: Frame, data: Buffer) -> bool:
    """Whether `data` is memory of the loop that this block ends a turn of, and nothing behind here reads it."""
    if frame.jump is None or data not in frame.jump.state or not frame.ends_turn:
        return False
    later = [v for v, last in frame.owners.last.items() if last > frame.owners.now and v in frame.env]
    return all(_base(frame, b) is not data for v in later for b in flat(frame.env[v]))


def _base(frame: Frame, buffer: Buffer) -> Buffer:
    return frame.views.within.get(buffer, (buffer, None))[0]
