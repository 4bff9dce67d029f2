"""Reductions along memory, several rows at once or one in each lane: compiled, they are what they were."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.base.target import Target
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Var
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from tests.heavy import light
from tests.machines import EVERY, LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
EPSILON = 2.0**-23
SHAPES = st.one_of(
    st.tuples(st.integers(1, 60), st.integers(1, 70)),
    st.tuples(st.integers(1, 40), st.integers(1, 5), st.integers(1, 40)),
    st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(100, 3000)),
)


def normal(b: Builder, x: Expr, length: int) -> Expr:
    rng = np.random.default_rng(2)
    scale, shift = (b.constant(rng.standard_normal(length).astype(np.float32)) for _ in range(2))
    return b.call("nn.layer_norm", x, scale, shift, axis=-1, epsilon=1e-5)


def spread(b: Builder, x: Expr, _: int) -> Expr:
    """What is reduced also needs the row's maximum, and each element both sums."""
    high = b.call("max", x, axis=(-1,), keepdims=True)
    total = b.call("sum", b.call("subtract", x, high), axis=(-1,), keepdims=True)
    return b.call("add", b.call("multiply", x, high), total)


KINDS = {
    "softmax": lambda b, x, _: b.call("nn.softmax", x, axis=-1),
    "log_softmax": lambda b, x, _: b.call("nn.log_softmax", x, axis=-1),
    "layer_norm": normal,
    "spread": spread,
    "sum": lambda b, x, _: b.call("sum", x, axis=(-1,)),
    "min": lambda b, x, _: b.call("min", b.call("exp", x), axis=(-1,)),
}


def program(kind: str, shape: tuple[int, ...], *, is_symbolic: bool = False) -> Module:
    """Rows along the last axis; how many there are along the others may be symbolic."""
    b = Builder()
    extents = [fresh(f"n{n}") if is_symbolic else d for n, d in enumerate(shape[:-1])]
    x = Var("x", ty=TensorType(dims([*extents, shape[-1]]), dt.float32))
    make: Callable[[Builder, Expr, int], Expr] = KINDS[kind]
    return Module.from_expr(b.function([x], make(b, x, shape[-1])))


def check(mod: Module, x: Array, target: Target) -> tuple[str, Array]:
    """Compiled as interpreted, to the rounding of sums so long, on one to three threads; the text of its kernels."""
    exe: Any = compile_module(mod, CompileOptions(target, keep=frozenset({"lower"}))).executable
    (want,) = interpret(mod, [x], float64=True)
    found = [exe.with_threads(threads)(x) for threads in (1, 2, 3)]
    near = EPSILON * (8 + math.sqrt(x.shape[-1])) * max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(found[0], want, rtol=1e-5, atol=4 * near)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    return str(exe.module_after("lower")), found[0]


def data(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@examples(6, fuzz=False, heavy=12)
@given(SHAPES, st.booleans(), st.sampled_from(LEVELS))
def test_rows(kind: str, shape: tuple[int, ...], is_symbolic: bool, target: Target) -> None:
    check(program(kind, shape, is_symbolic=is_symbolic), data(shape), target)


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", light([*range(1, 10), 15, 16, 17, 100, 300], (2, 17, 300)))
def test_a_row_does_not_depend_on_how_many_there_are(kind: str, length: int, target: Target) -> None:
    x = data((37, length))
    _, together = check(program(kind, x.shape), x, target)
    _, alone = check(program(kind, (1, length)), x[-1:], target)
    assert np.array_equal(together[-1:], alone)


@pytest.mark.parametrize("target", EVERY)
def test_how_rows_are_done(target: Target) -> None:
    lanes = target.lanes(dt.float32)

    def text(*shape: int) -> str:
        return check(program("softmax", shape), data(shape), target)[0]

    assert f"alloc s: Buffer[({lanes},)" in text(400, 2 * lanes), "as many rows as there are lanes"
    assert f"alloc s: Buffer[({lanes},)" in text(400, 3, 2 * lanes), "along the longest axis"
    assert "alloc s: Buffer[(2,)" in text(400, 4096), "what stays in the first cache"
    assert "alloc s: Buffer[(1,)" in text(20, 4096), "each thread has some"
    assert "alloc parts" not in text(400, max(1, lanes // 2)), "one in each lane"
    assert f"parallel p in 0..{2 * (6400 // lanes)}" in text(2, 6400, max(1, lanes // 2)), "shared by threads"
