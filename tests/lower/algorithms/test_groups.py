"""Convolutions in groups: compiled, they are what they were; each group is a contraction of its own."""

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


def small(rng: np.random.Generator, *shape: int) -> Array:
    """Integers as floats: their sums are exact in any order."""
    return rng.integers(-3, 4, shape).astype(np.float32)


def convolution(
    groups: int, inner: int, outer: int, *, kernel: int = 3, stride: int = 1, dilation: int = 1, last: bool = True,
    transposed: bool = False, is_symbolic: bool = False,
) -> Module:  # fmt: skip
    """A convolution of `groups` groups, of `inner` channels each to `outer` each, channels `last` or first."""
    b, rng = Builder(), np.random.default_rng(1)
    height = fresh("h") if is_symbolic else 9
    shape = [2, height, 11, groups * inner] if last else [2, groups * inner, height, 11]
    x = Var("x", ty=TensorType(dims(shape), dt.float32))
    pad = dilation * (kernel // 2)
    attrs: dict[str, Any] = {"groups": groups, "strides": (stride, stride), "dilation": (dilation, dilation)}
    attrs |= {"padding": (pad, pad, pad, pad), "data_layout": "NHWC" if last else "NCHW"}
    if transposed:
        weight = b.constant(small(rng, groups * inner, outer, kernel, kernel))
        y = b.call("nn.conv2d_transpose", x, weight, **attrs)
    else:
        weight = b.constant(small(rng, groups * outer, inner, kernel, kernel))
        y = b.call("nn.conv2d", x, weight, **attrs)
    return Module.from_expr(b.function([x], b.call("nn.relu", y)))


def check(mod: Module, x: Array, target: Target) -> str:
    """Compiled as interpreted, on one to three threads; the text of its kernels."""
    exe: Any = compile_module(mod, CompileOptions(target, keep=frozenset({"lower"}))).executable
    (want,) = interpret(mod, [x], float64=False)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(exe.with_threads(threads)(x), want)
    return str(exe.module_after("lower"))


def data(groups: int, inner: int, *, last: bool = True) -> Array:
    shape = (2, 9, 11, groups * inner) if last else (2, groups * inner, 9, 11)
    return small(np.random.default_rng(0), *shape)


@examples(20, fuzz=False, heavy=60)
@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 40), st.sampled_from([1, 2, 3]), st.integers(1, 2),
       st.integers(1, 3), st.booleans(), st.booleans(), st.sampled_from(LEVELS))  # fmt: skip
def test_any_groups(
    groups: int,
    inner: int,
    outer: int,
    kernel: int,
    stride: int,
    dilation: int,
    last: bool,
    is_symbolic: bool,
    target: Target,
) -> None:
    mod = convolution(groups, inner, outer, kernel=kernel, stride=stride, dilation=dilation, last=last,
                      is_symbolic=is_symbolic)  # fmt: skip
    check(mod, data(groups, inner, last=last), target)


@examples(10, fuzz=False, heavy=25)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 20), st.sampled_from([1, 2, 3]), st.integers(1, 2),
       st.sampled_from(LEVELS))  # fmt: skip
def test_transposed(groups: int, inner: int, outer: int, kernel: int, stride: int, target: Target) -> None:
    mod = convolution(groups, inner, outer, kernel=kernel, stride=stride, last=False, transposed=True)
    check(mod, data(groups, inner, last=False), target)


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize(("inner", "outer", "is_tiled"), [(16, 16, True), (8, 8, True), (4, 32, True), (8, 2, False)])
def test_a_group_is_tiled(inner: int, outer: int, is_tiled: bool, target: Target) -> None:
    text = check(convolution(4, inner, outer), data(4, inner), target)
    kernel = text[text.index("kernel @conv2d_0") :]
    assert ("let a" in kernel) == is_tiled, "what serves all channels of a group is read once"
