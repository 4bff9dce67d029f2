"""Values that hold others, as scripts for TVM make them and ask for them: tuples, texts, and values of data types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from legato.base.errors import RunError
from legato.base.kinds import require_sequence
from legato.runtime.values import Data

__all__ = ["ADT", "ShapeTuple", "String", "tuple_object"]

String: Final = str
ShapeTuple: Final = tuple


class _Held(type):
    """`isinstance(value, ADT)` is true of tuples and values of data types, `ADT(0, fields)` is a tuple."""

    def __call__(cls, tag: object, fields: Iterable[Any]) -> tuple[Any, ...]:
        if tag != 0 or isinstance(tag, bool):
            raise RunError(
                f"a value of the constructor with tag {tag!r}: of which data type is not said\n"
                "  hint: exe.constructors, or mod.get_constructor(…), make such values"
            )
        return tuple_object(fields)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, tuple | Data)


class ADT(metaclass=_Held):
    """A value with parts: a tuple (`ADT(0, fields)`), or one of a data type, whose constructor makes it."""


def tuple_object(fields: Iterable[Any] | None = None) -> tuple[Any, ...]:
    """A tuple of values."""
    return require_sequence(() if fields is None else fields, "the fields of a tuple", "a list of values", RunError)
