"""LSTM, GRU and RNN against ONNX Runtime: directions, lengths, activations, what attributes say, and what is wrong."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import legato
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BOTH = {"direction": "bidirectional"}
STEPS, BATCH, INPUTS, UNITS = 5, 3, 4, 6


def f32(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-0.9, 0.9, shape).astype(np.float32)


def layer(
    operator: str, attributes: dict[str, Any], *, bias: bool = True, lengths: bool = False, states: bool = False,
    peepholes: bool = False, opset: int = 14,
) -> tuple[onnx.ModelProto, dict[str, Array]]:  # fmt: skip
    """A model of one node, and what it is given. Weights are initializers, the rest inputs."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = GATES[operator]
    weights = {"w": f32(directions, gates * UNITS, INPUTS), "r": f32(directions, gates * UNITS, UNITS)}
    if bias:
        weights["bias"] = f32(directions, 2 * gates * UNITS)
    if peepholes:
        weights["p"] = f32(directions, 3 * UNITS)
    batch_first = attributes.get("layout", 0)
    feeds = {"x": f32(BATCH, STEPS, INPUTS) if batch_first else f32(STEPS, BATCH, INPUTS)}
    if lengths:
        feeds["lengths"] = np.array([2, 5, 1], np.int32)
    state = (BATCH, directions, UNITS) if batch_first else (directions, BATCH, UNITS)
    if states:
        feeds["h"] = f32(*state)
        if operator == "LSTM":
            feeds["c"] = f32(*state) / 2
    given = {**weights, **feeds}
    order = ["x", "w", "r", "bias", "lengths", "h", *(["c", "p"] if operator == "LSTM" else [])]
    names = [name if name in given else "" for name in order]
    outputs = ["y", "y_h", "y_c"][: 3 if operator == "LSTM" else 2]
    node = helper.make_node(operator, names, outputs, hidden_size=UNITS, **attributes)
    inputs = [value(name, array.shape, str(array.dtype)) for name, array in feeds.items()]
    return model([node], inputs, outputs, weights, opset=opset), feeds


ONE = {"activations": ["Relu", "Softsign", "Tanh"]}
PARAMETERS = {
    "activations": ["HardSigmoid", "LeakyRelu", "Tanh", "Sigmoid", "Elu", "Softplus"],
    "activation_alpha": [0.3, 0.2],
    "activation_beta": [0.4],
    **BOTH,
}


@pytest.mark.parametrize(
    ("operator", "attributes", "more"),
    [
        ("LSTM", {}, {}),
        ("LSTM", {}, {"bias": False, "states": True}),
        ("LSTM", {"direction": "reverse"}, {"lengths": True}),
        ("LSTM", BOTH, {"lengths": True, "states": True}),
        ("LSTM", BOTH, {"peepholes": True, "states": True}),
        ("LSTM", {"clip": 0.4}, {}),
        ("LSTM", {"input_forget": 1}, {}),
        ("LSTM", ONE, {}),
        ("LSTM", PARAMETERS, {}),
        ("LSTM", {}, {"opset": 7}),
        ("GRU", {}, {}),
        ("GRU", {}, {"bias": False, "states": True}),
        ("GRU", {"linear_before_reset": 1}, {"states": True}),
        ("GRU", {"linear_before_reset": 1}, {"bias": False}),
        ("GRU", {"linear_before_reset": 1, **BOTH}, {"lengths": True, "states": True}),
        ("GRU", BOTH, {"lengths": True}),
        ("GRU", {"clip": 0.3, "direction": "reverse"}, {}),
        ("GRU", {"activations": ["HardSigmoid", "Softsign"]}, {}),
        ("RNN", {}, {"states": True}),
        ("RNN", {"activations": ["Relu"]}, {"lengths": True}),
        ("RNN", {"activations": ["Affine", "ScaledTanh"], "activation_alpha": [0.5, 1.5], "activation_beta": [0.1, 0.7],
                 **BOTH}, {"lengths": True}),
        ("RNN", {"direction": "reverse", "activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}, {}),
    ],
)  # fmt: skip
def test_equals_onnxruntime(operator: str, attributes: dict[str, Any], more: dict[str, Any]) -> None:
    proto, feeds = layer(operator, attributes, **more)
    for got, want in zip(legato_outputs(proto, feeds), ort_outputs(proto, feeds), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("operator", GATES)
def test_batch_first_is_a_transpose(operator: str) -> None:
    first, feeds = layer(operator, {"layout": 1, **BOTH}, lengths=True, states=True)
    second, _ = layer(operator, BOTH, lengths=True, states=True)
    turned = {name: a.swapaxes(0, 1) if a.ndim == 3 else a for name, a in feeds.items()}
    y, *states = legato_outputs(first, feeds)
    want, *wanted = legato_outputs(second, turned)
    np.testing.assert_array_equal(y, want.transpose(2, 0, 1, 3))
    for got, other in zip(states, wanted, strict=True):
        np.testing.assert_array_equal(got, other.swapaxes(0, 1))


def test_lengths_that_say_nothing_are_dropped() -> None:
    weights = {
        "w": f32(1, 4 * UNITS, INPUTS),
        "r": f32(1, 4 * UNITS, UNITS),
        "lengths": np.full(BATCH, STEPS, np.int32),
    }
    node = helper.make_node("LSTM", ["x", "w", "r", "", "lengths"], ["y"])
    text = str(from_onnx(model([node], [value("x", (STEPS, BATCH, INPUTS))], ["y"], weights)))
    assert "lengths" not in text


def test_symbolic_steps_and_batch() -> None:
    proto, _ = layer("GRU", {})
    del proto.graph.input[:]
    proto.graph.input.append(value("x", ("steps", "batch", INPUTS)))
    for shape in ((5, 3, INPUTS), (1, 1, INPUTS), (0, 2, INPUTS)):
        y, last = legato_outputs(proto, {"x": f32(*shape)})
        assert (y.shape, last.shape) == ((*shape[:1], 1, shape[1], UNITS), (1, shape[1], UNITS))


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"direction": "up"}, ImportModelError, "direction is 'up', wanted forward, reverse or bidirectional"),
        ({"direction": "reverse", "activations": ["Tanh"]}, ImportModelError, "activations has 1 entries, wanted 3"),
        ({"activations": ["Tanh", "Sin", "Tanh"]}, UnsupportedError, "attribute activations: Sin"),
        ({"colour": 3}, UnsupportedError, "attribute colour"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(attributes: dict[str, Any], error: type[Exception], message: str) -> None:
    proto, _ = layer("LSTM", {k: v for k, v in attributes.items() if k != "direction"})
    if "direction" in attributes:
        proto.graph.node[0].attribute.append(helper.make_attribute("direction", attributes["direction"]))
    with pytest.raises(error) as found:
        from_onnx(proto)
    assert message in "\n".join([str(found.value), *found.value.details])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.shared(3)
def test_stacked_layers_of_pytorch(kind: str, batch_first: bool, torch: Any) -> None:
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(24, 40, num_layers=2, bidirectional=True, batch_first=batch_first).eval()
    x, file = torch.randn(3, 7, 24), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), file, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "a", 1: "b"}})
    exe = legato.compile(onnx.load_from_string(file.getvalue()), threads=2)
    for shape in ((3, 7, 24), (1, 1, 24), (5, 2, 24)):
        x = torch.randn(shape)
        want, states = module(x)
        wanted = [want, *(states if isinstance(states, tuple) else [states])]
        for got, w in zip(exe(x.numpy()), wanted, strict=True):
            np.testing.assert_allclose(got, w.detach().numpy(), rtol=1e-4, atol=2e-6)
