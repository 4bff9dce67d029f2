"""Random graphs that compute shapes: compiled = interpreted = ONNX Runtime, for sizes of 0, 1, 2, 7 and at bounds."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.frontend.onnx.shape_graphs import draw
from tests.frontend.onnx.shape_judge import outcomes

COUNT = int(os.environ.get("LEGATO_FUZZ", "12"))
BATCH = 12


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_graphs(first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first, min(first + BATCH, COUNT)):
        found += outcomes(draw(seed))
    assert found["right"] > found.total() / 2, found
