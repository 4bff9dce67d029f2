"""Texts of strangers: limits are errors of their own, before the memory is spent."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest

import legato.base.lexer as lexer
import legato.ir._json_checks as checks
import legato.ir.json_load as json_load
from legato.base.errors import ParseError
from legato.base.lexer import Source, tokenize
from legato.base.limits import MAX_NAME
from legato.ir.json_load import load_json


def test_tokens_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer, "MAX_TOKENS", 10)
    assert len(tokenize(Source("; " * 10))) == 11  # and eof
    with pytest.raises(ParseError, match="more than 10 tokens") as info:
        tokenize(Source("; " * 1000))
    assert info.value.hint == "split the program into several modules"


@pytest.mark.parametrize("name", ["a", "%a", "@a", '%"a"', "a.a", "%a/a"])
def test_names_have_a_limit(name: str) -> None:
    longest = name.replace("a", "a" * (MAX_NAME - len(name) + 1), 1)
    assert len(longest) == MAX_NAME
    assert len(tokenize(Source(longest))) == 2
    message = f"a name has {MAX_NAME + 1} characters, more than the limit of {MAX_NAME}"
    with pytest.raises(ParseError, match=message):
        tokenize(Source(longest.replace("a", "aa", 1)))


def test_texts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer, "MAX_TEXT", 10)
    monkeypatch.setattr(json_load, "MAX_TEXT", 10)
    message = "has 11 characters, more than the limit of 10"
    with pytest.raises(ParseError, match=message):
        tokenize(Source(" " * 11))
    with pytest.raises(ParseError, match=message):
        load_json(" " * 11, ops={})


def test_values_of_json_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_VALUES", 100)
    with pytest.raises(ParseError, match="up to 101 values, more than the limit of 100"):
        load_json("[" + "0," * 100 + "0]", ops={})


@pytest.mark.parametrize(
    "text", ['"' + "a" * 10**6 + '"', '"' + "\\n" * 10**6 + '"', "a" + ".a" * 10**6, "%a" + "/a" * 10**6]
)
def test_a_long_token_costs_its_text(text: str) -> None:
    tracemalloc.start()
    with suppress(ParseError):  # names are too long, strings are not
        tokenize(Source(text))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(text)
