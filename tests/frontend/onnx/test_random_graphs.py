"""Random graphs: compiled as interpreted, and as ONNX Runtime has them; where that is off, the interpreter says so."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.frontend.onnx.graph_judge import outcome
from tests.frontend.onnx.random_graphs import draw

COUNT = int(os.environ.get("LEGATO_FUZZ", "24"))
BATCH = 12


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_graphs(first: int) -> None:
    found = Counter(outcome(draw(seed)) for seed in range(first, min(first + BATCH, COUNT)))
    assert found.total() - found["refused"] > 0
