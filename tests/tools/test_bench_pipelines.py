"""The benchmark of pipelines: what it measures, and what its table says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

for library in ("skl2onnx", "onnxmltools", "onnxruntime"):
    pytest.importorskip(library)
bench = pytest.importorskip("tools.bench.pipelines")


def test_a_row_for_each_number_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    assert bench.main(["--only", "tree, classes", "--rounds", "1", "--threads", "1", "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [(row["pipeline"], row["rows"]) for row in rows] == [("tree, classes", 1), ("tree, classes", 1000)]
    assert all(row["legato"] > 0 and row["onnxruntime"] > 0 for row in rows)
    assert "| tree, classes | 1000 |" in capsys.readouterr().out


def test_what_is_the_same() -> None:
    labels, scores = np.array([1, 2]), np.array([[0.5, 0.5], [1.0, 0.0]], np.float32)
    maps = [{"a": 0.5, "b": 0.5}, {"a": 1.0, "b": 0.0}]
    assert bench.same([labels, scores], [labels, maps])
    assert not bench.same([labels, scores], [labels[::-1], maps])
    assert not bench.same([labels, scores + np.float32(1e-4)], [labels, scores])
