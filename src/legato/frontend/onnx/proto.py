"""ONNX's message classes, without the rest of its package: they are all that is used of it, in a quarter of the time.

The package's checker, shape inference and version converter never see a stranger's file; `schema_functions` asks it
what operators stand for.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["IR_VERSION", "AttributeProto", "FunctionProto", "GraphProto", "ModelProto", "NodeProto",
           "SparseTensorProto", "TensorProto", "TensorShapeProto", "TypeProto", "ValueInfoProto"]  # fmt: skip

_NAME = "onnx.onnx_ml_pb2"


def _messages() -> ModuleType:
    """The module of the message classes. Python's record of modules is left alone: protobuf has one class for each
    message, and whoever imports the package gets that too."""
    package = find_spec("onnx")
    if _NAME not in sys.modules and package is not None and package.submodule_search_locations:
        file = Path(package.submodule_search_locations[0], "onnx_ml_pb2.py")
        spec = spec_from_file_location(_NAME, file) if file.is_file() else None
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    import onnx.onnx_ml_pb2

    return onnx.onnx_ml_pb2


if TYPE_CHECKING:
    from onnx import (
        IR_VERSION,
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        SparseTensorProto,
        TensorProto,
        TensorShapeProto,
        TypeProto,
        ValueInfoProto,
    )
else:
    _all = vars(_messages())
    globals().update({name: _all[name] for name in __all__})
