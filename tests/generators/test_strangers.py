"""Files of strangers: what engines are given, and what is stored of them, is looked at."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato.base.errors import ArtifactError, LegatoError, RunError, VerifyError
from legato.generators import CSource, OnnxRuntime
from legato.interp import evaluate
from legato.relay import load_json


def test_arrays_of_other_dtypes_are_not_read() -> None:
    mod = legato.parse('def @main(%x: Tensor[(8), float64], Compiler="c") -> Tensor[(8), float64] { exp(%x) }')
    run = CSource().compile(mod["main"])  # type: ignore[arg-type]  # a function
    with pytest.raises(RunError, match="is float32, wanted float64"):
        run(np.zeros(8, np.float32))
    with pytest.raises(RunError, match="got 2 arrays, wanted 1"):
        run(np.zeros(8), np.zeros(8))


def test_models_with_constants_elsewhere_in_a_branch() -> None:
    hidden = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    hidden.external_data.add(key="location", value="secret.bin")
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    branch = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "b", [], [out], initializer=[hidden])
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ArtifactError, match="in another file"):
        OnnxRuntime().load(model.SerializeToString())
    assert isinstance(model, onnx.ModelProto)


@pytest.mark.parametrize(
    "nodes",
    [
        [
            {"type_key": ""}, {"type_key": "relay.Tuple", "attrs": {"fields": "0", "span": "2"}},
            {"type_key": "SequentialSpan", "attrs": {"spans": "3"}}, {"type_key": "Array", "data": [2]},
        ],
        [{"type_key": ""}, {"type_key": "relay.Clause", "attrs": {"lhs": "2", "rhs": "2"}},
         {"type_key": "relay.PatternWildcard"}],
    ],
)  # fmt: skip
def test_json_of_strangers(nodes: list[object]) -> None:
    text = json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": [], "attrs": {"tvm_version": "0.18.0"}})
    with suppress(LegatoError):  # refused with an error of its own, or read
        load_json(text)


@pytest.mark.parametrize("attrs", ["param_virtual_devices=3", "param_virtual_devices=[1]", "result_virtual_device=3"])
def test_devices_that_are_no_names(attrs: str) -> None:
    text = f'def @main(%x: Tensor[(2), float32], {attrs}) {{ on_device(exp(%x), virtual_device="cuda") }}'
    with pytest.raises(VerifyError, match="no names"):
        legato.compile(legato.parse(text))


def test_blocks_that_no_matrix_has() -> None:
    mod = legato.parse("""
      def @main(%x: Tensor[(3, 8), float32], %v: Tensor[(2, 1, 8), float32], %i: Tensor[(2), int64],
                %p: Tensor[(2), int32]) { nn.sparse_dense(%x, %v, %i, %p) }""")
    x, v = np.ones((3, 8), np.float32), np.ones((2, 1, 8), np.float32)
    for index in (2**61, -(2**61), 2**63 - 1):
        args = [x, v, np.array([index, 0], np.int64), np.array([0, 2], np.int32)]
        np.testing.assert_array_equal(legato.compile(mod)(*args), evaluate(mod, args))
