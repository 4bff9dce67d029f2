"""Reading and writing at places that data gives, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import ImportModelError, LegatoError
from tests.frontend.onnx.peer import Array, compare_node, legato_outputs, model, value

RNG = np.random.default_rng(6)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_reverse_sequence(dtype: str) -> None:
    x = (RNG.standard_normal((4, 3, 2)) * 9).astype(dtype)
    compare_node("ReverseSequence", 10, (x, np.array([4, 0, 2])))
    compare_node("ReverseSequence", 10, (x, np.array([1, 3, 0, 2])), {"batch_axis": 0, "time_axis": 1})


@pytest.mark.parametrize(("shape", "lengths", "axes"), [((3, 2), 2, (1, 1)), ((3, 2), 2, (1, 2)), ((3,), 3, (0, 1))])
def test_what_is_no_sequence(shape: tuple[int, ...], lengths: int, axes: tuple[int, int]) -> None:
    more: dict[str, Any] = {"batch_axis": axes[0], "time_axis": axes[1]}
    proto = model([helper.make_node("ReverseSequence", ["x", "n"], ["y"], **more)],
                  [value("x", shape), value("n", (lengths,), "int64")])  # fmt: skip
    with pytest.raises(ImportModelError):
        legato_outputs(proto, {})


def _written(cache: Array, update: Array, first: Array, axis: int, *, circular: bool) -> Array:
    found = cache.copy()
    for row, start in enumerate(first):
        for n in range(update.shape[axis]):
            at = start + n
            if circular or at < cache.shape[axis]:
                np.moveaxis(found[row], axis - 1, 0)[at % cache.shape[axis]] = np.moveaxis(update[row], axis - 1, 0)[n]
    return found


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode: str) -> None:
    """By a loop as well: the last update goes beyond the end, which ONNX Runtime refuses where it does not go on."""
    cache = RNG.standard_normal((2, 3, 4, 2)).astype(np.float32)
    for axis, first in ((2, [0, 2]), (1, [2, 1]), (-1, [1, 0]), (2, [3, 3])):
        shape = [*cache.shape]
        shape[axis] = 2
        update = RNG.standard_normal(shape).astype(np.float32)
        feeds = {"x": cache, "u": update, "w": np.array(first)}
        if max(first) + 2 <= cache.shape[axis] or mode == "circular":
            compare_node("TensorScatter", 24, tuple(feeds.values()), {"axis": axis, "mode": mode})
        node = helper.make_node("TensorScatter", list(feeds), ["y"], axis=axis, mode=mode)
        proto = model([node], [value(k, v.shape, str(v.dtype)) for k, v in feeds.items()], opset=24)
        wanted = _written(cache, update, feeds["w"], axis % 4, circular=mode == "circular")
        for shapes in (None, {k: tuple(f"{k}{n}" for n in range(v.ndim)) for k, v in feeds.items()}):
            np.testing.assert_array_equal(legato_outputs(proto, feeds, shapes=shapes)[0], wanted)


def test_tensor_scatter_without_positions() -> None:
    cache, update = np.zeros((1, 3, 2), np.float32), np.ones((1, 1, 2), np.float32)
    node = helper.make_node("TensorScatter", ["x", "u"], ["y"])
    proto = model([node], [value("x", (1, 3, 2)), value("u", (1, 1, 2))], opset=24)
    np.testing.assert_array_equal(legato_outputs(proto, {"x": cache, "u": update})[0], [[[1, 1], [0, 0], [0, 0]]])


@pytest.mark.parametrize(
    ("shape", "more"), [((2, 1, 2), {"axis": 0}), ((2, 1), {}), ((2, 5, 2), {"mode": "circular"}), ((3, 1, 2), {}),
                        ((2, 1, 2), {"mode": "spiral"})]
)  # fmt: skip
def test_what_is_no_update(shape: tuple[int, ...], more: dict[str, Any]) -> None:
    node = helper.make_node("TensorScatter", ["x", "u"], ["y"], **more)
    with pytest.raises(LegatoError):
        legato_outputs(model([node], [value("x", (2, 4, 2)), value("u", shape)], opset=24), {})
