"""Register tiles: their shapes fit the registers, and weights from memory are fetched a block ahead."""

from __future__ import annotations

import re

import numpy as np
import pytest

import legato
from legato.arith.expr import Var, const, fresh
from legato.base import dtype as dt
from legato.base.target import target
from legato.compare.exact import interpret
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import constant
from legato.ir.module import Module
from legato.lower import reductions
from legato.lower.rules.tile_shape import pick_shape, single_shape
from legato.ops.conv import conv2d
from legato.ops.linalg import matmul
from legato.te.tensor import Axis
from tests.machines import EVERY_NAME


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("channels", [1, 3, 16, 24, 48, 64, 80, 1000, None])
@pytest.mark.parametrize("rows", [1, 6, 7, 56, None])
def test_a_tile_fits_the_registers(name: str, channels: int | None, rows: int | None) -> None:
    machine = target(name)
    extent = Var("c", dt.index, 1) if channels is None else const(channels)
    row = Axis(Var("m", lo=0), Var("n", dt.index, 1) if rows is None else const(rows))
    shape = pick_shape(extent, row, [const(1.0, dt.float32)], machine)
    weights = shape.vectors if machine.has_three_operands else 1  # others are loaded into a product's register
    assert shape.rows * shape.vectors + weights + 1 < machine.vector_registers
    assert channels is None or shape.lanes < 2 * channels


@pytest.mark.parametrize(
    ("name", "channels", "vectors"),
    [
        ("x86-64-v4", 512, 4),
        ("x86-64-v4", 450, 5),  # 29 vectors: five blocks and four vectors
        ("x86-64-v4", 90, 6),
        ("x86-64-v4", 40, 3),
        ("x86-64-v3", 150, 4),
        ("x86-64-v4", None, 4),
    ],
)
def test_one_row_has_several_sums_under_way(name: str, channels: int | None, vectors: int) -> None:
    extent = Var("c", dt.index, 1) if channels is None else const(channels)
    shape = single_shape(extent, [const(1.0, dt.float32)], target(name))
    assert shape.vectors == vectors


@pytest.mark.parametrize(("rows", "width", "fetched"), [(128, 768, True), (1, 768, False), (128, 64, False)])
def test_weights_from_memory_are_fetched_ahead(rows: int, width: int, fetched: bool) -> None:
    b = Builder()
    x = b.var("x", (rows, width))
    weight = np.random.default_rng(0).standard_normal((width, width)).astype("float32")
    mod = Module.from_expr(b.function([x], b.call(matmul, x, constant(weight))))
    exe = legato.compile(mod, target="x86-64-v3", keep=("tir",))
    assert ("prefetch" in exe.module_after("tir")) is fetched


@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.parametrize(("channels", "size", "fetched"), [(96, 7, True), (96, 1, False), (4, 7, False)])
def test_a_channels_own_weights_are_fetched_ahead(name: str, channels: int, size: int, fetched: bool) -> None:
    """While windows slide over a block of channels, the next block's weights come: not within one place, and not where
    there is a single block."""
    b, rng = Builder(), np.random.default_rng(0)
    x = b.var("x", (1, 8, size, size))
    mix, weight = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((channels, 8, 1, 1), (channels, 1, 5, 5))
    )
    data = b.call(conv2d, x, constant(mix))
    mod = Module.from_expr(b.function([x], b.call(conv2d, data, constant(weight), padding=[2, 2], groups=channels)))
    exe = legato.compile(mod, target=name, keep=("tir",))
    assert ("prefetch" in exe.module_after("tir")) is fetched
    given = rng.standard_normal((1, 8, size, size)).astype(np.float32)
    np.testing.assert_allclose(exe(given), evaluate(mod, [given], float64=True), atol=1e-4)


@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.parametrize(
    ("pool", "channels", "streamed"),
    [
        ("pool_size=[2, 2], strides=[2, 2]", 256, True),
        ("pool_size=[2, 3], strides=[1, 4]", 96, True),  # which overlap, but not along rows
        ("pool_size=[3, 3], strides=[2, 2]", 256, False),
        ("pool_size=[2, 2], strides=[2, 2]", 12, False),
    ],
)
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.shared(3)
def test_windows_apart_are_read_in_long_runs(
    name: str, pool: str, channels: int, streamed: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have many vectors side by side, and the same bits as in any other tile."""
    mod = legato.parse(f"""
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 9, 11, {channels}), float32]) {{ nn.{kind}_pool2d(%x, {pool}, layout="NHWC") }}
""")

    def computed() -> tuple[int, np.ndarray]:
        exe = legato.compile(mod, target=name, keep=("tir",))
        (vectors,) = set(re.findall(r"acc\w*: Buffer\[\(\d+, (\d+), \d+\)", exe.module_after("tir")))
        (found,) = exe.run({"x": x}).values()
        return int(vectors), found

    x = np.random.default_rng(0).standard_normal((1, 9, 11, channels)).astype("float32")
    vectors, found = computed()
    assert (vectors > 4) is streamed
    monkeypatch.setattr(reductions, "streamed_shape", lambda *_: None)
    vectors, plain = computed()
    assert vectors <= 4
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize(
    ("channels", "size", "block"),
    [
        (64, 56, "i"),  # 147 KB of weights stay in cache
        (128, 56, "i"),  # 590 KB nearly do, and data are 1.6 MB
        (128, 14, "p // 4"),  # data are 100 KB; two lines are one tile
        (64, 14, "p // 4"),  # data are 50 KB, less than the weights
        (256, 56, "p // 28"),  # 2.4 MB of weights
    ],
)
def test_threads_share_the_data_or_the_weights(channels: int, size: int, block: str) -> None:
    b = Builder()
    x = b.var("x", (1, size, size, channels))
    weight = np.zeros((3, 3, channels, channels), np.float32)
    conv = {"strides": (2, 2), "padding": (1, 1, 1, 1), "data_layout": "NHWC", "kernel_layout": "HWIO"}
    mod = Module.from_expr(b.function([x], b.call("nn.conv2d", x, constant(weight), **conv)))
    text = legato.compile(mod, target="x86-64-v4", keep=("tir",)).module_after("tir")
    assert re.findall(r" w\[v\w*, l\w*\] = \w+\[([^,]*),", text)[0] == block  # of which block weights are read


@pytest.mark.parametrize("batch", [1, 2, "n"])
@pytest.mark.parametrize(("height", "width"), [(7, 7), (5, 6), (3, 2), (9, 4), (8, 14)])
@pytest.mark.shared(3)
def test_short_lines_share_tiles(height: int, width: int, batch: int | str) -> None:
    """Whatever the lines, and alone or in a batch: the same bits for any number of threads."""
    rng = np.random.default_rng(0)
    mix, weight = (rng.standard_normal(s).astype(np.float32) for s in ((72, 200, 1, 1), (40, 72, 3, 3)))
    b = Builder()
    x = b.var("x", (fresh("n") if batch == "n" else batch, 200, height, width))
    wide = b.call("nn.relu", b.call("nn.conv2d", x, constant(mix)))
    mod = Module.from_expr(b.function([x], b.call("nn.conv2d", wide, constant(weight), padding=(1, 1))))
    exe = legato.compile(mod)
    data = rng.standard_normal((2 if batch == "n" else batch, 200, height, width)).astype(np.float32)
    results = [exe.with_threads(threads)(data) for threads in (1, 2, 4)]
    exact = interpret(mod, [data], float64=True)[0]
    assert np.allclose(results[0], exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    if batch == "n":
        assert exe(data[1:]).tobytes() == results[0][1:].tobytes()


@pytest.mark.parametrize("terms", [64, 65, 67, 197, 512])
def test_sums_in_parts_begin_and_end_in_registers(terms: int) -> None:
    """The first part is stored, not added to zeros; the last is added where the result is stored."""
    b, rng = Builder(), np.random.default_rng(terms)
    x = b.var("x", (40, terms))
    weight = rng.standard_normal((terms, 48)).astype(np.float32)
    mod = Module.from_expr(b.function([x], b.call(matmul, x, constant(weight))))
    exe = legato.compile(mod, keep=("lower",))
    text = exe.module_after("lower")
    assert "if true" not in text.lower()
    assert "if false" not in text.lower()
    assert ("sums" in text) is (terms > 64)
    stored = re.findall(r"matmul\[.*?\] = (.*);", text)
    wanted = r"sums\w*\[.*\] \+ acc" if terms > 64 else "acc"
    assert stored
    assert all(re.match(wanted, value) for value in stored)
    assert not re.search(r"sums\S*\[.*?\] = 0", text)
    data = rng.standard_normal((40, terms)).astype(np.float32)
    np.testing.assert_allclose(exe(data), data.astype(np.float64) @ weight, atol=1e-4)


@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_without_weights_read_memory_as_it_lies(name: str, kind: str) -> None:
    """All channels of a tile come before the next tile."""
    mod = legato.parse(f"""
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 20, 47, 256), float32]) {{
  nn.{kind}_pool2d(%x, pool_size=[3, 3], strides=[2, 2], layout="NHWC")
}}
""")
    exe = legato.compile(mod, target=name, keep=("tir",))
    blocks = [int(n) for n in re.findall(r"for i\w* in 0\.\.(\d+) \{", exe.module_after("tir"))]
    tile = r"for i\w* in 0\.\.\d+ \{\s+(?:if [^{]+ \{\s+)?alloc acc"
    assert blocks
    assert len(re.findall(tile, exe.module_after("tir"))) == len(blocks)
    x = np.random.default_rng(0).standard_normal((1, 20, 47, 256)).astype("float32")
    np.testing.assert_allclose(exe(x), evaluate(mod, [x]), rtol=1e-5, atol=1e-5)
