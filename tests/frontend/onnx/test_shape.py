"""Padding and cropping against ONNX Runtime, with sizes that are constants, inputs, and of names."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import LegatoError
from tests.frontend.onnx.peer import compare_node, legato_outputs, model, ort_outputs, value

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("opset", [19, 21, 23, 25])
def test_wrap_pad(opset: int) -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    for pads in ((0, 1, 2, 0, 2, 1), (1, 0, 0, 2, 0, 0), (0, 3, 4, 2, 3, 4), (0, 0, -1, 0, 0, 2), (0, -1, 0, 0, 0, -2)):
        compare_node("Pad", opset, (x, np.array(pads)), {"mode": "wrap"})


def test_wrap_pad_more_than_once() -> None:
    """Elements come again as often as they must; of none there are none."""
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode="wrap")
    proto = model([node], [value("x", ("n",)), value("p", (2,), "int64")], opset=19)
    for n, before, after in ((3, 7, 5), (1, 4, 4), (2, 0, 0), (3, -2, 4), (3, 4, -2), (0, 0, 0), (2, -2, 0)):
        x = np.arange(n, dtype=np.float32)
        (found,) = legato_outputs(proto, {"x": x, "p": np.array([before, after])})
        kept = x[max(-before, 0) : n + min(after, 0)]
        np.testing.assert_array_equal(found, np.pad(kept, (max(before, 0), max(after, 0)), mode="wrap"))
    with pytest.raises(LegatoError, match="wraps around"):
        legato_outputs(proto, {"x": np.zeros(0, np.float32), "p": np.array([1, 0])})


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_center_crop_pad(dtype: str) -> None:
    x = (RNG.standard_normal((5, 4, 3)) * 9).astype(dtype)
    for sizes in ((2, 7, 3), (4, 4, 6), (0, 9, 2)):
        node = helper.make_node("CenterCropPad", ["x", "s"], ["y"])
        proto = model([node], [value("x", x.shape, dtype), value("s", (3,), "int64")], opset=18)
        wanted = ort_outputs(proto, {"x": x, "s": np.array(sizes)})
        for shapes in (None, {"x": ("a", "b", "c")}):
            np.testing.assert_array_equal(legato_outputs(proto, {"x": x, "s": np.array(sizes)}, shapes=shapes), wanted)
    compare_node("CenterCropPad", 18, (x, np.array([3, 6])), {"axes": [-1, 0]})


def test_center_crop_pad_is_refused() -> None:
    for axes in ([0, 0], [0], [0, 5]):
        node = helper.make_node("CenterCropPad", ["x", "s"], ["y"], axes=axes)
        with pytest.raises(LegatoError, match="ax"):
            legato_outputs(model([node], [value("x", (3, 4)), value("s", (2,), "int64")], opset=18), {})
