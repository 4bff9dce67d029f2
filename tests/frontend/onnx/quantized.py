"""Models that ONNX Runtime has quantised, compiled, against ONNX Runtime: the same decisions.

    python -m tests.frontend.onnx.quantized [MODEL…]

Each model is quantised in three ways: dynamically, with pairs of QuantizeLinear and DequantizeLinear, with operators on
codes. Its real inputs calibrate it. Printed are the largest difference, as a share of the outputs' range, and the
share of decisions that agree: the largest element along axis 1.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from onnxruntime import quantization as q

import legato
from legato.base.dataclass import dataclass
from legato.frontend.onnx import from_onnx
from tools.models import Feeds, Model, get

__all__ = ["FORMS", "MODELS", "NotQuantised", "Verdict", "compared", "quantized"]

Array = np.ndarray[Any, Any]
FORMS: Final = ("dynamic", "qdq", "qoperator")
MODELS: Final = ("dqn", "lstm", "gru", "pnet", "rnet", "onet", "crepe", "squeezenet1_1", "mobilenet_v2", "resnet18",
                 "shufflenet_v2_x1_0", "minilm")  # fmt: skip
_CASES: Final = 2  # inputs that calibrate, and are compared


@dataclass(frozen=True, slots=True)
class Verdict:
    """`error`: the largest difference over the range of the output; `decisions`: the share that agrees."""

    error: float
    decisions: float
    host_operators: int


class NotQuantised(Exception):
    """ONNX Runtime fails to quantise a model."""


class _Calibration(q.CalibrationDataReader):  # type: ignore[misc]  # it has no types
    def __init__(self, cases: Sequence[Feeds]) -> None:
        self._left: Iterator[Feeds] = iter(cases)

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def quantized(model: Model, form: str, target: Path) -> None:
    """Writes the model, quantised, to `target`."""
    logging.getLogger().setLevel(logging.ERROR)  # it advises on preparing models
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form == "dynamic":
            q.quantize_dynamic(str(model.path()), str(target))
            return
        kind = q.QuantFormat.QDQ if form == "qdq" else q.QuantFormat.QOperator
        calibration = _Calibration(list(model.cases())[:_CASES])
        try:
            q.quantize_static(str(model.path()), str(target), calibration, quant_format=kind)
        except Exception as error:  # of any class
            raise NotQuantised(str(error)) from error


def compared(model: Model, form: str) -> Verdict:
    """The quantised model here and in ONNX Runtime, on real inputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        quantized(model, form, path)
        exe = legato.compile(from_onnx(path))
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        peer = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        pairs = [pair for feeds in list(model.cases())[:_CASES] for pair in _outputs(exe, peer, feeds)]
    errors = [float(np.abs(got - want).max() / (np.ptp(want) + 1e-30)) for got, want in pairs]
    agree = [_decided(got) == _decided(want) for got, want in pairs]
    return Verdict(max(errors), float(np.mean(np.concatenate(agree))), int(str(exe.stats["host_operators"])))


def _outputs(exe: Any, peer: ort.InferenceSession, feeds: Feeds) -> Iterator[tuple[Array, Array]]:
    found = exe.run({i.name: feeds[i.name] for i in exe.inputs}).values()
    for got, want in zip(found, peer.run(None, dict(feeds)), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        yield got.astype(np.float64), want.astype(np.float64)


def _decided(x: Array) -> Array:
    return np.asarray(x.argmax(axis=min(1, x.ndim - 1))).reshape(-1)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line for each model and form; 1 if decisions differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    wrong = 0
    for name in parser.parse_args(argv).models:
        for form in FORMS:
            try:
                found = compared(get(name), form)
            except NotQuantised as error:
                print(f"{name:20} {form:10} is not quantised by ONNX Runtime: {error}", flush=True)
                continue
            wrong += found.decisions < 1
            print(f"{name:20} {form:10} error {found.error:.4f}  decisions {found.decisions:.2%}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
