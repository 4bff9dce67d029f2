"""Valid programs that were refused once: as written, each gives its value, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import ParseError
from legato.interp import evaluate
from tests.programs.values import same

GROWN = 'if (%c) { %x } else { concatenate((%x, zeros(shape=[1], dtype="int32"))) }'
PROGRAMS = {
    "branches": (f"(%x: Tensor[(n,), int32], %c: bool) -> Tensor[(?,), int32] {{ {GROWN} }}", 4),
    "let": (f"(%x: Tensor[(n,), int32], %c: bool) {{ let %y: Tensor[(?,), int32] = {GROWN}; %y }}", 4),
    "call": ("(%x: Tensor[(n,), int32], %c: bool) { let %x = fn (%a: Tensor[(k,), int32]) { %a }(%x); %x }", 3),
    "parentheses": ('(%x: Tensor[(n,), int32], %c: bool) { zeros(shape=[(n + 5) // 4], dtype="int32") }', 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_accepted(name: str) -> None:
    text, count = PROGRAMS[name]
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main{text}')
    args = [np.zeros(3, np.int32), np.False_]
    found = evaluate(module, args)
    assert found.shape == (count,)
    assert same(legato.compile(module, threads=1)(*args), found)


def test_a_variable_of_a_pattern_is_named_once() -> None:
    text = "def @main(%p: (int32, int32)) { match (%p) { (%a, %a) => %a } }"
    with pytest.raises(ParseError, match="two variables of a pattern are called `%a`"):
        legato.parse(f'#[version = "0.0.5"]\n{text}')
