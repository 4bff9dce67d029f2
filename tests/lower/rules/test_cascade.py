"""A contraction and the windows of one channel each that read it, as one kernel: whatever the blocks and threads."""

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
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from legato.lower import cascaded
from legato.lower.access import extent_of
from legato.ops import table
from legato.tir.buffer import Buffer
from legato.tir.walk import bound_buffers
from tests.lower.programs import interpreted, lowered
from tests.machines import LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
BEST = LEVELS[-1]
CLIP = ("nn.bias_add", "clip")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is between the two is worth keeping in a cache."""
    monkeypatch.setattr(cascaded, "WORTH", 1 << 30)
    monkeypatch.setattr(cascaded, "_is_worth", lambda *_: True)


def program(
    shape: tuple[int, int, int, int],
    channels: int,
    window: int = 3,
    stride: int = 1,
    padding: tuple[int, ...] = (1, 1),
    *,
    symbolic: bool = False,
    epilogues: tuple[tuple[str, ...], tuple[str, ...]] = (CLIP, CLIP),
    layout: str = "NCHW",
    first: int = 1,
    is_shared: bool = False,
    then: str = "nn.conv2d",
) -> Module:
    """A convolution of first × first windows to `channels` channels, then one of each channel by itself, or pooling;
    `is_shared`: what is between the two is a result as well."""
    b, ops, rng = Builder(), table(), np.random.default_rng(0)
    n, c, h, w = shape
    sizes = [fresh("n") if symbolic else n, c, h, w]
    x = ir.Var("x", ty=TensorType(dims(sizes if layout == "NCHW" else [sizes[0], h, w, c]), dt.float32))
    conv, axis = ops["nn.conv2d"], layout.index("C")

    def follow(y: ir.Expr, names: tuple[str, ...]) -> ir.Expr:
        for name in names:
            if name == "nn.bias_add":
                bias = b.constant(rng.standard_normal(channels).astype(np.float32))
                y = b.call_op(ops[name], [y, bias], ops[name].attrs(axis=axis))
            elif name == "clip":
                y = b.call_op(ops[name], [y], ops[name].attrs(a_min=-1.0, a_max=1.5))
            elif name == "silu":
                y = b.call_op(ops["multiply"], [y, b.call_op(ops["sigmoid"], [y])])
            else:
                y = b.call_op(ops[name], [y])
        return y

    mix = (rng.standard_normal((channels, c, first, first)) / first / np.sqrt(c)).astype(np.float32)
    weights = rng.standard_normal((channels, 1, window, window)).astype(np.float32)
    same = (first // 2, first // 2)
    wide = b.call_op(conv, [x, b.constant(mix)], conv.attrs(data_layout=layout, padding=same))
    wide = follow(wide, epilogues[0])
    around = {"strides": (stride, stride), "padding": padding}
    if then == "nn.conv2d":
        out = b.call_op(conv, [wide, b.constant(weights)], conv.attrs(data_layout=layout, groups=channels, **around))
    else:
        out = b.call(then, wide, pool_size=(window, window), layout=layout, **around)
    out = follow(out, epilogues[1])
    return Module.from_expr(b.function([x], b.tuple_([wide, out]) if is_shared else out))


def data(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def compiled(mod: Module, target: Target = BEST) -> Any:
    return compile_module(mod, CompileOptions(target)).executable


def wides(mod: Module, target: Target = BEST) -> list[Buffer]:
    """The rows that kernels keep which compute both."""
    return [b for k in lowered(mod, target).kernels.values() for b in bound_buffers(k.body) if b.name == "wide"]


def is_one(mod: Module, target: Target = BEST) -> bool:
    """Whether one kernel computes both."""
    return bool(wides(mod, target))


def lines(target: Target) -> int:
    """Bytes that two vectors of channels take in few lines of some 60 places."""
    return target.vector_bytes << 8


@examples(8, fuzz=False, heavy=25)
@given(st.tuples(st.integers(1, 3), st.sampled_from((1, 3, 16, 70)), st.integers(3, 19), st.integers(3, 19)),
       st.sampled_from((16, 24, 32, 48, 72, 80)), st.sampled_from((1, 2, 3, 5)), st.sampled_from((1, 2, 3)),
       st.sampled_from(((0, 0), (1, 1), (2, 0, 1, 2), (0, 1, 3, 0))), st.booleans(),
       st.sampled_from(((CLIP, CLIP), ((), ()), (("silu",), ("nn.bias_add", "silu")), (("nn.relu",), ()))),
       st.sampled_from(("NCHW", "NHWC")), st.sampled_from((1, 1, 3)),
       st.sampled_from(("nn.conv2d", "nn.conv2d", "nn.max_pool2d", "nn.avg_pool2d")),
       st.sampled_from((cascaded.NEAR, 1 << 13)), st.sampled_from(LEVELS))  # fmt: skip
def test_compiled_is_both(
    always: None,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, int, int, int],
    channels: int,
    window: int,
    stride: int,
    padding: tuple[int, ...],
    symbolic: bool,
    epilogues: tuple[tuple[str, ...], tuple[str, ...]],
    layout: str,
    first: int,
    then: str,
    near: int,
    target: Target,
) -> None:
    monkeypatch.setattr(cascaded, "NEAR", near)
    n, c, h, w = shape
    h, w = h + window, w + window
    if then != "nn.conv2d":  # a window holds more than what is around the image; those of one place need no steps
        window, stride = max(window, 1 + max(padding)), max(2, stride)
    mod = program((n, c, h, w), channels, window, stride, padding, symbolic=symbolic, epilogues=epilogues,
                  layout=layout, first=first, then=then)  # fmt: skip
    assert is_one(mod, target)
    x = data((n, c, h, w) if layout == "NCHW" else (n, h, w, c))
    exact = interpret(mod, [x], float64=True)[0]
    exe = compiled(mod, target)
    results = [exe.with_threads(threads)(x) for threads in (1, 2, 4)]
    assert np.allclose(results[0], exact, rtol=0, atol=1e-5 * max(1, np.abs(exact).max()))
    assert all(r.tobytes() == results[0].tobytes() for r in results)


@examples(4, fuzz=False, heavy=15)
@given(st.integers(40, 130), st.sampled_from((32, 48, 80)), st.sampled_from((2, 3, 5)), st.sampled_from((1, 2, 3)),
       st.sampled_from(((0, 0), (1, 1), (2, 0, 1, 2), (0, 1, 3, 0))), st.sampled_from(("nn.conv2d", "nn.max_pool2d")),
       st.sampled_from((1 << 12, 1 << 13, 1 << 14)), st.sampled_from(LEVELS))  # fmt: skip
def test_columns_in_blocks(
    always: None,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    channels: int,
    window: int,
    stride: int,
    padding: tuple[int, ...],
    then: str,
    near: int,
    target: Target,
) -> None:
    """Whatever the blocks of columns, the sums have the same bits as in whole lines."""
    if then != "nn.conv2d":
        window, stride = max(window, 1 + max(padding)), max(2, stride)
    mod, x = program((2, 5, window, width), channels, window, stride, padding, then=then), data((2, 5, window, width))
    monkeypatch.setattr(cascaded, "FEW_AGAIN", 1)
    found, kept = [], []
    for least in (1 << 30, near):
        monkeypatch.setattr(cascaded, "NEAR", least)
        (wide,) = wides(mod, target)
        kept.append((extent_of(wide.shape[1]) or 0) * (extent_of(wide.shape[2]) or 0))
        exe = compiled(mod, target)
        found += [exe.with_threads(threads)(x) for threads in (1, 3)]
    if channels == 32 and window <= 3 and near == lines(target) and width > 64 * stride:
        assert kept[1] < kept[0]  # among others
    exact = interpret(mod, [x], float64=True)[0]
    assert np.allclose(found[0], exact, rtol=0, atol=1e-5 * max(1, np.abs(exact).max()))
    assert all(f.tobytes() == found[0].tobytes() for f in found)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize(("columns", "padding"), [(50, (1, 1)), (51, (0, 2)), (75, (2, 0, 1, 2))])
@pytest.mark.shared(3)
def test_loop_programs_of_blocks_of_columns(
    always: None, monkeypatch: pytest.MonkeyPatch, columns: int, padding: tuple[int, ...], backwards: bool
) -> None:
    monkeypatch.setattr(cascaded, "NEAR", lines(BEST))
    monkeypatch.setattr(cascaded, "FEW_AGAIN", 1)
    mod, x = program((1, 3, 6, columns), 32, 3, 1, padding), data((1, 3, 6, columns))
    (wide,) = wides(mod)
    assert (extent_of(wide.shape[1]) or 0) < columns
    (out,) = interpreted(lowered(mod, BEST), [x], backwards=backwards)
    assert np.allclose(out, interpret(mod, [x], float64=True)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize(("channels", "stride"), [(32, 1), (40, 2)])
def test_loop_programs(always: None, channels: int, stride: int, backwards: bool) -> None:
    """No access out of bounds, nothing read that was not written, no order among the blocks."""
    mod, x = program((2, 3, 9, 6), channels, 3, stride), data((2, 3, 9, 6))
    (out,) = interpreted(lowered(mod, BEST), [x], backwards=backwards)
    assert np.allclose(out, interpret(mod, [x], float64=True)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("then", ["nn.conv2d", "nn.max_pool2d"])
def test_what_pads_a_contraction_behind_is_not_its_epilogue(always: None, then: str) -> None:
    """Such a stage has places that the contraction has not."""
    b, ops, rng = Builder(), table(), np.random.default_rng(0)
    x, conv = b.var("x", (1, 3, 9, 6)), ops["nn.conv2d"]
    mix, weights = (rng.standard_normal(s).astype(np.float32) for s in ((32, 3, 1, 1), (32, 1, 3, 3)))
    wide = b.call_op(conv, [x, b.constant(mix)], conv.attrs())
    wide = b.call("nn.pad", wide, 0.0, pad_width=((0, 0), (0, 0), (0, 1), (0, 1)))
    if then == "nn.conv2d":
        out = b.call_op(conv, [wide, b.constant(weights)], conv.attrs(groups=32, strides=(2, 2), padding=(1, 1)))
    else:
        out = b.call(then, wide, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    mod = Module.from_expr(b.function([x], out))
    (found,) = interpreted(lowered(mod, BEST), [data((1, 3, 9, 6))])
    exact = interpret(mod, [data((1, 3, 9, 6))], float64=True)[0]
    assert np.allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_one_kernel_if_what_is_between_is_large_and_read_once() -> None:
    large = (1, 16, 56, 56)
    assert is_one(program(large, 96))
    assert is_one(program(large, 96, symbolic=True))
    assert is_one(program((1, 112, 28, 28), 672))
    assert is_one(program((1, 3, 56, 56), 96, first=3))
    assert is_one(program(large, 72, 5, 2, (2, 2), layout="NHWC"))
    assert is_one(program(large, 96, 3, 2, then="nn.max_pool2d"))
    assert is_one(program(large, 96, 2, 2, (0, 0), then="nn.avg_pool2d"))
    assert not is_one(program(large, 96, is_shared=True))
    assert not is_one(program((1, 16, 14, 14), 96))  # it stays in the cache
    assert not is_one(program(large, 96, first=3))  # Winograd's algorithm takes less time
    assert not is_one(program(large, 96, 3, 2, first=3, then="nn.max_pool2d"))
    long = (1, 64000 // BEST.vector_bytes, 28, 28)
    assert not is_one(program(long, 128, 2, 2, (0, 0), then="nn.avg_pool2d"))  # each row reads 128 KB
    line = BEST.vector_registers // 4 - 1
    assert not is_one(program((8, 512, line, line), 2048, line, 1, (0, 0), then="nn.avg_pool2d"))  # short lines
    assert not is_one(program(large, BEST.vector_bytes // 8))  # channels that do not fill a vector
    assert not is_one(program((1, 2000, 28, 28), 96))  # rows that two blocks need take too long to compute twice


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_images_leave_in_the_order_that_is_asked(layout: str) -> None:
    """Whole vectors are stored: channels lie last inside, and are turned round by a kernel of its own."""
    mod = program((1, 16, 56, 56), 96, layout=layout)
    assert is_one(mod)
    bodies = [k.body for k in lowered(mod, BEST).kernels.values()]
    assert len(bodies) == (2 if layout == "NCHW" else 1)
    assert any(b.name.startswith("part") for body in bodies for b in bound_buffers(body)) == (layout == "NCHW")


def test_an_image_has_the_same_bits_alone_and_in_a_batch() -> None:
    exe, x = compiled(program((3, 16, 40, 40), 64, symbolic=True)), data((3, 16, 40, 40))
    together = exe(x)
    for n in range(3):
        assert exe(x[n : n + 1]).tobytes() == together[n : n + 1].tobytes()


@pytest.mark.parametrize("case", ["in both", "in the contraction's", "in the windows'"])
def test_epilogues_may_pad_what_they_add(always: None, case: str) -> None:
    b, ops, rng = Builder(), table(), np.random.default_rng(0)
    x, r = b.var("x", (1, 16, 20, 20)), b.var("r", (1, 96, 18, 18))
    conv = ops["nn.conv2d"]
    mix = b.constant(rng.standard_normal((96, 16, 1, 1)).astype(np.float32))
    weights = b.constant(rng.standard_normal((96, 1, 3, 3)).astype(np.float32))
    more = b.call("nn.pad", r, 0.0, pad_width=((0, 0), (0, 0), (1, 1), (1, 1)))
    channels = b.call("nn.pad", x, 0.0, pad_width=((0, 0), (0, 80), (0, 0), (0, 0)))
    wide = b.call_op(conv, [x, mix], conv.attrs())
    if case != "in the windows'":
        wide = b.call("add", wide, more)
    out = b.call_op(conv, [wide, weights], conv.attrs(groups=96, padding=(1, 1)))
    if case != "in the contraction's":
        out = b.call("add", out, channels)
    mod = Module.from_expr(b.function([x, r], out))
    assert is_one(mod)
    inputs = [data((1, 16, 20, 20)), data((1, 96, 18, 18))]
    exact = interpret(mod, inputs, float64=True)[0]
    assert np.allclose(compiled(mod)(*inputs), exact, rtol=0, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("around", [((1, 1), (0, 0)), ((0, 0), (0, 8)), ((0, 0), (8, 0))], ids=str)
def test_windows_over_padded_channels_or_batch(always: None, around: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """A group that was made by hand pads what it reads in more than the windows' dimensions."""
    b, ops, rng = Builder(), table(), np.random.default_rng(0)
    conv, channels = ops["nn.conv2d"], 32 + sum(around[1])
    x, p, q = b.var("x", (2, 3, 40, 8)), b.var("p", (2, 32, 40, 8)), b.var("q", (channels, 1, 3, 3))
    padded = b.call("nn.pad", p, 0.0, pad_width=(*around, (1, 1), (1, 1)))
    group = b.function([p, q], b.call_op(conv, [padded, q], conv.attrs(groups=channels))).with_attr("Primitive", 1)
    mix = b.constant(rng.standard_normal((32, 3, 1, 1)).astype(np.float32))
    weights = b.constant(rng.standard_normal((channels, 1, 3, 3)).astype(np.float32))
    mod = Module.from_expr(b.function([x], b.call(group, b.call_op(conv, [x, mix], conv.attrs()), weights)))
    assert not is_one(mod)
    given = data((2, 3, 40, 8))
    assert np.allclose(compiled(mod)(given), interpret(mod, [given], float64=True)[0], rtol=0, atol=1e-4)
