"""ONNX Runtime as a second opinion, where it is installed and the model is ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from legato.base.errors import RunError

__all__ = ["PeerError", "installed", "is_onnx", "outputs", "session"]

Array = np.ndarray[Any, Any]


class PeerError(RunError):
    """ONNX Runtime is not there, or cannot load or run the model."""


def is_onnx(model: object) -> bool:
    """Whether `model` is something that ONNX Runtime may read: a path of an .onnx file, its bytes, a ModelProto."""
    if isinstance(model, str | os.PathLike):
        return os.fspath(model).endswith((".onnx", ".pb"))
    return isinstance(model, bytes) or type(model).__name__ == "ModelProto"


def installed() -> bool:
    """Whether ONNX Runtime can be imported."""
    return find_spec("onnxruntime") is not None


def session(model: Any, threads: int = 1, *, dims: Mapping[str, int] | None = None) -> Any:
    """An onnxruntime.InferenceSession on that many threads; PeerError where there can be none.

    dims: sizes of symbolic dims that hold for all calls.
    """
    if not installed():
        raise PeerError("ONNX Runtime is not installed\n  hint: pip install onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    for dim, size in (dims or {}).items():
        options.add_free_dimension_override_by_name(dim, size)
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL
    source = os.fspath(model) if isinstance(model, str | os.PathLike) else model
    if not isinstance(source, str | bytes):
        source = source.SerializeToString()
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except _errors() as error:
        raise PeerError(f"ONNX Runtime cannot load the model: {_first_line(error)}") from error


def outputs(running: Any, feeds: Mapping[str, Array]) -> list[Array]:
    """What a session makes of the inputs, in the order of the file; PeerError where it cannot run."""
    try:
        found: list[Array] = running.run(None, dict(feeds))
    except _errors() as error:
        raise PeerError(f"ONNX Runtime cannot run the model: {_first_line(error)}") from error
    return found


def _errors() -> tuple[type[Exception], ...]:
    """The classes of its errors, which have no common base of their own."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = (getattr(state, name) for name in dir(state))
    return (RuntimeError, ValueError, *(e for e in found if isinstance(e, type) and issubclass(e, Exception)))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
