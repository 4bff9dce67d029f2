"""What every record of attributes can do: `call.attrs.strides`, `call.attrs["strides"]`, `{**call.attrs}`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from legato.base.errors import TypeCheckError
from legato.base.immutable import Immutable

__all__ = ["Attrs"]


class Attrs(Immutable):
    """The base of records of attributes, which are frozen dataclasses; also a mapping from names to values."""

    __slots__ = ()

    def keys(self) -> tuple[str, ...]:
        """The names of the attributes, in order."""
        return tuple(f.name for f in fields(self))  # type: ignore[arg-type]  # subclasses are dataclasses

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Any:
        """The value of an attribute; KeyError for a name that is none, as of a mapping."""
        if name not in self.keys():
            raise KeyError(f"there is no attribute {name!r}; there are {', '.join(self.keys())}")
        return getattr(self, name)

    def get_int(self, key: str) -> int:
        """The value of an attribute that is an integer; TypeCheckError for one of another type."""
        value: int = self._of(key, int)
        return value

    def get_str(self, key: str) -> str:
        """The value of an attribute that is text or a dtype, as text; TypeCheckError for one of another type."""
        value = self[key]
        return str(value) if key.endswith("dtype") and value is not None else str(self._of(key, str))

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """The value of an attribute that is a list of integers; TypeCheckError for one of another type."""
        value: tuple[int, ...] = self._of(key, tuple)
        if not all(isinstance(v, int) for v in value):
            raise TypeCheckError(f"attribute {key} is {value!r}, wanted integers")
        return value

    def _of(self, key: str, wanted: type) -> Any:
        value = self[key]
        if not isinstance(value, wanted):
            raise TypeCheckError(f"attribute {key} is {value!r}, wanted {wanted.__name__}")
        return value
