"""Engines that can run a model: each is a name and a call without arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from legato.base.errors import RunError
from legato.compare.exact import flat, in_order
from legato.compare.peer import session
from legato.runtime.executable import Executable

__all__ = ["PEERS", "Engine", "legato_engine"]

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Engine:
    """Something that runs a model; a call returns the outputs in the order of the model."""

    name: str
    version: str
    call: Callable[[], list[Array]]


def legato_engine(exe: Executable, feeds: Feeds, version: str) -> Engine:
    """Legato itself."""
    inputs = in_order(exe, feeds)
    return Engine("legato", version, lambda: list(flat(exe(*inputs))))


def onnxruntime_engine(path: Path, feeds: Feeds, threads: int) -> Engine:
    """ONNX Runtime; RunError where it is not installed or refuses the model."""
    running = session(path, threads)
    import onnxruntime

    given = dict(feeds)
    return Engine("onnxruntime", onnxruntime.__version__, lambda: list(running.run(None, given)))


def openvino_engine(path: Path, feeds: Feeds, threads: int) -> Engine:
    """OpenVINO on the CPU, for latency, in float32; RunError where it is not installed."""
    if find_spec("openvino") is None:
        raise RunError("OpenVINO is not installed\n  hint: pip install openvino")
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()
    given = dict(feeds)

    def call() -> list[Array]:
        found = request.infer(given, share_inputs=True)
        return [found[n] for n in range(len(found))]

    return Engine("openvino", openvino.__version__.partition("-")[0], call)


PEERS: Mapping[str, Callable[[Path, Feeds, int], Engine]] = {
    "onnxruntime": onnxruntime_engine,
    "openvino": openvino_engine,
}
