"""Packed constants: each kind against its definition, and many at once on several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Expr, Var, const, lt, select
from legato.base.target import Target
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from legato.lower import pack
from legato.lower.expr_data import from_data, to_data
from legato.lower.pack import Packer, packed_array
from legato.lower.stored import StoredPacking
from legato.tir.buffer import Buffer
from legato.tir.expr import Load, cast
from tests.machines import EVERY

RNG = np.random.default_rng(2)


def blocked(channels: int, depth: int, width: int) -> StoredPacking:
    """[channel][depth] in blocks of channels: [block][depth][channel in block], zeros behind the last channel."""
    blocks = -(-channels // width)
    ob, r, oi = axes = [Var(n, lo=0) for n in ("ob", "r", "oi")]
    source = Buffer("w", (const(channels), const(depth)), pack.dt.float32)
    which = ob * width + oi
    value: Expr = Load(source, (which, r))
    if channels % width:
        value = select(lt(which, const(channels)), value, const(0, pack.dt.float32))
    numbers: dict[Any, int] = {source: 0, **{axis: n for n, axis in enumerate(axes)}}
    return StoredPacking(0, (blocks, depth, width), body=to_data(value, numbers.__getitem__))


def by_definition(packing: StoredPacking, source: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    blocks, depth, width = packing.extents
    wanted = np.zeros(packing.extents, source.dtype)
    for o in range(source.shape[0]):
        wanted[o // width, :, o % width] = source[o]
    assert (blocks, depth) == wanted.shape[:2]
    return wanted


@pytest.mark.parametrize(("channels", "depth", "width"), [(32, 5, 16), (33, 4, 16), (7, 1, 8), (1, 3, 4)])
def test_blocks(channels: int, depth: int, width: int) -> None:
    packing, source = blocked(channels, depth, width), RNG.standard_normal((channels, depth)).astype(np.float32)
    np.testing.assert_array_equal(packed_array(packing, source), by_definition(packing, source))


def test_of_what_is_not_read_nothing_is_packed() -> None:
    source = RNG.standard_normal((20, 7)).astype(np.float32)
    np.testing.assert_array_equal(
        packed_array(blocked(20, 5, 8), source), by_definition(blocked(20, 5, 8), source[:, :5])
    )


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize(("data", "channels"), [(13, 32), (16, 24), (3, 40)])
@pytest.mark.parametrize("padding", [(0, 0, 9, 6), (9, 6, 0, 0), (9, 6, 9, 6)])
def test_weights_of_offsets_that_read_padding_alone(
    data: int, channels: int, padding: tuple[int, ...], target: Target
) -> None:
    b, x = Builder(), ir.Var("x", ty=TensorType(dims([2, data, 12, 9]), pack.dt.float32))
    weight = b.constant(RNG.standard_normal((channels, data, 3, 3)).astype(np.float32))
    y = b.call("nn.conv2d", x, weight, padding=padding, dilation=(9, 6))
    module = Module.from_expr(b.function([x], y))
    image = RNG.standard_normal((2, data, 12, 9)).astype(np.float32)
    exe: Any = compile_module(module, CompileOptions(target)).executable
    got, wanted = exe(image), evaluate(module, [image])
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads_from", [0, 1 << 30])
def test_many_at_once(threads_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "WORTH_THREAD", threads_from)
    packer = Packer()
    sources, found = [], []
    for channels in range(1, 40):
        source = RNG.standard_normal((channels, 3)).astype(np.float32)
        sources.append((blocked(channels, 3, 8), source))
        identity = StoredPacking(1, sources[-1][0].extents, body=_same(sources[-1][0].extents))
        between, result = packer.add([sources[-1][0], identity], [ir.constant(source)], {2})
        assert between is None  # nobody reads it
        assert result is not None
        found.append(result)
    packer.run()
    for (packing, source), result in zip(sources, found, strict=True):
        np.testing.assert_array_equal(result.data, by_definition(packing, source))
        assert not result.data.flags.writeable


def _same(extents: tuple[int, ...]) -> Any:
    axes = [Var("i", lo=0) for _ in extents]
    source = Buffer("p", tuple(const(n) for n in extents), pack.dt.float32)
    numbers: dict[Any, int] = {source: 0, **{axis: n for n, axis in enumerate(axes)}}
    return to_data(Load(source, tuple(axes)), numbers.__getitem__)


def test_memory_is_taken_in_order() -> None:
    asked: list[tuple[Any, Any]] = []

    def allocate(shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
        asked.append((tuple(shape), dtype))
        return np.empty(shape, dtype)

    packer = Packer(allocate)
    for channels in (9, 4):
        packer.add([blocked(channels, 2, 8)], [ir.constant(np.ones((channels, 2), np.float32))], {1})
    packer.run()
    assert asked == [((2, 2, 8), np.float32), ((1, 2, 8), np.float32)]


def test_expressions_survive_as_data() -> None:
    n, m = Var("n", lo=0), Var("m", lo=1, hi=9)
    buffer = Buffer("b", (n, m), pack.dt.float32)
    load = Load(buffer, (n // 2, m % 3))
    shared = load + load
    e = select(lt(n, m), cast(shared * shared, pack.dt.float16), const(float("-inf"), pack.dt.float16))
    numbers: dict[Any, int] = {n: 0, m: 1, buffer: 0}
    assert from_data(to_data(e, numbers.__getitem__), [n, m], [buffer]) is e  # equal expressions are one object
    assert to_data(const(7), numbers.__getitem__) == 7
