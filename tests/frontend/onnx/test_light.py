"""The real graphs that the onnx package carries (operator set 9, weights left out): they import; two of them run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from legato.frontend.onnx import check, from_onnx
from tests.frontend.onnx.peer import legato_outputs, ort_outputs

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
CLASSES = {"densenet121": (1, 1000, 1, 1), "squeezenet": (1, 1000, 1, 1)}
NAMES = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
         "zfnet512"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_imports(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    main = from_onnx(path)["main"]
    assert main.body.ty.static_shape() == CLASSES.get(name, (1, 1000))
    assert check(path).unsupported == ()


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_runs(name: str) -> None:
    proto = onnx.load(LIGHT / f"light_{name}.onnx")
    (param,) = from_onnx(proto)["main"].params
    feeds = {param.name: np.random.default_rng(0).random((1, 3, 224, 224), np.float32)}
    (got,), (want,) = legato_outputs(proto, feeds), ort_outputs(proto, feeds)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
