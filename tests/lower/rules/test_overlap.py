"""Elements that the windows of neighbouring rows share are loaded once, and every sum is what it was without that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Var, const
from legato.base import dtype as dt
from legato.base.target import TARGETS, Target
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.ir.module import Module
from legato.lower.rules import tile_update
from legato.lower.rules.overlap import Overlap, find_overlap
from legato.te.tensor import Axis, placeholder
from legato.tir.expr import Load
from legato.tir.stmt import Store
from legato.tir.walk import statements
from tests.lower.programs import lowered
from tests.machines import LEVELS
from tests.programs.settings import examples

ROW, LAST, CHANNEL = (Axis(Var(name, lo=0), const(n)) for name, n in (("row", 12), ("r", 3), ("c", 16)))


def overlap(step: int = 1, apart: int = 1, reach: int = 3) -> Overlap:
    x = placeholder("x", (100, 16), dt.float32)
    return Overlap(Load(x, (ROW.var * step + LAST.var * apart, CHANNEL.var)), step, apart, reach)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 7), st.integers(1, 14))
def test_meetings_are_all_terms_in_order(step: int, apart: int, reach: int, rows: int) -> None:
    """Each term of each row once, the terms of a row in order; each element once, in order."""
    found, places = [], []
    for m in overlap(step, apart, reach).meetings(rows):
        terms = [(m.row - n * m.back, m.term + n * m.on) for n in range(m.count)]
        (place,) = {row * step + term * apart for row, term in terms}
        places.append(place)
        found += terms
    assert sorted(found) == [(row, term) for row in range(rows) for term in range(reach)]
    assert places == sorted(set(places))
    for row in range(rows):
        assert [term for r, term in found if r == row] == list(range(reach))


def test_what_overlaps() -> None:
    x, w = placeholder("x", (100, 16), dt.float32), placeholder("w", (3, 16), dt.float32)
    row, r, c = ROW.var, LAST.var, CHANNEL.var
    weight = Load(w, (r, c))
    assert find_overlap(Load(x, (row * 2 + r + 5, c)) * weight, ROW, LAST) == Overlap(
        Load(x, (row * 2 + r + 5, c)), 2, 1, 3
    )
    assert find_overlap(Load(x, (row + r * 2, c)), ROW, LAST) is not None
    for apart in (
        Load(x, (row * 3 + r, c)),  # windows beside each other
        Load(x, (row, r)),  # not in one dimension
        Load(x, (row - r, c)),
        Load(x, (r, c)) * Load(w, (r, c)),
        Load(x, (row + r, c)) * Load(x, (row, c)),
    ):
        assert find_overlap(apart, ROW, LAST) is None


def windows(op: str, channels: int, window: int, stride: int, dilation: int) -> Module:
    """Depthwise convolution, or pooling."""
    b = Builder()
    x = b.var("x", (2, 30, 31, channels))
    attrs: dict[str, Any] = {"strides": (stride, stride), "dilation": (dilation, dilation), "padding": (1, 1)}
    layout = {"data_layout" if op == "nn.conv2d" else "layout": "NHWC"}
    if op == "nn.conv2d":
        w = np.random.default_rng(0).standard_normal((channels, 1, window, window)).astype(np.float32)
        return Module.from_expr(b.function([x], b.call(op, x, b.constant(w), groups=channels, **layout, **attrs)))
    return Module.from_expr(b.function([x], b.call(op, x, pool_size=(window, window), **layout, **attrs)))


@examples(6, fuzz=False, heavy=15)
@given(st.sampled_from(("nn.conv2d", "nn.max_pool2d", "nn.avg_pool2d")), st.sampled_from((16, 24, 32, 40, 72)),
       st.integers(2, 7), st.integers(1, 3), st.integers(1, 2), st.sampled_from(LEVELS))  # fmt: skip
def test_results_have_the_same_bits(
    op: str, channels: int, window: int, stride: int, dilation: int, target: Target
) -> None:
    mod = windows(op, channels, window, stride, dilation)
    x = np.random.default_rng(1).standard_normal((2, 30, 31, channels)).astype(np.float32)
    options = CompileOptions(target)
    once = compile_module(mod, options).executable(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tile_update, "find_overlap", lambda *_: None)
        assert not loads_per_tile(mod, target)
        again = compile_module(mod, options).executable(x)
    exact = interpret(mod, [x], float64=True)[0]
    assert once.tobytes() == again.tobytes()
    assert np.allclose(once, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def loads_per_tile(mod: Module, target: Target) -> int:
    """How many statements load one element for several terms."""
    kernels = lowered(mod, target).kernels.values()
    return sum(isinstance(s, Store) and s.buffer.name == "x" for k in kernels for s in statements(k))


def test_where_loads_are_shared() -> None:
    best = TARGETS["x86-64-v4"]
    assert loads_per_tile(windows("nn.conv2d", 32, 3, 1, 1), best)
    assert loads_per_tile(windows("nn.conv2d", 32, 7, 1, 1), best)
    assert not loads_per_tile(windows("nn.conv2d", 32, 3, 3, 1), best)
    assert loads_per_tile(windows("nn.conv2d", 32, 3, 1, 1), TARGETS["x86-64-v3"])
    assert not loads_per_tile(windows("nn.conv2d", 32, 7, 1, 1), TARGETS["x86-64-v3"])  # weights fill the registers
    assert not loads_per_tile(windows("nn.conv2d", 32, 3, 1, 1), TARGETS["x86-64-v2"])
