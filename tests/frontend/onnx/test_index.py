"""Reading and writing at places that data gives, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import ImportModelError
from tests.frontend.onnx.peer import compare_node, legato_outputs, model, value

RNG = np.random.default_rng(6)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_reverse_sequence(dtype: str) -> None:
    x = (RNG.standard_normal((4, 3, 2)) * 9).astype(dtype)
    compare_node("ReverseSequence", 10, (x, np.array([4, 0, 2])))
    compare_node("ReverseSequence", 10, (x, np.array([1, 3, 0, 2])), {"batch_axis": 0, "time_axis": 1})


@pytest.mark.parametrize(("shape", "lengths", "axes"), [((3, 2), 2, (1, 1)), ((3, 2), 2, (1, 2)), ((3,), 3, (0, 1))])
def test_what_is_no_sequence(shape: tuple[int, ...], lengths: int, axes: tuple[int, int]) -> None:
    more: dict[str, Any] = {"batch_axis": axes[0], "time_axis": axes[1]}
    proto = model([helper.make_node("ReverseSequence", ["x", "n"], ["y"], **more)],
                  [value("x", shape), value("n", (lengths,), "int64")])  # fmt: skip
    with pytest.raises(ImportModelError):
        legato_outputs(proto, {})
