"""Programs with control flow, calls, tuples and odd shapes: from text to native code, against the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import fresh
from legato.base.errors import CompileError, RunError, UnsupportedError
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Expr
from legato.ir.module import Module
from tests.graphs import leaves

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def int32(value: int) -> Array:
    return np.asarray(value, np.int32)


def flag(value: bool) -> Array:
    return np.asarray(value)


def structure(value: Any) -> Any:
    """How arrays are nested in tuples."""
    return tuple(map(structure, value)) if isinstance(value, tuple) else "array"


def compiled(text: str, **options: Any) -> Any:
    return legato.compile(legato.parse(f'#[version = "0.0.5"]\n{text}'), **options)


def check(text: str, *calls: Sequence[Any], **options: Any) -> Any:
    """Compiles `text` and compares every call with the interpreter; the executable."""
    module = legato.parse(f'#[version = "0.0.5"]\n{text}')
    exe = legato.compile(module, **options)
    for args in calls:
        wanted, got = evaluate(module, args), exe(*leaves(tuple(args)))
        assert structure(got) == structure(wanted)
        for g, w in zip(leaves(got), leaves(wanted), strict=True):
            assert (g.shape, g.dtype) == (w.shape, w.dtype)
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
    return exe


def test_mlp_of_a_symbolic_batch() -> None:
    weights = floats(8, 4), floats(8), floats(3, 8)
    text = """
    def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(8, 4), float32], %b: Tensor[(8,), float32],
              %v: Tensor[(3, 8), float32]) {
      nn.softmax(nn.dense(nn.relu(nn.bias_add(nn.dense(%x, %w), %b)), %v))
    }"""
    exe = check(text, *([floats(n, 4), *weights] for n in (3, 1, 8, 0)))
    assert [str(i) for i in exe.inputs][:2] == ["x: float32[n, 4]", "w: float32[8, 4]"]
    assert [str(o) for o in exe.outputs] == ["output: float32[n, 3]"]


@pytest.mark.parametrize("target", ["host", "x86-64-v3", "x86-64-v2"])
def test_branches(target: str) -> None:
    text = """
    def @main(%i: int32, %x: Tensor[(n, 4), float32]) {
      %0 = tanh(%x);
      if (less(%i, 3)) { if (less(%i, 1)) { %x } else { add(%0, %x) } } else { nn.relu(%0) }
    }"""
    check(text, *([int32(i), floats(3, 4)] for i in (0, 2, 5)), target=target)


def test_only_the_taken_branch_runs() -> None:
    check(
        """
    def @forever(%i: int32) -> int32 { add(@forever(%i), 1) }
    def @main(%c: bool, %i: int32) { if (%c) { @forever(%i) } else { %i } }""",
        [flag(False), int32(3)],
    )


LOOP = """
    def @loop(%i: int32, %x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] {
      if (less(%i, 10)) { @loop(add(%i, 1), multiply(tanh(%x), 2f)) } else { %x }
    }
    def @main(%x: Tensor[(m, 4), float32], %i: int32) { @loop(%i, %x) }"""


def test_tail_recursion_is_a_loop() -> None:
    exe = check(LOOP, [floats(3, 4), int32(0)], [floats(1, 4), int32(11)], [floats(2, 4), int32(9)])
    assert exe.stats["recursive"] == 0
    exe(floats(2, 4), int32(-100_000))  # constant space


def test_a_loop_that_swaps_its_arguments() -> None:
    check(
        """
    def @loop(%i: int32, %x: Tensor[(4,), float32], %y: Tensor[(4,), float32], %z: Tensor[(4,), float32]) ->
        (Tensor[(4,), float32], (Tensor[(4,), float32], Tensor[(4,), float32])) {
      if (less(%i, 3)) { @loop(add(%i, 1), %y, %x, add(%x, %z)) } else { (%x, (%z, add(%y, %z))) }
    }
    def @main(%x: Tensor[(4,), float32], %y: Tensor[(4,), float32]) { @loop(0, %x, %y, %x) }""",
        [floats(4), floats(4)],
    )


def test_a_loop_over_tuples_that_rotate() -> None:
    check(
        """
    def @loop(%i: int32, %t: (float32, float32, float32)) -> (float32, float32, float32) {
      if (equal(%i, 0)) { %t } else { @loop(subtract(%i, 1), (%t.1, %t.2, add(%t.0, %t.1))) }
    }
    def @main(%i: int32, %t: (float32, float32, float32)) { @loop(%i, %t) }""",
        *([int32(n), (np.float32(1), np.float32(2), np.float32(3))] for n in (0, 1, 7)),
    )


def test_a_loop_with_two_ways_back() -> None:
    check(
        """
    def @collatz(%n: int64, %steps: int32) -> int32 {
      if (equal(%n, 1i64)) { %steps } else {
        let %half = floor_divide(%n, 2i64);
        if (equal(multiply(%half, 2i64), %n)) { @collatz(%half, add(%steps, 1)) } else {
          @collatz(add(multiply(%n, 3i64), 1i64), add(%steps, 1))
        }
      }
    }
    def @main(%n: int64) { @collatz(%n, 0) }""",
        [np.int64(1)], [np.int64(27)],
    )  # fmt: skip


def test_a_loop_whose_step_is_a_network() -> None:
    check(
        """
    def @rnn(%i: int64, %x: Tensor[(t, 3), float32], %h: Tensor[(1, 5), float32], %w: Tensor[(5, 8), float32]) ->
        Tensor[(1, 5), float32] {
      if (less(%i, cast(ndarray_size(%x), dtype="int64"))) {
        let %row = take(%x, reshape(floor_divide(%i, 3i64), newshape=[1]), axis=0);
        @rnn(add(%i, 3i64), %x, tanh(nn.dense(concatenate((%row, %h), axis=1), %w)), %w)
      } else { %h }
    }
    def @main(%x: Tensor[(t, 3), float32], %w: Tensor[(5, 8), float32]) {
      @rnn(0i64, %x, zeros(shape=[1, 5], dtype="float32"), %w)
    }""",
        [floats(6, 3), floats(5, 8) / 4], [floats(1, 3), floats(5, 8) / 4],
    )  # fmt: skip


def test_recursion() -> None:
    exe = check(
        """
    def @fib(%i: int32) -> int32 {
      if (less(%i, 2)) { %i } else { add(@fib(subtract(%i, 1)), @fib(subtract(%i, 2))) }
    }
    def @main(%i: int32) { @fib(%i) }""",
        [int32(1)], [int32(12)],
    )  # fmt: skip
    assert exe.stats["recursive"] == 1


def test_functions_that_call_each_other() -> None:
    check(
        """
    def @even(%i: int32, %x: Tensor[(n,), float32]) -> Tensor[(n,), float32] {
      if (equal(%i, 0)) { %x } else { @odd(subtract(%i, 1), add(%x, 1f)) }
    }
    def @odd(%i: int32, %x: Tensor[(m,), float32]) -> Tensor[(m,), float32] {
      if (equal(%i, 0)) { negative(%x) } else { @even(subtract(%i, 1), multiply(%x, 2f)) }
    }
    def @main(%i: int32, %x: Tensor[(k,), float32]) { @even(%i, %x) }""",
        *([int32(n), floats(3)] for n in (0, 1, 4, 5)),
    )


def test_endless_recursion_is_an_error() -> None:
    exe = compiled("""
    def @forever(%i: int32) -> int32 { add(@forever(add(%i, 1)), 1) }
    def @main(%i: int32) { @forever(%i) }""")
    with pytest.raises(RunError, match="calls nest too deeply: the recursion of the program does not end, or too late"):
        exe(int32(0))


def test_dims_of_called_functions() -> None:
    check(
        """
    def @f(%x: Tensor[(a, b), float32], %y: Tensor[(b,), float32]) { add(%x, %y) }
    def @halves(%x: Tensor[(2 * a, b), float32]) { (sum(%x, axis=[1]), full(1f, shape=[a, 2])) }
    def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(4,), float32], %z: Tensor[(n,), float32],
              %t: Tensor[(m, n), float32]) {
      (@f(%x, %y), @f(%t, %z), @f(concatenate((%x, %x), axis=0), %y), @halves(concatenate((%x, %x), axis=0)))
    }""",
        [floats(3, 4), floats(4), floats(3), floats(5, 3)], [floats(1, 4), floats(4), floats(1), floats(2, 1)],
    )  # fmt: skip


def test_tuples_in_and_out() -> None:
    exe = check(
        """
    def @main(%t: (Tensor[(n,), float32], (Tensor[(n,), float32], int32)), %u: Tensor[(n,), float32]) {
      let %p = %t.1;
      ((add(%t.0, %p.0), %p.1), %t, (%u,), ())
    }""",
        [(floats(3), (floats(3), int32(5))), floats(3)],
    )
    assert [i.name for i in exe.inputs] == ["t.0", "t.1", "t.2", "u"]


def test_tuples_from_branches_are_operands() -> None:
    check(
        """
    def @main(%c: bool, %x: Tensor[(n,), float32]) {
      let %p = if (%c) { (%x, add(%x, 1f)) } else { (negative(%x), %x) };
      (%p, concatenate(%p, axis=0))
    }""",
        [flag(True), floats(3)], [flag(False), floats(3)],
    )  # fmt: skip


def test_results_of_several_tensors_inside_branches() -> None:
    check(
        """
    def @main(%c: bool, %x: Tensor[(4,), float32]) {
      let %p = topk(%x, k=2);
      let %s = split(%x, indices_or_sections=2);
      (%p, if (%c) { add(%p.0, %s.1) } else { negative(%p.0) }, %s.1)
    }""",
        [flag(True), floats(4)], [flag(False), floats(4)],
    )  # fmt: skip


def test_unused_parameters() -> None:
    text = "def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), int8], %z: ()) { add(%x, 1f) }"
    check(text, [floats(3), np.zeros(2, np.int8), ()])


def test_outputs_that_are_inputs_constants_and_twice_the_same() -> None:
    text = "def @main(%x: Tensor[(n,), float32]) { let %y = add(%x, 1f); (%x, %y, %y, 2f, %x, (%y,)) }"
    exe = check(text, [floats(3)])
    x = floats(3)
    first, *_, last, _ = exe(x)
    assert not np.shares_memory(first, x)
    assert not np.shares_memory(first, last)


@pytest.mark.parametrize("text", ["def @main(%x: Tensor[(n,), float32]) { %x }",
                                  "def @main(%x: Tensor[(n,), float32]) { () }"])  # fmt: skip
def test_nothing_to_compute(text: str) -> None:
    check(text, [floats(3)])


def test_no_parameters() -> None:
    check('def @main() { (3f, arange(stop=4, dtype="int32")) }', [])


def test_tensors_without_elements() -> None:
    check(
        """
    def @main(%x: Tensor[(0, 4), float32], %y: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) {
      (nn.dense(%x, %w), concatenate((%x, %y), axis=0), sum(%x), max(%x, axis=[0]), nn.softmax(%x), nn.dense(%y, %w),
       sum(%y, axis=[0]), squeeze(zeros(shape=[1, 0, 3], dtype="float32"), axis=[0]))
    }""",
        [floats(0, 4), floats(2, 4), floats(3, 4)], [floats(0, 4), floats(0, 4), floats(3, 4)],
    )  # fmt: skip


def test_images_without_elements() -> None:
    check(
        """
    def @main(%x: Tensor[(0, 3, 8, 8), float32], %w: Tensor[(5, 3, 3, 3), float32], %y: Tensor[(2, 0, 8, 8), float32],
              %v: Tensor[(5, 0, 3, 3), float32]) {
      (nn.conv2d(%x, %w), nn.max_pool2d(nn.relu(%x), pool_size=[2, 2]), nn.conv2d(%y, %v, padding=[1, 1]))
    }""",
        [floats(0, 3, 8, 8), floats(5, 3, 3, 3), floats(2, 0, 8, 8), floats(5, 0, 3, 3)],
    )


def test_rank_0() -> None:
    check(
        """
    def @main(%x: float32, %y: int32) {
      (add(%x, 1f), multiply(%y, %y), reshape(%x, newshape=[1, 1]), expand_dims(%x, axis=0), sum(%x), %y)
    }""",
        [np.float32(2), int32(3)],
    )


def test_dims_as_values() -> None:
    check(
        """
    def @main(%x: Tensor[(n, m), float32]) {
      (shape_of(%x), ndarray_size(%x), divide(sum(%x), cast(ndarray_size(%x), dtype="float32")),
       reshape(%x, newshape=[-1]), full(1f, shape=[n, 2]), arange(stop=n, dtype="float32"))
    }""",
        [floats(3, 4)], [floats(1, 7)],
    )  # fmt: skip


def test_inputs_of_one_name_and_dims_of_one_name() -> None:
    b = Builder()
    n, m = fresh("n"), fresh("n")
    params = [b.var("x", (n,)), b.var("x", (m,))]
    exe = legato.compile(Module.from_expr(b.function(params, b.tuple_([params[0], b.negative(params[1])]))))
    assert [str(i) for i in exe.inputs] == ["x: float32[n]", "x_1: float32[n_1]"]


def test_a_loop_program_of_the_module() -> None:
    check(
        """
    kernel @twice(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
      parallel i in 0..n { y[i] = x[i] + x[i]; }
    }
    def @main(%x: Tensor[(m,), float32]) {
      nn.relu(call_tir(@twice, (tanh(%x),), out=[Tensor[(m,), float32]], dims=[m]))
    }""",
        [floats(5)],
    )


# ------------------------------------------------------------------ sizes that do not fit


def test_sizes_that_must_be_equal() -> None:
    exe = compiled("def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]) { add(%x, %y) }")
    exe(floats(3, 4), floats(3, 4))
    with pytest.raises(RunError) as error:
        exe(floats(3, 4), floats(2, 4))
    assert str(error.value) == (
        "add: broadcast dim -2: the sizes do not fit\n  got:    3 and 2\n  wanted: n = m, or one of them 1, "
        'where n = 3 (dimension 0 of input "x"), m = 2 (dimension 0 of input "y")'
    )


def test_sizes_that_must_be_equal_in_a_called_function() -> None:
    exe = compiled("""
    def @f(%x: Tensor[(a,), float32], %y: Tensor[(b,), float32]) { add(%x, %y) }
    def @main(%c: bool, %x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
      if (%c) { @f(%x, %y) } else { %x }
    }""")
    exe(flag(True), floats(2), floats(2))
    exe(flag(False), floats(2), floats(2))
    for choice in (True, False):  # a branch is typed whether it is taken or not, as if the body stood there
        with pytest.raises(RunError) as error:
            exe(flag(choice), floats(3), floats(2))
        message = "add: broadcast dim -1: the sizes do not fit\n  got:    3 and 2\n  wanted: n = m, or one of them 1, "
        assert str(error.value).startswith(message)


def test_a_window_that_is_too_large() -> None:
    exe = compiled("""
    def @main(%x: Tensor[(n,), float32]) { sum(nn.max_pool1d(reshape(%x, newshape=[1, 1, -1]), pool_size=[3])) }""")
    exe(floats(3))
    with pytest.raises(RunError) as error:
        exe(floats(2))
    assert str(error.value) == 'input "x": dimension 0 is out of range\n  got:    2\n  wanted: 3 <= n'


def test_a_window_that_is_too_large_in_a_called_function() -> None:
    exe = compiled("""
    def @f(%x: Tensor[(n,), float32]) { sum(nn.max_pool1d(reshape(%x, newshape=[1, 1, -1]), pool_size=[3])) }
    def @main(%x: Tensor[(m,), float32]) { @f(%x) }""")
    exe(floats(3))
    with pytest.raises(RunError, match="wanted: 3 <= m"):
        exe(floats(2))


def test_closures() -> None:
    text = "def @main(%x: Tensor[(n,), float32]) { let %f = fn(%y: Tensor[(n,), float32]) { add(%x, %y) }; %f(%x) }"
    check(text, [floats(3)], [floats(5)])


def test_functions_as_arguments() -> None:
    check(
        """
    def @f(%g: fn(float32) -> float32, %x: float32) { %g(%x) }
    def @h(%x: float32) { tanh(%x) }
    def @main(%x: float32) { @f(@h, %x) + @f(sigmoid, %x) }""",
        [floats()],
    )


def test_a_loop_over_what_is_around_it() -> None:
    check(
        """
    def @main(%x: Tensor[(n,), float32], %k: int32) {
      let %loop = fn (%i: int32, %acc: Tensor[(n,), float32]) -> Tensor[(n,), float32] {
        if (%i <= 0) { %acc } else { %loop(%i - 1, %acc + %x) }
      };
      %loop(%k, zeros(shape=(n,), dtype="float32"))
    }""",
        [floats(3), int32(4)],
        [floats(2), int32(0)],
    )


# ------------------------------------------------------------------ what cannot be compiled yet


def refused(text: str) -> str:
    with pytest.raises(UnsupportedError) as error:
        compiled(text)
    return str(error.value)


def test_functions_from_outside() -> None:
    assert refused("def @main(%f: fn (float32) -> float32, %x: float32) { (%f(%x), %f) }").splitlines() == [
        "unsupported: @main takes or gives functions, which compiled code cannot pass to or from Python",
        "  at <text>:2:1",
        "  %f : fn (float32) -> float32",
        "  result : (float32, fn (float32) -> float32)",
        "  hint: call them inside, or let @main take and give what they take and give",
    ]


def test_dims_that_no_input_tells() -> None:
    assert refused("def @main(%x: Tensor[(a * a, b), float32]) { sum(%x, axis=[1]) }").splitlines() == [
        "unsupported: the dims a are not plain extents of an input",
        "  hint: a call must tell them: give an input, or a shape, that has the dim itself as an entry",
    ]


def nested(depth: int) -> Module:
    """if c then x else tanh(if c then x else tanh(…))."""
    b = Builder()
    x, c = b.var("x", (2,)), b.var("c", (), "bool")
    body: Expr = x
    for _ in range(depth):
        inner = body
        body = b.if_(c, x, lambda inner=inner: b.tanh(inner))  # type: ignore[misc]  # a default binds it
    return Module.from_expr(b.function([c, x], body))


def test_branches_nest_deeply() -> None:
    x = floats(2)
    np.testing.assert_array_equal(legato.compile(nested(100))(flag(True), x), x)
    with pytest.raises(UnsupportedError) as error:
        legato.compile(nested(6_000))
    assert str(error.value) == (
        "unsupported: @main: branches nest more than 100 deep\n  hint: put some of them into a function of their own"
    )


def test_what_is_never_called_does_not_matter() -> None:
    check(
        """
    def @unused(%x: float32) { let %r = ref(%x); ref_read(%r) }
    def @main(%x: float32) { negative(%x) }""",
        [np.float32(2)],
    )


def test_a_module_without_main() -> None:
    with pytest.raises(CompileError) as error:
        compiled("def @g(%x: float32) { %x }")
    assert str(error.value) == "error: the module has no function @main\n  hint: it has @g"


# ------------------------------------------------------------------ memory


def test_memory_of_called_functions_counts() -> None:
    exe = check(
        """
    def @inner(%x: Tensor[(n, 16), float32]) { nn.softmax(nn.softmax(%x, axis=0), axis=0) }
    def @outer(%x: Tensor[(n, 16), float32]) { @inner(concatenate((%x, %x), axis=0)) }
    def @main(%x: Tensor[(k, 16), float32]) { nn.softmax(@outer(%x), axis=0) }""",
        [floats(5, 16)],
    )
    assert 0 < exe._free[-1].peak <= exe.peak_memory(k=5)
