"""The second output of MaxPool against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.peer import compare_node

RNG = np.random.default_rng(10)
CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 7), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ((2, 3, 5, 6), {"kernel_shape": [2, 3]}),
    ((2, 3, 5, 6), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 2, 1]}),
    ((1, 2, 7, 6), {"kernel_shape": [2, 2], "dilations": [2, 3], "strides": [1, 2]}),
    ((1, 2, 6, 5), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 2, 6, 5), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 4, 3, 5), {"kernel_shape": [2, 2, 3], "strides": [2, 1, 2]}),
)


@pytest.mark.parametrize(("shape", "attributes"), CASES)
def test_places(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for opset, order in ((10, 0), (12, 1), (22, 0)):
        compare_node("MaxPool", opset, (x,), {**attributes, "storage_order": order}, outputs=2)


def test_the_first_of_several() -> None:
    x = RNG.integers(-2, 2, (1, 2, 6, 6)).astype(np.int8)
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    compare_node("MaxPool", 12, (x,), attributes, outputs=2)
    compare_node("MaxPool", 12, (x - 100,), attributes, outputs=2)
