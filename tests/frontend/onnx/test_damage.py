"""Node tests with one or two things changed at random: whatever comes of it, no other error than Legato's own."""

from __future__ import annotations

import random

import onnx
import pytest

from legato.base.errors import InternalError, LegatoError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.damage import damage, with_constants
from tests.frontend.onnx.node_suite import array_of, cases

SAMPLES = 500


@pytest.mark.parametrize("seed", range(2))
def test_damaged_nodes(seed: int) -> None:
    rng = random.Random(seed)
    for case in rng.sample([c for c in cases() if c.model.graph.node], SAMPLES):
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        names = [value.name for value in model.graph.input]
        if rng.random() < 0.7:
            with_constants(rng, model, dict(zip(names, map(array_of, case.data_sets[0][0]), strict=False)))
        for _ in range(rng.randint(1, 2)):
            damage(rng, model)
        try:
            from_onnx(model)
        except InternalError:
            raise
        except LegatoError:
            pass
