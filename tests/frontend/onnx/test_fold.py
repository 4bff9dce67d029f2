"""Windows put back, against ONNX Runtime and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import LegatoError
from tests.frontend.onnx.peer import compare_node, legato_outputs, model, value

RNG = np.random.default_rng(9)
WINDOWS = (
    {},
    {"strides": [2, 1], "pads": [1, 0, 1, 2]},
    {"dilations": [1, 2], "strides": [1, 2], "pads": [0, 1, 2, 1]},
)


@pytest.mark.parametrize("more", WINDOWS)
def test_col2im(more: dict[str, Any]) -> None:
    pads, strides, dilations = (
        more.get(k, d) for k, d in (("pads", [0] * 4), ("strides", [1, 1]), ("dilations", [1, 1]))
    )
    image, block = (5, 6), (2, 3)
    counts = [
        (image[n] + pads[n] + pads[n + 2] - dilations[n] * (block[n] - 1) - 1) // strides[n] + 1 for n in range(2)
    ]
    x = RNG.standard_normal((2, 3 * 6, counts[0] * counts[1])).astype(np.float32)
    compare_node("Col2Im", 18, (x, np.array(image), np.array(block)), more, lists=(1, 2))


def test_col2im_is_fold(torch: Any) -> None:
    """Of three dims, and of 16 bits, whose sums are rounded once; PyTorch folds two dims."""
    x = (RNG.standard_normal((1, 2 * 4, 12)) * 100).astype(np.float16)
    node = helper.make_node("Col2Im", ["x", "i", "k"], ["y"])
    proto = model([node], [value("x", ("n", "c", "l"), "float16"), *(value(k, (2,), "int64") for k in "ik")], opset=18)
    (found,) = legato_outputs(proto, {"x": x, "i": np.array([4, 5]), "k": np.array([2, 2])})
    wanted = torch.nn.functional.fold(torch.tensor(x.astype(np.float32)), (4, 5), (2, 2)).numpy()
    np.testing.assert_array_equal(found, wanted.astype(np.float16))


@pytest.mark.parametrize("opset", [9, 11, 22])
def test_max_unpool(torch: Any, opset: int) -> None:
    """What PyTorch's pooling finds, put back; indices are those of the whole tensor."""
    whole = RNG.standard_normal((2, 3, 6, 5)).astype(np.float32)
    x, places = torch.nn.functional.max_pool2d(torch.tensor(whole), 2, return_indices=True)
    indices = places.numpy() + np.arange(6).reshape(2, 3, 1, 1) * 30
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    compare_node("MaxUnpool", opset, (x.numpy(), indices, np.array(whole.shape)), attributes)
    compare_node("MaxUnpool", opset, (x.numpy(), np.arange(36).reshape(2, 3, 3, 2)), {"kernel_shape": [2, 2]})
    padded = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]}
    compare_node("MaxUnpool", opset, (x.numpy(), np.arange(36).reshape(2, 3, 3, 2)), padded)


def test_what_does_not_fit() -> None:
    def folded(columns: int, block: list[int], **more: Any) -> None:
        weights = {"i": np.array([5, 6]), "k": np.array(block)}
        node = helper.make_node("Col2Im", ["x", "i", "k"], ["y"], **more)
        legato_outputs(model([node], [value("x", (1, 12, columns))], weights=weights, opset=18), {})

    for columns, block, more in ((19, [2, 3], {}), (20, [2, 3, 1], {}), (16, [5, 1], {}), (1, [12, 1], {}),
                                 (20, [2, 3], {"strides": [1]}), (20, [2, 3], {"strides": [0, 1]}),
                                 (20, [2, 0], {})):  # fmt: skip
        with pytest.raises(LegatoError):
            folded(columns, block, **more)
    node = helper.make_node("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2])
    for shape, places in (((1, 1, 2), (1, 1, 2)), ((1, 1, 2, 2), (4,)), ((1, 1, 2, 2), (1, 1, 3, 2))):
        with pytest.raises(LegatoError):
            legato_outputs(model([node], [value("x", shape), value("i", places, "int64")]), {})
