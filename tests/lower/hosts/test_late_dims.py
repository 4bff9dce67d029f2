"""Extents that only a running program knows: of parts of values, of results, in loops. Compiled is interpreted, and no
object is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.runtime.executable import Executable
from tests.lower.hosts.programs import agree, leaked
from tests.lower.hosts.test_signature import constructor
from tests.lower.test_programs import compiled, flag, floats, int32
from tests.lower.test_whole_programs import agrees

BOXES = """
    type Box { Box(Tensor[(k, 4), float32]), Pair(Tensor[(a,), float32], int32, Tensor[(b,), float32]), None }
    type List[A] { Cons(A, List[A]), Nil }
    def @total(%b: Box) -> float32 {
      match (%b) { Box(%x) => sum(%x), Pair(%x, %n, %y) => sum(%x) * cast(%n, dtype="float32") + sum(%y), None => 0f }
    }
    def @totals(%l: List[Box]) -> float32 {
      match (%l) { Nil => 0f, Cons(%b, %t) => @total(%b) + @totals(%t) }
    }
    def @doubled(%b: Box) -> Box {
      match (%b) { Box(%x) => Box(concatenate((%x, exp(%x)))), Pair(%x, %n, %y) => Pair(%y, %n + 1, %x), _ => %b }
    }
    def @map(%l: List[Box]) -> List[Box] {
      match (%l) { Nil => Nil, Cons(%b, %t) => Cons(@doubled(%b), @map(%t)) }
    }
    def @rows(%b: Box) -> Tensor[(?, 4), float32] { match? (%b) { Box(%x) => %x } }
    """


@pytest.mark.parametrize("main", [
    "@total(Box(%x))",
    "@total(@doubled(@doubled(Box(%x))))",
    "@total(@doubled(Pair(%v, 3, concatenate((%v, %v)))))",
    "let %l = Cons(Box(%x), Cons(Pair(%v, 2, %v), Cons(None, Nil))); (@totals(%l), @totals(@map(%l)))",
    "match (@doubled(Box(%x))) { Box(%y) => sum(%y) + sum(exp(%y) * %y), _ => 0f }",
    "let %b = if (sum(%x) > 0f) { Box(%x) } else { Box(concatenate((%x, %x))) }; (@total(%b), @total(@doubled(%b)))",
    "let %y = @rows(@doubled(Box(%x))); let %z = @rows(Box(%y)); (sum(%z), sum(%y * %z), %x)",
    "let %r = ref(@doubled(Box(%x))); ref_write(%r, @doubled(ref_read(%r))); @total(ref_read(%r))",
])  # fmt: skip
@pytest.mark.shared(2)
def test_values_with_extents_of_their_own(main: str) -> None:
    text = f"{BOXES} def @main(%x: Tensor[(n, 4), float32], %v: Tensor[(m,), float32]) {{ {main} }}"
    agree(text, *([floats(n, 4), floats(m)] for n, m in ((1, 2), (3, 5), (0, 1))))


BRANCHES = """
    def @some(%x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { concatenate((%x, %x)) }
    def @either(%c: bool, %x: Tensor[(?, 4), float32]) { if (%c) { %x } else { concatenate((%x, %x)) } }
    def @both(%c: bool, %x: Tensor[(?, 4), float32]) {
      if (%c) { (%x, 1, exp(%x)) } else { (concatenate((%x, %x)), 2, strided_slice(%x, begin=[0], end=[1])) }
    }
    def @grow(%n: int32, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
      if (%n == 0) { %x } else { @grow(%n - 1, concatenate((%x, %x))) }
    }
    def @tower(%n: int32, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
      if (%n == 0) { %x } else { concatenate((@tower(%n - 1, exp(negative(%x))), %x)) }
    }
    def @swap(%n: int32, %x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) -> (int32, float32, float32) {
      if (%n == 0) { (0, sum(%x), sum(%y)) } else { @swap(%n - 1, concatenate((%x, %y)), %x) }
    }
    """


@pytest.mark.parametrize("main", [
    "sum(@some(%x))",
    "sum(@either(%c, %x), axis=[0])",
    "let %y = @either(%c, %x); (sum(%y), max(exp(%y) * %y), sum(nn.softmax(%y, axis=-1)))",
    "let %y = @either(%c, %x); let %z = @either(%c, %y); let %w = if (%c) { %z } else { %x }; (sum(%w), sum(%z))",
    "let %t = @both(%c, %x); (sum(%t.0), %t.1, sum(%t.2), sum(concatenate((%t.0, %t.2))))",
    "sum(@grow(%n, %x))",
    "sum(@tower(%n, %x), axis=[0])",
    "@swap(%n, %x, %x)",
    "let %y = match_cast(@either(%c, %x), Tensor[(k, 4), float32]); (sum(zeros(shape=[k, 3]) + 1f), sum(%y))",
    "let %y = match_cast(@some(%x), Tensor[(2 * k, 4), float32]); sum(reshape(%y, newshape=[2, k, 4]), axis=[0, 1])",
    "let %y = @either(%c, %x); nn.dense(transpose(%y, axes=[1, 0]), transpose(%y, axes=[1, 0]))",
    "let %y = @either(%c, %x); let %i = argmax(%y, axis=[0]); (%i, sum(take(%y, cast(%i, dtype=\"int64\"), axis=0)))",
])  # fmt: skip
@pytest.mark.shared(2)
def test_results_whose_extents_depend_on_data(main: str) -> None:
    text = f"{BRANCHES} def @main(%c: bool, %n: int32, %x: Tensor[(n, 4), float32]) {{ {main} }}"
    agree(text, *([flag(c), int32(n), floats(rows, 4)] for c in (True, False) for n, rows in ((0, 1), (3, 2))))


def means(text: str, *calls: list[Any]) -> Executable:
    """Compares every call with the interpreter; the executable."""
    module = legato.parse(f'#[version = "0.0.5"]\n{text}')
    exe = legato.compile(module)
    for args in calls:
        assert agrees(exe(*args), evaluate(module, args))
    assert leaked(exe) == 0
    return exe


@pytest.mark.parametrize("main", [
    "@some(%x)",
    "@either(%c, %x)",
    "let %y = @either(%c, %x); (%y, %n, (%x, @either(%c, %y)), %y)",
    "@both(%c, %x)",
    "@grow(%n, %x)",
    "@tower(%n, %x)",
    "let %y = match_cast(@either(%c, %x), Tensor[(k, 4), float32]); (shape[k, k * 2], zeros(shape=[k, 3]), shape[n])",
    "if (%c) { @tower(%n, %x) } else { %x }",
])  # fmt: skip
def test_results_of_main(main: str) -> None:
    text = f"{BRANCHES} def @main(%c: bool, %n: int32, %x: Tensor[(n, 4), float32]) {{ {main} }}"
    means(text, *([flag(c), int32(n), floats(rows, 4)] for c in (True, False) for n, rows in ((0, 1), (3, 2), (2, 0))))


def test_main_itself_may_grow_its_result() -> None:
    means("""
    def @main(%n: int32, %x: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
      if (%n == 0) { %x } else { @main(%n - 1, concatenate((%x, %x))) }
    }""", *([int32(n), floats(3, 2)] for n in (0, 1, 5)))  # fmt: skip


@pytest.mark.parametrize("main", [
    "let %y = @either(%c, %x); let %s = sort(%y, axis=0); let %t = if (%c) { %s } else { %y };"
    " (%s, argsort(%t, axis=0), sort(concatenate((%t, %s)), axis=0))",
    "let %y = @either(%c, %x); let %t = match (Some(%n)) { Some(%k) => if (%k == 0) { %y } else { exp(%y) }, _ => %y };"
    " (argsort(%t, axis=0), exp(%t), %t, %y)",
    "let %y = @either(%c, %x); let %t = if (%c) { (exp(%y), %y) } else { (%y, exp(%y)) };"
    " let %u = (argsort(%y, axis=0), exp(%t.1)); (%u, Some(%t.0), %t)",
    "let %t = if (%c) { exp(%x) } else { %x }; let %u = exp(%t); (Some(%t), argsort(%t, axis=0), Some(%u), %u)",
    "let %r = ref(Some(@either(%c, %x))); match? (ref_read(%r)) { Some(%y) => ref_write(%r, None);"
    " let %z = if (%c) { %y } else { exp(%y) }; (%z, %y, sum(%y)) }",
])  # fmt: skip
def test_what_branches_leave_in_an_object_stays(main: str) -> None:
    """The branches released the object that their results were in."""
    text = f"{BRANCHES} type Option[A] {{ Some(A), None }}"
    text = f"{text} def @main(%c: bool, %n: int32, %x: Tensor[(n, 4), float32]) {{ {main} }}"
    means(text, *([flag(c), int32(n), floats(rows, 4)] for c in (True, False) for n, rows in ((0, 1), (3, 2), (2, 5))))


BOX = """#[version = "0.0.5"]
    type Box { Box(Tensor[(k, 4), float32], Tensor[(k + 1,), float32]), Two(Box, int32, Box), None }
    def @grown(%b: Box) -> Box {
      match (%b) {
        Box(%x, %y) => Box(concatenate((%x, %x, ones(shape=[1, 4]))), concatenate((%y, %y))),
        Two(%a, %n, %c) => Two(@grown(%c), %n + 1, %a),
        None => None
      }
    }
    def @main(%b: Box) { (@grown(%b), %b) }"""


def test_values_with_extents_of_their_own_come_and_go() -> None:
    module = legato.parse(BOX)
    exe = legato.compile(module)

    def made(name: str, *fields: Any) -> Data:
        return Data(constructor(module, name), fields)

    x, box = floats(2, 4), made("Box", floats(2, 4), floats(3))
    value = made("Two", box, int32(5), made("Two", made("Box", floats(0, 4), floats(1)), int32(7), box))
    for given in (made("None"), box, value):
        assert agrees(exe(given), evaluate(module, [given]))
    with pytest.raises(RunError, match=r'input "b": wrong shape or dtype'):
        exe(made("Box", x, floats(2)))
    with pytest.raises(RunError, match=r'input "b": wrong shape or dtype'):
        exe(made("Box", floats(2, 5), floats(3)))
    assert leaked(exe) == 0


def test_a_loop_that_grows_its_tensor_takes_the_memory_of_the_tensor() -> None:
    exe = compiled("""
    def @grow(%n: int32, %x: Tensor[(?,), float32]) -> Tensor[(?,), float32] {
      if (%n == 0) { %x } else { @grow(%n - 1, concatenate((%x, ones(shape=[1])))) }
    }
    def @main(%n: int32, %x: Tensor[(m,), float32]) { sum(@grow(%n, %x)) }""")
    assert exe(int32(20_000), floats(1) * 0) == 20_000
    assert exe._free[-1].peak < 4 << 20
    assert leaked(exe) == 0


def test_turns_that_replace_a_tensor_run_in_constant_memory() -> None:
    exe = compiled("""
    def @turn(%n: int32, %x: Tensor[(?,), float32], %y: Tensor[(?,), float32]) -> float32 {
      if (%n == 0) { sum(%x) + sum(%y) } else { @turn(%n - 1, %y, exp(%x)) }
    }
    def @main(%n: int32, %x: Tensor[(m,), float32]) { @turn(%n, %x * 0f, concatenate((%x, %x)) * 0f) }""")
    exe(int32(100), floats(100))
    peak = exe._free[-1].peak
    exe(int32(100_000), floats(100))
    assert exe._free[-1].peak == peak
    assert leaked(exe) == 0


def test_equalities_of_late_dims_are_checked() -> None:
    exe = compiled("""
    def @either(%c: bool, %x: Tensor[(?,), float32]) { if (%c) { %x } else { concatenate((%x, %x)) } }
    def @main(%c: bool, %x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) { @either(%c, %x) + %y }""")
    x, y = floats(2), floats(4)
    assert np.array_equal(exe(flag(True), x, x), x + x)
    assert np.array_equal(exe(flag(False), x * 0, y), y)
    with pytest.raises(RunError, match="must be equal"):
        exe(flag(False), x, x)
    assert leaked(exe) == 0


@pytest.mark.parametrize("body", [
    "@late(shape[k], 2)",
    "match? (Box(zeros(shape=[k * k * k * k]))) { Box(%b) => sum(%b) }",
])  # fmt: skip
def test_sizes_that_no_integer_holds_are_out_of_memory(body: str) -> None:
    exe = compiled(f"""
    type Box {{ Box(Tensor[(?,), float32]), None }}
    def @late(%s: Shape[(k,)], %n: int32) -> float32 {{
      if (%n == 0) {{ sum(sort(zeros(shape=[k, k, k, k]))) }} else {{ @late(%s, %n - 1) }}
    }}
    def @main(%c: bool, %x: Tensor[(n,), float32]) {{
      let %y = if (%c) {{ %x }} else {{ concatenate((%x, %x)) }};
      let %z = match_cast(%y, Tensor[(k,), float32]);
      {body}
    }}""")
    assert exe(flag(True), floats(3)) == 0
    with pytest.raises(RunError, match="out of memory"):
        exe(flag(True), floats(1 << 16))
    assert leaked(exe) == 0


@pytest.mark.parametrize(
    "late", ["%x", "match_cast(if (%c) { %x } else { concatenate((%x, %x)) }, Tensor[(k,), float32])"]
)
def test_products_that_no_integer_holds_are_equal_to_no_extent(late: str) -> None:
    """65536 to the fourth is 0 in 64 bits: a tensor without elements was taken for one of so many."""
    exe = compiled(f"""
    def @main(%c: bool, %x: Tensor[(m,), float32], %y: Tensor[(n,), float32]) {{
      let %w = match_cast({late}, Tensor[(k,), float32]);
      let %z = match_cast(%y, Tensor[(k * k * k * k,), float32]);
      sum(exp(reshape(%z, newshape=[k, k, k, k])))
    }}""")
    assert exe(flag(True), floats(2), floats(16) * 0) == 16
    with pytest.raises(RunError, match="out of memory"):
        exe(flag(True), floats(1 << 16), floats(0))
    assert leaked(exe) == 0


@pytest.mark.parametrize(
    "body",
    [
        "shape[k * k * k * k]",
        "@doubled(shape[k * k], 48i64)",
        "match (Put(shape[k * k * k * k])) { Put(%s) => %s }",
        "let %f = fn (%s: Shape[(?,)]) { %s }; %f(shape[k * k * k * k])",
    ],
)
def test_dims_that_no_integer_holds_are_no_values(body: str) -> None:
    """What passes them, as a word of a call or of a cell, or gives them to Python, would say 0."""
    exe = compiled(f"""
    type Sizes {{ Put(Shape[(?,)]) }}
    def @doubled(%s: Shape[(n,)], %i: int64) -> Shape[(?,)] {{
      if (%i > 0i64) {{ @doubled(shape[2 * n], %i - 1i64) }} else {{ %s }}
    }}
    def @main(%x: Tensor[(k,), float32]) {{ {body} }}""")
    assert exe(floats(2))[0] > 0
    with pytest.raises(RunError, match=r"a dim is too large for 64 bits: \w"):
        exe(floats(1 << 16))
    assert leaked(exe) == 0


def test_casts_of_data_ask_for_equal_dims() -> None:
    """No cast looks into a list; what took its tensors for those of 3 elements read beyond them."""
    mod = legato.parse("""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(n,), float32], %c: bool) -> float32 {
      let %l: List[Tensor[(n,), float32]] = if (%c) { Cons(%x, Nil) } else { Nil };
      match (match_cast(%l, List[Tensor[(3,), float32]])) { Cons(%y, _) => sum(%y), Nil => 0f }
    }""")
    exe = legato.compile(mod)
    for run in (exe, lambda *args: evaluate(infer(mod), args)):
        x = floats(3)
        assert run(x, flag(True)) == pytest.approx(x.sum(), abs=1e-6)
        for c in (True, False):
            with pytest.raises(RunError, match=r"match_cast: (n = 2 and 3 must|the sizes do not fit)"):
                run(floats(2), flag(c))
    assert leaked(exe) == 0
