"""Computes of windows, resizing, indexing and sorting equal their references for random attributes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.interp import evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.types import TensorType, TupleType, tensor_type
from legato.ops import table
from legato.ops._resize import COORDINATES, ROUNDINGS
from legato.ops._tensors import as_int
from legato.ops._window import Window
from legato.te.lower import to_tir
from legato.te.tensor import placeholder
from legato.tir import interp as tir_interp
from tests.programs.settings import examples

small = settings(max_examples=60)


def pairs(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    """Two integers of [low, high]."""
    return st.tuples(st.integers(low, high), st.integers(low, high))


def check(name: str, arrays: list[np.ndarray[Any, Any]], attrs: dict[str, Any], tol: float = 1e-5) -> None:
    """The compute gives what the reference gives; ill-typed attributes are discarded."""
    op, b = table()[name], Builder()
    record = make_attrs(op, attrs)
    types = [tensor_type(a.shape, dt.dtype(a.dtype)) for a in arrays]
    try:
        ty = b.call_op(op, [b.var(f"x{n}", t) for n, t in enumerate(types)], record).ty
    except TypeCheckError:
        assume(False)
    assert op.compute is not None
    inputs = [placeholder(f"x{n}", t.shape, t.dtype) for n, t in enumerate(types)]
    made = op.compute(*inputs, *op.tail(record), ty)
    func = to_tir(made if isinstance(made, tuple) else (made,), inputs, "kernel")
    fields = ty.fields if isinstance(ty, TupleType) else (ty,)
    results = [np.zeros(t.static_shape(), t.dtype.numpy) for t in fields if isinstance(t, TensorType)]
    assert tir_interp.run(func, [*arrays, *results]) == 0
    expected = evaluate_op(op, arrays, record)
    for got, wanted in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tol * scale)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    """Standard normal float32 numbers."""
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


CHANNELS = [(1, 2, 3), (2, 2, 1), (3, 1, 1), (2, 1, 2)]  # groups, inputs and outputs per group
FAR = {"strides": pairs(1, 2), "dilation": pairs(1, 7), "padding": st.tuples(*[st.integers(0, 8)] * 4)}
WINDOW = {"strides": pairs(1, 3), "dilation": pairs(1, 2), "padding": st.tuples(*[st.integers(0, 2)] * 4)}


@small
@given(
    st.fixed_dictionaries({**WINDOW, "pool_size": pairs(1, 3), "ceil_mode": st.booleans()}),
    pairs(1, 6),
    st.sampled_from(["max", "avg"]),
    st.booleans(),
    st.sampled_from(["NCHW", "NHWC", "HWNC"]),
)
def test_pool(attrs: dict[str, Any], extents: tuple[int, int], kind: str, include: bool, layout: str) -> None:
    if kind == "avg":
        attrs = {**attrs, "count_include_pad": include}
    shape = dict(zip("NCHW", (1, 2, *extents), strict=True))
    check(f"nn.{kind}_pool2d", [normal(*(shape[c] for c in layout))], {**attrs, "layout": layout})


@small
@given(st.fixed_dictionaries(WINDOW) | st.fixed_dictionaries(FAR), pairs(1, 5), pairs(1, 3), st.sampled_from(CHANNELS))
def test_conv(
    attrs: dict[str, Any], extents: tuple[int, int], kernel: tuple[int, int], channels: tuple[int, int, int]
) -> None:
    groups, inner, each = channels
    x, w = normal(1, groups * inner, *extents), normal(groups * each, inner, *kernel)
    check("nn.conv2d", [x, w], {**attrs, "groups": groups})
    w = normal(groups * inner, each, *kernel)
    check("nn.conv2d_transpose", [x, w], {**attrs, "groups": groups, "output_padding": (attrs["strides"][0] - 1, 0)})


@examples(300, fuzz=False)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 3), st.integers(1, 9), pairs(0, 12))
def test_offsets_that_read_padding_alone(
    extent: int, kernel: int, stride: int, dilation: int, sides: tuple[int, int]
) -> None:
    window = Window(const(extent), const(kernel), stride, dilation, *sides)
    assume(not window.is_empty)
    kept, first = window.without_idle()
    assert kept.count is window.count
    for o in range(as_int(window.count)):
        for k in range(kernel):
            at = o * stride + k * dilation - window.before
            if first <= k < first + as_int(kept.kernel):
                assert as_int(kept.index(const(o), const(k - first))) - kept.before == at
            else:
                assert not 0 <= at < extent


def test_a_dilation_as_large_as_the_data_leaves_one_offset() -> None:
    window = Window(const(20), const(3), dilation=24, before=24, after=24)
    assert window.without_idle() == (Window(const(20), const(1), dilation=24), 1)
    attrs = {"dilation": (24, 12), "padding": (24, 12, 24, 12)}
    check("nn.conv2d", [normal(1, 3, 20, 20), normal(2, 3, 3, 3)], attrs)


@small
@given(pairs(1, 5), pairs(1, 6), st.sampled_from(["avg", "max"]))
def test_adaptive_pool(extents: tuple[int, int], size: tuple[int, int], kind: str) -> None:
    check(f"nn.adaptive_{kind}_pool2d", [normal(1, 2, *extents)], {"output_size": size})


@small
@given(
    pairs(1, 5),
    pairs(0, 7),
    st.sampled_from(COORDINATES),
    st.sampled_from(["nearest_neighbor", "linear", "cubic"]),
    st.sampled_from(ROUNDINGS),
    st.none() | st.tuples(st.floats(0.3, 3), st.floats(0.3, 3)),
    st.booleans(),
)
def test_resize(
    extents: tuple[int, int], size: tuple[int, int], mode: str, method: str, rounding: str, scale: Any, exclude: bool
) -> None:
    attrs = {"size": size, "coordinate_transformation_mode": mode, "method": method, "rounding_method": rounding,
             "cubic_exclude": int(exclude), "roi": (-0.2, 0.1, 1.1, 0.7), "scale": scale or ()}  # fmt: skip
    check("image.resize2d", [normal(1, 2, *extents)], attrs)


KEYS = st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.0, np.nan, np.inf, -np.inf]), max_size=17)


@small
@given(KEYS, st.booleans(), st.integers(0, 4))
def test_sort(keys: list[float], ascending: bool, k: int) -> None:
    x = np.array([keys, keys[::-1]], np.float32).reshape(2, -1)
    check("sort", [x], {"is_ascend": ascending})
    check("argsort", [x], {"is_ascend": ascending})
    check("topk", [x], {"is_ascend": ascending, "k": k})
    check("argsort", [np.ascontiguousarray(x.T)], {"is_ascend": ascending, "axis": 0})


@small
@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=6),
    st.sampled_from(["clip", "wrap", "fast"]),
    st.integers(-2, 1),
    st.sampled_from(["update", "add", "mul", "min", "max"]),
)
def test_indexing(subscripts: list[int], mode: str, axis: int, reduction: str) -> None:
    x, i = normal(3, 4), np.array(subscripts)
    check("take", [x, i], {"axis": axis, "mode": mode})
    check("take", [x, i], {"mode": mode})
    grid = np.stack([i, i + 1]) if axis % 2 else np.stack([i, i + 1], 1)
    check("gather", [x, grid], {"axis": axis})
    check("gather_nd", [x, np.stack([i, -i])], {})
    check("scatter_elements", [x, grid, normal(*grid.shape)], {"axis": axis, "reduction": reduction})
    check("scatter_nd", [x, np.stack([i, -i]), normal(len(i))], {"mode": reduction})
    check("scatter_nd", [x, i[None], normal(len(i), 4)], {"mode": reduction})
