"""Sums of products as several sums side by side: where a machine repeats no single element along a vector but by a
shuffle, and where channels leave vectors partly empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.base.target import TARGETS, Target, target
from legato.codegen.compile import assembly
from legato.codegen.emit import emit_module
from legato.codegen.spills import InnerLoop, innermost_loops
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.lower.algorithms.interleaved import interleave
from legato.lower.rules.tile_shape import FEW_ROWS, interleaved_shapes
from legato.te.tensor import Axis, Reduction, placeholder
from tests.lower.programs import interpreted, lowered
from tests.machines import EVERY, LEVELS
from tests.programs.settings import examples

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


def check(mod: Module, level: Target = V2) -> None:
    """The compiled result is the interpreter's."""
    shapes = [t.static_shape() for t in types(mod)]
    arrays = [np.random.default_rng(n).standard_normal(shape).astype("float32") for n, shape in enumerate(shapes)]
    expected = np.asarray(evaluate(mod, arrays, float64=True))
    got = np.asarray(legato.compile(mod, target=level.name)(*arrays))
    np.testing.assert_allclose(got, expected, atol=2e-6 * max(1, np.abs(expected).max()), rtol=1e-5)


@examples(12, fuzz=False, heavy=30)
@given(st.integers(1, 35), st.sampled_from([1, 2, 3, 8, 66, 600]), st.integers(1, 80), st.sampled_from(LEVELS))
def test_products_of_any_shape(rows: int, terms: int, channels: int, level: Target) -> None:
    check(dense(rows, terms, channels), level)


@pytest.mark.parametrize("level", EVERY)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("rows", "terms", "channels"), [(3, 4, 12), (7, 600, 20), (1, 2, 5), (9, 68, 24), (8, 4, 22)])
@pytest.mark.shared(3)
def test_lanes_in_any_order(rows: int, terms: int, channels: int, backwards: bool, level: Target) -> None:
    mod = dense(rows, terms, channels)
    arrays = [
        np.random.default_rng(n).integers(-9, 9, t.static_shape()).astype("float32") for n, t in enumerate(types(mod))
    ]
    (out,) = interpreted(lowered(mod, level), arrays, backwards=backwards)
    np.testing.assert_array_equal(out, np.asarray(evaluate(mod, arrays)))


@pytest.mark.parametrize("level", EVERY)
@pytest.mark.parametrize(
    ("size", "stride", "data", "channels"),
    [(9, 1, 6, 9), (9, 2, 4, 4), (12, 1, 32, 20), (20, 1, 96, 24), (20, 1, 64, 72), (20, 1, 64, 22), (20, 2, 64, 40)],
)
@pytest.mark.shared(3)
def test_windows(size: int, stride: int, data: int, channels: int, level: Target) -> None:
    check(convolution(size, stride, data, channels), level)


def tiles(mod: Module, level: Target = V2) -> list[InnerLoop]:
    """The innermost loops of products."""
    product = "vfmadd" if level.fma else "mulps"
    texts = [assembly(emit_module([k], level, {}), level) for k in lowered(mod, level).kernels.values()]
    return [inner for text in texts for inner in innermost_loops(text) if inner.count(product) >= 16]


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
        copies = [i for i in inner.instructions if i.startswith("movap") and i.count("%xmm") == 2]
        loads = [i for i in inner.instructions if i.startswith(("movups", "movaps")) and i.count("%xmm") == 1]
        assert len(copies) + len(loads) <= products  # what a product replaces is copied or loaded, not both
        if rows == 6 and terms % 2 == 0:  # there are registers for weights
            assert len(loads) * 6 == products
        elif rows == 6:  # there are none
            assert not copies


@pytest.mark.parametrize("channels", [4, 6, 12, 20, 64, 1000, None])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 7, 56])
def test_a_tile_fits_the_registers(channels: int | None, rows: int) -> None:
    extent = Var("c", dt.index, 1) if channels is None else const(channels)
    (shape,) = interleaved_shapes(extent, rows, dt.float32, V2)
    assert shape.terms == 2
    assert shape.vectors % shape.terms == 0
    assert shape.rows <= rows
    assert shape.rows * shape.vectors + 3 < V2.vector_registers
    assert rows == 5 or shape.rows * shape.vectors * 3 >= V2.vector_registers or channels in (4, 6, 20, 1000)


@pytest.mark.parametrize("level", [t for t in TARGETS.values() if t.fma], ids=lambda t: t.name)
@pytest.mark.parametrize("channels", [20, 24, 36, 40, 56, 72])
def test_vectors_that_channels_leave_partly_empty(channels: int, level: Target) -> None:
    lanes = level.lanes(dt.float32)
    shapes = interleaved_shapes(const(channels), 56, dt.float32, level)
    assert bool(shapes) == (channels % lanes != 0)
    for shape in shapes:
        assert (shape.rows + 1) * shape.vectors < level.vector_registers
        assert -(-channels // shape.width) * shape.vectors / shape.terms <= 0.9 * -(-channels // lanes)
    found = tiles(dense(3 * shapes[0].rows if shapes else 56, 64, channels), level)
    assert found
    for inner in found:
        assert inner.stack_references == 0
        assert inner.count("shuf") == inner.count("perm") == 0


@pytest.mark.parametrize("level", EVERY)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32, dt.int64], ids=str)
def test_each_vector_has_whole_channels(dtype: dt.DType, level: Target) -> None:
    for channels in range(1, 200):
        for shape in interleaved_shapes(const(channels), 56, dtype, level):
            assert shape.lanes % shape.terms == 0
            assert shape.places % shape.terms == 0


@pytest.mark.parametrize("level", EVERY)
@pytest.mark.parametrize("channels", [5, 7, 10, 20, 24, 36])
@pytest.mark.parametrize("dtype", ["float64", "int64", "int32"])
@pytest.mark.shared(4)
def test_other_dtypes(channels: int, dtype: str, level: Target) -> None:
    mod = legato.parse(f"""#[version = "0.0.5"]
    def @main(%x: Tensor[(16, 64), {dtype}], %w: Tensor[({channels}, 64), {dtype}]) {{ nn.dense(%x, %w) }}""")
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, (n, 64)).astype(dtype) for n in (16, channels))
    np.testing.assert_array_equal(legato.compile(mod, target=level.name)(x, w), x @ w.T)


def test_where_there_is_one_sum() -> None:
    for level in TARGETS.values():
        assert not interleaved_shapes(const(64), 56, dt.float64, level)
        if level is not V2:
            assert not interleaved_shapes(const(64), 56, dt.float32, level)
            assert not interleaved_shapes(const(24), FEW_ROWS, dt.float32, level)
            assert not interleaved_shapes(Var("c", dt.index, 1), 56, dt.float32, level)
    assert not interleaved_shapes(const(3), 56, dt.float32, V2)  # channels that do not fill a vector


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
