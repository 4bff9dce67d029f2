"""Values of data types and references: made, taken apart, read and changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final

from legato.arith.expr import Expr, const
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.ir import expr as ir
from legato.ir.types import TensorType, Type
from legato.lower.hosts.body import Body
from legato.lower.hosts.cells import EXTENT, WORD, Cell, constructor_cell, leaf_types, part_dtype, ref_cell
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.ownership import handle
from legato.lower.hosts.values import Value, flat, flat_all, nest, told
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Address, Load, cast, nullary
from legato.tir.objects import Open, Release, Retain
from legato.tir.stmt import Stmt, Store, View

__all__ = ["box", "construct", "fields", "opened", "read", "ref", "write"]

_NO_DIMS: Final[Mapping[DimVar, Expr]] = MappingProxyType({})


def construct(frame: Frame, var: ir.Var, call: ir.Call, dest: Value | None, out: Body) -> Value:
    """Appends the making of what the constructor call `call` gives; where its handle is."""
    assert isinstance(call.op, ir.Constructor)
    assert call.ty is not None
    cell = constructor_cell(call.op, call.ty, frame.lowered.module.types)
    dims = told(((t, a.ty) for t, a in zip(cell.fields, call.args, strict=True)), cell.dims, call)
    return _made(frame, var, cell, call.op.tag, call.args, dest, out, dims)


def ref(frame: Frame, var: ir.Var, value: ir.RefCreate, dest: Value | None, out: Body) -> Value:
    """Appends the making of a reference; where its handle is."""
    assert value.ty is not None
    return _made(frame, var, ref_cell(value.ty), 0, (value.value,), dest, out)


def _made(
    frame: Frame,
    var: ir.Var,
    cell: Cell,
    tag: int,
    args: Sequence[ir.Expr],
    dest: Value | None,
    out: Body,
    dims: Mapping[DimVar, Expr] = _NO_DIMS,
) -> Value:
    place = out.register(_handle(var.name)) if dest is None else dest
    assert isinstance(place, Buffer)
    if not cell.leaves:
        out.append(Store(place, (), nullary(tag)))
        return place
    leaves = _kept(frame, cell, flat_all(map(frame.atom, args)), out)
    payload = _payload(var.name, cell)
    out.object(payload, tag, cell.pointers)
    for leaf, part in zip(leaves, _parts(cell, payload, out), strict=True):
        out.append(Store(part, (), Load(leaf, ())))
    for d, part in zip(cell.dims, _dim_words(cell, payload, out), strict=True):
        out.append(Store(part, (), cast(dims[d], dt.int64)))
    out.append(Store(place, (), Address(payload)))
    return frame.stored(place, dest)


def _kept(frame: Frame, cell: Cell, leaves: Sequence[Buffer], out: Body) -> list[Buffer]:
    """`leaves` as a cell holds them: handles, with a reference each for the cell, and scalars."""
    found = [
        box(frame, leaf, out) if isinstance(ty, TensorType) and ty.rank else leaf
        for leaf, ty in zip(leaves, cell.leaves, strict=True)
    ]
    for n, leaf in enumerate(found):
        if leaf.dtype == dt.handle:
            frame.owners.take(leaf, found[n + 1 :], out)
    return found


def box(frame: Frame, tensor: Buffer, out: Body) -> Buffer:
    """The handle of the object whose payload is `tensor`, or a copy of it."""
    found = frame.borrowed.boxes.get(tensor)
    if found is None:
        copy = frame.boxed(Buffer(tensor.name, tensor.shape, tensor.dtype), out)
        out.append(frame.copy(tensor, copy))
        found = frame.borrowed.boxes[copy]
    return found


def _handle(name: str) -> Buffer:
    return Buffer(name, (), dt.handle, scope=Scope.REGISTER)


def _payload(name: str, cell: Cell) -> Buffer:
    return Buffer(f"{name}_cell", (const(cell.words),), dt.int64)


def _parts(cell: Cell, payload: Buffer, out: Body) -> list[Buffer]:
    """Names for the parts of a payload."""
    return [_part(ty, payload, offset, out) for ty, offset in zip(cell.leaves, cell.offsets, strict=True)]


def _dim_words(cell: Cell, payload: Buffer, out: Body) -> list[Buffer]:
    """Names for the dims of a payload."""
    return [_part(EXTENT, payload, offset, out) for offset in cell.dim_offsets]


def _part(ty: Type, payload: Buffer, offset: int, out: Body) -> Buffer:
    part = Buffer(f"{payload.name}_{offset // WORD}", (), part_dtype(ty))
    out.inside(partial(_view, part, payload, offset))
    return part


def _view(part: Buffer, payload: Buffer, offset: int, rest: Stmt) -> Stmt:
    return View(part, payload, const(offset), rest)


def opened(payload: Buffer, place: Buffer, out: Body) -> Buffer:
    """`payload`, as the payload of the object whose handle is in `place`, for the rest of the block."""
    at = handle(place)
    out.inside(lambda rest: Open(payload, at, rest))
    return payload


def fields(
    frame: Frame, name: str, cell: Cell, wanted: Collection[int], place: Buffer, out: Body, *, owned: bool
) -> list[Value]:
    """Appends the reading of the fields with these numbers of an object, whose handle is in `place`.

    They are borrowed from it, or owned. The dims of the cell are brought.
    """
    payload, found = _payload(name, cell), list[Value]()
    if wanted and cell.leaves:
        opened(payload, place, out)
        words = zip(cell.dims, _dim_words(cell, payload, out), strict=True)
        frame.bring({d: Load(part, ()) for d, part in words}, out)
    parts = iter(zip(cell.leaves, cell.offsets, strict=True))
    for n, ty in enumerate(cell.fields):
        own = list(islice(parts, len(leaf_types(ty))))
        if n in wanted:
            leaves = [_read(frame, _part(t, payload, at, out), t, place, out, owned=owned) for t, at in own]
            found.append(nest(ty, iter(leaves)))
    return found


def _read(frame: Frame, part: Buffer, ty: Type, source: Buffer, out: Body, *, owned: bool) -> Buffer:
    leaf = out.register(Buffer(part.name, (), part.dtype, scope=Scope.REGISTER))
    out.append(Store(leaf, (), Load(part, ())))
    return leaf if part.dtype != dt.handle else _held(frame, leaf, ty, source, out, owned=owned)


def _held(frame: Frame, leaf: Buffer, ty: Type, source: Buffer, out: Body, *, owned: bool) -> Buffer:
    """What the handle in `leaf`, which the object `source` has, stands for: itself, or a tensor."""
    if owned:
        out.append(Retain(handle(leaf)))
        frame.owners.own(leaf)
    else:
        frame.borrowed.sources[leaf] = source
    if not isinstance(ty, TensorType):
        return leaf
    tensor = opened(Buffer(leaf.name, ty.shape, ty.dtype), leaf, out)
    frame.borrowed.box(tensor, leaf)
    return tensor


def read(frame: Frame, var: ir.Var, value: ir.RefRead, out: Body) -> Value:
    """Appends the reading of a reference: what it holds now is owned, whatever becomes of the reference."""
    assert value.ref.ty is not None
    (place,) = flat(frame.atom(value.ref))
    (found,) = fields(frame, var.name, ref_cell(value.ref.ty), (0,), place, out, owned=True)
    return found


def write(frame: Frame, var: ir.Var, value: ir.RefWrite, out: Body) -> Value:
    """Appends the writing of a reference; its value is ()."""
    assert value.ref.ty is not None
    (place,) = flat(frame.atom(value.ref))
    cell = ref_cell(value.ref.ty)
    if not cell.leaves:
        return ()
    leaves = _kept(frame, cell, list(flat(frame.atom(value.value))), out)
    payload = opened(_payload(var.name, cell), place, out)
    for leaf, part in zip(leaves, _parts(cell, payload, out), strict=True):
        if part.dtype == dt.handle:
            old = out.register(_handle("old"))
            out.append(Store(old, (), Load(part, ())))
            out.append(Store(part, (), Load(leaf, ())))
            out.append(Release(handle(old)))
        else:
            out.append(Store(part, (), Load(leaf, ())))
    return ()
