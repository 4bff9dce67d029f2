"""The prelude: every function beside its counterpart in Python, on random lists and trees; names resolved in texts."""

from __future__ import annotations

import re
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.base.errors import CompileError, ParseError, RunError
from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Constructor, GlobalVar
from legato.ir.module import Module
from legato.ir.parser import parse as parse_alone
from legato.ir.verify import Stage, verify
from legato.ops import table
from legato.prelude import LIBRARIES, library, link, mentioned, parse
from tests.programs.settings import examples

VERSION = '#[version = "0.0.5"]\n'
NUMBERS = st.lists(st.integers(-9, 9), max_size=6)
FUNCTIONS = {gv.name for gv in library().functions}

# Functions with other functions applied to them, so that data alone goes in and out.
PROGRAM = parse(
    VERSION
    + """
def @mapped(%xs: List[int32]) { @map(fn (%x: int32) { %x * 3 }, %xs) }
def @small(%xs: List[int32]) { @filter(fn (%x: int32) { %x < 3 }, %xs) }
def @left(%xs: List[int32]) { @foldl(fn (%a: int32, %x: int32) { %a * 2 - %x }, 1, %xs) }
def @right(%xs: List[int32]) { @foldr(fn (%x: int32, %a: int32) { %x - %a * 2 }, 1, %xs) }
def @right1(%xs: List[int32]) { @foldr1(fn (%x: int32, %a: int32) { %x - %a * 2 }, %xs) }
def @running(%xs: List[int32]) { @map_accuml(fn (%a: int32, %x: int32) { (%a + %x, %a * 10 + %x) }, 5, %xs) }
def @backwards(%xs: List[int32]) { @map_accumr(fn (%a: int32, %x: int32) { (%a + %x, %a * 10 + %x) }, 5, %xs) }
def @step(%n: int32) { if (%n > 0) { Some((%n - 1, %n * %n)) } else { None } }
def @squares_down(%n: int32) { @unfoldr(@step, %n) }
def @squares_up(%n: int32) { @unfoldl(@step, %n) }
def @tree(%t: Tree[int32]) { @tmap(fn (%x: int32) { %x + 1 }, %t) }
def @power(%n: int32) { @iterate(fn (%x: int32) { %x * 2 }, %n)(3) }
def @composed(%x: int32) { @compose(fn (%y: int32) { %y * 2 }, fn (%y: int32) { %y + 1 })(%x) }
def @flipped(%x: int32, %y: int32) { @flip(fn (%a: int32, %b: int32) { %a - %b })(%x, %y) }
def @same(%x: int32) { @id(%x) }
def @others(%xs: List[int32], %n: int32) {
  (@length(%xs), @sum(%xs), @rev(%xs), @concat(%xs, %xs), @zip(%xs, @mapped(%xs)), @update(%xs, %n, 7), @nth(%xs, %n),
   @hd(%xs), @tl(%xs))
}
def @count(%t: Tree[int32]) { @size(%t) }
""",
    ops=table(),
)
TYPED = infer(PROGRAM)


def constructor(name: str) -> Constructor:
    """The prelude's constructor `name`."""
    return next(c for data in library().types.values() for c in data.constructors if c.name == name)


def to_list(values: list[Any]) -> Data:
    """A `List` of values."""
    made = Data(constructor("Nil"), ())
    for value in reversed(values):
        made = Data(constructor("Cons"), (value if isinstance(value, Data) else np.array(value, np.int32), made))
    return made


def to_python(value: Any) -> Any:
    """Numbers, tuples, lists, and trees as [value, subtrees]."""
    if isinstance(value, tuple):
        return tuple(map(to_python, value))
    if not isinstance(value, Data):
        return value.item()
    found = []
    while value.constructor.name == "Cons":
        found.append(to_python(value.fields[0]))
        value = value.fields[1]
    return found if value.constructor.name == "Nil" else [to_python(f) for f in value.fields]


def call(name: str, *args: Any) -> Any:
    """The value of a function of PROGRAM or the prelude, as Python values."""
    given = [to_list(a) if isinstance(a, list) else a if isinstance(a, Data) else np.int32(a) for a in args]
    return to_python(evaluate(TYPED, given, name))


@examples(30, fuzz=False)
@given(NUMBERS)
def test_functions_of_lists(xs: list[int]) -> None:
    assert call("mapped", xs) == [3 * x for x in xs]
    assert call("small", xs) == [x for x in xs if x < 3]
    assert call("left", xs) == reduce(lambda a, x: a * 2 - x, xs, 1)
    assert call("right", xs) == reduce(lambda a, x: x - a * 2, reversed(xs), 1)
    before = list(accumulate(xs, initial=5))
    assert call("running", xs) == (before[-1], [10 * a + x for a, x in zip(before, xs, strict=False)])
    after = list(accumulate(reversed(xs), initial=5))
    assert call("backwards", xs) == (after[-1], [10 * a + x for a, x in zip(after, reversed(xs), strict=False)][::-1])


@examples(30, fuzz=False)
@given(NUMBERS.filter(len), st.integers(0, 5))
def test_functions_of_lists_that_are_not_empty(xs: list[int], n: int) -> None:
    n %= len(xs)
    assert call("right1", xs) == reduce(lambda a, x: x - a * 2, reversed(xs))
    pairs = [(x, 3 * x) for x in xs]
    updated = [*xs[:n], 7, *xs[n + 1 :]]
    assert call("others", xs, n) == (
        len(xs), sum(xs), xs[::-1], xs + xs, pairs, updated, xs[n], xs[0], xs[1:]
    )  # fmt: skip


@given(st.integers(-2, 6))
def test_functions_of_numbers_and_functions(n: int) -> None:
    assert call("squares_down", n) == [k * k for k in range(n, 0, -1)]
    assert call("squares_up", n) == [k * k for k in range(1, n + 1)]
    assert call("power", n) == 3 * 2 ** max(n, 0)
    assert call("composed", n) == (n + 1) * 2
    assert call("flipped", n, 3) == 3 - n
    assert call("same", n) == n


@given(st.recursive(st.tuples(st.integers(0, 9)), lambda t: st.tuples(st.integers(0, 9), t, t), max_leaves=6))
def test_functions_of_trees(tree: tuple[Any, ...]) -> None:
    def build(t: tuple[Any, ...]) -> Data:
        return Data(constructor("Rose"), (np.array(t[0], np.int32), to_list([build(s) for s in t[1:]])))

    def plus_one(t: tuple[Any, ...]) -> list[Any]:
        return [t[0] + 1, [plus_one(s) for s in t[1:]]]

    def size(t: tuple[Any, ...]) -> int:
        return 1 + sum(map(size, t[1:]))

    assert call("tree", build(tree)) == plus_one(tree)
    assert call("count", build(tree)) == size(tree)


@pytest.mark.parametrize("name", ["hd", "tl", "right1"])
def test_partial_functions_fail_on_empty_lists(name: str) -> None:
    with pytest.raises(RunError, match=r"no clause of match at .* fits the value Nil"):
        evaluate(TYPED, [to_list([])], name)


def test_long_lists() -> None:
    xs = list(range(3000))
    assert call("mapped", xs) == [3 * x for x in xs]
    assert call("left", [0] * 3000) == 0  # 2^3000, in 32 bits


# ------------------------------------------------------------------ the library


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_are_well_formed_and_survive_their_text(name: str) -> None:
    module = library(name)
    verify(module, Stage.TYPED)
    assert library(name) is module
    assert infer(module) is module
    assert alpha_equal(infer(parse_alone(str(module), ops=table())), module)


def test_names_are_the_originals() -> None:
    wanted = (
        "id compose flip hd tl nth update map foldl foldr foldr1 concat filter zip rev map_accuml map_accumr unfoldl"
    )
    assert {*wanted.split(), "unfoldl", "unfoldr", "sum", "length", "tmap", "size", "iterate"} == FUNCTIONS
    shown = {data.header.name: [c.name for c in data.constructors] for data in library().types.values()}
    assert shown == {"List": ["Cons", "Nil"], "Option": ["Some", "None"], "Tree": ["Rose"]}


@pytest.mark.parametrize(
    ("name", "ty"),
    [
        ("compose", "fn [A, B, C](fn (B) -> C, fn (A) -> B) -> fn (A) -> C"),
        ("foldl", "fn [A, B](fn (A, B) -> A, A, List[B]) -> A"),
        ("foldr", "fn [A, B](fn (A, B) -> B, B, List[A]) -> B"),
        ("map_accuml", "fn [A, B, C](fn (A, B) -> (A, C), A, List[B]) -> (A, List[C])"),
        ("unfoldr", "fn [A, B](fn (A) -> Option[(A, B)], A) -> List[B]"),
        ("iterate", "fn [A](fn (A) -> A, int32) -> fn (A) -> A"),
        ("sum", "fn (List[int32]) -> int32"),
    ],
)
def test_signatures(name: str, ty: str) -> None:
    assert str(library().var(name).ty or library()[name].ty) == ty  # type: ignore[union-attr]  # a function


def test_natural_numbers() -> None:
    text = """
def @main() {
  let %two = succ(succ(zero));
  let %xs = Cons(1, Cons(2, Cons(3, Nil)));
  (@nat_nth(%xs, %two), @nat_update(%xs, @nat_add(zero, %two), 9),
   @nat_iterate(fn (%x: int32) -> int32 { %x + 1 }, @nat_double(%two))(0))
}"""
    module = link(parse_alone(VERSION + text, ops=table(), module=library("nat")), library("nat"))
    assert to_python(evaluate(infer(module))) == (3, [1, 2, 9], 4)


def test_gradient_cells() -> None:
    text = """
def @cell(%a: GradCell[float32], %b: GradCell[float32]) {
  let %add = fn (%x: float32, %y: float32) { %x + %y };
  let %multiply = fn (%x: float32, %y: float32) { %x * %y };
  (@FromGradCell(@AddGradCell(%add, %a, %b)), @FromGradCell(@MultiplyGradCell(%multiply, %a, %b)))
}
def @main() {
  let %one = One(fn () { 1f });
  let %zero = Zero(fn () { 0f });
  (@cell(%one, Raw(3f)), @cell(%zero, Raw(3f)), @cell(Raw(2f), Raw(3f)))
}"""
    module = link(parse_alone(VERSION + text, ops=table(), module=library("gradient")), library("gradient"))
    assert to_python(evaluate(infer(module))) == ((4, 3), (3, 0), (5, 6))


# ------------------------------------------------------------------ what a text names


def names(module: Module) -> tuple[set[str], set[str]]:
    """The functions and types of a module."""
    return {gv.name for gv in module.functions}, {t.name for t in module.types}


def test_only_what_is_needed_comes_along() -> None:
    assert names(legato.parse(VERSION + "def @main(%xs: List[int32]) { %xs }")) == ({"main"}, {"List"})
    found = legato.parse(VERSION + "def @main(%xs: List[int32]) { @rev(%xs) }")
    assert names(found) == ({"main", "rev", "foldl", "flip"}, {"List"})
    found = legato.parse(VERSION + "def @main(%t: Tree[int32]) { @size(%t) }")
    assert names(found) == ({"main", "size", "sum", "foldl", "map"}, {"List", "Tree"})


def test_a_text_without_its_names_does_not_read_the_prelude() -> None:
    assert not mentioned("def @main(%map: int32, %Cons: int32) { %map } // @mapped, ConsX, nn.List")
    for word in ["@map", "Cons(1, x)", "[List[int32]]", "Nil}", " None", "Rose", *(f"@{name}" for name in FUNCTIONS)]:
        assert mentioned(f"x {word}")


def test_own_definitions_come_first() -> None:
    text = "type List[A] { Cons(A), Nil } def @id(%x: int32) { Cons(%x) } def @main() { @id(3) }"
    module = legato.parse(VERSION + text)
    assert names(module) == ({"id", "main"}, {"List"})
    assert to_python(evaluate(module).fields) == (3,)


def test_an_own_type_in_the_way() -> None:
    text = "type List[A] { Empty, Of(A) } def @main(%x: int32) { @length }"
    wanted = "the library's type List is needed, but the module has one of its own"
    with pytest.raises(CompileError, match=re.escape(wanted)) as caught:
        legato.parse(VERSION + text)
    assert caught.value.hint == "rename it, or define what uses the library's"


def test_unknown_names_stay_errors() -> None:
    with pytest.raises(ParseError, match="unknown function `@mapp`"):
        legato.parse(VERSION + "def @main() { @mapp(@id) }")
    with pytest.raises(CompileError, match=re.escape("there is no library 'std'")) as caught:
        library("std")
    assert caught.value.hint == "there are prelude, nat, gradient, core, sequence"


def test_linking_leaves_complete_modules_alone() -> None:
    module = Module({GlobalVar("main"): library().functions[library().var("id")]})
    assert link(module, library()) is module
    assert link(library(), library()) is library()
