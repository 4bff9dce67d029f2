"""Winograd's algorithm, scheduled and compiled: the result is the convolution's, whatever the blocks and threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato.ops  # noqa: F401  # gives operators their names
from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.base.precision import Precision
from legato.base.target import TARGETS, Target
from legato.codegen.compile import assembly
from legato.codegen.emit import emit_module
from legato.codegen.spills import innermost_loops
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from legato.lower import reductions
from legato.lower.algorithms.cook_toom import F1, F2, F4, Schemes
from legato.lower.algorithms.winograd import Window
from legato.lower.rules.tile_shape import pick_shape
from legato.lower.rules.winograd_cost import WinogradPlan
from legato.ops import table
from tests.lower.programs import interpreted, lowered
from tests.machines import LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
V4 = TARGETS["x86-64-v4"]
needs_v4 = pytest.mark.skipif(V4 not in LEVELS, reason="needs AVX-512")
PAIRS = ((F2, F2), (F4, F4), (F1, F2), (F2, F1), (F1, F4), (F4, F1))


def convolution(
    shape: tuple[int, int, int, int],
    outs: int,
    *,
    padding: tuple[int, ...] = (1, 1),
    symbolic: str = "",
    epilogue: tuple[str, ...] = ("bias_add", "nn.relu"),
    seed: int = 0,
    scale: float = 1.0,
) -> Module:
    """A 3 × 3 convolution of NHWC data with constant weights, and what follows it; `symbolic` names symbolic dims."""
    b, ops, rng = Builder(), table(), np.random.default_rng(seed)
    sizes = [fresh(name) if name in symbolic else size for name, size in zip("nhwc", shape, strict=True)]
    c = shape[-1]
    x = ir.Var("x", ty=TensorType(dims(sizes), dt.float32))
    weights = (rng.standard_normal((outs, c, 3, 3)) * scale / np.sqrt(9 * c)).astype(np.float32)
    conv = ops["nn.conv2d"]
    y = b.call_op(conv, [x, b.constant(weights)], conv.attrs(padding=padding, data_layout="NHWC"))
    for name in epilogue:
        if name == "bias_add":
            y = b.call_op(ops["add"], [y, b.constant(rng.standard_normal(outs).astype(np.float32))])
        else:
            y = b.call_op(ops[name], [y])
    return Module.from_expr(b.function([x], y))


def data(shape: tuple[int, ...], seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compiled(mod: Module, precision: Precision = Precision.DEFAULT, target: Target = V4) -> Any:
    return compile_module(mod, CompileOptions(target, precision=precision)).executable


def is_winograd(mod: Module, precision: Precision = Precision.DEFAULT, target: Target = V4) -> bool:
    """Whether weights were transformed."""
    shapes = [node.data.shape for node in lowered(mod, target, precision).constants.values()]
    points = [(down.inputs, across.inputs) for down, across in PAIRS]
    return any(s[1:3] in points and len(s) == 5 for s in shapes)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes every convolution that can be computed by schemes use them, in blocks of a given size."""

    def force(schemes: Schemes, tiles: int, is_whole: bool) -> None:
        def choose(window: Window, target: Target, precision: Precision) -> WinogradPlan:
            shape = pick_shape(window.channel.extent, None, [window.data], target)
            return WinogradPlan(window, schemes, shape, tiles, is_whole)

        monkeypatch.setattr(reductions, "choose", choose)

    return force


sizes = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.sampled_from((1, 3, 16, 17, 33)))


@examples(8, fuzz=False, heavy=20)
@given(sizes, st.sampled_from((16, 20, 32, 40, 70)), st.sampled_from(((1, 1), (1, 0, 1, 2), (2, 1, 0, 1))),
       st.sampled_from(("", "n", "hw", "nhw")), st.sampled_from(LEVELS), st.sampled_from(PAIRS),
       st.integers(1, 13), st.booleans(),
       st.sampled_from(((), ("bias_add", "nn.relu"), ("bias_add", "sigmoid"))))  # fmt: skip
def test_compiled_is_the_convolution(
    forced: Any,
    shape: tuple[int, int, int, int],
    outs: int,
    padding: tuple[int, ...],
    symbolic: str,
    target: Target,
    schemes: Schemes,
    tiles: int,
    is_whole: bool,
    epilogue: tuple[str, ...],
) -> None:
    n, h, w, c = shape
    shape = (n, h + 2, w + 2, c)
    forced(schemes, tiles, is_whole)
    mod = convolution(shape, outs, padding=padding, symbolic=symbolic, epilogue=epilogue)
    assert is_winograd(mod, target=target)
    x = data(shape)
    exact = interpret(mod, [x], float64=True)[0]
    exe = compiled(mod, target=target)
    results = [exe.with_threads(threads)(x) for threads in (1, 2, 4)]
    assert np.allclose(results[0], exact, rtol=0, atol=2e-5 * max(1, np.abs(exact).max()))
    assert all(r.tobytes() == results[0].tobytes() for r in results)


@pytest.mark.parametrize("schemes", PAIRS, ids=["F2", "F4", "F1xF2", "F2xF1", "F1xF4", "F4xF1"])
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "apart"])
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.shared(4)
def test_loop_programs(forced: Any, schemes: Schemes, is_whole: bool, backwards: bool) -> None:
    """No access out of bounds, nothing read that was not written, no order among the blocks."""
    forced(schemes, 3, is_whole)
    mod = convolution((2, 5, 3, 3), 17)
    x = data((2, 5, 3, 3))
    (out,) = interpreted(lowered(mod, V4), [x], backwards=backwards)
    exact = interpret(mod, [x], float64=True)[0]
    assert np.allclose(out, exact, rtol=0, atol=1e-5)


@needs_v4
@pytest.mark.parametrize("precision", [Precision.DEFAULT, Precision.FAST], ids=lambda p: p.value)
def test_an_image_has_the_same_bits_alone_and_in_a_batch(precision: Precision) -> None:
    exe = compiled(convolution((3, 15, 13, 32), 64, symbolic="n"), precision)
    x = data((3, 15, 13, 32))
    together = exe(x)
    for n in range(3):
        assert exe(x[n : n + 1]).tobytes() == together[n : n + 1].tobytes()


@needs_v4
def test_few_and_many_tiles_of_a_symbolic_batch() -> None:
    """Two kernels, or all in one: the same bits as those of programs for that many, in memory that does not grow."""
    shape, outs = (20, 28, 28, 64), 320
    exe, x = compiled(convolution(shape, outs, symbolic="n")), data(shape)
    for n in (1, 7, 20):
        static = compiled(convolution((n, *shape[1:]), outs))(x[:n])
        for threads in (1, 2, 4):
            assert exe.with_threads(threads)(x[:n]).tobytes() == static.tobytes()
    assert exe.peak_memory(n=20) <= exe.peak_memory(n=4)


@needs_v4
def test_images_of_few_tiles_share_a_block() -> None:
    """Blocks of several images, the last of fewer: the same bits as those of programs for that many."""
    shape = (5, 8, 8, 256)
    exe, x = compiled(convolution(shape, 256, symbolic="n")), data(shape)
    assert exe.peak_memory(n=3) - exe.peak_memory(n=2) < exe.peak_memory(n=4) - exe.peak_memory(n=3)
    for n in (1, 2, 3, 4, 5):
        static = compiled(convolution((n, *shape[1:]), 256))(x[:n])
        for threads in (1, 2, 4):
            assert exe.with_threads(threads)(x[:n]).tobytes() == static.tobytes()


@needs_v4
def test_errors_are_as_stated() -> None:
    mod = convolution((1, 16, 16, 256), 64, epilogue=())
    x = np.maximum(data((1, 16, 16, 256)), 0)
    exact = interpret(mod, [x], float64=True)[0]
    rms = np.sqrt(np.mean(np.square(exact)))
    found = {}
    for precision in Precision:
        error = compiled(mod, precision)(x) - exact
        found[precision] = np.sqrt(np.mean(np.square(error))) / rms, np.abs(error).max() / rms
    assert found[Precision.EXACT][0] < 2.5e-7
    assert found[Precision.DEFAULT][0] < 5e-7
    assert found[Precision.FAST][0] < 1.6e-6
    assert found[Precision.DEFAULT][1] < 4e-6
    assert found[Precision.FAST][1] < 3e-5


@needs_v4
@pytest.mark.parametrize(("precision", "reach"), [(Precision.EXACT, 1), (Precision.DEFAULT, 3), (Precision.FAST, 5)])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinities_and_nans_stay_in_their_tiles(precision: Precision, reach: int, value: float) -> None:
    exe = compiled(convolution((1, 24, 24, 64), 64, epilogue=()), precision)
    x = data((1, 24, 24, 64))
    clean = exe(x)
    x[0, 11, 12, 5] = value
    hit = exe(x)
    near = np.zeros((24, 24), np.bool_)
    near[11 - reach : 12 + reach, 12 - reach : 13 + reach] = True
    assert not np.isfinite(hit[0, 10:13, 11:14]).any()
    assert (hit[0][~near] == clean[0][~near]).all()


@needs_v4
def test_who_is_chosen() -> None:
    large = convolution((1, 56, 56, 64), 64)
    assert is_winograd(large)
    assert is_winograd(large, Precision.FAST)
    assert not is_winograd(large, Precision.EXACT)
    assert not is_winograd(convolution((1, 7, 7, 128), 32))  # little to do: another kernel costs more than it saves
    assert not is_winograd(convolution((1, 56, 56, 3), 64))  # transforms cost as much as products
    assert not is_winograd(convolution((1, 56, 56, 64), 8))  # channels that do not fill a vector
    assert is_winograd(convolution((4, 28, 28, 64), 64, symbolic="nhw"))


@needs_v4
@pytest.mark.parametrize(
    ("shape", "symbolic", "points"),
    [((1, 7, 7, 512), "", (3, 4)), ((1, 10, 5, 512), "", (4, 3)), ((8, 7, 7, 512), "", (4, 4)),
     ((1, 7, 7, 512), "n", (4, 4))],
)  # fmt: skip
def test_few_results_read_fewer_weights(
    shape: tuple[int, int, int, int], symbolic: str, points: tuple[int, int]
) -> None:
    """Weights transformed along one dimension, that of which windows there are more; of a symbolic batch along both."""
    program = lowered(convolution(shape, 512, symbolic=symbolic), V4)
    assert [s[1:3] for node in program.constants.values() if len(s := node.data.shape) == 5] == [points]


@needs_v4
@pytest.mark.parametrize(
    ("size", "channels", "kernels"), [(56, 64, 1), (112, 128, 1), (28, 128, 1), (14, 256, 2), (7, 512, 2)]
)
def test_blocks_stay_in_the_cache_and_on_the_stack(size: int, channels: int, kernels: int) -> None:
    program = lowered(convolution((1, size, size, channels), channels, padding=(0, 0)), V4)
    assert len(program.kernels) <= kernels + 1
    text = "\n".join(emit_module([k], V4, {}) for k in program.kernels.values())
    stack = sum(int(line.partition("[")[2].split()[0]) for line in text.splitlines() if " alloca [" in line)
    assert stack <= V4.l2_bytes // 2 + (1 << 15)


@needs_v4
@pytest.mark.parametrize(
    ("size", "channels", "width", "points"),
    [(56, 64, 64, (4, 4)), (14, 256, 32, (4, 4)), (9, 256, 16, (4, 4)), (7, 512, 16, (3, 4))],
)
def test_weights_from_memory_meet_all_tiles_at_once(
    size: int, channels: int, width: int, points: tuple[int, int]
) -> None:
    """Few tiles: one register tile that is as wide as there are registers for. Many: a tall one. Very few: weights that
    are transformed along one dimension, which are fewer."""
    mod = convolution((1, size, size, channels), channels)
    packed = [s for node in lowered(mod, V4).constants.values() if len(s := node.data.shape) == 5]
    assert packed == [(channels // width, *points, channels, width)]
    x = data((1, size, size, channels))
    (exact,) = interpret(mod, [x], float64=True)
    assert np.allclose(compiled(mod)(x), exact, rtol=0, atol=1e-4)


@needs_v4
@pytest.mark.parametrize("precision", [Precision.DEFAULT, Precision.FAST], ids=lambda p: p.value)
@pytest.mark.parametrize(("size", "channels"), [(56, 64), (14, 256), (9, 256), (7, 512)])
def test_products_stay_in_registers(size: int, channels: int, precision: Precision) -> None:
    program = lowered(convolution((1, size, size, channels), channels), V4, precision)
    loops = list(
        itertools.chain.from_iterable(
            innermost_loops(assembly(emit_module([k], V4, {}), V4)) for k in program.kernels.values()
        )
    )
    tiles = [loop for loop in loops if loop.count("vfmadd") >= 64]
    assert tiles
    assert all(loop.stack_references <= 1 for loop in tiles)


@needs_v4
def test_no_elements() -> None:
    exe = compiled(convolution((1, 16, 16, 64), 64, symbolic="n"))
    assert exe(np.zeros((0, 16, 16, 64), np.float32)).shape == (0, 16, 16, 64)


@needs_v4
def test_a_thread_with_a_small_stack() -> None:
    exe = compiled(convolution((1, 64, 64, 64), 64))
    x = data((1, 64, 64, 64))
    results: list[Array] = []
    old = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=lambda: results.append(exe.with_threads(1)(x)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert results[0].tobytes() == exe(x).tobytes()
