"""Strict reading of JSON: every helper returns what is wanted of an entry, or raises `Bad` with what was got."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from legato.base.lexer import has_half
from legato.base.limits import MAX_NUMBER, MAX_VALUES

__all__ = ["Bad", "entry_of", "flag", "integer", "items", "load", "mapping", "number", "pick", "shown", "text", "wrong"]

T = TypeVar("T")
Json = Any
_SHOWN: Final = 60  # characters of a wrong entry that an error shows


class Bad(Exception):
    """What is wrong with an entry."""


def load(source: str) -> Json:
    """The JSON value of a text.

    Bad where it is none, has a name twice in an object, nests too deeply, or may have too many values.
    """
    values = sum(source.count(c) for c in ",[{")  # each value follows one of these; those within strings count, too
    if values > MAX_VALUES:
        raise Bad(f"the JSON has up to {values} values, more than the limit of {MAX_VALUES}: split the program")
    try:
        return json.loads(source, object_pairs_hook=_object, parse_constant=_constant, parse_int=_int)
    except json.JSONDecodeError as error:
        raise Bad(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise Bad("the JSON is nested too deeply") from None


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise Bad(f"an object has {next(name for name, n in counts.items() if n > 1)!r} twice")
    return found


def _constant(name: str) -> Json:
    raise Bad(f"{name} is not JSON")


def _int(digits: str) -> int:
    if len(digits) > MAX_NUMBER:
        raise Bad(f"a number has more than {MAX_NUMBER} characters")
    return int(digits)


def wrong(wanted: str, got: Json) -> Bad:
    """The error that something else was wanted."""
    return Bad(f"expected {wanted}, got {shown(got)}")


def shown(value: Json) -> str:
    """The beginning of a value as JSON."""
    try:
        found = json.dumps(value, ensure_ascii=False)
    except RecursionError:  # it was read with more of the stack left
        return "what is nested too deeply"
    return found if len(found) <= _SHOWN else found[:_SHOWN] + "…"


def text(value: Json) -> str:
    """A string."""
    if type(value) is not str:
        raise wrong("a string", value)
    if has_half(value):
        raise Bad(f"a string has half a character: {value[:_SHOWN]!a}")
    return value


def flag(value: Json) -> bool:
    """A boolean."""
    if type(value) is not bool:
        raise wrong("true or false", value)
    return value


def integer(value: Json) -> int:
    """An integer."""
    if type(value) is not int:
        raise wrong("an integer", value)
    return value


def number(value: Json, limit: int, what: str) -> int:
    """An integer from 0 up to `limit`, exclusive."""
    if type(value) is not int or not 0 <= value < limit:
        raise wrong(f"{what} below {limit}" if limit else f"no {what}: there is none yet", value)
    return value


def pick(value: Json, table: Sequence[T], what: str) -> T:
    """The entry of `table` that a number names."""
    if type(value) is not int or not 0 <= value < len(table):
        raise wrong(f"the number of {what} before this", value)
    return table[value]


def items(value: Json, length: int | None = None) -> list[Json]:
    """A list, of `length` elements if it is given."""
    if type(value) is not list or (length is not None and len(value) != length):
        raise wrong("a list" if length is None else f"a list of {length}", value)
    return value


def mapping(value: Json) -> Mapping[str, Json]:
    """An object."""
    if type(value) is not dict:
        raise wrong("an object", value)
    found: dict[str, Json] = value
    return found


def entry_of(value: Json, required: Collection[str], optional: Collection[str] = ()) -> Mapping[str, Json]:
    """An object with all the required fields and no fields beside these and the optional ones."""
    found = mapping(value)
    missing = [name for name in required if name not in found]
    if missing:
        raise wrong(f"an object with {', '.join(missing)}", value)
    for name in found:
        if name not in required and name not in optional:
            raise Bad(f"unknown field {name!r}")
    return found
