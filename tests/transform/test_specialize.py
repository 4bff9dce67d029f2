"""Specialization shares, and has bounds: what is made is counted."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import UnsupportedError
from legato.interp import Data, evaluate
from legato.ir.scope import post_order
from legato.transform import specialize
from legato.transform.lambda_lift import LambdaLift
from legato.transform.specialize import Specialize
from tests.programs.values import same

FIBONACCI = """#[version = "0.0.5"]
def @fib(%n: int32, %k: fn (int32) -> int32) -> int32 {
  if (%n < 2) { %k(%n) } else {
    @fib(%n - 1, fn (%a: int32) -> int32 { @fib(%n - 2, fn (%b: int32) -> int32 { %k(%a + %b) }) })
  }
}
def @main(%n: int32) { @fib(%n, fn (%x) { %x }) }"""
GENERATORS = """#[version = "0.0.5"]
type Gen { Yield(int32, fn () -> Gen), Done }
def @tree(%t: Tree[int32], %k: fn () -> Gen) -> Gen {
  match (%t) { Rose(%x, %ts) => Yield(%x, fn () -> Gen { @trees(%ts, %k) }) }
}
def @trees(%ts: List[Tree[int32]], %k: fn () -> Gen) -> Gen {
  match (%ts) { Nil => %k(), Cons(%t, %r) => @tree(%t, fn () -> Gen { @trees(%r, %k) }) }
}
def @total(%g: Gen) -> int32 { match (%g) { Done => 0, Yield(%x, %f) => %x + @total(%f()) } }
def @main(%x: int32) { @total(@tree(Rose(%x, Cons(Rose(2, Nil), Nil)), fn () -> Gen { Done })) }"""


def pairs(n: int) -> str:
    """A value of 2ⁿ parts, of one of which the program is."""
    made, first = "@d(" * n + "%x" + ")" * n, ".0" * n
    text = f"def @d[A](%x: A) -> (A, A) {{ (%x, %x) }}\ndef @main(%x: int32) {{ let %a = {made}; %a{first} }}"
    return f'#[version = "0.0.5"]\n{text}'


@pytest.mark.parametrize("text", [FIBONACCI, GENERATORS], ids=["fibonacci", "generators"])
def test_continuations_stay_values(text: str) -> None:
    module = legato.parse(text)
    new = Specialize()(module)
    assert len(new.functions) < 2 * len(LambdaLift()(module).functions)
    args = [np.array(9, np.int32)]
    assert same(legato.compile(module)(*args), evaluate(module, args))
    assert same(evaluate(new, args), evaluate(module, args))


def test_copies_for_closures_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, closures stay values, and the program means the same."""
    calls = ", ".join(f"@map(fn (%y: int32) -> int32 {{ %y + %x * {n} }}, %l)" for n in range(20))
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main(%x: int32, %l: List[int32]) {{ ({calls}) }}')
    before = sum(1 for _, f in module.graph_functions() for _ in post_order(f))
    monkeypatch.setattr(specialize, "MAX_GROWTH", 0)
    new = Specialize()(module)
    assert sum(1 for _, f in new.graph_functions() for _ in post_order(f)) < 6 * before
    cons, nil = (next(c for d in module.types.values() for c in d.constructors if c.name == n) for n in ("Cons", "Nil"))
    args = [np.array(3, np.int32), Data(cons, (np.array(4, np.int32), Data(nil, ())))]
    assert same(evaluate(new, args), evaluate(module, args))


def test_pairs_of_pairs() -> None:
    module = legato.parse(pairs(8))
    assert same(legato.compile(module)(np.array(4, np.int32)), np.array(4, np.int32))


def test_types_have_a_bound() -> None:
    with pytest.raises(UnsupportedError, match="ever more types"):
        legato.compile(legato.parse(pairs(13)))


@pytest.mark.parametrize("text", ["def @main[A](%x: A) { %x }", "def @main(%x: int32) { Nil }"])
def test_a_main_for_all_types_is_refused(text: str) -> None:
    """Nothing calls it that would say for which types it is to be compiled."""
    with pytest.raises(UnsupportedError, match=r"@main holds for any type A"):
        legato.compile(legato.parse(f'#[version = "0.0.5"]\n{text}'))
