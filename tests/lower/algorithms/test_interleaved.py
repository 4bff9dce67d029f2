"""Sums of products as two sums side by side, on machines that repeat a single element along a vector by a shuffle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legato
from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.base.target import target
from legato.codegen.compile import assembly
from legato.codegen.emit import emit_module
from legato.codegen.spills import InnerLoop, innermost_loops
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.lower.algorithms.interleaved import interleave
from legato.lower.rules.tile_shape import interleaved_shape, terms_for
from legato.te.tensor import Axis, Reduction, placeholder
from tests.lower.programs import interpreted, lowered

V2 = target("x86-64-v2")


def dense(rows: int, terms: int, channels: int) -> Module:
    """relu(x · wᵀ + b)."""
    return legato.parse(f"""#[version = "0.0.5"]
    def @main(%x: Tensor[({rows}, {terms}), float32], %w: Tensor[({channels}, {terms}), float32],
              %b: Tensor[({channels}), float32]) {{
      nn.relu(nn.bias_add(nn.dense(%x, %w), %b))
    }}""")


def convolution(size: int, stride: int, data: int, channels: int) -> Module:
    """A convolution over windows of 3 × 3, padded."""
    return legato.parse(f"""#[version = "0.0.5"]
    def @main(%x: Tensor[(2, {data}, {size}, {size}), float32], %w: Tensor[({channels}, {data}, 3, 3), float32]) {{
      nn.conv2d(%x, %w, strides=[{stride}, {stride}], padding=[1, 1], channels={channels}, kernel_size=[3, 3])
    }}""")


def types(mod: Module) -> list[TensorType]:
    """The types of main's parameters."""
    main = mod["main"]
    assert isinstance(main, Function)
    return [p.ty for p in main.params if isinstance(p.ty, TensorType)]


def check(mod: Module) -> None:
    """The compiled result is the interpreter's."""
    shapes = [t.static_shape() for t in types(mod)]
    arrays = [np.random.default_rng(n).standard_normal(shape).astype("float32") for n, shape in enumerate(shapes)]
    expected = np.asarray(evaluate(mod, arrays, float64=True))
    got = np.asarray(legato.compile(mod, target=V2.name)(*arrays))
    np.testing.assert_allclose(got, expected, atol=2e-6 * max(1, np.abs(expected).max()), rtol=1e-5)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 15), st.sampled_from([1, 2, 3, 8, 66, 600]), st.integers(1, 40))
def test_products_of_any_shape(rows: int, terms: int, channels: int) -> None:
    check(dense(rows, terms, channels))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("rows", "terms", "channels"), [(3, 4, 12), (7, 600, 20), (1, 2, 5)])
def test_lanes_in_any_order(rows: int, terms: int, channels: int, backwards: bool) -> None:
    mod = dense(rows, terms, channels)
    arrays = [
        np.random.default_rng(n).integers(-9, 9, t.static_shape()).astype("float32") for n, t in enumerate(types(mod))
    ]
    (out,) = interpreted(lowered(mod, V2), arrays, backwards=backwards)
    np.testing.assert_array_equal(out, np.asarray(evaluate(mod, arrays)))


@pytest.mark.parametrize(("size", "stride", "data", "channels"), [(9, 1, 6, 9), (9, 2, 4, 4), (12, 1, 32, 20)])
def test_windows(size: int, stride: int, data: int, channels: int) -> None:
    check(convolution(size, stride, data, channels))


def tiles(mod: Module) -> list[InnerLoop]:
    """The innermost loops of products."""
    texts = [assembly(emit_module([k], V2, {}), V2) for k in lowered(mod, V2).kernels.values()]
    return [inner for text in texts for inner in innermost_loops(text) if inner.count("mulps") >= 16]


@pytest.mark.parametrize("rows", [6, 7, 56])
@pytest.mark.parametrize(("terms", "spread"), [(64, "movddup"), (65, "movss")])
def test_products_and_loads_alone(rows: int, terms: int, spread: str) -> None:
    found = tiles(dense(rows, terms, 64))
    assert found
    for inner in found:
        products = inner.count("mulps")
        assert inner.count("addps") == products
        assert inner.count(spread) * 2 <= products  # each element that is read serves several vectors
        assert inner.count("shufps") == (0 if terms % 2 == 0 else inner.count("movss"))
        assert inner.stack_references == 0
        assert not [i for i in inner.instructions if i.startswith("movap") and i.count("%xmm") == 2]


@pytest.mark.parametrize("channels", [4, 6, 12, 20, 64, 1000, None])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 7, 56])
def test_a_tile_fits_the_registers(channels: int | None, rows: int) -> None:
    extent = Var("c", dt.index, 1) if channels is None else const(channels)
    shape = interleaved_shape(extent, rows, dt.float32, V2)
    assert shape.terms == 2
    assert shape.vectors % shape.terms == 0
    assert shape.rows <= rows
    assert shape.rows * shape.vectors + 3 < V2.vector_registers
    assert rows == 5 or shape.rows * shape.vectors * 3 >= V2.vector_registers or channels in (4, 6, 20, 1000)


def test_where_single_elements_are_repeated_there_is_one_sum() -> None:
    for name in ("x86-64-v3", "x86-64-v4"):
        assert terms_for(const(64), dt.float32, target(name)) == 1
    assert terms_for(const(64), dt.float64, V2) == 1
    assert terms_for(const(3), dt.float32, V2) == 1  # channels that do not fill a vector
    assert terms_for(const(64), dt.float32, V2) == 2


def test_what_does_not_fall_apart() -> None:
    i, k, c = Var("i", lo=0), Var("k", lo=0), Var("c", lo=0)
    x, across, w = (placeholder(name, (8, 8), dt.float32) for name in ("x", "t", "w"))
    channel, row = Axis(c, const(8)), Axis(i, const(8))

    def falls(body: Expr, extent: int = 8, combiner: str = "sum") -> bool:
        red = Reduction(combiner, (Axis(k, const(extent)),))
        return interleave(body, red, channel, row, 2) is not None

    assert falls(x[i, k] * w[k, c])
    assert falls(w[k, c] * x[i, k])
    assert not falls(x[i, k] * w[k, c], extent=7)
    assert not falls(x[i, k] * w[k, c], combiner="max")
    assert not falls(x[i, k] + w[k, c])
    assert not falls(across[k, i] * w[k, c])  # neighbours do not lie along the axis summed over
    assert not falls(x[i, k] * w[i, c])  # weights of every row
    assert not falls(x[c, k] * w[k, c])  # no data that all channels share
