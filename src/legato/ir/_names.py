"""Names in printed text: unique within what is printed, and quoted where they are no identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from legato.base import dtype as dt
from legato.base.lexer import quote

__all__ = ["KEYWORDS", "TYPE_WORDS", "Names", "attribute", "bare", "identifier", "sigil"]

# Words that begin an expression or statement of their own; an operator or constructor so called is quoted.
KEYWORDS: Final = frozenset({
    "let", "fn", "def", "if", "else", "type", "match", "extern", "free_var", "free_dim", "ref", "ref_read", "ref_write",
    "meta", "True", "False", "dataflow", "match_cast", "shape", "dim", "output",
})  # fmt: skip
# Words that mean something inside types and dims; no type variable or dim is called so.
TYPE_WORDS: Final = KEYWORDS | {"Tensor", "Shape", "None", "_", "and", "or", "min", "max", "select"} | {*dt.BY_NAME}

_IDENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_NUMBER_LIKE: Final = re.compile(r"(?:inf|nan)(?:bf16|f16|f32|f64|f)\Z")
_LOCAL: Final = re.compile(r"[A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)*\Z")
_GRAPH: Final = re.compile(r"[0-9]+\Z")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]+")


class Names:
    """Gives out names that are all different. Linear in the number of names, however many clash."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def unique(self, hint: str) -> str:
        """`hint`, or `hint_1`, `hint_2`, … where it is taken."""
        name = hint
        while name in self._taken:
            count = self._next[hint] = self._next.get(hint, 0) + 1
            name = f"{hint}_{count}"
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        """Makes a name that `unique` gave free again."""
        self._taken.remove(name)


def bare(name: str) -> str:
    """The name of an operator, constructor or data type as text."""
    return quote(name) if name in KEYWORDS else attribute(name)


def attribute(name: str) -> str:
    """The name of an attribute as text. Keywords are plain here: nothing that begins with one goes on with `=`."""
    plain = _IDENT.match(name) and not _NUMBER_LIKE.match(name)
    return name if plain else quote(name)


def sigil(mark: str, name: str) -> str:
    """A variable (`%`) or global (`@`) as text. A local called by a number is quoted: `%0` is a graph binding."""
    plain = _LOCAL.match(name) and not (mark == "%" and _GRAPH.match(name))
    return mark + (name if plain else quote(name))


def identifier(hint: str, default: str) -> str:
    """`hint` with everything foreign to identifiers replaced: for dims and type variables, which cannot be quoted."""
    name = _FOREIGN.sub("_", hint) or default
    return f"_{name}" if name[0].isdigit() or _NUMBER_LIKE.match(name) else name
