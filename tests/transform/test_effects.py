"""Passes keep the order and the number of effects: of cells, and of calls of functions that have cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.base.node import post_order
from legato.interp import evaluate
from legato.ir.effects import Effect, Effects
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.pipelines import DEFAULT
from legato.transform import table
from legato.transform.pass_ import run
from tests.programs.values import same

PROGRAMS = {
    "calls": """
def @set(%r: ref(int32), %v: int32) { ref_write(%r, %v) }
def @make() { ref(1) }
def @get(%r: ref(int32)) { ref_read(%r) }
def @main(%x: int32) { let %r = @make(); let %a = @get(%r); let %u = @set(%r, %x); (%a, @get(%r)) }""",
    "closures": """
def @twice(%f: fn () -> int32) { let %a = %f(); let %b = %f(); %b }
def @main(%x: int32) {
  let %r = ref(%x);
  let %f = fn () { let %u = ref_write(%r, ref_read(%r) + 1); ref_read(%r) };
  (@twice(%f), %f() + %f(), %f() + %f(), ref_read(%r))
}""",
    "tuples": "def @main(%x: int32) { let %r = ref(0); let %y = (ref_write(%r, %x), 4).1; (%y, ref_read(%r)) }",
    "branches": """
def @main(%x: int32) {
  let %r = ref(0);
  let %a = ref_read(%r);
  let %u = if (%x > 1) { ref_write(%r, %x) } else { () };
  (%a + 1, if (%x > 1) { %a } else { 7 }, ref_read(%r))
}""",
}


@pytest.mark.parametrize("name", [name for name, p in table().items() if p.keeps_meaning])
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_effects_stay(name: str, text: str) -> None:
    module = legato.parse('#[version = "0.0.5"]\n' + text)
    new = table()[name]()(module if name != "fuse" else run(module, DEFAULT[:-1]))
    for x in (1, 2):
        assert same(evaluate(new, [np.int32(x)]), evaluate(module, [np.int32(x)]))


def effects_of(text: str, name: str = "main") -> Effect:
    """What the body of a function does beside giving a value."""
    module = legato.parse('#[version = "0.0.5"]\n' + text)
    func = module[name]
    assert isinstance(func, Function)
    return Effects(func, module).of(func.body)


def test_which_effects_are_possible() -> None:
    text = PROGRAMS["calls"] + "def @pure(%x: int32) { exp(cast(%x, dtype=float32)) }"
    found = {name: effects_of(text, name) for name in ("set", "make", "get", "main", "pure")}
    assert found == {**dict.fromkeys(("set", "make", "get", "main"), Effect.CELLS), "pure": Effect.NONE}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("def @main(%f: fn () -> int32) { %f() }", Effect.FAILS | Effect.LOOPS),
        ("def @f(%n: int32) -> int32 { @g(%n) } def @g(%n: int32) -> int32 { if (%n < 1) { %n } else { @f(%n - 1) } }"
         "def @main(%n: int32) { @g(%n) }", Effect.LOOPS),
        ("def @main(%n: int32) { let %f = fn (%i: int32) -> int32 { %f(%i) }; %f(%n) }", Effect.LOOPS),
        ("def @main(%n: int32) { let %f = fn (%i: int32) -> int32 { %i }; %f(%n) }", Effect.NONE),
        ("def @main(%x: Tensor[(n,), float32]) { match_cast(%x, Tensor[(3,), float32]) }", Effect.FAILS),
        ("def @main(%x: Tensor[(3,), float32]) { match_cast(%x, Tensor[(3,), float32]) }", Effect.NONE),
        ("def @main(%x: List[int32]) { match? (%x) { Cons(%a, _) => %a } }", Effect.FAILS),
        ("def @main(%x: List[int32]) { match (%x) { Cons(%a, _) => %a, Nil => 0 } }", Effect.NONE),
        ("def @same(%x: Tensor[(n,), int32], %y: Tensor[(m,), int32]) { %x + %y }"
         "def @main(%x: Tensor[(n,), int32], %y: Tensor[(m,), int32]) { @same(%x, %y) }", Effect.FAILS),
    ],
)  # fmt: skip
def test_effects_of(text: str, wanted: Effect) -> None:
    assert effects_of(text) == wanted


RAISES = Op("raises", ("x",), lambda rel, x: x, lambda x: x)
DRAWS = replace(RAISES, name="draws", stateful=True)


@pytest.mark.parametrize(("op", "wanted"), [(RAISES, Effect.FAILS), (DRAWS, Effect.FAILS | Effect.CELLS)])
def test_effects_of_operators(op: Op, wanted: Effect) -> None:
    """One without compute runs Python code, which may fail; one that is stateful is computed as often as it stands."""
    text = f"#[version = '0.0.5']\ndef @main(%x: int32) {{ ({op.name}(%x), {op.name}(%x)) }}".replace("'", '"')
    module = legato.parse(text, ops=[op])
    main = module["main"]
    assert isinstance(main, Function)
    assert Effects(main, module).of(main.body) == wanted
    after = run(module, DEFAULT[:-3])["main"]
    assert sum(isinstance(n, Call) for n in post_order([after])) == 2


# Nodes that are shared: the interpreter says when they are computed, in @main(%n, %c).
SHARED = {
    "closure, then here": """let %r = ref(%n); %0 = { ref_write(%r, ref_read(%r) + 1); ref_read(%r) };
  let %f = fn (%y: int32) { %0 + %y }; let %a = %f(10); let %b = %f(20); (%a, %b, %0, ref_read(%r))""",
    "here, then closure": """let %r = ref(%n); %0 = { ref_write(%r, ref_read(%r) + 1); ref_read(%r) };
  let %a = %0; let %f = fn (%y: int32) { (%0 + %y, %0) }; (%a, %f(10), %f(20), %0, ref_read(%r))""",
    "two closures": """let %r = ref(%n); %0 = { ref_write(%r, ref_read(%r) + 1); ref_read(%r) };
  let %f = fn () { let %g = fn () { %0 }; (%0, %g()) }; let %h = fn () { %0 }; (%f(), %h(), %f(), ref_read(%r))""",
    "branch, then here": """let %r = ref(0); %0 = { ref_write(%r, ref_read(%r) + 1); %n };
  let %a = if (%c) { %0 } else { 5 }; let %b = ref_read(%r); (%a, %b, %0, ref_read(%r))""",
    "branches, then here": """let %r = ref(0); %0 = { ref_write(%r, ref_read(%r) + 1); %n }; %1 = %0 * ref_read(%r);
  let %a = if (%c) { %0 } else { if (%n > 1) { %1 } else { 5 } };
  let %b = if (%n > 2) { %1 + %0 } else { %0 }; (%a, %b, %1, ref_read(%r))""",
    "failure in branches": """%0 = match? (if (%n > 1) { Some(%n) } else { None }) { Some(%x) => %x }; %1 = %0 + 1;
  let %a = if (%n > 2) { %0 } else { 0 }; let %b = if (%n > 1) { %1 * 2 } else { 1 };
  (%a, %b, if (%c) { if (%n > 1) { (%0, %1) } else { (1, 1) } } else { (0, 2) })""",
    "failure in a closure": """%0 = match? (if (%n > 1) { Some(%n) } else { None }) { Some(%x) => %x };
  let %f = fn (%y: int32) { %0 + %y }; let %a = if (%c) { 0 } else { %f(1) }; %a + %0""",
    "recursion in branches": """%0 = @down(%n); let %a = if (%n > 0) { %0 } else { 1 };
  (%a, if (%c) { if (%n > 0) { %0 } else { 3 } } else { 2 })""",
    "a node that calls the function that shares it": """let %r = ref(0);
  let %f = fn (%y: int32) -> int32 { ref_write(%r, ref_read(%r) + 1); %y }; %0 = %f(%n);
  let %g = fn () { %0 + %0 }; (%g(), %0, %g(), ref_read(%r))""",
    "dropped failure": "let %y = match? (if (%n > 1) { Some(%n) } else { None }) { Some(%x) => %x }; 3",
    "dropped argument": "((match? (if (%n > 1) { Some(%n) } else { None }) { Some(%x) => %x }, 3).1, %n)",
}
DOWN = "def @down(%n: int32) -> int32 { if (%n == 0) { @down(%n) } else { if (%n < 2) { %n } else { @down(%n - 1) } } }"


def meaning(module: Module, args: list[Any]) -> tuple[Any, ...]:
    """What @main gives; nothing if it fails."""
    try:
        return (evaluate(module, args),)
    except RunError:
        return ()


@pytest.mark.parametrize("text", SHARED.values(), ids=SHARED)
@pytest.mark.shared(3)
def test_shared_nodes_are_computed_where_they_are_needed_first(text: str) -> None:
    module = legato.parse(f'#[version = "0.0.5"]\n{DOWN}\ndef @main(%n: int32, %c: bool) {{ {text} }}')
    exe = legato.compile(module)
    for n in range(4):
        for c in (False, True):
            args = [np.array(n, np.int32), np.array(c)]
            wanted = meaning(module, args)
            assert same(meaning(run(module, DEFAULT), args), wanted)
            for p in DEFAULT:
                assert same(meaning(p(module) if p.name != "fuse" else module, args), wanted), p.name
            if wanted:
                assert same((exe(*args),), wanted)
            else:
                with pytest.raises(RunError):
                    exe(*args)


def test_casts_come_before_what_names_their_dims() -> None:
    text = """
def @main(%x: Tensor[(n,), float32]) {
  let %y: Tensor[(k,), float32] = match_cast(%x, Tensor[(k,), float32]);
  (broadcast_to(1f, shape=[k]), sum(%y))
}"""
    module = legato.parse('#[version = "0.0.5"]\n' + text)
    x = np.arange(3, dtype=np.float32)
    for passes in (DEFAULT, DEFAULT[:3]):
        assert same(evaluate(run(module, passes), [x]), evaluate(module, [x]))
