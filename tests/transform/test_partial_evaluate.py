"""Partial evaluation: what is left of programs, that they mean the same, that it ends, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import legato
from legato.base.errors import RunError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Constructor, Expr, Function, If, Let, Match, RefCreate, RefRead, RefWrite, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.verify import Stage, verify
from legato.ops import table
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.partial_evaluate import PartialEvaluate
from legato.transform.to_a_normal import ToANormal
from tests.graphs import leaves
from tests.programs import strategy as language
from tests.programs.settings import examples
from tests.programs.values import same
from tests.transform.test_golden import FOLDER, argument, load, read

TANH, EXP = table()["tanh"], table()["exp"]
STRAIGHT = ("fold", "language", "power", "recurrent", "reverse_mode")


def parse(text: str) -> Module:
    return legato.parse(f'#[version = "0.0.5"]\n{text}')


def nodes(mod: Module, name: str = "main") -> list[Expr]:
    func = mod[name]
    assert isinstance(func, Function)
    return list(post_order(func.body))


def size(mod: Module) -> int:
    return sum(1 for _, func in mod.graph_functions() for _ in post_order(func))


def meaning(mod: Module, args: list[Any]) -> tuple[Any, ...]:
    """What @main gives; nothing if it fails."""
    try:
        return (evaluate(mod, args),)
    except RunError:
        return ()


# ------------------------------------------------------------------ what is left


@pytest.mark.parametrize("name", STRAIGHT)
def test_straight_line_code(name: str) -> None:
    """Nothing is left but operators, in the golden texts of these names."""
    new = PartialEvaluate()(load(read(FOLDER / "partial-evaluate" / f"{name}.txt")[0], "partial-evaluate"))
    assert [gv.name for gv in new.functions] == ["main"]
    for node in nodes(new):
        assert not isinstance(node, If | Match | RefCreate | RefRead | RefWrite | Function)
        assert not isinstance(node, Call) or isinstance(node.op, Op)


def test_a_program_in_a_language_with_choices() -> None:
    """The first Futamura projection of a program whose choices depend on its input: branches are left, in them
    operators."""
    mod = parse("""
type Term { Lit(int32), Arg, Sum(Term, Term), Less(Term, Term, Term, Term) }
def @run(%t: Term, %x: int32) -> int32 {
  match (%t) {
    Lit(%c) => %c,
    Arg => %x,
    Sum(%a, %b) => @run(%a, %x) + @run(%b, %x),
    Less(%a, %b, %c, %d) => if (@run(%a, %x) < @run(%b, %x)) { @run(%c, %x) } else { @run(%d, %x) }
  }
}
def @main(%x: int32) {
  let %double = Sum(Arg, Arg);
  @run(Less(Arg, Lit(3), Less(%double, Lit(0), Lit(7), %double), Sum(%double, Less(Lit(1), Lit(2), Arg, Lit(9)))), %x)
}""")
    new = PartialEvaluate()(mod)
    found = nodes(new)
    assert sum(isinstance(n, If) for n in found) == 2
    assert not any(isinstance(n, Match) for n in found)
    assert all(isinstance(n.op, Op) for n in found if isinstance(n, Call))
    for x in (-2, 1, 5):
        assert same(evaluate(new, [np.int32(x)]), evaluate(mod, [np.int32(x)]))


def test_equal_calls_share_a_specialisation() -> None:
    mod = parse("""
def @main(%xs: List[float32], %ys: List[float32], %k: float32) {
  let %times = fn (%c: float32) { fn (%x: float32) { %x * %c } };
  (@map(%times(%k), %xs), @map(%times(%k), %ys), @map(%times(2f), %ys), @map(%times(2f), %xs))
}""")
    assert sorted(gv.name for gv in PartialEvaluate()(mod).functions) == ["main", "map_1", "map_2"]


def test_a_local_loop_is_specialised() -> None:
    """It is a function of the module then, and takes neither what is known nor what it held."""
    mod = parse("""
def @main(%n: int32, %x: float32) {
  let %go = fn (%f: fn (float32) -> float32, %i: int32, %y: float32) -> float32 {
    if (%i <= 0) { %y } else { %go(%f, %i - 1, %f(%y) + %x) }
  };
  %go(tanh, %n, 1f) + %go(exp, %n, 1f)
}""")
    new = PartialEvaluate()(mod)
    loops = [func for gv, func in new.graph_functions() if gv.name != "main"]
    assert len(loops) == 2
    for func in loops:
        assert [str(p.ty) for p in func.params] == ["float32", "int32", "float32"]
        assert not any(isinstance(n, Function) for n in post_order(func.body))
        assert sum(isinstance(n, Call) and n.op in (TANH, EXP) for n in post_order(func.body)) == 1
    unknown = parse("""
def @main(%n: int32) {
  let %go = fn (%i: int32) -> int32 { if (%i <= 0) { 0 } else { %i + %go(%i - 1) } };
  %go(%n)
}""")
    assert [gv.name for gv in PartialEvaluate()(unknown).functions] == ["main"]  # there is nothing to specialise for


def test_what_nothing_needs_goes() -> None:
    """Dead operators stay, for another pass; functions, data and cells that nothing names do not."""
    mod = parse("""
def @main(%x: float32) {
  let %r = ref(%x);
  let %f = fn () { ref_write(%r, exp(%x)); Some(%r) };
  match (%f()) { Some(%s) => { ref_write(%s, ref_read(%r) + 1f); ref_read(%r) }, None => 0f }
}""")
    new = PartialEvaluate()(mod)
    calls = [n.op.name for n in nodes(new) if isinstance(n, Call) and isinstance(n.op, Op | Constructor)]
    assert sorted(calls) == ["add", "exp"]
    assert not any(isinstance(n, RefCreate | RefWrite | RefRead) for n in nodes(new))


# ------------------------------------------------------------------ what stays as it was

_N = [np.int32(3)], [np.int32(0)]
_NB = [np.int32(3), np.bool_(True)], [np.int32(2), np.bool_(False)]
_X = [np.ones((3, 4), np.float32)], [np.ones((6, 4), np.float32)]
PROGRAMS: dict[str, tuple[str, tuple[list[Any], ...]]] = {
    "a cell that holds what reads it": ("""def @main(%n: int32) {
  let %self = ref(fn (%i: int32) -> int32 { 0 });
  ref_write(%self, fn (%i: int32) -> int32 { if (%i == 0) { 0 } else { %i + ref_read(%self)(%i - 1) } });
  ref_read(%self)(%n) + ref_read(%self)(4)
}""", _N),
    "a cell that code has which is not known": ("""
def @call(%f: fn () -> int32, %n: int32) -> int32 { if (%n == 0) { %f() } else { @call(%f, %n - 1) } }
def @main(%n: int32) {
  let %r = ref(1); let %s = ref(5);
  let %f = fn () { ref_write(%r, ref_read(%r) + %n); ref_read(%r) };
  let %a = @call(%f, %n); ref_write(%s, ref_read(%s) + %a); (%a, ref_read(%r), ref_read(%s))
}""", _N),
    "a function that one branch leaves in a cell": ("""def @main(%n: int32, %c: bool) {
  let %r = ref(1); let %g = ref(fn (%x: int32) { %x });
  let %u = if (%c) { ref_write(%g, fn (%x: int32) { ref_write(%r, %x); %x + 1 }) } else { ref_write(%r, 7) };
  let %v = ref_read(%g)(%n); (%v, ref_read(%r))
}""", _NB),
    "a function that a branch gives": ("""def @main(%n: int32, %c: bool) {
  let %r = ref(0);
  let %f = if (%c) { fn (%x: int32) { ref_write(%r, %x); %x } } else { fn (%x: int32) { %x } };
  ref_write(%r, 5); let %a = %f(%n); (ref_read(%r), %a)
}""", _NB),
    "cells in cells": ("""def @main(%n: int32, %c: bool) {
  let %r = ref(%n); let %s = ref(%r); let %t = ref(3);
  let %u = if (%c) { ref_write(%s, %t) } else { () };
  ref_write(ref_read(%s), 9); (ref_read(%r), ref_read(%t))
}""", _NB),
    "cells of one function": ("""
def @inc(%r: ref(int32), %n: int32) -> int32 {
  if (%n == 0) { ref_read(%r) } else { ref_write(%r, ref_read(%r) + 1); @inc(%r, %n - 1) }
}
def @make(%n: int32) { let %r = ref(%n); (%r, fn (%x: int32) { ref_write(%r, %x + ref_read(%r)) }) }
def @main(%n: int32) {
  let %a = @make(%n); let %b = @make(5); %a.1(3); %b.1(4);
  (@inc(%a.0, %n), @inc(%b.0, 2), ref_read(%a.0), %b.0)
}""", _N),
    "nodes that are shared": ("""def @main(%n: int32, %c: bool) {
  let %r = ref(0); %0 = { ref_write(%r, ref_read(%r) + 1); ref_read(%r) };
  let %a = if (%c) { %0 } else { 0 }; let %f = fn () { %0 };
  (%a, ref_read(%r), %0, %0, %f(), %f())
}""", _NB),
    "failures": ("""def @main(%n: int32, %c: bool) {
  let %r = ref(1); let %xs = if (%n > 2) { Nil } else { Cons(%n, Nil) };
  let %y = if (%c) { @hd(%xs) } else { 4 }; ref_write(%r, %y);
  if (%n < 0) { @hd[int32](Nil) + ref_read(%r) } else { ref_read(%r) }
}""", _NB),
    "failures for certain": ("def @main(%n: int32) { if (%n > 0) { @hd(Nil) } else { 3 } }", _N),
    "casts that fail": ("""
def @f(%x: Tensor[(n,), float32]) { sum(match_cast(%x, Tensor[(3,), float32])) }
def @main(%n: int32) { if (%n > 0) { @f(ones(shape=[2])) } else { @f(ones(shape=[3])) } }""", _N),
    "polymorphic values": ("""def @main(%n: int32) {
  let %same: fn [A](A) -> A = fn (%a) { %a };
  (%same(True), %same(%n), @map(%same, Cons(%n, Nil)), @compose(%same, negative)(2), @foldl(add, %n, Cons(1, Nil)))
}""", _N),
    "continuations": ("""
def @f(%n: int32, %k: fn (int32) -> int32) -> int32 {
  if (%n == 0) { %k(1) } else { @f(%n - 1, fn (%r: int32) { %k(%n * %r) }) }
}
def @main(%n: int32) { @f(%n, fn (%x: int32) { %x }) + @f(4, fn (%x: int32) { %x }) }""", _N),
    "tuples that are not known": ("""def @main(%n: int32, %c: bool) {
  let %t = if (%c) { (Some(%n), (%n, 1)) } else { (None, (2, %n)) };
  let %k = match (%t) { (_, (%a, %b)) => %a - %b };
  match (%t) { (Some(%x), (%y, _)) => %x + %y + %k, (None, %z) => %z.1 }
}""", _NB),
    "dims": ("""
def @twice(%x: Tensor[(n, 4), float32]) { concatenate((%x, %x)) }
def @rows(%x: Tensor[(?, 4), float32]) {
  let %y = match_cast(%x, Tensor[(3 * k, 4), float32]); (reshape(%y, newshape=[3, -1, 4]), shape[k, k + 1])
}
def @main(%x: Tensor[(m, 4), float32]) {
  (@twice(%x), @rows(@twice(%x)), @rows(ones(shape=[6, 4])), @twice(@twice(%x)))
}""", _X),
    "dims that branches bring": ("""def @main(%x: Tensor[(n, 4), float32]) {
  let %c = sum(%x) > 20f; let %z = ones(shape=[2, 4]);
  let %f = fn (%k: bool) { if (%k) { concatenate((%x, %x)) } else { %x } };
  let %g = fn (%a: bool, %b: bool) {
    let %y = if (%a) { if (%b) { %z } else { ones(shape=[2, 4]) } } else { concatenate((%z, %x)) }; (%y, shape_of(%y))
  };
  (%f(True), %f(%c), %g(True, %c), %g(%c, True), %g(%c, %c))
}""", _X),
    "dims that grow": ("""
def @grow(%x: Tensor[(?, 4), float32], %n: int32) -> Tensor[(?, 4), float32] {
  if (%n == 0) { %x } else { @grow(concatenate((%x, %x)), %n - 1) }
}
def @main(%x: Tensor[(m, 4), float32]) {
  (@grow(ones(shape=[1, 4]), 3), @grow(%x, cast(sum(%x), dtype="int32") - 11), sum(@grow(%x, 2)))
}""", ([np.ones((3, 4), np.float32)],)),
    "specialisations with cells": ("""
def @each(%f: fn (int32) -> (), %xs: List[int32]) -> () {
  match (%xs) { Cons(%x, %rest) => { %f(%x); @each(%f, %rest) }, Nil => () }
}
def @upto(%n: int32) -> List[int32] { if (%n <= 0) { Nil } else { Cons(%n, @upto(%n - 1)) } }
def @main(%n: int32) {
  let %r = ref(0); let %s = ref(1);
  @each(fn (%x: int32) { ref_write(%r, ref_read(%r) + %x) }, @upto(%n)); ref_write(%s, ref_read(%r));
  @each(fn (%x: int32) { ref_write(%s, ref_read(%s) * %x); ref_write(%r, %x) }, Cons(2, Cons(3, Nil)));
  (ref_read(%r), ref_read(%s))
}""", _N),
    "specialisations for functions that call themselves": ("""
def @each(%f: fn (int32) -> int32, %k: int32) -> int32 { if (%k <= 0) { 0 } else { %f(%k) + @each(%f, %k - 1) } }
def @main(%n: int32) {
  let %fact = fn (%k: int32) -> int32 { if (%k <= 0) { 1 } else { %k * %fact(%k - 1) + %n } };
  (@each(%fact, %n), @each(%fact, 3))
}""", _N),
    "a function that calls itself by way of a specialisation": ("""
type T { T(int32, List[T]) }
def @tree(%n: int32) -> T {
  if (%n <= 0) { T(1, Nil) } else { T(%n, Cons(@tree(%n - 1), Cons(@tree(%n - 2), Nil))) }
}
def @main(%n: int32) {
  let %weigh = fn (%t: T) -> int32 { match (%t) { T(%x, %below) => %x * %n + @sum(@map(%weigh, %below)) } };
  %weigh(@tree(%n))
}""", _N),
    "specialisations for dims": ("""
def @go(%f: fn (Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32], %x: Tensor[(n, 4), float32], %k: int32)
    -> Tensor[(n, 4), float32] {
  if (%k <= 0) { %x } else { @go(%f, %f(%x), %k - 1) }
}
def @main(%x: Tensor[(m, 4), float32]) {
  let %c = sum(%x); let %k = cast(%c, dtype="int32") - 10; let %y = ones(shape=[3, 4]);
  (@go(fn (%t: Tensor[(m, 4), float32]) { %t + %x * %c }, %x, %k),
   @go(fn (%t: Tensor[(3, 4), float32]) { tanh(%t) + %y }, %y, %k),
   @go(tanh, %y, %k), @go(tanh, concatenate((%x, %x)), %k))
}""", _X),
    "specialisations for types": ("""
def @iter[A](%f: fn (A) -> A, %x: A, %k: int32) -> A { if (%k <= 0) { %x } else { @iter(%f, %f(%x), %k - 1) } }
def @both[B](%x: B, %k: int32, %g: fn (B) -> B) -> (B, int32) {
  (@iter(fn (%y: B) { %g(%y) }, %x, %k), @iter(fn (%z: int32) { %z + %k }, 1, %k))
}
def @main(%k: int32) {
  (@both(True, %k, logical_not), @both((%k, 1f), %k, fn (%t: (int32, float32)) { (%t.0 + 1, %t.1) }))
}""", _N),
    "local loops": ("""def @main(%n: int32, %c: bool) {
  let %k = %n + 1;
  let %go = fn (%f: fn (int32) -> int32, %i: int32, %by: int32, %x: int32) -> int32 {
    if (%i <= 0) { %x + %k } else { %go(%f, %i - %by, %by, %f(%x)) }
  };
  (%go(fn (%x: int32) { %x * %k }, %n, 1, 2), %go(fn (%x: int32) { %x + 3 }, %n, 1, 2),
   if (%c) { %go(negative, 4, 1, %n) }
   else { %go(negative, %n, 2, %n) })
}""", _NB),
    "local loops in local loops": ("""def @main(%n: int32) {
  let %outer = fn (%f: fn (int32, int32) -> int32, %i: int32) -> int32 {
    let %inner = fn (%g: fn (int32) -> int32, %j: int32, %x: int32) -> int32 {
      if (%j <= 0) { %x } else { %inner(%g, %j - 1, %g(%x) + %i) }
    };
    if (%i <= 0) { 0 } else { %inner(fn (%x: int32) { %f(%x, %i) }, %i, 1) + %outer(%f, %i - 1) }
  };
  %outer(fn (%a: int32, %b: int32) { %a * %b + %n }, %n)
}""", _N),
    "a local loop that is a value, too": ("""def @main(%n: int32) {
  let %go = fn (%mul: bool, %i: int32) -> int32 {
    if (%i <= 0) { 1 } else { let %x = %go(%mul, %i - 1); if (%mul) { %x * %i } else { %x + %n } }
  };
  let %pair = (%go, %n);
  (%go(True, %n), @map(fn (%i: int32) { %go(False, %i) }, Cons(%n, Nil)), %pair.0(False, 2))
}""", _N),
    "local loops with cells": ("""def @main(%n: int32) {
  let %r = ref(%n); let %s = ref(0);
  let %go = fn (%f: fn (int32) -> (), %i: int32) -> () {
    if (%i > 0) { %f(%i); ref_write(%s, ref_read(%s) + ref_read(%r)); %go(%f, %i - 1) } else { () }
  };
  %go(fn (%x: int32) { ref_write(%r, ref_read(%r) * 2 + %x) }, %n); %go(fn (%x: int32) { () }, %n);
  (ref_read(%r), ref_read(%s))
}""", _N),
    "local loops over dims": ("""def @main(%x: Tensor[(m, 4), float32]) {
  let %k = cast(sum(%x), dtype="int32") - 10;
  let %go = fn (%f: fn (Tensor[(m, 4), float32]) -> Tensor[(m, 4), float32], %i: int32, %y: Tensor[(m, 4), float32])
      -> (Tensor[(m, 4), float32], int32) {
    if (%i <= 0) { (%y, %i) } else { %go(%f, %i - 1, %f(%y) + ones(shape=[m, 4])) }
  };
  (%go(tanh, %k, %x), %go(fn (%t: Tensor[(m, 4), float32]) { %t * %x }, %k, %x))
}""", _X),
    "polymorphic local loops": ("""def @main(%n: int32) {
  let %go: fn [A](fn (A) -> A, int32, A) -> A = fn [A](%f: fn (A) -> A, %i: int32, %x: A) -> A {
    if (%i <= 0) { %x } else { %go(%f, %i - 1, %f(%x)) }
  };
  (%go(negative, %n, %n), %go(logical_not, %n, True), %go(fn (%t: (int32, bool)) { (%t.0 + %n, %t.1) }, %n, (1, False)))
}""", _N),
    "equalities that wait for a dim": ("""
def @get(%n: int64) { arange(0i64, %n, 1i64) }
def @main(%n: int32, %c: bool) {
  let %a = @get(cast(%n, dtype="int64")); let %b = @get(3i64); if (%c) { sum(%a + %b) } else { sum(%a) }
}""", (*_NB, [np.int32(5), np.bool_(True)])),
    "shapes that become known": ("""
def @sizes(%n: int64, %m: int64) { concatenate((reshape(%n, newshape=[1]), reshape(%m, newshape=[1]))) }
def @as(%x: Tensor[(n, 4), float32], %s: Tensor[(2,), int64]) { dyn.reshape(%x, %s) }
def @main(%x: Tensor[(3, 4), float32]) {
  let %y = @as(%x, @sizes(2i64, 6i64)); let %n = cast(sum(%x), dtype="int64") - 8i64;
  (%y, shape_of(%y), @as(%x, @sizes(%n, 3i64)), zeros_like(%y), sum(%y, axis=[0]))
}""", ([np.ones((3, 4), np.float32)],)),
    "equalities of dims": ("""
def @add(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) { %x + %y }
def @some(%n: int32) { cast(arange(0, %n, 1), dtype="float32") }
def @main(%n: int32, %c: bool) {
  let %a = @some(%n); let %b = @some(3); (if (%c) { sum(@add(%a, %b)) } else { 1f }, sum(@add(%a, %a)))
}""", (*_NB, [np.int32(5), np.bool_(True)])),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_meaning_stays(name: str) -> None:
    text, arguments = PROGRAMS[name]
    mod = parse(text)
    new = PartialEvaluate()(mod)
    verify(new, Stage.A_NORMAL)
    verify(infer(new), Stage.TYPED)
    for args in arguments:
        assert same(meaning(new, args), meaning(mod, args))
        assert same(meaning(EliminateDead()(new), args), meaning(mod, args))
    assert PartialEvaluate()(new) is new


@examples(60)
@given(language.programs(size=60, partial=True))
def test_random_programs_that_may_fail(program: language.Program) -> None:
    new = PartialEvaluate(fuel=1_000)(program.module)
    verify(new, Stage.A_NORMAL)
    assert same(meaning(new, list(program.args)), meaning(program.module, list(program.args)))


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    mod = parse("""
def @f(%n: int32) { print((%n,), format="{}"); %n }
def @main(%n: int32) { let %a = @f(1); let %b = if (%n > 2) { @f(%n) } else { 0 }; let %c = @f(2); %a + %b + %c }""")
    assert evaluate(PartialEvaluate()(mod), [np.int32(3)]) == 6
    assert capsys.readouterr().out.split() == ["1", "3", "2"]


@pytest.mark.parametrize("name", ["language", "reverse_mode", "shared"])
def test_what_is_left_is_compiled(name: str) -> None:
    mod = load(read(FOLDER / "partial-evaluate" / f"{name}.txt")[0], "partial-evaluate")
    main = mod["main"]
    assert isinstance(main, Function)
    exe = legato.compile(mod, passes=["partial-evaluate", "default"])
    args = [argument(p.ty, np.random.default_rng(3)) for p in main.params]
    for got, wanted in zip(leaves(exe(*args)), leaves(evaluate(mod, args)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


# ------------------------------------------------------------------ fuel

ENDLESS = {
    "a number that grows": """
def @f(%n: int32) -> int32 { @f(%n + 1) }
def @main(%n: int32) { if (%n < 0) { @f(%n) + @f(3) } else { 4 } }""",
    "data that grow": """
def @f(%n: int32, %x: List[int32]) -> int32 { @f(%n + 1, Cons(%n, %x)) }
def @main(%n: int32) { if (%n < 0) { @f(%n, Nil) } else { 4 } }""",
    "a function that grows": """
def @f(%g: fn (int32) -> int32, %n: int32) -> int32 { @f(fn (%x: int32) { %g(%x) + %n }, %n - 1) }
def @main(%n: int32) { if (%n < 0) { @f(fn (%x: int32) { %x }, %n) } else { 4 } }""",
    "a value that applies itself": """
type D { D(fn (D) -> int32) }
def @main(%n: int32) {
  let %w = fn (%d: D) -> int32 { match (%d) { D(%g) => %g(%d) } };
  if (%n < 0) { %w(D(%w)) } else { 4 }
}""",
    "a stream": """
type S { S(int32, fn () -> S) }
def @from(%n: int32) -> S { S(%n, fn () { @from(%n + 1) }) }
def @take(%s: S, %n: int32) -> int32 {
  match (%s) { S(%x, %rest) => if (%n == 0) { %x } else { @take(%rest(), %n - 1) } }
}
def @main(%n: int32) { @take(@from(0), %n) }""",
    "a cell that holds what calls itself": """
def @main(%n: int32) {
  let %r = ref(fn (%x: int32) -> int32 { %x });
  ref_write(%r, fn (%x: int32) -> int32 { ref_read(%r)(%x + 1) });
  if (%n < 0) { ref_read(%r)(1) } else { 4 }
}""",
    "calls of calls": "".join(f"def @f{k}(%x: int32) {{ @f{k + 1}(%x) + @f{k + 1}(%x + 1) }}\n" for k in range(30))
    + "def @f30(%x: int32) { %x } def @main(%n: int32) { if (%n < 0) { @f0(%n) } else { 4 } }",
    "a loop": """
def @sum(%n: int32, %so_far: float32) -> float32 { if (%n == 0) { %so_far } else { @sum(%n - 1, tanh(%so_far)) } }
def @main(%n: int32) { (@sum(1_000, cast(%n, dtype="float32")), @sum(3, 1f), @sum(%n, 1f)) }""".replace("_", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("fuel", [0, 300, 2_000])
def test_it_ends_and_grows_by_no_more_than_its_fuel(name: str, fuel: int) -> None:
    mod = parse(ENDLESS[name])
    new = PartialEvaluate(fuel=fuel)(mod)
    assert size(new) <= size(ToANormal()(mod)) + fuel
    assert same(evaluate(new, [np.int32(2)]), evaluate(mod, [np.int32(2)]))


def test_a_loop_that_is_too_long_is_not_unrolled_in_part() -> None:
    new = PartialEvaluate(fuel=2_000)(parse(ENDLESS["a loop"]))
    calls = [n for n in nodes(new) if isinstance(n, Call) and not isinstance(n.op, Op)]
    assert len(calls) == 2, "@sum(3, 1f) is a constant"


# ------------------------------------------------------------------ depth

DEPTH = 2_000


def lets() -> Module:
    b = Builder()
    x = b.var("x", (2,))
    names = [x, *(Var(f"v{n}", ty=x.ty) for n in range(DEPTH))]
    body: Expr = names[-1]
    for before, var in zip(names[-2::-1], names[:0:-1], strict=True):
        body = Let(var, b.tanh(before), body, ty=x.ty)
    return Module.from_expr(b.function([x], body))


def branches() -> Module:
    b = Builder()
    x, c = b.var("x", (2,)), b.var("c", (), "bool")
    value: Expr = x
    for _ in range(DEPTH):
        value = b.if_(c, b.tanh(value), x)
    return Module.from_expr(b.function([x, c], value))


def known_list() -> Module:
    mod = parse("def @main(%xs: List[float32], %x: float32) { @foldr(add, %x, %xs) }")
    main = mod["main"]
    assert isinstance(main, Function)
    xs, x = main.params
    cons, nil = (next(c for d in mod.types.values() for c in d.constructors if c.name == n) for n in ("Cons", "Nil"))
    value = Call(nil, (), None, (x.ty,), ty=xs.ty)
    for _ in range(DEPTH):
        value = Call(cons, (x, value), None, (x.ty,), ty=xs.ty)
    body = Let(xs, value, main.body, ty=main.body.ty)
    return infer(mod.with_function(mod.var("main"), Function((x,), body)))


@pytest.mark.parametrize(("make", "calls"), [(lets, DEPTH), (branches, DEPTH), (known_list, DEPTH)])
def test_depth_is_no_limit(make: Callable[[], Module], calls: int) -> None:
    new = PartialEvaluate(fuel=30 * DEPTH)(make())
    assert sum(isinstance(n, Call) for n in nodes(new)) == calls
    assert PartialEvaluate()(new) is new
