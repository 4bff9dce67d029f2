"""Whole programs in first-order form: the passes together, on programs of every kind, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.ir.module import Module
from legato.ir.verify import Stage, verify
from legato.ops import table as operators
from legato.prelude import library, parse
from legato.transform._first_order import first_order
from legato.transform.defunctionalize import Defunctionalize
from legato.transform.flatten_match import FlattenMatch
from legato.transform.lambda_lift import LambdaLift
from legato.transform.pass_ import run
from legato.transform.specialize import Specialize
from tests.graphs import programs as graphs
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.programs.values import same

PASSES = (FlattenMatch(), LambdaLift(), Specialize(), Defunctionalize())


def typed(text: str) -> Module:
    return infer(parse(f'#[version = "0.0.5"]\n{text}', ops=operators()))


def first(mod: Module) -> Module:
    """`mod` in first-order form, checked to be so."""
    new = run(mod, PASSES)
    verify(new, Stage.TYPED)
    assert [what for _, _, what in first_order(new)] == []
    return new


def int32(n: int) -> Any:
    return np.asarray(n, np.int32)


def ints(mod: Module, *values: int) -> Data:
    """A list of the prelude."""
    cons, nil = next(data for header, data in mod.types.items() if header.name == "List").constructors
    made = Data(nil, ())
    for v in reversed(values):
        made = Data(cons, (int32(v), made))
    return made


@examples(40)
@given(programs(size=40))
def test_language_programs_become_first_order(program: Program) -> None:
    assume(not program.gives_functions)
    new = first(program.module)
    assert same(evaluate(new, program.args), evaluate(program.module, program.args))
    verify(infer(new), Stage.TYPED)
    assert run(new, PASSES) is new


@examples(10)
@given(graphs(steps=16, limit=512))
def test_plain_models_stay(program: Any) -> None:
    assert run(program.module, PASSES) is program.module


# ------------------------------------------------------------------ the prelude

LIST = "%xs: List[int32]"
SEED = "fn (%s: int32) -> Option[(int32, int32)] { if (%s > 5) { None } else { Some((%s + 1, %s)) } }"
USES = {
    "id": "@id(%n)",
    "compose": "@compose(negative, fn (%x: int32) -> int32 { %x + %n })(%n)",
    "flip": "@flip(fn (%a: int32, %b: int32) -> int32 { %a - %b })(%n, 5)",
    "iterate": "@iterate(fn (%x: int32) -> int32 { %x * 2 }, %n)(1)",
    "hd": "@hd(%xs)",
    "tl": "@tl(%xs)",
    "nth": "@nth(%xs, 1)",
    "update": "@update(%xs, 1, %n)",
    "length": "@length(%xs)",
    "map": "@map(fn (%x: int32) -> int32 { %x + %n }, %xs)",
    "foldl": "@foldl(fn (%a: int32, %b: int32) -> int32 { %a * 2 + %b }, %n, %xs)",
    "foldr": "@foldr(fn (%a: int32, %b: int32) -> int32 { %a - %b }, %n, %xs)",
    "foldr1": "@foldr1(fn (%a: int32, %b: int32) -> int32 { %a - %b }, %xs)",
    "sum": "@sum(%xs)",
    "concat": "@concat(%xs, %xs)",
    "filter": "@filter(fn (%x: int32) -> bool { %x > %n }, %xs)",
    "zip": "@zip(%xs, @map(fn (%x: int32) -> (int32, int32) { (%x, %n) }, %xs))",
    "rev": "@rev(%xs)",
    "map_accuml": "@map_accuml(fn (%a: int32, %b: int32) -> (int32, int32) { (%a + %b, %a) }, %n, %xs)",
    "map_accumr": "@map_accumr(fn (%a: int32, %b: int32) -> (int32, int32) { (%a + %b, %a) }, %n, %xs)",
    "unfoldr": f"@unfoldr({SEED}, %n)",
    "unfoldl": f"@unfoldl({SEED}, %n)",
    "tmap": "@tmap(fn (%x: int32) -> int32 { %x + %n }, Rose(%n, Cons(Rose(1, Nil), Nil)))",
    "size": "@size(Rose(%n, Cons(Rose(1, Nil), Nil)))",
}


def test_every_function_of_the_prelude_is_used() -> None:
    assert {gv.name for gv in library().functions} == set(USES)


@pytest.mark.parametrize("name", USES)
def test_the_prelude(name: str) -> None:
    mod = typed(f"def @main({LIST}, %n: int32) {{ {USES[name]} }}")
    new = first(mod)
    args = (ints(mod, 3, 1, 4, 1, 5), int32(2))
    assert same(evaluate(new, args), evaluate(mod, args))
