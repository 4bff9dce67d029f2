"""Continuation-passing style and back, over random programs of the whole language: the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given

import legato
from legato.base.errors import UnsupportedError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.atoms import is_primitive
from legato.ir.expr import Call, Constructor
from legato.ir.let import chain
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.scope import post_order
from legato.ir.verify import verify
from legato.ops import table as operators
from legato.transform._cps import answer_of
from legato.transform.to_cps import ToCPS
from legato.transform.un_cps import UnCPS
from tests.programs import strategy as language
from tests.programs.settings import examples
from tests.programs.values import same


def parsed(text: str) -> Module:
    return infer(parse(f'#[version = "0.0.5"]\n{text}', ops=operators()))


def calls_inside(mod: Module) -> list[Call]:
    """The calls of functions that something is done after, in the block that they are in."""
    found = []
    for _, func in mod.graph_functions():
        for node in post_order(func):
            for _, value in chain(node)[0]:
                is_call = isinstance(value, Call) and not isinstance(value.op, Op | Constructor)
                found += [value] if is_call and not is_primitive(value.op) else []  # type: ignore[union-attr]
    return found  # type: ignore[return-value]


@examples(25)
@given(language.programs(size=40, smooth=True))
def test_the_meaning_of_language_programs_stays(program: language.Program) -> None:
    assume(not program.gives_functions)
    mod = program.module
    new = ToCPS(whole=True)(mod)
    verify(new)
    assert infer(new) is new
    assert ToCPS(whole=True)(new) is new
    assert all(answer_of(f) is not None for _, f in new.graph_functions())
    assert not calls_inside(new)
    back = UnCPS()(new)
    verify(back)
    assert infer(back) is back
    assert UnCPS()(back) is back
    assert same(evaluate(back, program.args), evaluate(mod, program.args))


TEXT = """
def @f(%n: int32) -> int32 { if (less(%n, 1)) { 0 } else { add(%n, @f(subtract(%n, 1))) } }
def @twice[A](%g: fn (A) -> A, %x: A) -> A { %g(%g(%x)) }
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %h = fn (%y: int32) { ref_write(%r, add(ref_read(%r), 1)); multiply(%y, ref_read(%r)) };
  add(@twice(%h, @f(%x)), @twice(abs, ref_read(%r)))
}"""


def test_main_is_called_as_before() -> None:
    mod = parsed(TEXT)
    new = ToCPS()(mod)
    assert answer_of(new["main"]) is None
    assert sorted(gv.name for gv in new.functions) == ["f", "main", "main_cps", "twice"]
    for n in (0, 1, 4):
        assert evaluate(new, [np.int32(n)]) == evaluate(mod, [np.int32(n)])


def test_a_main_that_takes_functions_is_refused() -> None:
    mod = parsed("def @main(%f: fn (int32) -> int32) -> int32 { %f(1) }")
    with pytest.raises(UnsupportedError, match="@main takes or gives functions, which would take a continuation"):
        ToCPS()(mod)
    assert answer_of(ToCPS(whole=True)(mod)["main"]) is not None


def test_what_others_compile_is_called_as_before() -> None:
    mod = parsed("""
        def @other(%x: int32, Compiler="other") -> int32 { negative(%x) }
        def @main(%x: int32) -> int32 { let %y = fn (%z: int32, Primitive=1) { abs(%z) }(@other(%x)); @other(%y) }""")
    new = ToCPS(whole=True)(mod)
    assert answer_of(new["other"]) is None
    back = UnCPS()(new)
    assert evaluate(back, [np.int32(3)]) == evaluate(mod, [np.int32(3)])


@pytest.mark.parametrize("count", [100, 1_000])
@pytest.mark.parametrize("step", ["@f(%x{m})", "if (%c) {{ @f(%x{m}) }} else {{ %x{m} }}"])
def test_long_chains(step: str, count: int) -> None:
    body = "".join(f"let %x{n + 1} = {step.format(m=n)};\n" for n in range(count))
    mod = parsed(
        f"def @f(%x: int32) -> int32 {{ add(%x, 1) }} def @main(%c: bool, %x0: int32) -> int32 {{ {body} %x{count} }}"
    )
    back = UnCPS()(ToCPS(whole=True)(mod))
    if count == 100:  # the interpreter looks through nested functions whenever it makes one
        assert evaluate(back, [np.bool_(True), np.int32(0)]) == count


def test_local_polymorphic_functions() -> None:
    mod = parsed("""
        def @main(%x: int32) -> (int32, float32) {
          let %id = fn [T](%y: T) -> T { %y };
          let %a = %id(%x);
          (%a, %id(1f))
        }""")
    assert evaluate(UnCPS()(ToCPS(whole=True)(mod)), [np.int32(3)]) == (3, 1)


def test_data_types_that_hold_functions() -> None:
    mod = parsed("""
        type Box[A] { Box(A, fn (A) -> A), Empty }
        type Pair { Pair(Box[int32], int32) }
        def @open(%p: Pair) -> int32 { match (%p) { Pair(Box(%x, %f), %y) => add(%f(%x), %y), Pair(Empty, %y) => %y } }
        def @main(%x: int32) -> int32 {
          let %f = fn (%y: int32) { multiply(%x, %y) };
          add(@open(Pair(Box(%x, %f), 1)), @open(Pair(Empty, 2)))
        }""")
    new = ToCPS(whole=True)(mod)
    assert [len(new.types[header].type_vars) - len(data.type_vars) for header, data in mod.types.items()] == [1, 1]
    assert evaluate(UnCPS()(new), [np.int32(3)]) == 12


def test_compiled() -> None:
    mod = parsed(TEXT)
    exe = legato.compile(ToCPS()(mod), threads=1)
    for n in (0, 3):
        assert exe(np.int32(n)) == evaluate(mod, [np.int32(n)])
