"""Classes of characters, as regular expressions in RE2's syntax have them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

__all__ = [
    "CLASSES",
    "ESCAPES",
    "LOOKS",
    "NAMED",
    "RegexError",
    "Test",
    "category",
    "either_case",
    "negated",
    "of_code",
]

Test = Callable[[str], bool]


class RegexError(Exception):
    """What is wrong with a pattern."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def _between(*ranges: str) -> Test:
    pairs = [(r[0], r[-1]) for r in ranges]
    return lambda c: any(a <= c <= b for a, b in pairs)


def negated(test: Test) -> Test:
    return lambda c: not test(c)


_DIGIT, _SPACE, _WORD = _between("09"), _between("\t\n", "\f\r", "  "), _between("09", "AZ", "az", "__")
CLASSES: Final[dict[str, Test]] = {
    "d": _DIGIT, "D": negated(_DIGIT), "s": _SPACE, "S": negated(_SPACE), "w": _WORD, "W": negated(_WORD),
}  # fmt: skip
NAMED: Final[dict[str, Test]] = {
    "alnum": _between("09", "AZ", "az"), "alpha": _between("AZ", "az"), "ascii": _between("\0\x7f"),
    "blank": _between("\t\t", "  "), "cntrl": _between("\0\x1f", "\x7f\x7f"), "digit": _DIGIT,
    "graph": _between("!~"), "lower": _between("az"), "print": _between(" ~"),
    "punct": _between("!/", ":@", "[`", "{~"), "space": _between("\t\r", "  "), "upper": _between("AZ"),
    "word": _WORD, "xdigit": _between("09", "AF", "af"),
}  # fmt: skip
ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


def either_case(test: Test) -> Test:
    """The characters of a class, and those that are one of them in the other case; ß is SS, which is none."""
    return lambda c: test(c) or any(test(other) for other in (c.lower(), c.upper(), c.swapcase()) if len(other) == 1)


def _is_word(c: str) -> bool:
    return c != "" and _WORD(c)


LOOKS: Final[dict[str, Callable[[str, str], bool]]] = {
    "A": lambda before, _: not before,
    "z": lambda _, after: not after,
    "b": lambda before, after: _is_word(before) != _is_word(after),
    "B": lambda before, after: _is_word(before) == _is_word(after),
}


def of_code(digits: str, base: int) -> str:
    try:
        return chr(int(digits if digits.isalnum() else "", base))  # int takes signs, spaces and underscores, too
    except (ValueError, OverflowError):
        raise RegexError(f"{digits!r:.20} is no code of a character") from None


def _categories() -> Iterator[str]:
    for major, minor in {
        "L": "ultmo",
        "M": "nce",
        "N": "dlo",
        "P": "cdseifo",
        "S": "mcko",
        "Z": "slp",
        "C": "cfs",
    }.items():
        yield major
        yield from (major + letter for letter in minor)


_CATEGORIES: Final = frozenset(_categories())


def category(name: str) -> Test:
    """The characters of a general category of Unicode."""
    if name == "Any":
        return lambda c: True
    if name not in _CATEGORIES:
        raise RegexError(f"\\p{{{name:.20}}} is no category of Unicode", "scripts are not known here")
    return lambda c: unicodedata.category(c).startswith(name)
