"""The data types of an entry point, as the runtime describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from legato.base.errors import UnsupportedError
from legato.ir.types import GlobalTypeVar, ShapeType, TensorType, TupleType, Type, TypeCall, TypeData, walk
from legato.lower.hosts.cells import data_type, field_types, leaf_types
from legato.runtime.datatypes import ConstructorInfo, DataInfo, Field, TensorField
from legato.runtime.size import Size

__all__ = ["DataTypes"]

MAX_TYPES: Final = 1000  # of an entry point
MAX_PARTS: Final = 200  # of one of them


class DataTypes:
    """Numbers the data types that values of an entry point have, those of their fields included."""

    def __init__(
        self, types: Mapping[GlobalTypeVar, TypeData], sizes: Callable[[TensorType], tuple[Size, ...]]
    ) -> None:
        self._types, self._sizes = types, sizes
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
        return DataInfo(
            str(ty),
            tuple(ConstructorInfo(c.name, c.tag, tuple(map(self._field, field_types(c, ty, self._types))))
                  for c in data_type(ty, self._types).constructors),
        )  # fmt: skip

    def _field(self, ty: Type) -> Field:
        if isinstance(ty, TupleType):
            return tuple(map(self._field, ty.fields))
        if isinstance(ty, ShapeType):
            return tuple(map(self._field, leaf_types(ty)))
        if isinstance(ty, TensorType):
            return TensorField(str(ty.dtype), self._sizes(ty))
        return self.number(ty)
