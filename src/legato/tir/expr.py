"""Scalar expressions of loop programs: `arith`'s language plus what touches memory and machines.

    expr += Load(buffer, indices)     an element of a buffer; indices are of dtype index, one per logical dimension
          | Cast(a, dtype)            value conversion; float → int truncates towards zero and saturates, NaN gives 0
          | Call(name, args, dtype)   an intrinsic of `tir.intrinsics` (exp, sqrt, fma, …)
      host functions only:
          | Address(buffer)           the handle of the object whose payload `buffer` names (Object, Open, Resize); of
                                      others it can only be compared: whether two buffers begin at the same place
          | Tag(handle)               the tag of an object or of a handle without one (`nullary`), as int32
          | Size(handle)              the bytes of an object's payload, as index

All are opaque atoms to `arith`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Self

from legato.arith import expr as arith
from legato.arith.expr import Const, Expr, Op, _interned, _live, const
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError

if TYPE_CHECKING:
    from legato.tir.buffer import Buffer

__all__ = ["Address", "Call", "Cast", "Load", "Size", "Tag", "call", "cast", "identity", "nullary"]


class Load(Expr):
    """`buffer[indices]`. Not a fixed value: a Store to the buffer between two Loads changes it."""

    __slots__ = ("buffer", "indices")
    buffer: Buffer
    indices: tuple[Expr, ...]

    def __new__(cls, buffer: Buffer, indices: tuple[Expr, ...]) -> Self:
        key = (cls, id(buffer), indices)
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            if len(indices) != len(buffer.shape):
                raise InternalError(f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices")
            for i in indices:
                if i.dtype != dt.index:
                    raise InternalError(f"index {i} of {buffer.name} has dtype {i.dtype}, wanted index")
            found = object.__new__(cls)
            found.buffer, found.indices, found.dtype = buffer, indices, buffer.dtype
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Load(self.buffer, children)

    def pieces(self) -> tuple[object, ...]:
        return (self.buffer, "[", *_commas(self.indices), "]")


class Cast(Expr):
    """`a` converted to `dtype`; build with `cast`."""

    __slots__ = ("a",)
    a: Expr

    def __new__(cls, a: Expr, dtype: DType) -> Self:
        key = (cls, a, dtype)
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            found = object.__new__(cls)
            found.a, found.dtype = a, dtype
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return cast(children[0], self.dtype)

    def limits(self) -> tuple[int | None, int | None]:
        source = self.a.dtype
        return (source.min, source.max) if source.is_int or source.is_bool else (None, None)

    def pieces(self) -> tuple[object, ...]:
        return (f"{self.dtype}(", self.a, ")")


class Call(Expr):
    """An intrinsic applied to scalars; build with `call`."""

    __slots__ = ("args", "name")
    name: str
    args: tuple[Expr, ...]

    def __new__(cls, name: str, args: tuple[Expr, ...], dtype: DType) -> Self:
        key = (cls, name, args, dtype)
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            found = object.__new__(cls)
            found.name, found.args, found.dtype = name, args, dtype
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Call(self.name, children, self.dtype)

    def pieces(self) -> tuple[object, ...]:
        return (f"{self.name}(", *_commas(self.args), ")")


class Address(Expr):
    """The handle of the object whose payload `buffer` names."""

    __slots__ = ("buffer",)
    buffer: Buffer

    def __new__(cls, buffer: Buffer) -> Self:
        key = (cls, id(buffer))
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            found = object.__new__(cls)
            found.buffer, found.dtype = buffer, dt.handle
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def pieces(self) -> tuple[object, ...]:
        return ("address(", self.buffer, ")")


class _OfObject(Expr):
    """What `handle` tells of what it refers to: a value of dtype `tells`, written `text(handle)`."""

    __slots__ = ("handle",)
    handle: Expr
    text: ClassVar[str]
    tells: ClassVar[DType]

    def __new__(cls, handle: Expr) -> Self:
        key = (cls, handle)
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            if handle.dtype != dt.handle:
                raise InternalError(f"{cls.text}({handle}): the operand has dtype {handle.dtype}, wanted handle")
            found = object.__new__(cls)
            found.handle, found.dtype = handle, cls.tells
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def children(self) -> tuple[Expr, ...]:
        return (self.handle,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return type(self)(children[0])

    def pieces(self) -> tuple[object, ...]:
        return (f"{self.text}(", self.handle, ")")


class Tag(_OfObject):
    """The tag (int32) of what `handle` refers to."""

    __slots__ = ()
    text, tells = "tag", dt.int32


class Size(_OfObject):
    """The bytes (index) of the payload of the object `handle`."""

    __slots__ = ()
    text, tells = "payload_bytes", dt.index

    def limits(self) -> tuple[int | None, int | None]:
        return 0, None


def _commas(exprs: tuple[Expr, ...]) -> list[object]:
    pieces: list[object] = []
    for e in exprs:
        pieces += (", ", e)
    return pieces[1:]


def cast(a: Expr, dtype: DType) -> Expr:
    """`a` as `dtype`; the same object where it is that already, a literal where `a` is an integer literal."""
    if a.dtype == dtype:
        return a
    if isinstance(a, arith.Const) and not isinstance(a.value, float) and not dtype.is_bool and not dtype.is_storage:
        return const(a.value, dtype)
    return Cast(a, dtype)


def call(name: str, *args: Expr) -> Expr:
    """The intrinsic `name` applied to `args`; the result dtype comes from the intrinsic's record."""
    from legato.tir.intrinsics import INTRINSICS  # its records refer to NumPy references only

    record = INTRINSICS.get(name)
    if record is None or len(args) != record.arity:
        raise InternalError(f"no intrinsic {name!r} of {len(args)} arguments")
    return Call(name, args, record.dtype(args[0].dtype))


def nullary(tag: int) -> Const:
    """The handle of a constructor without fields: it is odd, and no object is behind it."""
    return const(tag << 1 | 1, dt.handle)


def identity(op: Op, dtype: DType) -> Const:
    """The value e with x op e = x."""
    match op:
        case Op.MUL | Op.AND:
            return const(1, dtype)
        case Op.BITAND:
            return const(1 if dtype.is_bool else -1, dtype)
        case Op.MIN:
            return const(math.inf, dtype) if dtype.is_float else const(dtype.max, dtype)
        case Op.MAX:
            return const(-math.inf, dtype) if dtype.is_float else const(dtype.min, dtype)
        case _:
            return const(0, dtype)
