"""Losses against ONNX Runtime, at every operator set that they have had."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import ImportModelError
from tests.frontend.onnx.peer import compare_node, legato_outputs, model, value

RNG = np.random.default_rng(5)
SCORES = RNG.standard_normal((3, 5, 2)).astype(np.float32)
CLASSES = np.array([[0, 4], [2, 2], [3, 1]])
WEIGHTS = RNG.random(5).astype(np.float32)
REDUCTIONS = ("none", "sum", "mean")


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("opset", [12, 13, 22])
def test_negative_log_likelihood(opset: int, reduction: str) -> None:
    for weights in (None, WEIGHTS):
        for more in ({}, {"ignore_index": 2}):
            inputs = (SCORES, CLASSES, *(() if weights is None else (weights,)))
            compare_node("NegativeLogLikelihoodLoss", opset, inputs, {"reduction": reduction, **more})


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("opset", [12, 13])
def test_softmax_cross_entropy(opset: int, reduction: str) -> None:
    for weights in (None, WEIGHTS):
        for more in ({}, {"ignore_index": 2}):
            inputs = (SCORES, CLASSES.astype(np.int32), *(() if weights is None else (weights,)))
            for outputs in (1, 2):
                compare_node("SoftmaxCrossEntropyLoss", opset, inputs, {"reduction": reduction, **more}, outputs)


def test_large_scores() -> None:
    compare_node("SoftmaxCrossEntropyLoss", 13, (SCORES * 1000, CLASSES))


def test_float16_is_rounded_once() -> None:
    """Sums beyond what 16 bits hold; the peer has no such kernel."""
    scores = np.full((2000, 2), -60, np.float16)
    node = helper.make_node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"])
    proto = model([node], [value("x", scores.shape, "float16"), value("t", (2000,), "int64")])
    (found,) = legato_outputs(proto, {"x": scores, "t": np.zeros(2000, np.int64)})
    assert found == np.float16(60)


@pytest.mark.parametrize(("shape", "reduction"), [((3, 5), "median"), ((5,), "mean")])
def test_what_is_no_loss(shape: tuple[int, ...], reduction: str) -> None:
    for operator in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        node = helper.make_node(operator, ["x", "t"], ["y"], reduction=reduction)
        proto = model([node], [value("x", shape), value("t", shape[:-1], "int64")])
        with pytest.raises(ImportModelError, match="wanted"):
            legato_outputs(proto, {})
