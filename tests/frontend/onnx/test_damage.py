"""Node tests with one or two things changed at random: whatever comes of it, no other error than Legato's own."""

from __future__ import annotations

import random

import onnx
import pytest

from legato.base.errors import ImportModelError, InternalError, LegatoError
from legato.frontend.onnx import from_onnx
from tests.damaged.structure import rank, restructured
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
            rng.choice((damage, restructured))(rng, model)
        try:
            from_onnx(model)
        except InternalError:
            raise
        except LegatoError:
            pass


@pytest.mark.parametrize(
    ("case", "at", "how"),
    [
        ("test_adagrad", 2, 0),
        ("test_adagrad", 2, 2),
        ("test_attention_4d_attn_mask", 3, 0),
        ("test_attention_4d_with_past_and_present", 4, 0),
        ("test_gru_defaults", 1, 0),
        ("test_slice_default_axes", 1, 0),
    ],
)
def test_ranks_are_looked_at_first(case: str, at: int, how: int) -> None:
    """onnxruntime#28731, onnx#6180: what shape inference reads is not there. (Found by `make fuzz-import`.)"""
    base = onnx.ModelProto()
    base.CopyFrom(next(c.model for c in cases() if c.name == case))
    rank(base.graph.input[at], how)
    with pytest.raises(ImportModelError):
        from_onnx(base)


def test_more_scales_than_dims_are_no_steps() -> None:
    """A vector of 2³³ scales took the importer as many steps. (Found by damage.)"""
    base = onnx.ModelProto()
    base.CopyFrom(next(c.model for c in cases() if c.name == "test_resize_upsample_scales_linear"))
    base.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 1 << 33
    with pytest.raises(ImportModelError, match="8589934592 scales"):
        from_onnx(base)
