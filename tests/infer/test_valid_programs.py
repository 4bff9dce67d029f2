"""Valid programs that were refused once: as written, each gives its value, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import ParseError
from legato.interp import evaluate
from tests.programs.returning import check_returning
from tests.programs.values import same

GROWN = 'if (%c) { %x } else { concatenate((%x, zeros(shape=[1], dtype="int32"))) }'
COUNTED = "def @loop(%i: int32, %x: Tensor[(n,), int32]) -> Tensor[(n,), int32] {{ "
COUNTED += "if (%i < {}) {{ @loop(%i + 1, 2 * %x) }} else {{ %x }} }}"
VOID = "type Void { }\ntype Either[A] { L(Void), R(A) }\ndef @absurd[A](%v: Void) -> A { match (%v) { } }"
ELSE_IFS = (
    "".join(f"if (sum(%x) == {k}) {{ [{k * k}] }} else " for k in range(101)).replace("[", "(").replace("]", ", %x)")
)
PROGRAMS = {
    "branches": f"(%x: Tensor[(n,), int32], %c: bool) -> Tensor[(?,), int32] {{ {GROWN} }}",
    "let": f"(%x: Tensor[(n,), int32], %c: bool) {{ let %y: Tensor[(?,), int32] = {GROWN}; %y }}",
    "call": "(%x: Tensor[(n,), int32], %c: bool) { let %x = fn (%a: Tensor[(k,), int32]) { %a }(%x); %x }",
    "parentheses": '(%x: Tensor[(n,), int32], %c: bool) { zeros(shape=[(n + 5) // 4], dtype="int32") }',
    "one size": "[n: ShapeVar(3, 3)](%x: Tensor[(n,), int32], %c: bool) { %x + 1 }",
    "else if": f"(%x: Tensor[(n,), int32], %c: bool) {{ {ELSE_IFS} {{ (-1, %x) }} }}",
    "no rounds": "(%x: Tensor[(n,), int32], %c: bool) { @loop(0, %x) }\n" + COUNTED.format("-3"),
    "some rounds": "(%x: Tensor[(n,), int32], %c: bool) { @loop(0, %x) }\n" + COUNTED.format("3"),
    "no clause": f"(%x: Tensor[(n,), int32], %c: bool) {{ @of(R(%x)) }}\n{VOID}"
    "def @of[A](%e: Either[A]) -> A { match (%e) { L(%v) => match (%v) { }, R(%x) => %x } }",
    "no clause, by name": f"(%x: Tensor[(n,), int32], %c: bool) {{ @of(R(%x)) }}\n{VOID}"
    "def @of[A](%e: Either[A]) -> A { match (%e) { L(%v) => @absurd(%v), R(%x) => %x } }",
    "no clause, in a function": f"(%x: Tensor[(n,), int32], %c: bool) {{ %x }}\n{VOID}"
    "def @local(%x: int32) { let %f = fn (%v: Void) { match (%v) { } }; %x }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_accepted(name: str) -> None:
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main{PROGRAMS[name]}')
    check_returning(module)
    args = [np.arange(3, dtype=np.int32), np.False_]
    assert same(legato.compile(module, threads=1)(*args), evaluate(module, args))


def test_a_variable_of_a_pattern_is_named_once() -> None:
    text = "def @main(%p: (int32, int32)) { match (%p) { (%a, %a) => %a } }"
    with pytest.raises(ParseError, match="two variables of a pattern are called `%a`"):
        legato.parse(f'#[version = "0.0.5"]\n{text}')
