"""Dims of which one may be 1 when a model runs: interpreter, compiled program and ONNX Runtime agree."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper

import legato
from legato.base.errors import RunError
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from tests.frontend.onnx.peer import Array, model, ort_outputs, value

SIZES = (0, 1, 2, 3, 5)
SHAPE = helper.make_node("Shape", ["y"], ["s"])
NODES = {
    "Add": [helper.make_node("Add", ["x", "y"], ["z"])],
    "Less": [helper.make_node("Less", ["x", "y"], ["z"])],
    "Where": [helper.make_node("Less", ["x", "y"], ["c"]), helper.make_node("Where", ["c", "x", "one"], ["z"])],
    "MatMul": [
        helper.make_node("Unsqueeze", ["x", "last"], ["a"]),
        helper.make_node("Unsqueeze", ["y", "middle"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["z"]),
    ],
    "Expand": [SHAPE, helper.make_node("Expand", ["x", "s"], ["z"])],
    "Expand, then Add": [
        SHAPE,
        helper.make_node("Expand", ["x", "s"], ["e"]),
        helper.make_node("Add", ["e", "y"], ["z"]),
    ],
    "Expand of a literal": [SHAPE, helper.make_node("Expand", ["three", "s"], ["z"])],
}  # fmt: skip
WEIGHTS: dict[str, Array] = {
    "one": np.ones(1, np.float32),
    "last": np.array([2]),
    "middle": np.array([1]),
    "three": np.arange(12, dtype=np.float32).reshape(3, 4),
}


def outcome(run: object, *args: object) -> Array | None:
    """The result; None where it is refused with an error of the kind that it should be."""
    assert callable(run)
    try:
        return np.asarray(run(*args))
    except RunError:
        return None


def by_peer(proto: onnx.ModelProto, feeds: dict[str, Array]) -> Array | None:
    try:
        return ort_outputs(proto, feeds)[0]
    except Exception:  # its own, which it does not export
        return None


@pytest.mark.parametrize("name", NODES)
def test_extents_that_may_be_one(name: str) -> None:
    used = {i for node in NODES[name] for i in node.input}
    proto = model(
        NODES[name],
        [value("x", ("n", 4)), value("y", ("m", 4))],
        ["z"],
        {key: array for key, array in WEIGHTS.items() if key in used},
    )
    module = from_onnx(proto)
    exe = legato.compile(proto)
    for n, m in product(SIZES, repeat=2):
        x, y = (np.random.default_rng(n + 9 * m).random((k, 4)).astype("float32") for k in (n, m))
        wanted = by_peer(proto, {"x": x, "y": y})
        for got in (outcome(evaluate, module, [x, y]), outcome(exe, x, y)):
            assert (got is None) == (wanted is None), (n, m)
            if got is not None and wanted is not None:
                assert got.shape == wanted.shape
                np.testing.assert_allclose(got, wanted, rtol=1e-6)
