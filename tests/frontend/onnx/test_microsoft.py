"""Operators of ONNX Runtime's own domain, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

RNG = np.random.default_rng(5)


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


CONV = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Gelu", [f32(3, 4)], {}),
        ("BiasGelu", [f32(3, 4), f32(4)], {}),
        ("FastGelu", [f32(3, 4), f32(4)], {}),
        ("FastGelu", [f32(3, 4)], {}),
        ("QuickGelu", [f32(3, 4)], {"alpha": 1.5}),
        ("FusedMatMul", [f32(2, 4, 3), f32(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.25}),
        ("FusedMatMul", [f32(3, 4), f32(4, 2)], {}),
        ("SkipLayerNormalization", [f32(1, 3, 4), f32(1, 3, 4), f32(4), f32(4), f32(4)], {"epsilon": 1e-3}),
        ("SkipLayerNormalization", [f32(1, 3, 4), f32(1, 3, 4), f32(4)], {}),
        ("FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3), f32(3)], {**CONV, "activation": "Relu"}),
        (
            "FusedConv",
            [f32(1, 2, 5, 5), f32(3, 2, 3, 3)],
            {"activation": "LeakyRelu", "activation_params": [0.2]},
        ),
        ("FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3), f32(3), f32(1, 3, 5, 5)], {**CONV, "activation": "Relu"}),
        ("FusedGemm", [f32(3, 4), f32(5, 4), f32(5)], {"transB": 1, "activation": "Relu"}),
        ("FusedGemm", [f32(3, 4), f32(4, 5)], {"activation": "LeakyRelu", "activation_alpha": 0.1}),
    ],
)
def test_equals_onnxruntime(operator: str, inputs: list[Array], attributes: dict[str, Any]) -> None:
    feeds = {f"x{n}": array for n, array in enumerate(inputs)}
    node = helper.make_node(operator, list(feeds), ["y"], domain="com.microsoft", **attributes)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = model([node], [value(name, array.shape) for name, array in feeds.items()], opset_imports=opsets)
    (got,), (want,) = legato_outputs(proto, feeds), ort_outputs(proto, feeds)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


def test_the_sum_of_skip_layer_normalization() -> None:
    feeds = {"x": f32(1, 3, 4), "s": f32(1, 3, 4)}
    outputs = ["y", "", "", "sum"]
    node = helper.make_node("SkipLayerNormalization", ["x", "s", "g"], outputs, domain="com.microsoft")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    inputs = [value(name, array.shape) for name, array in feeds.items()]
    proto = model([node], inputs, ["y", "sum"], {"g": f32(4)}, opset_imports=opsets)
    for got, want in zip(legato_outputs(proto, feeds), ort_outputs(proto, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)
