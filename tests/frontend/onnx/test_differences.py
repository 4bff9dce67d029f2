"""The rows of docs/onnx_differences.md: what Legato gives, and what ONNX Runtime, where they differ on purpose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from legato.base.errors import ImportModelError
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

PAGE = Path(__file__).parents[3] / "docs" / "onnx_differences.md"
REFUSES = "refuses"
ENDS = "ends the process"  # not tried


@dataclass(frozen=True)
class Row:
    """A node, and the first result of each; `what` is how the page calls it."""

    what: str
    operator: str
    opset: int
    feeds: Mapping[str, Array]
    ours: Any
    theirs: Any
    weights: Mapping[str, Array] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()  # results that nobody looks at

    def __str__(self) -> str:
        return f"{self.what} ({self.operator})"

    def proto(self) -> onnx.ModelProto:
        node = helper.make_node(self.operator, [*self.feeds, *self.weights], ["z", *self.more], **self.attributes)
        declared = [value(name, a.shape, str(a.dtype)) for name, a in self.feeds.items()]
        return model([node], declared, ("z",), self.weights, self.opset)


def f(*values: Any) -> Array:
    return np.array(values, np.float32)


def i(*values: int) -> Array:
    return np.array(values, np.int64)


def w(*values: Any) -> Array:
    return np.array(values, object)


NAN, LEAST, MOST = np.nan, -(2**63), 2**63 - 1
ROWS = [
    Row("Cast of floats beyond an integer type", "Cast", 17, {"x": f(NAN, np.inf, -np.inf, 1e10, -1.5)},
        [0, 2**31 - 1, -(2**31), 2**31 - 1, -1], None, {}, {"to": onnx.TensorProto.INT32}),
    Row("Integers divided by 0", "Div", 17, {"x": i(5, -5), "y": i(0, 0)}, [0, 0], ENDS),
    Row("Integers divided by 0", "Mod", 17, {"x": i(5, -5), "y": i(0, 0)}, [0, 0], ENDS),
    Row("Integer powers beyond the type", "Pow", 17, {"x": i(3), "y": i(70)}, [pow(3, 70, 2**64)], None),
    Row("Slice backwards from the largest integer", "Slice", 17, {"x": f(0, 1, 2)}, [], [2, 1, 0],
        {"s": i(-1), "e": i(MOST), "a": i(0), "t": i(-1)}),
    Row("ReduceMean of nothing", "ReduceMean", 17, {"x": np.zeros((1, 0), np.float32)}, [NAN], [0], {},
        {"axes": [1], "keepdims": 0}),
    Row("GlobalAveragePool of nothing", "GlobalAveragePool", 17, {"x": np.zeros((1, 1, 0, 3), np.float32)}, [[[[0]]]],
        REFUSES),
    Row("ReduceMax with NaN", "ReduceMax", 17, {"x": f(1, NAN, 3)}, NAN, 3, {}, {"axes": [0], "keepdims": 0}),
    Row("ArgMax with NaN", "ArgMax", 17, {"x": f(1, NAN, 3)}, 1, 2, {}, {"axis": 0, "keepdims": 0}),
    Row("LRN with NaN", "LRN", 17, {"x": f(NAN, 0, 0, 0).reshape(1, 4, 1, 1)},
        np.reshape([NAN, NAN, 0, 0], (1, 4, 1, 1)), np.reshape([NAN] * 4, (1, 4, 1, 1)), {}, {"size": 3}),
    Row("SAME padding with strides beyond the window", "MaxPool", 17, {"x": f([[1, 2, 3, 4, 5]])}, [[[1, 4]]], REFUSES,
        {}, {"kernel_shape": [1], "strides": [3], "auto_pad": "SAME_UPPER"}),
    Row("Attributes for on and off that are neither 1 nor 0", "ReduceSum", 11, {"x": f(1, 2)}, REFUSES, 3, {},
        {"axes": [0], "keepdims": 2}),
    Row("Attributes for on and off that are neither 1 nor 0", "Gemm", 11, {"x": f([1, 2]), "y": f([3], [4])}, REFUSES,
        REFUSES, {}, {"transB": 2}),
    Row("Attributes for on and off that are neither 1 nor 0", "Gemm", 11, {"x": f([1, 2]), "y": f([3, 4])}, REFUSES,
        [[11]], {}, {"transB": 2}),
    Row("Squeeze with axes of which there are none", "Squeeze", 13, {"x": f([[1]])}, [[[1]]], 1, {"a": i()}),
    Row("Squeeze with axes of which there are none", "Squeeze", 21, {"x": f([[1]]), "a": i()}, [[[1]]], 1),
    Row("AffineGrid, aligned, along a dim of 1", "AffineGrid", 20, {"t": f([[1, 0, 0], [0, 1, 0]])},
        [[[[-1, 0], [1, 0]]]], [[[[-1, 1], [1, 1]]]], {"s": i(1, 1, 1, 2)}, {"align_corners": 1}),
    Row("Resize with factors that leave the extent", "Resize", 13, {"x": f([[[0, 1.2, 2.4]]])}, [[[[0, 0.9, 1.9]]]],
        [[[[0, 1.2, 2.4]]]], {"r": f(), "s": f(1, 1, 1, 1.2)}, {"mode": "linear"}),
    Row("Resize, aligned, to a fraction of an extent", "Resize", 13, {"x": f([[[0, 1, 2, 3]]])},
        [[[[0, 3 / 1.4]]]], [[[[0, 3]]]], {"r": f(), "s": f(1, 1, 1, 0.6)},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    Row("TensorScatter beyond the end", "TensorScatter", 24,
        {"p": np.zeros((1, 3, 1), np.float32), "u": np.ones((1, 2, 1), np.float32), "w": i(2)}, [[[0], [0], [1]]],
        REFUSES, {}, {"axis": 1}),
    Row("Gather at a place that is not there", "Gather", 17, {"x": f(0, 1, 2), "i": i(0, 7)}, [0, 2], REFUSES),
    Row("StringSplit of the empty string at a delimiter", "StringSplit", 20, {"x": w("")}, w([""]),
        np.empty((1, 0), object), {}, {"delimiter": "-"}, ("n",)),
    Row("StringSplit at whitespace, a number of times", "StringSplit", 20, {"x": w("a b ")}, w(["a", "b "]),
        w(["a", "b"]), {}, {"maxsplit": 1}, ("n",)),
    Row("Cast of floats to strings", "Cast", 21, {"x": np.array([1 / 3, 2])}, w("0.3333333333333333", "2.0"),
        w("0.33333333", "2"), {}, {"to": onnx.TensorProto.STRING}),
    Row("Operator sets 1 to 6", "Add", 6, {"x": f([1, 2], [3, 4]), "y": f(1, 2)}, [[2, 3], [5, 6]], REFUSES, {},
        {"broadcast": 1, "axis": 0}),
]  # fmt: skip
OTHERS = {"A name of a branch that is one outside, too", "Random numbers"}  # below, in test_random


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row: Row) -> None:
    if row.ours is REFUSES:
        with pytest.raises(ImportModelError):
            legato_outputs(row.proto(), row.feeds)
    else:
        same(legato_outputs(row.proto(), row.feeds)[0], row.ours)
    if row.theirs is ENDS:
        return
    try:
        (theirs,) = ort_outputs(row.proto(), row.feeds)
    except Exception:  # of its many classes
        assert row.theirs is REFUSES
        return
    assert row.theirs is not REFUSES
    if row.theirs is None:  # what it is depends on the processor
        assert not np.array_equal(theirs, row.ours)
    else:
        same(theirs, row.theirs)


def same(found: Array, wanted: Any) -> None:
    if found.dtype == object:
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_names_of_branches() -> None:
    results = [onnx.ValueInfoProto(name=name) for name in "te"]
    branches = [
        helper.make_graph([helper.make_node("Add", ["x", "w"], [result.name])], "branch", [], [result], tensors)
        for result, tensors in zip(results, ([numpy_helper.from_array(f(5), "w")], []), strict=True)
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    proto = model([node], [value("x", (1,)), value("c", (), "bool")], ("y",), {"w": f(10)})
    feeds = {"x": f(1), "c": np.array(True)}
    assert legato_outputs(proto, feeds)[0].tolist() == [6]
    assert ort_outputs(proto, feeds)[0].tolist() == [11]


def test_every_row_of_the_page_is_a_test() -> None:
    rows: Sequence[str] = re.findall(r"^\| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) - {"what"} == {row.what for row in ROWS} | OTHERS
