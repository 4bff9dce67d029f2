"""The interpreter: every node kind, dims, float64 mode, deep and long programs."""

from __future__ import annotations

import tracemalloc
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.base.errors import RunError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import Closure, Data, evaluate, evaluate_op
from legato.ir.call_tir import call_tir
from legato.ir.expr import Call, Dataflow, Expr, Function, GlobalVar, Let, Var
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import FuncType, scalar_type, tensor_type
from legato.ops import table
from legato.te.lower import to_tir
from legato.te.tensor import compute, placeholder
from tests.heavy import amount

F32 = np.float32


def read(text: str) -> Module:
    """The typed module of a text without its version line."""
    return infer(parse('#[version = "0.0.5"]\n' + dedent(text), ops=table()))


def run(text: str, *args: Any, name: str = "main", **options: Any) -> Any:
    """The value of a function of a program as text."""
    return evaluate(read(text), args, name, **options)


def test_operators_and_sharing() -> None:
    text = "def @main(%x: Tensor[(3,), float32]) { %0 = exp(%x); (add(%0, %0), %0) }"
    x = np.arange(3, dtype=F32)
    total, once = run(text, x)
    np.testing.assert_array_equal(once, np.exp(x))
    np.testing.assert_array_equal(total, once + once)


def test_a_shared_node_is_computed_once() -> None:
    seen: list[Expr] = []
    module = read("def @main(%x: float32) { %0 = exp(%x); multiply(add(%0, %0), %0) }")
    evaluate(module, [F32(1)], observe=lambda node, value: seen.append(node))
    assert [n.op.name for n in seen if isinstance(n, Call) and hasattr(n.op, "name")] == ["exp", "add", "multiply"]


def test_only_the_taken_branch_runs() -> None:
    seen: list[str] = []
    module = read("def @main(%c: bool, %x: float32) { if (%c) { exp(%x) } else { log(%x) } }")
    for flag, name in ((True, "exp"), (False, "log")):
        seen.clear()
        evaluate(module, [flag, F32(2)], observe=lambda n, v: seen.append(getattr(getattr(n, "op", None), "name", "")))
        assert name in seen
        assert len([s for s in seen if s]) == 1


def test_closures_capture_their_activation() -> None:
    text = """
    def @adder(%x: float32) { fn (%y: float32) { add(%x, %y) } }
    def @main(%a: float32) {
      let %one = @adder(1f);
      let %two = @adder(2f);
      (%one(%a), %two(%a), %one(%two(%a)))
    }"""
    assert run(text, F32(10)) == (11, 12, 13)


def test_local_recursion() -> None:
    text = """
    def @main(%n: int32) {
      let %fact = fn (%i: int32) -> int32 { if (less(%i, 1)) { 1 } else { multiply(%i, %fact(subtract(%i, 1))) } };
      %fact(%n)
    }"""
    assert run(text, np.int32(10)) == 3628800


LISTS = """
type List[A] { Cons(A, List[A]), Nil, }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, }
}
def @sum(%xs: List[float32]) -> float32 {
  match (%xs) { Cons(%x, Cons(%y, %rest)) => add(add(%x, %y), @sum(%rest)), Cons(%x, _) => %x, Nil => 0f, }
}
def @main(%x: float32) { @sum(@map(fn (%y: float32) { multiply(%y, 2f) }, Cons(%x, Cons(1f, Cons(3f, Nil))))) }
def @head(%xs: List[float32]) -> float32 { match? (%xs) { Cons(%x, _) => %x } }
def @nothing() { @head(Nil) }
def @pair(%p: (float32, (int32, float32))) { match (%p) { (%a, (_, %b)) => subtract(%a, %b) } }
"""


def test_data_types_and_patterns() -> None:
    assert run(LISTS, F32(5)) == 18
    assert run(LISTS, (F32(5), (np.int32(1), F32(2))), name="pair") == 3
    assert isinstance(run(LISTS + "def @made() { Cons(1f, Nil) }", name="made"), Data)
    with pytest.raises(RunError, match=r"no clause of match at .* fits the value Nil"):
        run(LISTS, name="nothing")


def test_cells_are_written_in_order() -> None:
    text = """
    def @main(%x: float32) {
      let %r = ref(%x);
      let %a = ref_read(%r);
      let %u = ref_write(%r, add(%a, 1f));
      let %b = ref_read(%r);
      let %v = ref_write(%r, multiply(%b, 10f));
      (%a, %b, ref_read(%r))
    }"""
    assert run(text, F32(1)) == (1, 2, 20)


def test_functions_are_values() -> None:
    text = """
    def @twice(%f: fn (float32) -> float32, %x: float32) { %f(%f(%x)) }
    def @square(%x: float32) { multiply(%x, %x) }
    def @main(%x: float32) { @twice(@square, %x) }"""
    assert run(text, F32(3)) == 81
    assert isinstance(run("def @main() { fn (%x: float32) { %x } }"), Closure)


def test_dataflow_and_shapes() -> None:
    b, n = Builder(), fresh("n")
    x = b.var("x", (n, 2))
    y, z = Var("y"), Var("z")
    flow = Dataflow(((y, Call(table()["exp"], (x,))), (z, Call(table()["negative"], (y,)))), (z, y))
    module = infer(Module.from_expr(Function((x,), b.tuple_([flow, b.shape([n, n * 2])]))))
    array = np.ones((3, 2), F32)
    (negative, positive), shape = evaluate(module, [array])
    np.testing.assert_array_equal(negative, -positive)
    assert shape == (3, 6)


# ------------------------------------------------------------------ dims


def test_attributes_with_dims() -> None:
    b, n = Builder(), fresh("n")
    x = b.var("x", (n, 4))
    y = b.concatenate(b.reshape(x, newshape=(n * 2, 2)), b.ones(shape=(n, 2)))
    module = Module.from_expr(b.function([x], y))
    for size in (1, 3):
        assert evaluate(module, [np.zeros((size, 4), F32)]).shape == (3 * size, 2)


def test_dims_of_each_call_are_its_own() -> None:
    b, n = Builder(), fresh("n")
    x = b.var("x", (n,))
    f = b.function([x], b.broadcast_to(b.sum(x), shape=(n,)))
    gv = GlobalVar("f", ty=f.ty)
    one, two = b.var("a", (2,)), b.var("b", (3,))
    main = b.function([one, two], b.tuple_([b.apply(gv, [one]), b.apply(gv, [two])]))
    result = evaluate(Module({GlobalVar("main"): main, gv: f}), [np.ones(2, F32), np.ones(3, F32)])
    assert [r.tolist() for r in result] == [[2, 2], [3, 3, 3]]


def test_match_cast_binds_and_checks() -> None:
    b, n, m = Builder(), fresh("n"), fresh("m")
    x = b.var("x", (n,))
    seen = b.match_cast(x, tensor_type((m * 2,)))
    module = Module.from_expr(b.function([x], b.reshape(seen, newshape=(m, 2))))
    assert evaluate(module, [np.arange(6, dtype=F32)]).shape == (3, 2)
    with pytest.raises(RunError, match=r"match_cast: dim 0 is 5, wanted m \* 2"):
        evaluate(module, [np.arange(5, dtype=F32)])


def test_constraints_are_checked() -> None:
    text = "def @main(%x: Tensor[(?,), float32], %y: Tensor[(?,), float32]) { add(%x, %y) }"
    assert run(text, np.ones(3, F32), np.ones(3, F32)).shape == (3,)
    with pytest.raises(RunError, match="add: broadcast dim -1: d = 3 and d_1 = 2 must be equal"):
        run(text, np.ones(3, F32), np.ones(2, F32))


_INNER = {
    "a cast": "let %z = match_cast(%y, Tensor[(k,), float32]); %x + %z",
    "a branch": "%x + (if (%c) { %x } else { %y })",
    "the result of a function": "%x + @some(%y)",
    "a pattern": "match (Put(%y)) { Put(%z) => %x + %z }",
    "a local function": "let %f = fn (%q) { let %z = match_cast(%q, Tensor[(k,), float32]); %x + %z }; %f(%y)",
    "a cast in a branch": "if (%c) { %x } else { let %z = match_cast(%y, Tensor[(k,), float32]); %x + %z }",
}


@pytest.mark.parametrize("body", _INNER.values(), ids=_INNER)
def test_constraints_of_inner_dims_are_checked_when_these_are_known(body: str) -> None:
    text = f"""
    type box {{ Put(Tensor[(?,), float32]) }}
    def @some(%x: Tensor[(n,), float32]) -> Tensor[(?,), float32] {{ exp(%x) }}
    def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32], %c: bool) {{ {body} }}
    """
    assert run(text, np.ones(3, F32), np.ones(3, F32), False).shape == (3,)
    with pytest.raises(RunError, match=r"^add: broadcast dim -1: n = 3 and \w+ = 2 must be equal, or one of them 1$"):
        run(text, np.ones(3, F32), np.ones(2, F32), False)
    if "%c" in body:  # what is not evaluated asks for nothing
        assert run(text, np.ones(3, F32), np.ones(2, F32), True).shape == (3,)


def test_the_result_of_a_function_is_checked_where_its_dims_are_known_last() -> None:
    text = """
    def @main(%c: bool, %x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) -> Tensor[(n,), float32] {
      if (%c) { %x } else { %y }
    }"""
    assert run(text, False, np.ones(3, F32), np.ones(3, F32)).shape == (3,)
    with pytest.raises(RunError, match=r"^the result of the function: d = 2 and n = 3 must be equal$"):
        run(text, False, np.ones(3, F32), np.ones(2, F32))


def test_dims_that_a_call_states() -> None:
    text = """
    def @fill[n: ShapeVar(1, 64)](%x: float32) { (full(%x, shape=[n]), shape[n]) }
    def @product(%x: Tensor[(n * m,), float32], %y: Tensor[(n + m,), float32]) { shape[n, m] }
    def @main(%x: Tensor[(n,), float32]) { (@fill[n + 1](2f), @product[2, 3](ones(shape=[6]), ones(shape=[5]))) }
    """
    (filled, count), product = run(text, np.ones(2, F32))
    assert (filled.tolist(), count, product) == ([2, 2, 2], (3,), (2, 3))
    with pytest.raises(RunError, match=r"^dim n: no argument, result or cast has told n yet$"):
        run(text, F32(1), name="fill")


def test_dims_of_patterns() -> None:
    text = """
    type box { Put(Tensor[(?, 2), float32]) }
    def @main(%b: box) { match (%b) { Put(%x: Tensor[(k, 2), float32]) => shape[k] } }
    def @put(%x: Tensor[(?, 2), float32]) { @main(Put(%x)) }
    """
    assert run(text, np.ones((3, 2), F32), name="put") == (3,)


def test_the_range_of_a_dim_is_checked() -> None:
    text = "def @main[n: ShapeVar(2, 4)](%x: Tensor[(n,), float32]) { %x }"
    assert run(text, np.ones(4, F32)).shape == (4,)
    for n in (1, 5):
        with pytest.raises(
            RunError, match=rf"^@main, argument 1 \(%x\): dim n is {n}, wanted at least 2 and at most 4$"
        ):
            run(text, np.ones(n, F32))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "@main: got 0 arguments, wanted 1"),
        ((np.ones((2, 4), np.float64),), "@main, argument 1 (%x): got dtype float64, wanted float32"),
        ((np.ones(4, F32),), "@main, argument 1 (%x): got shape (4,), wanted Tensor[(d, 4), float32]"),
        ((np.ones((2, 5), F32),), "@main, argument 1 (%x): dim 1 is 5, wanted 4"),
        (((np.ones((2, 4), F32),),), "@main, argument 1 (%x): got a tuple, wanted Tensor[(d, 4), float32]"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(RunError) as caught:
        run("def @main(%x: Tensor[(?, 4), float32]) { exp(%x) }", *args)
    assert str(caught.value) == message


# ------------------------------------------------------------------ float64 mode, loop programs


def test_float64_mode_widens_everything() -> None:
    b = Builder()
    x = b.var("x", (3,))
    y = b.add(b.cast(b.multiply(x, 0.1), dtype="float16"), b.cast(b.ones(shape=(3,), dtype="float16"), dtype="float16"))
    module = Module.from_expr(b.function([x], y))
    array = np.array([1, 2, 3], F32)
    result = evaluate(module, [array], float64=True)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, array * np.float64(F32(0.1)) + 1)
    assert evaluate(module, [array]).dtype == np.float16


def test_float64_mode_leaves_integers_alone() -> None:
    b = Builder()
    x = b.var("x", (3,), "int8")
    result = evaluate(Module.from_expr(b.function([x], b.add(x, x))), [np.array([100, 1, -100], np.int8)], float64=True)
    np.testing.assert_array_equal(result, np.array([-56, 2, 56], np.int8))
    assert result.dtype == np.int8


def test_call_tir() -> None:
    b, n, k = Builder(), fresh("n"), DimVar("k", dt.index, 0)
    a = placeholder("a", (k,), "float32")
    kernel = to_tir([compute((k,), lambda i: a[i] + a[i])], [a], "double")
    gv, x = GlobalVar("double"), b.var("x", (n,))
    call = call_tir(gv, [b.exp(x)], [tensor_type((n,))], [n])
    module = Module({GlobalVar("main"): b.function([x], call), gv: kernel})
    array = np.arange(4, dtype=F32)
    np.testing.assert_array_equal(evaluate(module, [array]), 2 * np.exp(array))


def test_evaluate_op() -> None:
    add = table()["add"]
    assert evaluate_op(add, [np.asarray(F32(1)), np.asarray(F32(2))]) == 3
    assert isinstance(evaluate_op(add, [np.asarray(F32(1)), np.asarray(F32(2))]), np.ndarray)


# ------------------------------------------------------------------ size


def counting() -> Module:
    """@loop(i, acc): a tail-recursive sum; @count(i): the same, not in tail position."""
    return read("""
    def @loop(%i: int32, %acc: int32) -> int32 {
      if (equal(%i, 0)) { %acc } else { @loop(subtract(%i, 1), add(%acc, 1)) }
    }
    def @count(%i: int32) -> int32 { if (equal(%i, 0)) { 0 } else { add(@count(subtract(%i, 1)), 1) } }
    """)


@pytest.mark.sized
def test_long_loops_and_deep_recursion() -> None:
    module, rounds, depth = counting(), amount(20_000, 100_000), amount(4_000, 20_000)
    assert evaluate(module, [np.int32(rounds), np.int32(0)], "loop") == rounds
    assert evaluate(module, [np.int32(depth)], "count") == depth


@pytest.mark.sized
def test_long_chains() -> None:
    x = Var("x", ty=tensor_type((2,)))
    e: Expr = x
    for _ in range(amount(20_000, 100_000)):
        e = Call(table()["negative"], (e,))
    array = np.ones(2, F32)
    np.testing.assert_array_equal(evaluate(Module.from_expr(Function((x,), e)), [array]), array)


@pytest.mark.sized
def test_long_let_chains() -> None:
    length = amount(10_000, 50_000)
    names = [Var("x", ty=tensor_type((2,))), *(Var("v") for _ in range(length))]
    e: Expr = names[-1]
    for n in range(length, 0, -1):
        e = Let(names[n], Call(table()["negative"], (names[n - 1],)), e)
    array = np.ones(2, F32)
    np.testing.assert_array_equal(evaluate(Module.from_expr(Function((names[0],), e)), [array]), array)


def test_a_tail_call_out_of_a_let_chain_and_a_match_keeps_no_activation() -> None:
    text = """
    type Nat { Succ(Nat), Zero, }
    def @down(%n: Nat, %acc: int32) -> int32 {
      let %next = add(%acc, 1);
      match (%n) { Succ(%m) => @down(%m, %next), Zero => %acc, }
    }
    def @up(%i: int32, %n: Nat) -> Nat { if (equal(%i, 0)) { %n } else { @up(subtract(%i, 1), Succ(%n)) } }
    def @main(%i: int32) { @down(@up(%i, Zero), 0) }"""
    assert run(text, np.int32(5_000)) == 5_000


def test_scalar_parameters_of_functions() -> None:
    ty = FuncType((scalar_type("float32"),), scalar_type("float32"))
    b = Builder()
    f = b.var("f", ty)
    func = b.function([f], b.apply(f, [b.constant(2.0)]))
    square = b.function([x := b.var("x", ())], b.multiply(x, x))
    assert evaluate(Module.from_expr(func), [Closure(square)]) == 4


def test_loops_need_no_memory() -> None:
    """Ten times as many steps leave the peak where it is: for self-calls, mutual calls and closures."""
    module = read("""
    def @loop(%i: int32, %x: Tensor[(64,), float32]) -> Tensor[(64,), float32] {
      if (equal(%i, 0)) { %x } else { let %y = add(%x, 1f); @loop(subtract(%i, 1), %y) }
    }
    def @even(%i: int32) -> bool { if (equal(%i, 0)) { True } else { @odd(subtract(%i, 1)) } }
    def @odd(%i: int32) -> bool { if (equal(%i, 0)) { False } else { @even(subtract(%i, 1)) } }
    def @local(%n: int32) {
      let %f = fn (%i: int32, %acc: int32) -> int32 {
        if (equal(%i, 0)) { %acc } else { %f(subtract(%i, 1), add(%acc, 1)) }
      };
      %f(%n, 0)
    }""")
    tracemalloc.start()
    try:
        for name, more in (("loop", [np.zeros(64, F32)]), ("even", []), ("local", [])):
            peaks = []
            for steps in (300, 3000):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                evaluate(module, [np.int32(steps), *more], name)
                peaks.append(tracemalloc.get_traced_memory()[1] - before)
            assert peaks[1] < peaks[0] + 20_000, name
    finally:
        tracemalloc.stop()


def test_values_are_dropped_after_their_last_use() -> None:
    names = [Var("x", ty=tensor_type((1 << 16,))), *(Var("v") for _ in range(64))]
    e: Expr = names[-1]
    for n in range(64, 0, -1):
        e = Let(names[n], Call(table()["negative"], (names[n - 1],)), e)
    module, array = Module.from_expr(Function((names[0],), e)), np.ones(1 << 16, F32)
    tracemalloc.start()
    try:
        evaluate(module, [array])
        assert tracemalloc.get_traced_memory()[1] < 6 * array.nbytes
    finally:
        tracemalloc.stop()


def test_evaluation_goes_from_left_to_right() -> None:
    text = """
    def @main() {
      let %r = ref(0);
      let %log = fn (%d: int32) -> int32 { let %u = ref_write(%r, add(multiply(ref_read(%r), 10), %d)); %d };
      let %t = (%log(1), add(%log(2), %log(3)));
      let %f = fn (%a: int32, %b: int32) { %a };
      let %c = {let %u = %log(4); %f}(%log(5), %log(6));
      let %m = match ((%log(7), %log(8))) { (%a, _) => %a };
      ref_read(%r)
    }"""
    assert run(text) == 12345678


def test_operators_and_constructors_as_values() -> None:
    text = """
    type Box { Box(int32), }
    def @apply(%f: fn (int32) -> int32, %x: int32) { %f(%x) }
    def @boxed(%f: fn (int32) -> Box, %x: int32) { match (%f(%x)) { Box(%y) => %y } }
    def @main(%x: int32) { (@apply(negative, %x), @boxed(Box, %x)) }"""
    assert run(text, np.int32(3)) == (-3, 3)


def test_polymorphic_closures_and_local_dims() -> None:
    text = """
    def @main(%x: Tensor[(2,), float32], %y: Tensor[(3,), float32]) {
      let %id = fn [A](%a: A) -> A { %a };
      let %twice = fn [n: ShapeVar](%a: Tensor[(n,), float32]) -> Tensor[(n * 2,), float32] { concatenate((%a, %a)) };
      (%id(%twice(%x)), %twice(%id(%y)), %id(3))
    }"""
    a, b, c = run(text, np.ones(2, F32), np.ones(3, F32))
    assert (a.shape, b.shape, int(c)) == ((4,), (6,), 3)


def test_arguments_that_are_no_data_and_no_cells() -> None:
    module = read("""
    type Pair { Pair(int32, (int32, int32)), }
    def @first(%p: Pair) { match (%p) { Pair(%x, (_, _)) => %x } }
    def @field(%p: Pair) { match (%p) { Pair(_, %t) => %t.1 } }
    def @read(%r: ref(int32)) { ref_read(%r) }
    def @write(%r: ref(int32)) { ref_write(%r, 1) }""")
    one, pair = np.int32(1), next(iter(module.types.values())).constructors[0]
    for wrong in (one, Data(pair, ()), Data(pair, (one, one)), Data(pair, (one, (one,)))):
        with pytest.raises(RunError, match=r"^@first, %p: "):
            evaluate(module, [wrong], "first")
    for fields in (one, (one,)):
        with pytest.raises(RunError, match=r"^@field, %p: "):
            evaluate(module, [Data(pair, (one, fields))], "field")
    for name in ("read", "write"):
        with pytest.raises(RunError, match="a ndarray is read or written as a cell"):
            evaluate(module, [one], name)


def test_a_call_of_no_function() -> None:
    with pytest.raises(RunError, match="%f is called but is no function"):
        evaluate(Module.from_expr(Function((f := Var("f"),), Call(f, ()))), [np.int32(1)])
