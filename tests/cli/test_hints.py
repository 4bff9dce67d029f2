"""Hints of errors under the command line: its own options, where Python's are written in Python."""

from __future__ import annotations

import re
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato.base.errors import UnsupportedError


@pytest.mark.parametrize(
    ("node", "python", "command"),
    [
        (helper.make_node("Squeeze", ["x"], ["y"]),
         "shapes={'x': (1, None)} or shapes={'x': ('n:2..', None)}", "--shape x=1,? or --shape x=n:2..,?"),
        (helper.make_node("ExpandDims", ["x", "axis"], ["y"], domain="com.microsoft"),
         "constants={'axis': …}", "--constant axis=…"),
    ],
)  # fmt: skip
def test_hints_are_written_as_whoever_reads_them_writes(
    node: onnx.NodeProto, python: str, command: str, call: Any
) -> None:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 4))]
    inputs.append(helper.make_tensor_value_info("axis", TensorProto.INT32, ()))
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), "model.onnx")
    with pytest.raises(UnsupportedError) as error:
        legato.compile("model.onnx")
    assert python in str(error.value)
    done = call("compile", "model.onnx", "-o", "model.legato")
    assert done.code == 1
    said = f"legato: {error.value}".replace(python, command)
    said = re.sub(r"from_onnx\(…, custom=\{(.*)\}\)", r"--ops FILE.py that has custom = {\1}", said)
    assert done.err.strip() == said
    assert "--ops FILE.py that has custom = {" in said
