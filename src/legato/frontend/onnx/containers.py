"""Sequences and optional values, and the common type of values that come from several places.

A sequence whose length is known is a tuple; where it must be one value of several lengths (the state of a loop, the
result of an If) it is the prelude's `List`, whose elements have one shape. An optional value is the prelude's `Option`.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base.errors import UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Call, Constructor, Expr
from legato.ir.types import Dim, TensorType, TupleType, Type, TypeCall, TypeData
from legato.prelude import library

__all__ = ["coerced", "data_types", "join", "list_of", "list_type", "nothing", "option_type", "some"]

Free = set[DimVar]  # dims that may differ from one round of a loop to the next


def _data(name: str) -> TypeData:
    return next(data for header, data in library().types.items() if header.name == name)


def data_types() -> tuple[TypeData, ...]:
    """List and Option."""
    return _data("List"), _data("Option")


def constructor(name: str) -> Constructor:
    """Cons, Nil, Some or None."""
    return next(c for data in data_types() for c in data.constructors if c.name == name)


def list_type(element: Type) -> TypeCall:
    """`List[element]`."""
    return TypeCall(_data("List").header, (element,))


def option_type(element: Type) -> TypeCall:
    """`Option[element]`."""
    return TypeCall(_data("Option").header, (element,))


def is_list(ty: Type | None) -> bool:
    """True for a List."""
    return isinstance(ty, TypeCall) and ty.func == _data("List").header


def is_option(ty: Type | None) -> bool:
    """True for an Option."""
    return isinstance(ty, TypeCall) and ty.func == _data("Option").header


def made(name: str, fields: Sequence[Expr], ty: Type) -> Call:
    """A value of data type `ty`."""
    assert isinstance(ty, TypeCall)
    return Call(constructor(name), tuple(fields), None, ty.args, ty=ty)


def list_of(items: Sequence[Expr], element: Type) -> Expr:
    """A List of `items`."""
    ty = list_type(element)
    found: Expr = made("Nil", (), ty)
    for item in reversed(items):
        found = made("Cons", (item, found), ty)
    return found


def some(value: Expr) -> Expr:
    """The optional value that is there."""
    assert value.ty is not None
    return made("Some", (value,), option_type(value.ty))


def nothing(element: Type) -> Expr:
    """The optional value that is not there."""
    return made("None", (), option_type(element))


# ------------------------------------------------------------------ one type for several values


def join(a: Type, b: Type, free: Free | None, what: str) -> Type:
    """The type that values of types `a` and `b` can both be given; UnsupportedError, naming `what`, if there is none.

    Dims that differ become new ones, which join `free`; without it they are left to the caller as `a` has them.
    """
    match a, b:
        case TensorType(), TensorType() if a.rank == b.rank and a.dtype == b.dtype:
            return TensorType(tuple(_dim(x, y, free) for x, y in zip(a.shape, b.shape, strict=True)), a.dtype)
        case TupleType(), TupleType() if len(a.fields) == len(b.fields):
            return TupleType(tuple(join(x, y, free, what) for x, y in zip(a.fields, b.fields, strict=True)))
        case (TupleType() | TypeCall(), TupleType() | TypeCall()) if is_option(a) == is_option(b):
            parts = [*_elements(a), *_elements(b)]
            return _container(a, b, parts, what)
        case _:
            raise UnsupportedError(f"{what} has several types: {a} and {b}")


def _container(a: Type, b: Type, parts: Sequence[Type], what: str) -> Type:
    found: Type | None = None
    for part in parts:
        if found is None or found == part:
            found = part
        elif isinstance(found, TensorType) and isinstance(part, TensorType):
            raise UnsupportedError(
                f"{what}: a sequence of any length needs elements of one type, got {found} and {part}"
            )
        else:
            found = join(found, part, None, what)
    if found is None:
        return a
    return option_type(found) if is_option(a) else list_type(found)


def _elements(ty: Type) -> tuple[Type, ...]:
    if isinstance(ty, TupleType):
        return ty.fields
    assert isinstance(ty, TypeCall)
    return tuple(arg for arg in ty.args if not _is_unit(arg))


def _is_unit(ty: Type) -> bool:
    return isinstance(ty, TupleType) and not ty.fields


def _dim(a: Dim, b: Dim, free: Free | None) -> Dim:
    if a == b or free is None or (isinstance(a, DimVar) and a in free):
        return a
    new = fresh("d", 0)
    free.add(new)
    return new


def coerced(b: Emitter, value: Expr, ty: Type) -> Expr:
    """`value` as the type that `join` found for it."""
    own = value.ty
    if is_list(ty) and isinstance(own, TupleType):
        assert isinstance(ty, TypeCall)
        element = ty.args[0]
        return list_of([coerced(b, b.get(value, n), element) for n in range(len(own.fields))], element)
    if is_option(ty) and own != ty and isinstance(value, Call) and isinstance(value.op, Constructor):
        assert isinstance(ty, TypeCall)
        return made(value.op.name, [coerced(b, arg, ty.args[0]) for arg in value.args], ty)
    return value
