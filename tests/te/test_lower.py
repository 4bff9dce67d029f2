"""Stages as naive loop programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.te import math as te
from legato.te.lower import identity, to_tir
from legato.te.tensor import Tensor, compute, loops, placeholder, reduce
from legato.tir import interp
from legato.tir.stmt import For, Func, Stmt, Store, block

Array = np.ndarray[Any, Any]


def run(func: Func, inputs: list[Array], shapes: list[tuple[int, ...]], *dims: int) -> list[Array]:
    """The outputs (float32) of a kernel."""
    outputs = [np.zeros(s, np.float32) for s in shapes]
    assert interp.run(func, [*inputs, *outputs, *dims]) == 0
    return outputs


def test_a_chain_of_stages() -> None:
    x = placeholder("x", (3, 4), "float32")
    total = reduce("sum", (3,), (4,), lambda i, r: x[i, r])
    out = compute((3, 4), lambda i, j: x[i, j] / total[i])
    array = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    (got,) = run(to_tir([out], [x], "f"), [array], [(3, 4)])
    np.testing.assert_allclose(got, array / array.sum(1, keepdims=True), rtol=1e-6)


def test_a_shared_stage_is_computed_once() -> None:
    x = placeholder("x", (4,), "float32")
    e = compute((4,), lambda i: te.exp(x[i]))
    out = compute((4,), lambda i: e[i] + e[const(3) - i])
    func = to_tir([out, e], [x], "f")
    assert [p.name for p in func.params if isinstance(p, Tensor)] == ["x", "t", "t"]
    assert sum(isinstance(s, For) for s in _statements(func.body)) == 2


def _statements(stmt: Stmt) -> list[Stmt]:
    return [stmt, *(s for c in stmt.children() for s in _statements(c))]


def test_outputs_that_are_inputs_or_repeated_are_copied() -> None:
    x = placeholder("x", (2,), "float32")
    y = compute((2,), lambda i: -x[i])
    array = np.array([1, 2], np.float32)
    first, second, third = run(to_tir([x, y, y], [x], "f"), [array], [(2,), (2,), (2,)])
    np.testing.assert_array_equal(first, array)
    np.testing.assert_array_equal(second, -array)
    np.testing.assert_array_equal(third, -array)


def test_a_loop_program_with_an_output_that_nobody_reads() -> None:
    x = placeholder("x", (3,), "float32")
    i = Var("i", dt.index, 0)

    def both(a: Tensor, b: Tensor) -> Stmt:
        return For(i, const(3), block(Store(a, (i,), x[i]), Store(b, (i,), -x[i])))

    _, second = loops([((3,), dt.float32), ((3,), dt.float32)], [x], both)
    out = compute((3,), lambda k: second[k] + second[k])
    array = np.array([1, 2, 3], np.float32)
    (got,) = run(to_tir([out], [x], "f"), [array], [(3,)])
    np.testing.assert_array_equal(got, -2 * array)


def test_symbolic_extents() -> None:
    n = Var("n", dt.index, 0)
    x = placeholder("x", (n,), "float32")
    out = reduce("max", (), (n,), lambda r: x[r])
    func = to_tir([out], [x], "f")
    for size in (0, 1, 5):
        array = np.arange(size, dtype=np.float32)
        (got,) = run(func, [array], [()], size)
        assert got == (size - 1 if size else -np.inf)


def test_initial_value() -> None:
    x = placeholder("x", (3,), "float32")
    out = reduce("sum", (), (3,), lambda r: x[r], init=const(10.0, dt.float32))
    assert run(to_tir([out], [x], "f"), [np.ones(3, np.float32)], [()]) == [13]


@pytest.mark.parametrize("combiner", ["max", "min"])
def test_nan_wins(combiner: str) -> None:
    x = placeholder("x", (3,), "float32")
    out = reduce(combiner, (), (3,), lambda r: x[r])
    for at in range(3):
        array = np.array([np.inf, -np.inf, 0], np.float32)
        array[at] = np.nan
        assert np.isnan(run(to_tir([out], [x], "f"), [array], [()])[0])


@given(st.sampled_from(["sum", "prod", "max", "min"]), st.sampled_from([d for d in dt.ALL_DTYPES if not d.is_bool]))
def test_identity_is_neutral(combiner: str, d: dt.DType) -> None:
    combine = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[combiner]
    e = np.asarray(identity(combiner, d).value, d.numpy)
    for value in (0, 1, 100):
        x = np.asarray(value, d.numpy)
        assert combine(x, e) == x


INTEGERS = np.array([0, 1, -1, 7, -7, 127, -128, 3], np.int8)


@given(st.sampled_from(INTEGERS.tolist()), st.sampled_from(INTEGERS.tolist()))
def test_truncating_division_and_remainder(a: int, b: int) -> None:
    x, y = (placeholder(n, (), "int8") for n in "xy")

    def value(f: Any) -> int:
        out = np.zeros((), np.int8)
        func = to_tir([compute((), lambda: f(x[()], y[()]))], [x, y], "f")
        assert interp.run(func, [np.array(a, np.int8), np.array(b, np.int8), out]) == 0
        return int(out)

    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    assert value(te.truncdiv) == (quotient + 128) % 256 - 128
    assert value(te.truncmod) == (a - quotient * b if b else 0)


def test_sign_of_zero_and_nan() -> None:
    x = placeholder("x", (5,), "float32")

    def signs(i: Expr) -> Expr:
        return te.sign(x[i])

    array = np.array([-2, -0.0, 0.0, 3, np.nan], np.float32)
    (got,) = run(to_tir([compute((5,), signs)], [x], "f"), [array], [(5,)])
    np.testing.assert_array_equal(got, np.array([-1, -0.0, 0.0, 1, np.nan], np.float32))
