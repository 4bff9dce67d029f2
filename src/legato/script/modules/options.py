"""Options of decorators and definitions, checked: a text may give anything."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr  # which is short, whatever is given
from typing import Any

from legato.base.errors import TypeCheckError

__all__ = ["Bounds", "Range", "bounds", "limits", "name", "number", "sequence", "words"]

Range = tuple[int | None, int | None]  # (least, largest), None where that is not known
Bounds = Mapping[str, Range]  # by the name of a dim


def name(given: Any, what: str) -> str:
    """A string."""
    if not isinstance(given, str) or not given:
        raise TypeCheckError(f"{what} is {repr(given)}, wanted a name")
    return given


def number(given: Any, what: str) -> int:
    """An integer from 0 on."""
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise TypeCheckError(f"{what} is {repr(given)}, wanted a number from 0 on")
    return given


def sequence(given: Any, what: str) -> tuple[Any, ...]:
    """A tuple or a list."""
    if not isinstance(given, tuple | list):
        raise TypeCheckError(f"{what} is {repr(given)}, wanted a tuple")
    return tuple(given)


def words(given: Any, what: str) -> dict[str, str]:
    """A dictionary of names by names; None stands for an empty one."""
    return {name(k, what): name(v, what) for k, v in _dictionary(given, what).items()}


def bounds(given: Any) -> Bounds:
    """The ranges of dims by their names."""
    return {name(d, "a dim"): limits(pair, f"the range of {d}") for d, pair in _dictionary(given, "bounds").items()}


def limits(given: Any, what: str) -> Range:
    """A range."""
    pair = sequence(given, what)
    if len(pair) != 2 or not all(b is None or (isinstance(b, int) and not isinstance(b, bool)) for b in pair):
        raise TypeCheckError(f"{what} is {repr(pair)}, wanted (least, largest)")
    least, largest = pair
    return least, largest


def _dictionary(given: Any, what: str) -> Mapping[Any, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeCheckError(f"{what}: got {repr(given)}, wanted a dictionary")
    return given or {}
