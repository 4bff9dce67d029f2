"""Sums along memory whose terms share an operand: many rows at a time; compiled, they are what they were."""

from __future__ import annotations

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
from legato.ir.expr import Var
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from tests.machines import EVERY, LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
RULE = "alloc dots"  # what only this rule writes


def small(rng: np.random.Generator, *shape: int) -> Array:
    """Integers as floats: their sums are exact in any order."""
    return rng.integers(-3, 4, shape).astype(np.float32)


def heat_map(
    channels: int, size: tuple[int, int], kernel: tuple[int, int], *, is_symbolic: bool = False, spread: int = 1,
    maps: int = 1,
) -> Module:  # fmt: skip
    """A convolution of NHWC data with one output channel, or few (`maps`), and what follows it."""
    b, rng = Builder(), np.random.default_rng(1)
    extents = [fresh(name) if is_symbolic else n for name, n in zip("hw", size, strict=True)]
    x = Var("x", ty=TensorType(dims([2, *extents, channels]), dt.float32))
    down, across = kernel
    pads = (down // 2, across // 2, (down - 1) // 2, (across - 1) // 2)
    weight = b.constant(small(rng, maps, channels, down, across))
    y = b.call("nn.conv2d", x, weight, padding=pads, strides=(1, spread), data_layout="NHWC")
    return Module.from_expr(b.function([x], b.call("nn.relu", b.call("add", y, b.constant(small(rng, maps))))))


def enlarged(channels: int, size: tuple[int, int], kernel: tuple[int, int]) -> Module:
    """A transposed convolution of NHWC data with one output channel: four phases, each with taps of its own."""
    b, (h, w) = Builder(), size
    x = Var("x", ty=TensorType(dims([2, h, w, channels]), dt.float32))
    moved = b.call("transpose", b.call("nn.relu", x), axes=(0, 3, 1, 2))
    weight = b.constant(small(np.random.default_rng(1), channels, 1, *kernel))
    y = b.call("nn.conv2d_transpose", moved, weight, strides=(2, 2), padding=(0, 0, 0, 0), output_padding=(0, 0))
    return Module.from_expr(b.function([x], b.call("nn.relu", y)))


def scores(rows: int | None, terms: int, vectors: int = 1) -> Module:
    """Each row times the same vector, or a few."""
    b = Builder()
    x = Var("x", ty=TensorType(dims([fresh("n") if rows is None else rows, terms]), dt.float32))
    y = b.call("nn.dense", x, b.constant(small(np.random.default_rng(1), vectors, terms)))
    return Module.from_expr(b.function([x], b.call("sigmoid", y)))


def check(mod: Module, x: Array, target: Target, *, rtol: float = 0) -> str:
    """Compiled as interpreted, on one to three threads; the text of its kernels."""
    exe: Any = compile_module(mod, CompileOptions(target, keep=frozenset({"lower"}))).executable
    (want,) = interpret(mod, [x], float64=False)
    found = [exe.with_threads(threads)(x) for threads in (1, 2, 3)]
    np.testing.assert_allclose(found[0], want, rtol=rtol)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    return str(exe.module_after("lower"))


@examples(8, fuzz=False, heavy=25)
@given(st.integers(1, 70), st.tuples(st.integers(1, 4), st.integers(1, 40)), st.integers(1, 3),
       st.tuples(st.integers(1, 3), st.integers(1, 3)), st.booleans(), st.sampled_from(LEVELS))  # fmt: skip
def test_convolutions_with_one_channel(
    channels: int,
    size: tuple[int, int],
    spread: int,
    kernel: tuple[int, int],
    is_symbolic: bool,
    target: Target,
) -> None:
    mod = heat_map(channels, size, kernel, is_symbolic=is_symbolic, spread=spread)
    check(mod, small(np.random.default_rng(0), 2, *size, channels), target)


@examples(8, fuzz=False, heavy=25)
@given(st.integers(1, 70), st.tuples(st.integers(1, 4), st.integers(1, 40)),
       st.tuples(st.integers(2, 4), st.integers(2, 4)), st.sampled_from(LEVELS))  # fmt: skip
def test_transposed_convolutions_to_one_channel(
    channels: int, size: tuple[int, int], kernel: tuple[int, int], target: Target
) -> None:
    check(enlarged(channels, size, kernel), small(np.random.default_rng(0), 2, *size, channels), target)


@examples(6, fuzz=False, heavy=15)
@given(st.integers(1, 70), st.one_of(st.integers(1, 600), st.integers(600, 2000)), st.booleans(), st.integers(1, 9),
       st.sampled_from(LEVELS))  # fmt: skip
def test_rows_times_few_vectors(rows: int, terms: int, is_symbolic: bool, vectors: int, target: Target) -> None:
    x = small(np.random.default_rng(0), rows, terms) / 64
    check(scores(None if is_symbolic else rows, terms, vectors), x, target, rtol=1e-6)


@examples(8, fuzz=False, heavy=25)
@given(st.one_of(st.integers(1, 70), st.integers(200, 300)), st.tuples(st.integers(1, 4), st.integers(1, 40)),
       st.integers(1, 3), st.tuples(st.integers(1, 3), st.integers(1, 5)), st.booleans(), st.integers(2, 9),
       st.sampled_from(LEVELS))  # fmt: skip
def test_convolutions_with_few_channels(
    channels: int,
    size: tuple[int, int],
    spread: int,
    kernel: tuple[int, int],
    is_symbolic: bool,
    maps: int,
    target: Target,
) -> None:
    mod = heat_map(channels, size, kernel, is_symbolic=is_symbolic, spread=spread, maps=maps)
    check(mod, small(np.random.default_rng(0), 2, *size, channels), target)


@examples(8, fuzz=False, heavy=25)
@given(st.integers(1, 40), st.integers(1, 530), st.booleans(), st.integers(1, 40), st.sampled_from(LEVELS),
       st.sampled_from(["int8", "int32", "int64", "float64"]))  # fmt: skip
def test_other_dtypes(rows: int, terms: int, is_symbolic: bool, vectors: int, target: Target, dtype: str) -> None:
    b, rng = Builder(), np.random.default_rng(1)
    x = Var("x", ty=TensorType(dims([fresh("n") if is_symbolic else rows, terms]), dt.dtype(dtype)))
    y = b.call("nn.dense", x, b.constant(rng.integers(-3, 4, (vectors, terms)).astype(dtype)))
    mod = Module.from_expr(b.function([x], b.call("greater", y, b.constant(np.zeros(1, dtype)))))
    check(mod, rng.integers(-3, 4, (rows, terms)).astype(dtype), target)


@pytest.mark.parametrize("target", EVERY)
def test_the_rule_is_used(target: Target) -> None:
    def text(channels: int, size: tuple[int, int], *, is_symbolic: bool = False, maps: int = 1) -> str:
        x = small(np.random.default_rng(0), 2, *size, channels)
        return check(heat_map(channels, size, (3, 3), is_symbolic=is_symbolic, maps=maps), x, target)

    lanes = target.lanes(dt.float32)
    assert RULE in text(4, (5, 21))
    assert RULE in text(4, (5, 21), is_symbolic=True)
    assert RULE in text(4 * lanes, (5, 21), maps=2)
    assert RULE not in text(4 * lanes, (5, 21), maps=lanes), "register tiles"
    phases = check(enlarged(24, (5, 21), (2, 2)), small(np.random.default_rng(0), 2, 5, 21, 24), target)
    assert phases.count(RULE) >= 4
    assert RULE not in text(4, (5, 3)), "too few rows"
    assert "alloc sums" in text(4 * lanes * lanes, (5, 21)), "sums that are formed in parts"
    x = small(np.random.default_rng(0), 20, 20 * lanes) / 64
    assert check(scores(20, 20 * lanes, 2), x, target, rtol=1e-6).count(RULE) > 1, "parts of 16 vectors"
    assert RULE not in text(8 * lanes * lanes, (5, 4)), "parts of one row that would be too long"


def test_windows_that_are_short_along_memory_are_vectors_of_results() -> None:
    b, x = Builder(), Var("x", ty=TensorType(dims([1, 3, 8, 64]), dt.float32))
    y = b.call("nn.max_pool2d", x, pool_size=(2, 2), strides=(2, 2))
    text = check(Module.from_expr(b.function([x], y)), small(np.random.default_rng(0), 1, 3, 8, 64), LEVELS[0])
    assert "vector l" in text
