"""Lines of a script, names in it, and what Python allows of them."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Any, Final

from legato.base.errors import UnsupportedError
from legato.tir.printer import Namer

__all__ = ["HINT", "INDENT", "Lines", "Names", "is_identifier", "quoted"]

INDENT: Final = "    "
HINT: Final = "str(module) is the text of any program"  # of errors for what a script cannot hold
_MOST_LEVELS: Final = 96  # of Python's 100 levels of indentation
_RESERVED: Final = frozenset({*keyword.kwlist, "_", "I", "R", "T", "cls", "Module", "range", "print"})


def quoted(text: str) -> str:
    """A string literal."""
    found = repr(text)
    return f'"{found[1:-1]}"' if found.startswith("'") and '"' not in found else found


class Lines:
    """Lines with their indentation."""

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.lines: list[str] = []

    def add(self, text: str, depth: int | None = None) -> None:
        """A line. UnsupportedError where Python allows no such indentation."""
        depth = self.depth if depth is None else depth
        if depth > _MOST_LEVELS:
            raise UnsupportedError(f"a script nests no deeper than {_MOST_LEVELS} levels", hint=HINT)
        self.lines.append(INDENT * depth + text)

    def listed(self, head: str, items: Sequence[str], tail: str, depth: int | None = None) -> None:
        """`head(items)tail`, on several lines where it is long."""
        line = f"{head}({', '.join(items)}){tail}"
        depth = self.depth if depth is None else depth
        if len(line) + len(INDENT) * depth <= 110 or not items:
            self.add(line, depth)
            return
        self.add(f"{head}(", depth)
        for item in items:
            self.add(f"{item},", depth + 1)
        self.add(f"){tail}", depth)


class Names(Namer):
    """A unique identifier for each thing that is asked about, made from its name."""

    def __init__(self) -> None:
        super().__init__(_RESERVED)

    def __contains__(self, named: object) -> bool:
        return named in self._names

    def bind(self, named: Any, hint: str) -> str:
        """Gives `named` a name like `hint`; `_` stands for nothing in a match."""
        return super().bind(named, "unused" if hint == "_" else hint)

    def new(self, hint: str) -> str:
        """An identifier like `hint`, of nothing yet."""
        return self.bind(object(), hint)


def is_identifier(name: str) -> bool:
    """Whether a function of a script can have this name as it is."""
    return name.isidentifier() and name.isascii() and name not in _RESERVED and not name.startswith("_")
