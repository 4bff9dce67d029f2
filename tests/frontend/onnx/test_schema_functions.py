"""Operators that the standard defines by a function of others, where there is no converter."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import check, from_onnx, importer
from tests.frontend.onnx.peer import Array, legato_outputs, model, value

X = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)
CASES: list[tuple[str, list[Array], dict[str, Any], Array]] = [
    ("Mish", [X], {}, X * np.tanh(np.log1p(np.exp(X)))),
    ("Celu", [X], {"alpha": 2.0}, np.maximum(X, 0) + np.minimum(0, 2 * np.expm1(X / 2))),
    ("Swish", [X], {}, X / (1 + np.exp(-X))),  # whose alpha has a default
    ("Gelu", [X], {"approximate": "tanh"}, X / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))),
    ("Softmax", [X], {"axis": 0}, np.exp(X) / np.exp(X).sum(0)),
    ("CastLike", [X, np.zeros(1)], {}, X.astype(np.float64)),
    ("Clip", [X, np.float32(-0.5)], {}, np.maximum(X, -0.5)),
]


def proto(
    operator: str, inputs: list[Array], attributes: Mapping[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    feeds = {f"x{n}": array for n, array in enumerate(inputs)}
    node = helper.make_node(operator, list(feeds), ["y"], name="it", **attributes)
    return model([node], [value(n, a.shape, str(a.dtype)) for n, a in feeds.items()], opset=25), feeds


@pytest.fixture
def only_simple(monkeypatch: pytest.MonkeyPatch) -> None:
    """An importer that does not know the operators above."""
    known = {name.lower() for name, *_ in CASES}

    def find(domain: str, operator: str, opset: int) -> Any:
        return None if not domain and operator.lower() in known else real(domain, operator, opset)

    real = importer.find
    monkeypatch.setattr(importer, "find", find)


@pytest.mark.usefixtures("only_simple")
@pytest.mark.parametrize(("operator", "inputs", "attributes", "wanted"), CASES, ids=[name for name, *_ in CASES])
def test_values(operator: str, inputs: list[Array], attributes: Mapping[str, Any], wanted: Array) -> None:
    made, feeds = proto(operator, inputs, attributes)
    for shapes in (None, {"x0": ("n", "m")}):
        (got,) = legato_outputs(made, feeds, shapes=shapes)
        assert got.dtype == (np.float64 if operator == "CastLike" else np.float32)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("only_simple")
def test_two_forms_in_one_model() -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["a"], axis=0), helper.make_node("Softmax", ["a"], ["y"], axis=1)]
    (got,) = legato_outputs(model(nodes, [value("x", (2, 3))]), {"x": X})
    first = np.exp(X) / np.exp(X).sum(0)
    np.testing.assert_allclose(got, np.exp(first) / np.exp(first).sum(1, keepdims=True), rtol=1e-5)


def test_what_is_not_supported_inside_is_listed_with_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importer.find
    monkeypatch.setattr(importer, "find", lambda d, o, v: None if o in ("Mish", "Tanh") else real(d, o, v))
    made, _ = proto("Mish", [X], {})
    (listed,) = check(made).unsupported
    assert listed.node.startswith("it/")
    assert listed.operator == "Tanh"


@pytest.mark.usefixtures("only_simple")
def test_without_the_onnx_package(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = proto("Mish", [X], {})
    content = made.SerializeToString()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(content)
    assert "install the onnx package" in str(caught.value)


@pytest.mark.usefixtures("only_simple")
@pytest.mark.parametrize(
    ("attributes", "message"),
    [({"axis": "last"}, "attribute axis of Softmax is of kind 3, wanted 2"), ({"axis": 7}, "axis")],
)
def test_attributes_that_mean_nothing(attributes: Mapping[str, Any], message: str) -> None:
    made, _ = proto("Softmax", [X], attributes)
    with pytest.raises(ImportModelError, match=message):
        from_onnx(made)


@pytest.mark.usefixtures("only_simple")
def test_attributes_and_inputs_that_are_not_there() -> None:
    with pytest.raises(UnsupportedError, match="attribute axes"):
        from_onnx(proto("Softmax", [X], {"axes": 1})[0])
    with pytest.raises(ImportModelError, match="Mish has 2 inputs and 1 outputs, wanted 1 to 1, and at most 1"):
        from_onnx(proto("Mish", [X, X], {})[0])


@pytest.mark.parametrize("version", [2**40, -(2**40)])
def test_versions_of_operators_that_there_cannot_be(version: int) -> None:
    node = helper.make_node("Swirl", ["x"], ["y"], domain="ai.onnx.ml")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    with pytest.raises(UnsupportedError, match="Swirl"):
        from_onnx(model([node], [value("x", (2,))], opset_imports=opsets))
