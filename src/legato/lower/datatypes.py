"""The data types of an entry point, as the runtime describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from legato.arith.expr import Var
from legato.base.errors import UnsupportedError
from legato.ir._dims import free_dims
from legato.ir.expr import Constructor
from legato.ir.types import GlobalTypeVar, ShapeType, TensorType, TupleType, Type, TypeCall, TypeData, walk
from legato.lower.hosts.cells import data_type, extents, field_types, own_dims, shape_dims
from legato.lower.sizes import size_of, unique
from legato.runtime.datatypes import ConstructorInfo, DataInfo, Field, TensorField

__all__ = ["DataTypes", "tensor_field"]

MAX_TYPES: Final = 1000  # of an entry point
MAX_PARTS: Final = 200  # of one of them


class DataTypes:
    """Numbers the data types that values of an entry point have, those of their fields included."""

    def __init__(self, types: Mapping[GlobalTypeVar, TypeData], names: Mapping[Var, str]) -> None:
        self._types, self._names = types, names
        self._number: dict[Type, int] = {}
        self._found: list[Type] = []  # by their numbers

    def number(self, ty: Type) -> int:
        """The number of data type `ty`; UnsupportedError for what Python has no values of: references."""
        if not isinstance(ty, TypeCall | GlobalTypeVar):
            raise UnsupportedError(
                f"@main takes or gives a value of type {ty}, which compiled code cannot pass to or from Python",
                hint="read references inside, and let @main take and give what they hold",
            )
        if ty not in self._number:
            self._require_finite(ty)
            self._number[ty] = len(self._found)
            self._found.append(ty)
        return self._number[ty]

    def infos(self) -> tuple[DataInfo, ...]:
        """All of them by their numbers."""
        return tuple([self._info(ty) for ty in self._found])  # which finds more and more of them

    def _require_finite(self, ty: Type) -> None:
        if len(self._found) >= MAX_TYPES or sum(1 for _ in walk(ty)) > MAX_PARTS:
            raise UnsupportedError(
                f"values of @main are of endless types: those inside {self._found[0]} grow from one to the next",
                hint="let the fields of a data type be of this type itself, with the same arguments",
            )

    def _info(self, ty: Type) -> DataInfo:
        return DataInfo(str(ty), tuple(self._constructor(c, ty) for c in data_type(ty, self._types).constructors))

    def _constructor(self, con: Constructor, ty: Type) -> ConstructorInfo:
        dims = own_dims(con)
        own = unique([*self._names.values(), *(d.name for d in dims)])[len(self._names) :]
        names = {**self._names, **dict(zip(dims, own, strict=True))}
        fields = tuple(self._field(t, names) for t in field_types(con, ty, self._types))
        told = {d for t in con.inputs for d in extents(t)}
        for d in dims:
            if d not in told:
                raise UnsupportedError(
                    f"@main takes or gives values of {con.name} whose dim {d.name} no tensor or shape tells",
                    span=con.span,
                    hint="give it a field whose shape has the dim itself as an entry",
                )
        return ConstructorInfo(con.name, con.tag, fields, tuple(own))

    def _field(self, ty: Type, names: Mapping[Var, str]) -> Field:
        if isinstance(ty, TupleType):
            return tuple(self._field(f, names) for f in ty.fields)
        if isinstance(ty, ShapeType):
            return tuple(TensorField("int64", (), size_of(d, names)) for d in shape_dims(ty))
        if isinstance(ty, TensorType):
            return tensor_field(ty, names)
        own = [d.name for d in free_dims(ty) if d not in self._names]
        if own:
            raise UnsupportedError(
                f"@main takes or gives values that hold a {ty}, each with a dim {', '.join(own)} of its own",
                hint="give the data type inside a dim of its own, in place of a type argument",
            )
        return self.number(ty)


def tensor_field(ty: TensorType, names: Mapping[Var, str]) -> TensorField:
    """A tensor as the runtime describes it."""
    return TensorField(str(ty.dtype), tuple(size_of(d, names) for d in ty.shape))
