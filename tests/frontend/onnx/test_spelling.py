"""What is imported reads as what people write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from legato.frontend.onnx import from_onnx
from legato.frontend.onnx.spelling import as_written
from legato.ir.attrs import make_attrs
from legato.ops import table
from tests.frontend.onnx.peer import model, value


@pytest.mark.parametrize(
    ("operator", "given", "short"),
    [
        ("nn.conv2d", {"padding": (1, 2, 1, 2)}, {"padding": (1, 2)}),
        ("nn.conv2d", {"padding": (0, 0, 0, 0), "groups": 2}, {"groups": 2}),
        ("nn.conv2d", {"padding": (1, 1, 2, 1)}, {"padding": (1, 1, 2, 1)}),
        ("nn.conv1d", {"padding": (3, 3)}, {"padding": (3,)}),
        ("nn.max_pool3d", {"pool_size": (2, 2, 2), "padding": (0,) * 6}, {"pool_size": (2, 2, 2)}),
        ("reshape", {"newshape": (2, -1), "allowzero": True}, {"newshape": (2, -1)}),
        ("reshape", {"newshape": (0, 3), "allowzero": True}, {"newshape": (0, 3), "allowzero": True}),
    ],
)
def test_attributes_are_as_short_as_can_be(operator: str, given: dict[str, Any], short: dict[str, Any]) -> None:
    op = table()[operator]
    assert as_written(make_attrs(op, given)) == make_attrs(op, short)


def test_modules_read_as_written() -> None:
    weight = np.ones((4, 3, 3, 3), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("Slice", ["y", "two", "last", "one"], ["z"]),
        helper.make_node("Flatten", ["z"], ["f"], axis=2),
    ]
    numbers = {name: np.array([n]) for name, n in {"two": 2, "last": 2**31 - 1, "one": 1}.items()}
    mod = from_onnx(model(nodes, [value("x", ("n", 3, 8, 8))], ["f"], {"w": weight, **numbers}))
    assert [line.strip() for line in str(mod).splitlines() if "= " in line or "reshape" in line][1:] == [
        "%0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1]);",
        "%1 = strided_slice(%0, begin=[2], end=[4], axes=[1]);",
        "reshape(%1, newshape=[dim[n * 2], 64])",
    ]
