"""ONNX's message classes, imported without its package, are those of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHECK = """
{first}
{second}
import sys
from legato.frontend.onnx import proto
for name in proto.__all__:
    assert getattr(onnx, name) is getattr(proto, name), name
    assert getattr(onnx.onnx_ml_pb2, name) is getattr(proto, name), name
model = onnx.load_from_string(proto.ModelProto(ir_version=9).SerializeToString())
assert type(model) is proto.ModelProto and model.ir_version == 9
"""


@pytest.mark.parametrize("order", [("import legato.frontend.onnx.proto", "import onnx"), ("import onnx", "")])
def test_the_same_classes_whoever_comes_first(order: tuple[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(first=order[0], second=order[1])], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_package_is_not_imported() -> None:
    text = "import sys, legato.frontend.onnx.proto; print('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout == "False\n"
