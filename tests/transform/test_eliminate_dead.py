"""Elimination of dead bindings: its options."""

from __future__ import annotations

import pytest
from hypothesis import given

from legato.arith.expr import fresh
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import TensorType
from legato.ir.verify import Stage, verify
from legato.ops import table as operators
from legato.transform.eliminate_dead import EliminateDead
from tests.programs import strategy as language
from tests.programs.settings import examples
from tests.programs.values import same


def module(body: str) -> Module:
    return infer(parse(f'#[version = "0.0.5"]\ndef @main(%x: float32) {{ {body} }}', ops=operators()))


@examples(30)
@given(language.programs(size=40, smooth=True))
def test_values_that_are_used_once_are_written_there(program: language.Program) -> None:
    new = EliminateDead(once=True)(program.module)
    verify(infer(new), Stage.TYPED)
    assert same(evaluate(new, program.args), evaluate(program.module, program.args))
    assert EliminateDead(once=True)(new) is new


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("let %a = exp(%x); let %b = tanh(%a); add(%b, %b)", "let %b = tanh(exp(%x)); add(%b, %b)"),
        ("let %f = fn (%y: float32) { exp(%y) }; %f(%x)", "(fn (%y: float32) { exp(%y) })(%x)"),
        ("let %a = exp(%x); let %b = cos(%a); %x", "%x"),
    ],
)
def test_what_moves(before: str, after: str) -> None:
    assert alpha_equal(EliminateDead(once=True)(module(before)), module(after))


@pytest.mark.parametrize(
    "body",
    [
        "let %a = exp(%x); fn () { %a }",
        "let %r = ref(%x); ref_read(%r)",
        "let %f = fn (%y: float32) -> float32 { if (less(%y, 0f)) { %y } else { %f(%y) } }; %f(%x)",
    ],
)
def test_what_stays(body: str) -> None:
    old = module(body)
    assert EliminateDead(once=True)(old) is old


def test_effects_may_be_ignored() -> None:
    old = module("let %r = ref(%x); let %u = ref_write(%r, exp(%x)); %x")
    assert EliminateDead()(old) is old
    assert alpha_equal(EliminateDead(ignore_effects=True)(old), module("%x"))


def test_dims_that_nothing_names_any_more() -> None:
    b = Builder()
    x, y, c = b.var("x", (fresh("n"),)), b.var("y", (fresh("m"),)), b.var("c", (), "bool")
    with b.bindings() as bound:
        either = b.let("either", b.if_(c, x, y))
        assert isinstance(either.ty, TensorType)
        ones = b.let("ones", b.ones(shape=either.ty.shape))
    for result, kept in ((x, 0), (ones, 2)):
        old = infer(Module.from_expr(b.function([x, y, c], lets(bound, result))))
        func = EliminateDead()(old)["main"]
        assert isinstance(func, Function)
        assert len(chain(func.body)[0]) == kept
