"""BatchNormalization that trains, by its formula and by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import LegatoError
from tests.frontend.onnx.peer import compare_node, legato_outputs, model, value

RNG = np.random.default_rng(12)
PARAMETERS = ("scale", "bias", "mean", "var")


@pytest.mark.parametrize("opset", [14, 15])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2, 5), (6,)])
def test_training(shape: tuple[int, ...], opset: int) -> None:
    channels = shape[1] if len(shape) > 1 else 1
    x = (RNG.standard_normal(shape) * 3 + 1).astype(np.float32)
    feeds = {"x": x, **{name: RNG.random(channels).astype(np.float32) for name in PARAMETERS}}
    node = helper.make_node(
        "BatchNormalization", list(feeds), ["y", "m", "v"], training_mode=1, momentum=0.7, epsilon=0.01
    )
    proto = model([node], [value(k, v.shape) for k, v in feeds.items()], ("y", "m", "v"), opset=opset)
    batch = x.astype(np.float64).reshape(shape[0], channels, -1)
    mean, var = batch.mean(axis=(0, 2)), batch.var(axis=(0, 2))
    scale, bias = (feeds[k].reshape(1, -1, 1) for k in ("scale", "bias"))
    y = (batch - mean[:, None]) / np.sqrt(var[:, None] + 0.01) * scale + bias
    wanted = (y.reshape(shape), feeds["mean"] * 0.7 + mean * 0.3, feeds["var"] * 0.7 + var * 0.3)
    if len(shape) > 1:
        compare_node("BatchNormalization", opset, tuple(feeds.values()), {"training_mode": 1, "momentum": 0.7}, 3, 1e-4)
    named = {"x": tuple(f"d{n}" for n in range(len(shape)))}
    for shapes in (None, named):
        for got, want in zip(legato_outputs(proto, feeds, shapes=shapes), wanted, strict=True):
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_running_statistics_have_an_element_for_each_channel() -> None:
    for shape in ((1,), (), (3, 1)):
        inputs = [value("x", (2, 3)), *(value(k, (3,)) for k in PARAMETERS[:3]), value("var", shape)]
        node = helper.make_node("BatchNormalization", ["x", *PARAMETERS], ["y", "m", "v"], training_mode=1)
        with pytest.raises(LegatoError):
            legato_outputs(model([node], inputs, ("y", "m", "v")), {})
