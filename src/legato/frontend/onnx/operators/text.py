"""Operators that look into strings."""

from __future__ import annotations

from legato.arith.expr import const
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

_CASES = {"NONE": "none", "LOWER": "lower", "UPPER": "upper"}


def string_concat(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.strings.concat(x, y)


def regex_full_match(b: Emitter, x: Expr, *, pattern: str) -> Expr:
    return b.strings.full_match(x, pattern=pattern)


def string_split(b: Emitter, x: Expr, *, delimiter: str = "", maxsplit: int = -1) -> tuple[Expr, Expr]:
    """The pieces along a new last dim, and how many there are of each string."""
    own = {"delimiter": delimiter, "maxsplit": maxsplit}
    return b.strings.split(x, **own), b.strings.pieces(x, **own)


def string_normalizer(
    b: Emitter,
    x: Expr,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: bool = False,
    locale: str = "en_US",
    stopwords: tuple[str, ...] = (),
) -> Expr:
    """x [words] or [1, words] in another case, without stopwords. Python knows one way to change case, and no locales:
    Turkish letters and their like are not told apart."""
    if case_change_action not in _CASES:
        raise ImportModelError(f"case_change_action is {case_change_action!r}, wanted one of {', '.join(_CASES)}")
    rank, case = b.rank(x), _CASES[case_change_action]
    if rank not in (1, 2):
        raise ImportModelError(f"strings in {rank} dimensions, wanted one, or two of which the first is 1")
    if not stopwords:
        return b.strings.change_case(x, case=case)
    if rank == 2:
        b.require(b.dims_of(x)[0], const(1), "rows of strings")
    words = b.reshape(x, newshape=(-1,))
    found = b.strings.normalize(words, case=case, stopwords=stopwords, casesensitive=is_case_sensitive)
    return found if rank == 1 else b.expand_dims(found, axis=0)
