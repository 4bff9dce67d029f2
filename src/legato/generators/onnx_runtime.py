"""ONNX Runtime as an engine: a generator for what has a form in ONNX.

Files have the models; loading one gives it to ONNX Runtime, where a model is data. One that names other files is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import ArtifactError, PlatformError
from legato.generators.flat import flat_function
from legato.generators.onnx_model import has_form, onnx_model
from legato.ir.expr import Call, Function

__all__ = ["OnnxRuntime"]


@dataclass(frozen=True, slots=True)
class OnnxRuntime:
    """Takes calls of operators that ONNX has, on float32, int32, int64 and bool; `operators`: only these. threads: of
    its own pool; 0: as many as it likes."""

    name: str = "onnxruntime"
    operators: frozenset[str] | None = None
    threads: int = 0

    def supports(self, call: Call) -> bool:
        """Whether a call has a form in ONNX."""
        return has_form(call) and (self.operators is None or getattr(call.op, "name", "") in self.operators)

    def model(self, function: Function) -> bytes:
        """The ONNX model of a function."""
        return onnx_model(flat_function(function))

    def compile(self, function: Function) -> Any:
        """The engine of a function. PlatformError where there is no ONNX Runtime."""
        return _Session(self.model(function), self.threads)

    def load(self, data: bytes) -> Any:
        """The engine that is stored as `data`, a model."""
        _require_whole(data)
        return _Session(data, self.threads)


class _Session:
    """A model that ONNX Runtime has."""

    def __init__(self, data: bytes, threads: int) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            hint = "pip install onnxruntime"
            raise PlatformError(f"there is no ONNX Runtime: {error}\n  hint: {hint}") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._data = data
        self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        self._inputs = [value.name for value in self._session.get_inputs()]

    def __call__(self, *arrays: np.ndarray) -> Any:
        feeds = {name: np.asarray(a, order="C") for name, a in zip(self._inputs, arrays, strict=True)}
        found = self._session.run(None, feeds)
        return found[0] if len(found) == 1 else tuple(found)

    def to_bytes(self) -> bytes:
        """The model."""
        return self._data


def _constants(model: Any) -> Iterator[Any]:
    """Every tensor in a model, wherever it stands: in branches, functions, attributes."""
    import onnx

    todo = [model]
    while todo:
        message = todo.pop()
        if isinstance(message, onnx.TensorProto):
            yield message
            continue
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                todo += value if hasattr(value, "__len__") else [value]  # one message has no length


def _require_whole(data: bytes) -> None:
    """ArtifactError for bytes that are no model, and one that has its constants elsewhere."""
    import onnx

    try:
        model = onnx.load_from_string(data)
    except Exception as error:  # of protobuf, which has none of its own for all
        raise ArtifactError(f"no ONNX model: {error}") from error
    for constant in _constants(model):
        if constant.data_location == onnx.TensorProto.EXTERNAL or constant.external_data:
            raise ArtifactError(f"the ONNX model has its constant {constant.name!r} in another file")
