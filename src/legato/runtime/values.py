"""Values of data types, as programs take and return them: in the interpreter and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from legato.base.dataclass import dataclass

__all__ = ["Data", "as_data", "set_constructor", "set_fields"]

_SHOWN = 40  # parts of a value that its text shows


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Data:
    """A value of a data type: `fields` are arrays, tuples and values of data types.

    `constructor` has a `name` and a `tag` (its position in the type): one of a module (`mod.get_constructor`), or of an
    executable (`exe.constructors`).
    """

    constructor: Any
    fields: tuple[Any, ...]

    @property
    def tag(self) -> int:
        """The position of the constructor in its type."""
        return int(self.constructor.tag)

    def __repr__(self) -> str:
        """`Cons(1, Cons(2, Nil()))`, cut off after some parts: values may nest deeply."""
        pieces: list[str] = []
        todo: list[object] = [self]
        while todo and len(pieces) < _SHOWN:
            item = todo.pop()
            if isinstance(item, str):
                pieces.append(item)
            elif isinstance(item, Data):
                todo += reversed([f"{item.constructor.name}(", *_separated(item.fields), ")"])
            elif isinstance(item, tuple):
                todo += reversed(["(", *_separated(item), ")"])
            else:
                pieces.append(_short(item))
        return "".join(pieces) + ("…" if todo else "")


def as_data(value: object) -> object:
    """`value`; of an expression that writes a value out (`ir.expr.Call.as_data`), that value."""
    written: Callable[[], Data | None] | None = getattr(value, "as_data", None)
    return value if written is None else written() or value


# A value that is there before its fields are is made by these: object.__new__(Data), and then both.
set_constructor: Final = Data.__dict__["constructor"].__set__
set_fields: Final = Data.__dict__["fields"].__set__


def _separated(items: tuple[Any, ...]) -> list[object]:
    out: list[object] = []
    for item in items:
        out += (", ", item)
    return out[1:]


def _short(item: object) -> str:
    shape, dtype = getattr(item, "shape", None), getattr(item, "dtype", None)
    if not shape:
        return str(item) if shape is not None else repr(item)
    return f"{dtype}[{', '.join(map(str, shape))}]"
