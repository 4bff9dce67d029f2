"""The data types of an entry point, as the runtime describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from legato.base.errors import UnsupportedError
from legato.ir.types import GlobalTypeVar, ShapeType, TensorType, TupleType, Type, TypeCall, TypeData
from legato.lower.hosts.cells import data_type, field_types, leaf_types
from legato.runtime.datatypes import ConstructorInfo, DataInfo, Field, TensorField
from legato.runtime.size import Size

__all__ = ["DataTypes"]


class DataTypes:
    """Numbers the data types that values of an entry point have, those of their fields included."""

    def __init__(
        self, types: Mapping[GlobalTypeVar, TypeData], sizes: Callable[[TensorType], tuple[Size, ...]]
    ) -> None:
        self._types, self._sizes = types, sizes
        self._number: dict[Type, int] = {}

    def number(self, ty: Type) -> int:
        """The number of data type `ty`; UnsupportedError for what Python has no values of: references."""
        if not isinstance(ty, TypeCall | GlobalTypeVar):
            raise UnsupportedError(
                f"@main takes or gives a value of type {ty}, which compiled code cannot pass to or from Python",
                hint="read references inside, and let @main take and give what they hold",
            )
        return self._number.setdefault(ty, len(self._number))

    def infos(self) -> tuple[DataInfo, ...]:
        """All of them by their numbers."""
        found: list[DataInfo] = []
        while len(found) < len(self._number):
            found.append(self._info(list(self._number)[len(found)]))
        return tuple(found)

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
