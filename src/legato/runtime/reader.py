"""Typed access to JSON from a file: every surprise is one ArtifactError that names its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NoReturn

from legato.base.errors import ArtifactError
from legato.runtime.size import Size, SizeError, parse_size

__all__ = ["Reader", "parse_json"]


def parse_json(text: str | bytes, where: str) -> Reader:
    """A reader of the JSON document `text`; ArtifactError if it is none or nests too deeply."""
    try:
        return Reader(json.loads(text), where)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{where}: not readable as JSON: {error}") from error


class Reader:
    """A JSON value and its place in the document."""

    __slots__ = ("value", "where")

    def __init__(self, value: object, where: str) -> None:
        self.value = value
        self.where = where

    def fail(self, wanted: str) -> NoReturn:
        """Raise the error for a value that is not what was wanted."""
        text = repr(self.value)
        raise ArtifactError(f"{self.where}: got {text if len(text) <= 60 else text[:57] + '...'}, wanted {wanted}")

    def __getitem__(self, key: str) -> Reader:
        """The member `key` of an object."""
        if not isinstance(self.value, dict) or key not in self.value:
            self.fail(f"an object with a member {key!r}")
        return Reader(self.value[key], f"{self.where}.{key}")

    def items(self) -> Iterator[tuple[str, Reader]]:
        """The members of an object."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        for key, value in self.value.items():
            yield key, Reader(value, f"{self.where}.{key}")

    def list(self, length: int | None = None) -> list[Reader]:
        """The elements of an array (of `length`)."""
        if not isinstance(self.value, list) or (length is not None and len(self.value) != length):
            self.fail("an array" if length is None else f"an array of {length}")
        return [Reader(value, f"{self.where}[{i}]") for i, value in enumerate(self.value)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail("a string")
        return self.value

    def int(self, lo: int = 0, hi: int = 2**63 - 1) -> int:
        """An integer within [lo, hi]."""
        if type(self.value) is not int or not lo <= self.value <= hi:
            self.fail(f"an integer from {lo} to {hi}")
        return self.value

    def size(self) -> Size:
        """A size (see legato.runtime.size)."""
        try:
            return parse_size(self.value)
        except SizeError as error:
            raise ArtifactError(f"{self.where}: {error}") from error
