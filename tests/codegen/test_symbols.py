"""Functions have symbols of their own, whatever they are called."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from legato.codegen.symbols import name_of, symbol
from tests.programs.settings import examples


@examples(200)
@given(st.text() | st.text(alphabet='$.f"\\\0 2e') | st.from_regex(r"(f\.|\$[0-9a-f]+\$)+"))
def test_every_name_has_a_symbol_and_comes_back(name: str) -> None:
    assert re.fullmatch(r"f\.[A-Za-z0-9_.$]*", symbol(name))
    assert name_of(symbol(name)) == name


def test_symbols_of_others_are_as_they_are() -> None:
    assert [name_of(n) for n in ("memcpy", "llvm.trap", "$24$")] == ["memcpy", "llvm.trap", "$24$"]
