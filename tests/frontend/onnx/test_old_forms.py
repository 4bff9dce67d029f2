"""Forms of operators that newer operator sets replaced, and symbolic dims, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

RNG = np.random.default_rng(3)


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Case:
    """One node: inputs at run time (x0, x1, …), then weights, then attributes."""

    operator: str
    opset: int
    inputs: Sequence[Array]
    weights: Sequence[Array | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def __str__(self) -> str:
        shown = "-".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.operator}-{self.opset}-{shown}"


IMAGE = f32(1, 2, 5, 6)
CASES = [
    *(Case(op, s, [f32(2, 3, 4)], attributes=a)
      for op in ("Softmax", "LogSoftmax", "Hardmax") for s in (7, 11)
      for a in ({}, {"axis": 0}, {"axis": -1}, {"axis": 2})),
    *(Case(op, 12, [np.abs(f32(2, 3, 4))], attributes=a)
      for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                 "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
      for a in ({}, {"axes": [1], "keepdims": 0}, {"axes": [-1, 0]})),
    Case("Squeeze", 11, [f32(1, 3, 1, 2)], attributes={"axes": [0, 2]}),
    Case("Squeeze", 11, [f32(1, 3, 1, 2)]),
    Case("Unsqueeze", 11, [f32(3, 2)], attributes={"axes": [0, 3]}),
    Case("Split", 11, [f32(6, 2)], attributes={"axis": 0, "split": [1, 2, 3]}, outputs=3),
    Case("Split", 11, [f32(6, 2)], attributes={"axis": 0}, outputs=2),
    Case("Split", 18, [f32(7, 2)], attributes={"axis": 0, "num_outputs": 3}, outputs=3),
    Case("Slice", 9, [f32(5, 6)], attributes={"starts": [1, -4], "ends": [1000, -1]}),
    Case("Slice", 9, [f32(5, 6)], attributes={"starts": [2], "ends": [4], "axes": [1]}),
    Case("Slice", 10, [f32(5, 6)], [i64(-1, 0), i64(-1000, 5), i64(0, 1), i64(-2, 2)]),
    Case("Pad", 10, [f32(2, 3)], attributes={"pads": [0, 1, 2, 0], "value": 1.5}),
    *(Case("Pad", 10, [IMAGE], attributes={"pads": [0, 0, 1, 2, 0, 0, 2, 1], "mode": m}) for m in ("edge", "reflect")),
    Case("Pad", 11, [f32(2, 3)], [i64(-1, 1, 0, 0)]),
    Case("Pad", 13, [f32(2, 3)], [i64(0, 1, 1, 0), np.float32(2)], {"mode": "constant"}),
    Case("Clip", 7, [f32(9)], attributes={"min": -0.5, "max": 0.25}),
    Case("Clip", 10, [f32(9)], attributes={"max": 0.25}),
    Case("Clip", 11, [f32(9)], [None, np.float32(0.25)]),
    Case("Clip", 12, [np.arange(-4, 5)], [np.array(-2), np.array(3)]),
    Case("TopK", 9, [f32(3, 7)], attributes={"k": 3}, outputs=2),
    Case("TopK", 10, [f32(3, 7)], [i64(2)], {"axis": 0}, outputs=2),
    Case("TopK", 11, [f32(3, 7)], [i64(2)], {"largest": 0}, outputs=2),
    *(Case("Upsample", 7, [IMAGE], attributes={"mode": m, "scales": [1.0, 1.0, 2.0, 2.0]})
      for m in ("nearest", "linear")),
    *(Case("Upsample", 9, [IMAGE], [np.array([1, 1, 2, 3], np.float32)], {"mode": m}) for m in ("nearest", "linear")),
    *(Case("Resize", 10, [IMAGE], [np.array([1, 1, s, s], np.float32)], {"mode": m})
      for m in ("nearest", "linear") for s in (2, 0.5, 1.5)),
    *(Case("Resize", 11, [IMAGE], [f32(0), np.array([1, 1, s, s], np.float32)],
           {"mode": m, "coordinate_transformation_mode": c})
      for m in ("nearest", "linear", "cubic") for s in (2, 0.6)
      for c in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
      if (s, c) != (0.6, "align_corners")),  # ONNX divides by 3.6 - 1, ONNX Runtime by 3 - 1
    *(Case("Resize", 13, [IMAGE], [None, None, i64(1, 2, *s)], {"mode": m, "nearest_mode": "floor"})
      for m in ("nearest", "linear") for s in ((10, 12), (3, 4), (7, 5))),
    Case("Dropout", 7, [f32(3, 4)], attributes={"ratio": 0.3}),
    Case("Dropout", 10, [f32(3, 4)]),
    Case("BatchNormalization", 7, [IMAGE], [f32(2), f32(2), f32(2), np.abs(f32(2))]),
    Case("BatchNormalization", 9, [IMAGE], [f32(2), f32(2), f32(2), np.abs(f32(2))], {"epsilon": 0.1, "momentum": 0.5}),
    Case("BatchNormalization", 14, [f32(4, 2)], [f32(2), f32(2), f32(2), np.abs(f32(2))]),
    Case("Scatter", 9, [f32(3, 3)], [i64(0, 2, 1).reshape(1, 3), f32(1, 3)], {"axis": 1}),
    Case("GatherND", 12, [f32(2, 3, 4)], [i64(0, 1, 1, 2).reshape(2, 2)], {"batch_dims": 0}),
    Case("GatherND", 12, [f32(2, 3, 4)], [i64(1, 2).reshape(2, 1)], {"batch_dims": 1}),
    Case("OneHot", 9, [i64(0, 2, -1, 7)], [i64(3), np.array([2, 5], np.float32)], {"axis": 0}),
    Case("OneHot", 11, [i64(0, 2, -1, 7).reshape(2, 2)], [np.array(4), i64(0, 1)]),
    Case("CumSum", 11, [f32(3, 4)], [np.array(1)], {"exclusive": 1, "reverse": 1}),
    Case("Flatten", 9, [f32(2, 3, 4)], attributes={"axis": 0}),
    Case("Flatten", 11, [f32(2, 3, 4)], attributes={"axis": -1}),
    Case("Flatten", 11, [f32(2, 3, 4)], attributes={"axis": 3}),
    Case("Gemm", 7, [f32(3, 2)], [f32(3, 4), f32(4)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", 11, [f32(2, 3)], [f32(4, 3)], {"transB": 1}),
    Case("Gemm", 13, [f32(3, 2)], [f32(4, 3), f32(2, 1)], {"transA": 1, "transB": 1}),
    Case("Pow", 7, [np.abs(f32(3, 4))], [f32(4)]),
    Case("Pow", 13, [np.arange(5)], [np.array(1.5, np.float32)]),
    Case("Pow", 13, [f32(3, 4)], [np.array(2, np.int64)]),
    Case("Mod", 10, [np.array([5, -5, 7]), np.array([3, 3, -4])]),
    Case("Mod", 10, [f32(5), np.abs(f32(5)) + 1], attributes={"fmod": 1}),
    Case("MaxPool", 8, [IMAGE], attributes={"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("MaxPool", 10, [IMAGE], attributes={"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2],
                                               "dilations": [2, 1]}),
    Case("AveragePool", 7, [IMAGE], attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    Case("AveragePool", 10, [IMAGE], attributes={"kernel_shape": [3, 3], "pads": [1, 1, 0, 0], "ceil_mode": 1,
                                                   "strides": [2, 2]}),
    Case("AveragePool", 11, [IMAGE], attributes={"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER"}),
    *(Case("Conv", 7, [IMAGE], [f32(4, 2, 3, 2), f32(4)], {"auto_pad": p, "strides": [2, 1]})
      for p in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    Case("Conv", 11, [f32(2, 4, 9)], [f32(6, 2, 3)], {"group": 2, "dilations": [2], "pads": [1, 0]}),
    Case("Conv", 11, [f32(1, 2, 4, 4, 4)], [f32(3, 2, 2, 2, 2), f32(3)]),
    Case("ConvTranspose", 7, [IMAGE], [f32(2, 3, 3, 3), f32(3)],
         {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    Case("ConvTranspose", 11, [IMAGE], [f32(2, 3, 3, 3)], {"strides": [2, 2], "output_shape": [10, 12]}),
    Case("ConvTranspose", 11, [IMAGE], [f32(2, 2, 2, 2)], {"strides": [2, 1], "auto_pad": "SAME_UPPER"}),
    Case("ConvTranspose", 11, [f32(1, 4, 5)], [f32(4, 2, 3)], {"group": 2, "dilations": [2]}),
    Case("PRelu", 7, [IMAGE], [f32(2, 1, 1)]),
    Case("PRelu", 9, [IMAGE], [f32(1)]),
    Case("PRelu", 9, [f32(3, 4)], [f32(4)]),
    Case("Selu", 7, [f32(9)], attributes={"alpha": 2.0, "gamma": 3.0}),
    Case("InstanceNormalization", 7, [IMAGE], [f32(2), f32(2)]),
    Case("LRN", 7, [f32(1, 6, 2, 2)], attributes={"size": 3, "alpha": 0.1, "beta": 0.5, "bias": 2.0}),
    Case("LpNormalization", 7, [f32(3, 4)], attributes={"axis": 0, "p": 1}),
    Case("MeanVarianceNormalization", 9, [IMAGE]),
    Case("LpPool", 11, [IMAGE], attributes={"kernel_shape": [2, 2], "p": 3}),
    Case("GlobalLpPool", 7, [IMAGE], attributes={"p": 2}),
    Case("GlobalMaxPool", 7, [f32(2, 3, 5)]),
    Case("GlobalAveragePool", 7, [f32(2, 3, 2, 2, 2)]),
    Case("DepthToSpace", 7, [f32(1, 8, 2, 3)], attributes={"blocksize": 2}),
    Case("DepthToSpace", 11, [f32(1, 8, 2, 3)], attributes={"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", 7, [f32(1, 2, 4, 6)], attributes={"blocksize": 2}),
    Case("Expand", 8, [f32(3, 1)], [i64(2, 1, 4)]),
    Case("Tile", 7, [f32(2, 3)], [i64(2, 2)]),
    Case("EyeLike", 9, [f32(3, 4)], attributes={"k": 1, "dtype": 7}),
    Case("ConstantOfShape", 9, [], [i64(2, 3)]),
    Case("Range", 11, [], [np.array(10), np.array(-3), np.array(-4)]),
    Case("ArgMax", 11, [f32(3, 4)], attributes={"axis": -1, "keepdims": 0}),
    Case("ArgMin", 12, [np.ones((2, 3), np.float32)], attributes={"axis": 1, "select_last_index": 1}),
    Case("Trilu", 14, [f32(2, 3, 4)], [np.array(1)], {"upper": 0}),
    Case("Sum", 8, [f32(3, 1), f32(1, 4), f32(3, 4)]),
    Case("Mean", 8, [f32(3, 1), f32(1, 4)]),
    Case("Max", 8, [f32(3, 1), f32(4)]),
    Case("Min", 12, [np.arange(5), np.array([2])]),
    Case("GroupNormalization", 18, [f32(2, 4, 3)], [f32(2), f32(2)], {"num_groups": 2}),
    Case("LayerNormalization", 17, [f32(2, 3, 4)], [f32(3, 4), f32(3, 4)], {"axis": 1}, outputs=3),
    Case("Einsum", 12, [f32(2, 3, 4), f32(2, 4, 5)], attributes={"equation": "bij,bjk->bik"}),
    Case("IsInf", 10, [np.array([1, np.inf, -np.inf, np.nan], np.float32)], attributes={"detect_negative": 0}),
    Case("Shrink", 9, [f32(9)], attributes={"lambd": 0.3, "bias": 0.1}),
    Case("Celu", 12, [f32(9)], attributes={"alpha": 0.7}),
    Case("Shape", 15, [f32(2, 3, 4)], attributes={"start": -2}),
    Case("Size", 7, [f32(2, 3, 4)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_onnxruntime(case: Case) -> None:
    feeds = {f"x{n}": array for n, array in enumerate(case.inputs)}
    weights = {f"w{n}": array for n, array in enumerate(case.weights) if array is not None}
    names = [*feeds, *(f"w{n}" if array is not None else "" for n, array in enumerate(case.weights))]
    outputs = [f"y{n}" for n in range(case.outputs)]
    node = helper.make_node(case.operator, names, outputs, **case.attributes)
    declared = [value(name, array.shape, str(array.dtype)) for name, array in feeds.items()]
    proto = model([node], declared, outputs, weights, case.opset)
    wanted = ort_outputs(proto, feeds)
    symbolic = {name: tuple(f"{name}_{n}" for n in range(array.ndim)) for name, array in feeds.items()}
    for options in ({}, {"shapes": symbolic}) if case.operator in SYMBOLIC else ({},):
        for got, want in zip(legato_outputs(proto, feeds, **options), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# Operators whose cases also run with every dim of the inputs symbolic.
SYMBOLIC = {
    "Softmax", "LogSoftmax", "ReduceSum", "ReduceMean", "ReduceL2", "Pad", "Upsample", "Clip", "Flatten", "Tile",
    "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool", "ArgMax", "Trilu", "CumSum", "Pow", "Shape", "Size",
    "LpNormalization", "MeanVarianceNormalization", "Einsum", "EyeLike", "DepthToSpace", "SpaceToDepth", "Unsqueeze",
}  # fmt: skip
