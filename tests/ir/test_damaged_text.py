"""Damaged text gives a ParseError or a module, never another exception."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import ParseError
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.printer import show
from tests.ir.programs import OPS, modules
from tests.programs.settings import examples

_TOKENS = [
    "(", ")", "[", "]", "{", "}", "<", ">", ",", ";", ":", "=", "->", "=>", ".", "?", "&", "@", "%", '"', "//", "/*",
    "*/", "#", "-", "_", "0", "1f", "1.5", "nanf", "%0", "%x", "@f", "let", "fn", "if", "match", "type", "def", "None",
    "kernel @k", "meta", "dim", "Tensor", "Nil", "Cons", "a.b", "\\", "\x00", "é", "99999999999999999999",
]  # fmt: skip


@examples(30)
@given(modules(), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), st.sampled_from(["", *_TOKENS])), min_size=1,
                           max_size=4))  # fmt: skip
def test_damaged_text_is_refused_or_parsed(module: Module, edits: list[tuple[float, int, str]]) -> None:
    text = show(module)
    for place, removed, inserted in edits:
        at = 21 + int(place * (len(text) - 21))  # behind the version
        text = f"{text[:at]}{inserted}{text[at + removed :]}"
    with suppress(ParseError):
        parse(text, ops=OPS)
