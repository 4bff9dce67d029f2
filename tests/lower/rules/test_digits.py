"""Axes that are taken apart: shuffles, interleaving, heads joined and split; compiled, they are what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Var, const, floordiv, floormod
from legato.base import dtype as dt
from legato.base.target import Target
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.lower.rules.digits import digit
from legato.ops import table
from legato.te.tensor import Axis, placeholder
from tests.machines import LEVELS
from tests.programs.settings import examples


def shuffle(rows: int, groups: int, each: int, dtype: str = "float32") -> Module:
    """Channels of two tensors, interleaved by groups, with something computed on them."""
    n = groups * each
    return infer(parse(f"""#[version = "0.0.5"]
def @main(%x: Tensor[({rows}, {n}), {dtype}], %y: Tensor[({rows}, {n}), {dtype}]) {{
  let %c = concatenate((%x, negative(%y)), axis=1);
  let %a = reshape(%c, newshape=[{rows}, {groups}, {2 * each}]);
  let %t = transpose(%a, axes=[0, 2, 1]);
  reshape(%t, newshape=[{rows}, {2 * n}])
}}""", ops=table()))  # fmt: skip


def joined(rows: int, heads: int, width: int) -> Module:
    """Heads that lie one behind the other, side by side."""
    return infer(parse(f"""#[version = "0.0.5"]
def @main(%x: Tensor[(2, {heads}, {rows}, {width}), float32]) {{
  let %t = transpose(%x, axes=[0, 2, 1, 3]);
  reshape(%t, newshape=[2, {rows}, {heads * width}])
}}""", ops=table()))  # fmt: skip


def check(mod: Module, inputs: list[Any], target: Target) -> None:
    exe: Any = compile_module(mod, CompileOptions(target)).executable
    (want,) = interpret(mod, inputs, float64=False)
    assert all(np.array_equal(exe.with_threads(threads)(*inputs), want) for threads in (1, 2))


@examples(25, fuzz=False)
@given(st.integers(1, 5), st.integers(2, 5), st.integers(1, 40), st.sampled_from(("float32", "int64", "int8")),
       st.sampled_from(LEVELS))  # fmt: skip
def test_shuffles(rows: int, groups: int, each: int, dtype: str, target: Target) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-99, 99, (rows, groups * each)).astype(dtype) for _ in range(2)]
    check(shuffle(rows, groups, each, dtype), inputs, target)


@examples(15, fuzz=False)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 70), st.sampled_from(LEVELS))
def test_heads_are_joined(rows: int, heads: int, width: int, target: Target) -> None:
    x = np.random.default_rng(0).standard_normal((2, heads, rows, width)).astype(np.float32)
    check(joined(rows, heads, width), [x], target)


AXES = [(2, 116, 2), (64, 768, 64), (5, 100, None), (2, 17, None), (2, 30, None), (20, 20, None)]


@pytest.mark.parametrize(("g", "extent", "wanted"), AXES)
def test_which_axes(g: int, extent: int, wanted: int | None) -> None:
    """Digits of at least a vector, or so few that one shuffle interleaves them."""
    c, x = Var("c", dt.index, 0), placeholder("x", (extent, extent), "float32")
    body = x[floordiv(c, const(g)), floormod(c, const(g))]
    assert digit(Axis(c, const(extent)), body, 16) == wanted
