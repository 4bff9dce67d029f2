"""Engines that can run a model: each is a name and a call without arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import RunError
from legato.base.precision import NARROW, NEAR, near_of
from legato.runtime.executable import Executable
from legato.runtime.leaves import flat, in_order
from legato.runtime.timing import Block, block_of

__all__ = ["PEERS", "Array", "Engine", "Feeds", "legato_engine", "require_installed"]

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Engine:
    """Something that runs a model; a call returns the outputs in the order of the model.

    near: how far its outputs may be from another's, as a share of their range.
    timed: the seconds of each call in a block of so many seconds, where calls run in another process; None: here.
    """

    name: str
    version: str
    call: Callable[[], list[Array]]
    near: float = NEAR
    timed: Callable[[float], Block] | None = None

    def block(self, seconds: float) -> Block:
        """The seconds of each call in a block of so many, as `timing.block_of` has them."""
        return block_of(self.call, seconds) if self.timed is None else self.timed(seconds)


def legato_engine(exe: Executable, feeds: Feeds, version: str, name: str = "legato") -> Engine:
    """Legato itself."""
    inputs, kept = in_order(exe, feeds), exe.keeping()  # they are those of the next call, too
    return Engine(name, version, lambda: list(flat(kept(*inputs))), near_of(exe.precision))


def onnxruntime_engine(path: Path, feeds: Feeds, threads: int, fixed: bool) -> Engine:
    """ONNX Runtime; RunError where it is not installed or refuses the model.

    fixed: symbolic dims are given the sizes that `feeds` have, before it optimises.
    """
    from legato.compare.peer import outputs, session  # with the compiler

    dims = _symbolic(session(path, threads), feeds) if fixed else {}
    running = session(path, threads, dims=dims)
    import onnxruntime

    given = dict(feeds)
    return Engine("onnxruntime", onnxruntime.__version__, lambda: outputs(running, given))


def _symbolic(running: Any, feeds: Feeds) -> dict[str, int]:
    """The sizes of a session's named dims; those that have two sizes have a name that means nothing."""
    declared = {entry.name: entry.shape for entry in running.get_inputs()}
    pairs = (pair for name, array in feeds.items() for pair in zip(declared.get(name, ()), array.shape, strict=False))
    sizes: dict[str, set[int]] = {}
    for dim, size in pairs:
        if isinstance(dim, str):
            sizes.setdefault(dim, set()).add(size)
    return {dim: next(iter(found)) for dim, found in sizes.items() if len(found) == 1}


def openvino_engine(path: Path, feeds: Feeds, threads: int, fixed: bool, *, precision: str = "f32") -> Engine:
    """OpenVINO on the CPU, for latency; RunError where it is not installed or refuses the model.

    fixed: the model is given the shapes of `feeds` before it is compiled. precision: "f32", or "bf16": in bfloat16
    what it finds faster so.
    """
    require_installed("openvino")
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": precision,
    }
    core = openvino.Core()
    try:
        model = core.read_model(str(path))
        if fixed and model.is_dynamic():
            model.reshape({name: list(array.shape) for name, array in feeds.items()})
        request = core.compile_model(model, "CPU", settings).create_infer_request()
    except RuntimeError as error:  # the one class of its errors
        raise RunError(f"OpenVINO cannot load the model: {_last_line(error)}") from error
    given = dict(feeds)

    def call() -> list[Array]:
        try:
            found = request.infer(given, share_inputs=True)
        except RuntimeError as error:
            raise RunError(f"OpenVINO cannot run the model: {_last_line(error)}") from error
        return [found[n] for n in range(len(found))]

    version = openvino.__version__.partition("-")[0]
    if precision == "f32":
        return Engine("openvino", version, call)
    return Engine(f"openvino-{precision}", version, call, NARROW)


def _last_line(error: Exception) -> str:
    """What is wrong; the lines above say where in OpenVINO's source."""
    return str(error).strip().rpartition("\n")[2]


def torch_engine(path: Path, feeds: Feeds, threads: int, fixed: bool) -> Engine:
    """RunError: it takes modules, not files."""
    raise RunError(
        f"torch runs modules, not ONNX files like {path}\n  hint: `make bench` builds the modules of its models"
    )


def require_installed(name: str) -> None:
    """RunError where the package of an engine of `PEERS` is not installed."""
    title = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}.get(package := name.partition("-")[0])
    if title is not None and find_spec(package) is None:
        raise RunError(f"{title} is not installed\n  hint: pip install {package}")


PEERS: Mapping[str, Callable[[Path, Feeds, int, bool], Engine]] = {
    "onnxruntime": onnxruntime_engine,
    "openvino": openvino_engine,
    "openvino-bf16": partial(openvino_engine, precision="bf16"),
    "torch": torch_engine,
}
