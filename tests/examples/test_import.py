"""Models of other frameworks as (module, parameters)."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from onnx import helper, numpy_helper

from legato import relay
from legato.base.errors import ArtifactError, UnsupportedError

RNG = np.random.default_rng(0)
WEIGHT, BIAS = (RNG.normal(size=s).astype("float32") for s in ((8, 4), (4,)))


def model() -> onnx.ModelProto:
    """relu(x · weight + bias) as ONNX; the first dim of x has a name."""
    nodes = [
        helper.make_node("Gemm", ["input", "weight", "bias"], ["linear"]),
        helper.make_node("Relu", ["linear"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(WEIGHT, "weight"), numpy_helper.from_array(BIAS, "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_parameters_are_constants_unless_asked_for() -> None:
    mod, params = relay.frontend.from_onnx(model(), shape={"input": (2, 8)})
    assert params == {}
    assert [p.name_hint for p in mod["main"].params] == ["input"]
    assert str(mod["main"].ret_type) == "Tensor[(2, 4), float32]"
    assert "#[metadata]" in mod.astext()
    assert "#[metadata]" not in mod.astext(show_meta_data=False)
    x = RNG.normal(size=(2, 8)).astype("float32")
    np.testing.assert_allclose(relay.build(mod)(x), np.maximum(x @ WEIGHT + BIAS, 0), rtol=1e-5, atol=1e-5)


def test_parameters_by_name() -> None:
    mod, params = relay.frontend.from_onnx(model(), freeze_params=False)
    assert {name: v.shape for name, v in params.items()} == {"weight": (8, 4), "bias": (4,)}
    assert [p.name_hint for p in mod["main"].params] == ["input", *params]
    assert sum(int(np.prod(v.shape)) for v in params.values()) == 36
    x = RNG.normal(size=(3, 8)).astype("float32")
    want = np.maximum(x @ WEIGHT + BIAS, 0)
    got = relay.create_executor("debug", mod, params=params).evaluate()(x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(relay.build(mod, params=params)(x), want, rtol=1e-5, atol=1e-5)
    bound = relay.build_module.bind_params_by_name(mod["main"], params)
    assert [p.name_hint for p in bound.params] == ["input"]


def test_parameters_as_bytes() -> None:
    _, params = relay.frontend.from_onnx(model(), freeze_params=False)
    again = relay.load_param_dict(relay.save_param_dict(params))
    assert all(np.array_equal(again[name], value) for name, value in params.items())
    kinds = {"scalar": np.float32(3), "narrow": np.ones((2, 3), bfloat16), "turned": np.eye(2, 3, dtype="int8").T}
    again = relay.load_param_dict(relay.save_param_dict(kinds))
    assert {k: (v.shape, v.dtype) for k, v in again.items()} == {k: (v.shape, v.dtype) for k, v in kinds.items()}
    assert all(np.array_equal(again[name], value) for name, value in kinds.items())
    with pytest.raises(ArtifactError, match="cannot be saved"):
        relay.save_param_dict({"words": np.array(["a", None])})
    with pytest.raises(ArtifactError, match="hold no parameters"):
        relay.load_param_dict(b"these are others")


def test_what_cannot_be_chosen_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="opset"):
        relay.frontend.from_onnx(model(), opset=9)
