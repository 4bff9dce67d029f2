"""Orders in memory: a transpose is a relabelling, whatever dimensions of extent 1 come and go."""

from __future__ import annotations

import re

import numpy as np
import pytest

import legato
import legato.ops  # which `Builder.op` finds by name
from legato.arith.expr import Expr, Var, const
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.module import Module
from legato.lower.layout import aligned, choose_order
from legato.te.tensor import Axis, placeholder
from legato.tir.buffer import Layout
from legato.tir.expr import Load

N, C, H, W = (Var(name, lo=0) for name in "nchw")
NHWC = Layout((0, 2, 3, 1))


def order(extents: list[int], shape: list[int], index: list[Expr], *, constant: bool = False) -> tuple[int, ...]:
    """The order chosen for a tensor of `extents` that reads one of `shape` at `index`."""
    source = placeholder("x", [const(d) for d in shape], "float32")
    axes = [Axis(v, const(e)) for v, e in zip((N, C, H, W), extents, strict=False)]
    return choose_order(axes, Load(source, tuple(index)), [source] if constant else [], False, 16).order


@pytest.mark.parametrize(
    ("extents", "shape", "index", "expected"),
    [
        ([1, 256, 512, 1], [1, 512, 256], [const(0), H, C + W], (0, 2, 3, 1)),
        ([2, 96, 56, 56], [2, 56, 56, 96], [N, H, W, C], (0, 2, 3, 1)),
        ([1, 96, 56, 56], [1, 56, 56, 96], [N, H, W, C], (0, 2, 3, 1)),
        ([64, 32], [64], [N], (0, 1)),  # broadcast along the second: as it is written
        ([2, 96, 56, 56], [2, 56 * 56, 96], [N, H * 56 + W, C], (0, 2, 3, 1)),  # an image of tokens
        ([2, 12, 64, 50], [2, 50, 768], [N, W, C * 64 + H], (0, 1, 2, 3)),  # the heads of attention, which are copied
        ([2, 8, 56, 8], [2, 64, 56], [N, C * 8 + W, H], (0, 1, 2, 3)),  # no image: others lie between
    ],
)
def test_elementwise_keeps_the_order_it_reads(
    extents: list[int], shape: list[int], index: list[Expr], expected: tuple[int, ...]
) -> None:
    assert order(extents, shape, index) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([N, C, H, Var("k", lo=0)], [N, C, Var("k", lo=0), W], (0, 1, 2, 3)),  # products of matrices
        ([N, C, H, W], [N, C, const(0), const(0)], (0, 2, 3, 1)),  # images by a factor for each channel
    ],
)
def test_products_of_matrices_lie_one_after_the_other(
    left: list[Expr], right: list[Expr], expected: tuple[int, ...]
) -> None:
    """Though the number of each is innermost in what is read."""
    a, b = (placeholder(name, [const(8)] * 4, "float32") for name in "ab")
    a.layout = NHWC
    axes = [Axis(v, const(8)) for v in (N, C, H, W)]
    body = Load(a, tuple(left)) * Load(b, tuple(right))
    assert choose_order(axes, body, [], True, 16).order == expected


@pytest.mark.parametrize("pad", [(), (0, 0, 0, 2)])
def test_space_behind_rows_changes_no_order(pad: tuple[int, ...]) -> None:
    """The sums of a weight's gradient, over taps and channels, keep their order wherever rows of the data begin."""
    data, grad = placeholder("data", [const(8), const(64), const(30), const(30)], "float32"), placeholder(
        "grad", [const(8), const(32), const(28), const(28)], "float32")  # fmt: skip
    data.layout = Layout((0, 1, 2, 3), pad=pad)
    ky, kx, y, x = (Var(name, lo=0) for name in ("ky", "kx", "y", "x"))
    axes = [Axis(v, const(n)) for v, n in ((ky, 3), (kx, 3), (C, 64), (W, 32))]
    body = Load(data, (N, C, y + ky, x + kx)) * Load(grad, (N, W, y, x))
    assert choose_order(axes, body, [], True, 16).order == (0, 1, 2, 3)


def test_a_turned_contraction_is_computed_in_its_own_order() -> None:
    """And turned by a kernel of its own."""
    b = Builder()
    grad, data = b.var("grad", (2, 8, 9, 9)), b.var("data", (2, 4, 9, 9))
    dw = b.op("nn.conv2d_backward_weight")(grad, data, kernel_size=(3, 3), padding=(1, 1))
    exe = legato.compile(Module.from_expr(b.function([grad, data], dw)), keep=("lower",))
    names = re.findall(r"kernel @(\w+)_0\(", exe.module_after("lower"))
    assert names[-2:] == ["conv2d_backward_weight_weight_gradient", "conv2d_backward_weight"]


def test_constants_decide_nothing() -> None:
    assert order([32, 64], [64, 32], [C, N], constant=True) == (0, 1)


@pytest.mark.parametrize(
    ("shape", "given", "wanted"),
    [
        ((1, 72, 56, 56), NHWC, (0, 8, 0, 0)),
        ((1, 64, 56, 56), NHWC, ()),  # whole vectors
        ((1, 24, 56, 56), NHWC, ()),  # a third more would be read
        ((1, 120, 1, 28), NHWC, ()),  # no image
        ((1, 120, 28, 28), Layout((0, 2, 3, 1), pad=(0, 16, 0, 0)), (0, 16, 0, 0)),  # part of a larger one
        ((1, 120, 28, 28), Layout((0, 2, 3, 1), ((0, 0), (1, 1), (0, 0), (0, 0))), ()),
        ((1, 3, 8, 226), Layout.row_major(4), (0, 0, 0, 14)),
        ((1, 256, 14, 14), NHWC, (0, 16, 0, 0)),  # else places would meet in few sets of a cache
        ((1, 500, 14, 14), NHWC, (0, 28, 0, 0)),  # 512 is as round
        ((1, 128, 28, 28), NHWC, ()),  # an eighth more would be read
        ((1, 960, 7, 7), NHWC, ()),  # not round
        ((1, 128, 3072), Layout.row_major(3), (0, 0, 16)),  # all rows would meet in one set
        ((128, 1000), Layout.row_major(2), ()),  # rows of a matrix begin where they may
        ((128, 768), Layout.row_major(2), ()),  # in one set of four
        ((1, 1024), Layout.row_major(2), ()),  # a single row
    ],
)
def test_channels_begin_at_vectors_and_places_are_spread(
    shape: tuple[int, ...], given: Layout, wanted: tuple[int, ...]
) -> None:
    got = aligned(given, [const(d) for d in shape], 16)
    assert got == Layout(given.order, given.halo, given.halo_value, wanted)


def test_padded_rows_are_read_as_they_lie() -> None:
    """Matrices whose rows lie apart, between all kinds of readers: parts of rows, columns, rows behind one another."""
    b, rng = Builder(), np.random.default_rng(0)
    x = b.var("x", (6, 48))
    wide = b.op("nn.relu")(b.op("nn.dense")(x, b.constant(rng.standard_normal((2048, 48)).astype(np.float32))))
    halves = b.op("split")(wide, indices_or_sections=2, axis=1)
    swapped = b.op("concatenate")(b.tuple_([b.get(halves, 1), b.get(halves, 0)]), axis=1)
    again = b.op("concatenate")(b.tuple_([b.op("transpose")(swapped), b.op("transpose")(wide)]), axis=1)
    back = b.op("nn.dense")(again, b.constant(rng.standard_normal((5, 12)).astype(np.float32)))
    rows = b.op("nn.softmax")(wide)
    mod = Module.from_expr(b.function([x], b.tuple_([again, back, rows])))
    exe = legato.compile(mod, keep=("lower",))
    assert len(re.findall(r"pad=\(0, \d+\)", exe.module_after("lower"))) >= 2
    data = rng.standard_normal((6, 48)).astype(np.float32)
    for found, expected in zip(exe(data), evaluate(mod, [data], float64=True), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
