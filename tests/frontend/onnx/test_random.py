"""Random numbers: their distributions, and when they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import legato
from legato.base.errors import ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.peer import Array, legato_outputs, model, value

N = 4000
NEAR = 4 / N**0.5  # standard deviations of a mean


def drawn(operator: str, x: Array | None = None, opset: int = 22, **attributes: Any) -> Array:
    """What a node gives."""
    node = helper.make_node(operator, [] if x is None else ["x"], ["y"], **attributes)
    inputs = [] if x is None else [value("x", x.shape, str(x.dtype))]
    return legato_outputs(model([node], inputs, opset=opset), {} if x is None else {"x": x})[0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_distributions(dtype: str) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for opset in (7, 22):
        for found in (drawn("RandomUniform", shape=[N], dtype=code, low=-2.0, high=4.0, opset=opset),
                      drawn("RandomUniformLike", np.zeros(N, dtype), low=-2.0, high=4.0, opset=opset)):  # fmt: skip
            assert found.dtype == dtype
            assert found.min() >= -2
            assert found.max() <= 4
            assert abs(found.astype(float).mean() - 1) < NEAR * 3**0.5
            assert abs(found.astype(float).std() - 3**0.5) < 0.1
        for found in (drawn("RandomNormal", shape=[N], dtype=code, mean=1.0, scale=2.0, opset=opset),
                      drawn("RandomNormalLike", np.zeros(N, "int32"), dtype=code, mean=1.0, scale=2.0)):  # fmt: skip
            assert found.dtype == dtype
            assert abs(found.astype(float).mean() - 1) < NEAR * 2
            assert abs(found.astype(float).std() - 2) < 0.1


@pytest.mark.parametrize("opset", [15, 22])
def test_bernoulli(opset: int) -> None:
    for odds in (0.0, 0.3, 1.0):
        found = drawn("Bernoulli", np.full((2, N), odds), opset, dtype=TensorProto.BOOL)
        assert found.dtype == bool
        assert abs(found.mean() - odds) <= NEAR * (odds * (1 - odds)) ** 0.5
    assert drawn("Bernoulli", np.full(3, 0.5, np.float32), opset).dtype == np.float32


@pytest.mark.parametrize("opset", [7, 22])
def test_multinomial(opset: int) -> None:
    odds = np.array([[0.2, 0.5, 0.3], [0, 1, 0]])
    with np.errstate(divide="ignore"):
        logs = (np.log(odds) + 3).astype(np.float32)
    found = drawn("Multinomial", logs, opset, sample_size=N, dtype=TensorProto.INT64)
    assert (found.shape, found.dtype) == ((2, N), np.int64)
    for row, wanted in zip(found, odds, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / N, wanted, atol=NEAR)


def _two(**attributes: Any) -> Any:
    nodes = [helper.make_node("RandomNormalLike", ["x"], [y], **attributes) for y in ("y", "z")]
    return model(nodes, [value("x", ("n", 2))], ("y", "z"))


def test_what_is_the_same() -> None:
    """Each call, compiled or not, and each import draws the same; a node without a seed has numbers of its own."""
    x = np.zeros((3, 2), np.float32)
    y, z = legato_outputs(_two(), {"x": x})
    assert not np.any(y == z)
    run = legato.compile(from_onnx(_two()))
    for _ in range(2):
        for got, want in zip(run(x), (y, z), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    first, second = legato_outputs(_two(seed=3.5), {"x": x})
    np.testing.assert_array_equal(first, second)
    assert not np.any(first == y)
    assert not np.any(first == legato_outputs(_two(seed=2.5), {"x": x})[0])


def test_loops_are_refused() -> None:
    """Rounds would draw the same; a function that draws is refused there as well."""
    for inner in (
        helper.make_node("RandomNormalLike", ["s"], ["r"]),
        helper.make_node("Drawn", ["s"], ["r"], domain="own"),
    ):
        own = helper.make_function("own", "Drawn", ["a"], ["b"], [helper.make_node("RandomNormalLike", ["a"], ["b"])],
                                   [helper.make_opsetid("", 17)])  # fmt: skip
        body = helper.make_graph([inner], "body", [value("i", (), "int64"), value("go", (), "bool"), value("s", (2,))],
                                 [value("go", (), "bool"), value("r", (2,))])  # fmt: skip
        loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        proto = model([loop], [value("n", (), "int64"), value("x", (2,))], functions=[own], opset_imports=opsets)
        with pytest.raises(UnsupportedError, match="random numbers in a loop"):
            from_onnx(proto)


def test_branches_draw() -> None:
    branches = {
        name: helper.make_graph([helper.make_node("RandomNormal", [], ["r"], shape=[2])], name, [], [value("r", (2,))])
        for name in ("then_branch", "else_branch")
    }
    proto = model([helper.make_node("If", ["c"], ["y"], **branches)], [value("c", (), "bool")])
    found = [legato_outputs(proto, {"c": np.array(c)})[0] for c in (True, False)]
    assert not np.any(found[0] == found[1])


def test_what_is_refused() -> None:
    with pytest.raises(ImportModelError, match="wanted floats"):
        drawn("RandomNormalLike", np.zeros(2, np.int32))
    with pytest.raises(ImportModelError, match="wanted extents"):
        drawn("RandomUniform", shape=[-1])
    with pytest.raises(LegatoError, match="samples"):
        drawn("Multinomial", np.zeros(3, np.float32))
