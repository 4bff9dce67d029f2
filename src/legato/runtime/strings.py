"""Strings in compiled programs: numbers in a table, of which every call has its own.

A program has a table of the strings in its constants; a call adds those that come with its inputs and that operators
make, each once, so that equal strings have equal numbers. When the call ends, what it has added is gone: nothing
accumulates in a server, and two calls share nothing that is written. Number 0 is the empty string: so are zeros that a
program fills memory with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.base.dtype import string
from legato.base.errors import RunError
from legato.base.strings import string_array

__all__ = ["Strings", "table_fault", "table_of", "uses_strings"]

Array = np.ndarray[Any, Any]
_STRING: Final = string.name


def uses_strings(tensors: Iterable[Any]) -> bool:
    """Whether one of these, which have a dtype by name, is of strings."""
    return any(tensor.dtype == _STRING for tensor in tensors)


def table_fault(texts: Sequence[str]) -> str | None:
    """What is wrong with the strings of a program; None if nothing is."""
    if texts and texts[0]:
        return "string 0 is not empty"
    return None if len(set(texts)) == len(texts) else "two strings are equal"


def table_of(arrays: Iterable[Array]) -> tuple[tuple[str, ...], list[Array]]:
    """The table of the strings in these arrays, and each array as numbers."""
    known: dict[str, int] = {"": 0}
    numbers = [_numbers(array, known) for array in arrays]
    return tuple(known), numbers


def _numbers(array: Array, known: dict[str, int]) -> Array:
    """The numbers of strings; new ones are added."""
    found = [known.setdefault(value, len(known)) for value in array.ravel().tolist()]
    return np.array(found, np.int64).reshape(array.shape)


class Strings:
    """The strings of one call at a time, beside those of its program, `texts`, whose numbers are `known`."""

    __slots__ = ("_known", "_new", "_own", "_texts")

    def __init__(self, texts: Sequence[str], known: Mapping[str, int]) -> None:
        self._texts, self._known = texts, known
        self._own: list[str] = []  # of the call
        self._new: dict[str, int] = {}  # their numbers

    def __len__(self) -> int:
        """How many strings the call has added."""
        return len(self._own)

    def numbers(self, array: Array) -> Array:
        """An array of strings as numbers, in C order."""
        known, new, own, first = self._known, self._new, self._own, len(self._texts)
        found: list[int] = []
        for value in array.ravel().tolist():
            number = known.get(value)
            if number is None:
                number = new.get(value)
            if number is None:
                number = new[value] = first + len(own)
                own.append(value)
            found.append(number)
        return np.array(found, np.int64).reshape(array.shape)

    def texts(self, numbers: Array) -> Array:
        """The strings that an array of numbers stands for. RunError for a number of none: the program is damaged."""
        texts, own, first = self._texts, self._own, len(self._texts)
        flat = numbers.ravel().tolist()
        if flat and not (min(flat) >= 0 and max(flat) < first + len(own)):
            raise RunError(f"the program has {first + len(own)} strings, and names one beyond: its file is damaged")
        found = np.empty(len(flat), object)
        found[:] = [texts[n] if n < first else own[n - first] for n in flat]
        return found.reshape(numbers.shape)

    def entered(self, arrays: Iterable[Array], names: Iterable[str]) -> list[Array]:
        """The inputs of a call, called `names`: numbers in place of strings. RunError where an element is none."""
        return [
            self.numbers(string_array(array, f'input "{name}"')) if array.dtype.kind == "O" else array
            for array, name in zip(arrays, names, strict=True)
        ]

    @staticmethod
    def places(outputs: Iterable[Array]) -> list[Array]:
        """Where outputs of a call go: numbers have a place of their own."""
        return [np.empty(out.shape, np.int64) if out.dtype.kind == "O" else out for out in outputs]

    def left(self, places: Iterable[Array], outputs: Iterable[Array]) -> None:
        """Puts the strings that the program has made into its outputs."""
        for place, out in zip(places, outputs, strict=True):
            if place is not out:
                out[...] = self.texts(place)

    def clear(self) -> None:
        """Forgets what the call has added."""
        self._own = []
        self._new = {}
