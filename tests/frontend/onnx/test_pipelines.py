"""Pipelines of scikit-learn, LightGBM and XGBoost say what their libraries and ONNX Runtime say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import legato
from legato.frontend.onnx import from_onnx
from legato.ir.expr import Function
from legato.runtime.executable import Executable
from tests.frontend.onnx.peer import Array
from tests.heavy import share

for library in ("skl2onnx", "lightgbm", "xgboost", "onnxmltools"):
    pytest.importorskip(library)
ort = pytest.importorskip("onnxruntime")
pipelines = pytest.importorskip("tools.pipelines")

NEAR = 1e-5  # of the largest value


def near(found: Array, wanted: Array) -> None:
    """Decisions are the same, numbers near; shapes may differ by a dim of 1."""
    wanted = np.asarray(wanted)
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found.ravel(), wanted.ravel())
    else:
        size = NEAR * float(np.abs(wanted).max())
        np.testing.assert_allclose(found.ravel(), wanted.ravel(), rtol=0, atol=size)
        assert found.shape[0] == wanted.shape[0]


def outputs(run: Executable, rows: Array) -> tuple[Array, ...]:
    """All outputs of a call."""
    found = run(rows)
    return found if isinstance(found, tuple) else (found,)


def matrix(value: Any, keys: Mapping[str, Any]) -> Array:
    """What ONNX Runtime gives as maps, as the matrix of their values."""
    if not isinstance(value, list):
        return np.asarray(value)
    (names,) = keys.values()
    assert all(list(row) == list(names) for row in value)
    return np.array([list(row.values()) for row in value])


@pytest.mark.parametrize("name", share(pipelines.PIPELINES, 2))
def test_pipeline(name: str) -> None:
    fitted = pipelines.fitted(name)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(fitted.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    mod = from_onnx(fitted.model)
    main = mod["main"]
    assert isinstance(main, Function)
    run = legato.compile(mod)
    for count in (1, len(fitted.rows)):
        rows = fitted.rows[:count]
        found = outputs(run, rows)
        for got, want in zip(found, session.run(None, {"x": rows}), strict=True):
            near(got, matrix(want, main.attrs.get("output_keys", {})))
        for got, want in zip(found, fitted.wanted, strict=False):
            near(got, want[:count])


def test_enough_pipelines() -> None:
    assert len(pipelines.PIPELINES) >= 40
