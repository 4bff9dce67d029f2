"""Passes keep the order and the number of effects: of cells, and of calls of functions that have cells."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.pipelines import DEFAULT
from legato.transform import table
from legato.transform._effects import Effects
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


@pytest.mark.parametrize("name", table())
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_effects_stay(name: str, text: str) -> None:
    module = legato.parse('#[version = "0.0.5"]\n' + text)
    new = table()[name]()(module if name != "fuse" else run(module, DEFAULT[:-1]))
    for x in (1, 2):
        assert same(evaluate(new, [np.int32(x)]), evaluate(module, [np.int32(x)]))


def effects_of(module: Module, name: str) -> bool:
    """Whether something in a function may have effects."""
    func = module[name]
    assert isinstance(func, Function)
    return Effects(func, module).possible


def test_where_effects_are_possible() -> None:
    module = legato.parse(
        '#[version = "0.0.5"]\n' + PROGRAMS["calls"] + "def @pure(%x: int32) { exp(cast(%x, dtype=float32)) }"
    )
    assert {n: effects_of(module, n) for n in ("set", "make", "get", "main", "pure")} == {
        "set": True, "make": True, "get": True, "main": True, "pure": False
    }  # fmt: skip
    without_cells = legato.parse('#[version = "0.0.5"]\ndef @main(%f: fn () -> int32) { %f() }')
    assert not effects_of(without_cells, "main")


def test_casts_come_before_what_names_their_dims() -> None:
    text = """
def @main(%x: Tensor[(n,), float32]) {
  let %y: Tensor[(k,), float32] = match_cast(%x, Tensor[(k,), float32]);
  (broadcast_to(1f, shape=[k]), sum(%y))
}"""
    module = legato.parse('#[version = "0.0.5"]\n' + text)
    x = np.arange(3, dtype=np.float32)
    for passes in (DEFAULT, DEFAULT[:2]):
        assert same(evaluate(run(module, passes), [x]), evaluate(module, [x]))
