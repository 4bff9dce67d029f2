"""Rows along axes that lie together in memory are tiled as those of one axis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.base.target import Target
from legato.infer.builder import Builder
from legato.ir.expr import constant
from legato.ir.module import Module
from legato.lower.merged import merged
from legato.lower.rules.tile_job import TileJob
from legato.ops.activation import relu
from legato.ops.binary import add
from legato.ops.linalg import matmul
from legato.runtime.executable import Executable
from legato.te.tensor import Axis, Reduction
from legato.tir.buffer import Buffer, Layout
from legato.tir.expr import Load, cast
from tests.machines import EVERY

TERMS, CHANNELS = 300, 1024  # weights that do not stay in a core's cache, and blocks of channels for many threads
WEIGHTS = np.random.default_rng(1).standard_normal((TERMS, CHANNELS)).astype("float32")
IMAGES, LINES, COLUMNS = Var("n", lo=0), Var("h", lo=0), Var("w", lo=0)
N, H = Var("N", lo=0), Var("H", lo=0)


def compiled(batch: int | Var, length: int | Var) -> Executable:
    """relu(x · w + y) of rows (batch, length)."""
    b = Builder()
    x, y = b.var("x", (batch, length, TERMS)), b.var("y", (batch, length, CHANNELS))
    product = b.call(matmul, x, constant(WEIGHTS))
    body = b.call(relu, b.call(add, product, y))
    return legato.compile(Module.from_expr(b.function([x, y], body)), keep=["tir"])


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@pytest.mark.parametrize(("batch", "length"), [(0, 5), (1, 1), (3, 1), (2, 5), (3, 17), (7, 6)])
def test_static_and_symbolic_are_the_same_bits(batch: int, length: int) -> None:
    inputs = floats(batch, length, TERMS), floats(batch, length, CHANNELS)
    exe, static = compiled(Var("batch", lo=0), Var("length", lo=0)), compiled(batch, length)
    assert "batch * length // " in exe.module_after("tir")
    for threads in (1, 2, 4):
        result = np.asarray(exe.with_threads(threads)(*inputs))
        np.testing.assert_allclose(result, np.maximum(inputs[0] @ WEIGHTS + inputs[1], 0), atol=1e-3)
        if batch * length > 6:  # fewer rows that are known have a schedule of their own
            assert result.tobytes() == np.asarray(static.with_threads(threads)(*inputs)).tobytes()


def job(data: Layout | None = None, index: tuple[Expr, ...] = (IMAGES, LINES, COLUMNS)) -> TileJob:
    """Contractions of images of 9 columns that lie as `data`, read at `index`."""
    axes = [Axis(IMAGES, N), Axis(LINES, H), Axis(COLUMNS, const(9)), Axis(Var("o", lo=0), const(32))]
    step = Axis(Var("k", lo=0), const(8))
    x = Buffer("x", (N, H, const(9), const(8)), dt.float32, data)
    out = Buffer("out", tuple(a.extent for a in axes), dt.float32)
    bias = Load(Buffer("bias", (const(32),), dt.float32), (axes[-1].var,))
    return TileJob(
        out=out,
        index=tuple(a.var for a in axes),
        order=tuple(axes),
        row=axes[2],
        reduction=Reduction("sum", (step,)),
        body=Load(x, (*index, step.var)),
        dtype=dt.float32,
        epilogue=lambda total: total + bias,
        block=Var("ob", lo=0),
        within=Var("oi", lo=0),
    )


def test_all_axes_that_lie_together() -> None:
    done = merged(job(), 12)
    row, _ = done.order
    assert done.row is row
    assert str(row.extent) == "N * H * 9"
    assert [str(i).replace(row.var.name, "row") for i in done.index[:3]] == ["row // 9 // H", "row // 9 % H", "row % 9"]
    padded = job(Layout((0, 1, 2, 3), pad=(0, 4, 0, 0)))  # behind the lines of an image
    assert len(merged(padded, 12).order) == 3


@pytest.mark.parametrize(
    "apart",
    [
        job(Layout((0, 1, 2, 3), halo=((0, 0), (0, 0), (1, 1), (0, 0)))),
        job(Layout((0, 2, 1, 3))),
        job(index=(IMAGES, LINES, COLUMNS * 2)),
        job(index=(IMAGES, const(0), COLUMNS)),
        replace(job(), epilogue=lambda total: total + cast(LINES, dt.float32)),
    ],
)
def test_axes_that_do_not_lie_together(apart: TileJob) -> None:
    assert merged(apart, 1) is apart


def test_lines_of_few_columns_share_a_tile() -> None:
    apart = job(index=(IMAGES, LINES, COLUMNS * 2))
    images, _, *others = apart.order
    known = replace(apart, order=(images, Axis(LINES, const(5)), *others))
    assert merged(known, 17) is known, "two lines are 18 rows"
    done = merged(known, 18)
    assert done.unit == 9
    assert done.row is not None
    assert done.row.extent is const(45)
    assert merged(apart, 18) is apart, "nobody knows how many lines there are"


@pytest.mark.parametrize("target", EVERY)
def test_strided_convolutions_of_few_columns(target: Target, torch: Any) -> None:
    """With weights that come from memory, two lines of 7 columns are one tile, if there are registers for it."""
    b, rng = Builder(), np.random.default_rng(2)
    weight = rng.standard_normal((512, 96, 3, 3)).astype("float32") / 30
    x = b.var("x", (1, 14, 14, 96))
    y = b.call("nn.conv2d", x, constant(weight), strides=(2, 2), padding=(1, 1), data_layout="NHWC")
    exe = legato.compile(Module.from_expr(b.function([x], b.call(relu, y))), target=target.name, keep=["lower"])
    data = floats(1, 14, 14, 96)
    moved = torch.from_numpy(data).permute(0, 3, 1, 2)
    wanted = torch.nn.functional.conv2d(moved, torch.from_numpy(weight), stride=2, padding=1).relu().permute(0, 2, 3, 1)
    found = [np.asarray(exe.with_threads(threads)(data)) for threads in (1, 2, 4)]
    np.testing.assert_allclose(found[0], wanted.numpy(), atol=1e-4)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    assert ("unroll m in 0..14" in str(exe.module_after("lower"))) == (target.vector_registers == 32)
