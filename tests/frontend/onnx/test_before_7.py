"""Operator sets 1 to 6, and operators that were removed since: beside what NumPy, or ONNX Runtime, makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import ImportModelError
from legato.frontend.onnx import check, from_onnx
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

RNG = np.random.default_rng(5)


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Old:
    """A node, its inputs (those named in `weights` by number are constants), and what it gives."""

    operator: str
    opset: int
    inputs: Sequence[Array]
    wanted: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    weights: Sequence[int] = ()
    outputs: int = 1

    def __str__(self) -> str:
        return f"{self.operator}-{self.opset}-" + "-".join(f"{k}={v}" for k, v in self.attributes.items())


X, IMAGE = f32(2, 3, 4, 5), f32(2, 3, 4, 6)
STATISTICS = [f32(3), f32(3), f32(3), np.abs(f32(3))]
EACH = [f32(3, 4, 6), f32(3, 4, 6), f32(3, 4, 6), np.abs(f32(3, 4, 6))]
BROADCAST = {"broadcast": 1}
AXIS = {"broadcast": 1, "axis": 1}


def column(y: Array, rank: int = 4, axis: int = 1) -> Array:
    return y.reshape((1,) * axis + y.shape + (1,) * (rank - axis - y.ndim))


def normalised(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    if scale.ndim == 1:
        scale, bias, mean, variance = map(column, (scale, bias, mean, variance))
    return scale * (x - mean) / np.sqrt(variance + 1e-5) + bias


def trained(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    own, spread = x.mean((0, 2, 3)), x.var((0, 2, 3))
    y = normalised(x, scale, bias, own, spread)
    return y, 0.9 * mean + 0.1 * own, 0.9 * variance + 0.1 * spread


CASES = [
    *(Old(name, opset, [X, np.abs(y)], f, attributes)
      for name, f in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide))
      for opset in (1, 6) for y, attributes in ((f32(4, 5), BROADCAST), (f32(2, 3, 4, 5), {}), (f32(1), BROADCAST),
                                                (f32(), BROADCAST), (f32(1, 1), {"broadcast": 1, "axis": 0}))),
    *(Old(name, 6, [X, y], lambda x, y, f=f, a=a: f(x, column(y, axis=a % 4)), {"broadcast": 1, "axis": a})
      for name, f in (("Add", np.add), ("Mul", np.multiply))
      for y, a in ((f32(3, 4), 1), (f32(2), 0), (f32(3), -3), (f32(5), 3), (f32(3, 1), 1))),
    Old("Add", 1, [X, X], np.add, {"consumed_inputs": [0, 0]}),
    Old("Pow", 6, [np.abs(X), f32(3)], lambda x, y: x ** column(y), AXIS),
    Old("Equal", 1, [np.arange(6).reshape(2, 3), np.array([0, 4])], lambda x, y: x == y[:, None],
        {"broadcast": 1, "axis": 0}),
    Old("Greater", 6, [X, f32(3)], lambda x, y: x > column(y), AXIS),
    Old("Less", 1, [X, f32(3)], lambda x, y: x < column(y), AXIS),
    *(Old(name, 6, [X > 0, f32(3, 4) > 0], lambda x, y, f=f: f(x, column(y)), AXIS)
      for name, f in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor))),
    Old("Not", 1, [X > 0], np.logical_not),
    Old("PRelu", 6, [X, np.abs(f32(3))], lambda x, s: np.where(x < 0, x * column(s), x)),
    Old("PRelu", 1, [X, np.abs(f32(1))], lambda x, s: np.where(x < 0, x * s, x)),
    Old("Gemm", 6, [f32(2, 3), f32(4, 3), f32(4)], lambda x, y, c: 0.5 * x @ y.T + 2 * c,
        {"transB": 1, "alpha": 0.5, "beta": 2.0, "broadcast": 1}),
    *(Old("Cast", 1, [X], lambda x, t=t: x.astype(t), {"to": name})
      for name, t in (("INT64", np.int64), ("double", np.float64), ("BOOL", bool))),
    Old("Clip", 1, [np.array([-np.inf, -1, 2, np.inf], np.float32)], lambda x: np.minimum(x, 1), {"max": 1.0}),
    Old("Clip", 6, [np.array([-np.inf, -1, 2, np.inf], np.float32)],
        lambda x: np.clip(x, np.finfo(np.float32).min, np.finfo(np.float32).max)),
    Old("Selu", 1, [X], lambda x: np.float32(1.0507) * np.where(x > 0, x, np.float32(1.6732) * np.expm1(x))),
    Old("Reshape", 1, [X], lambda x: x.reshape(2, 12, 5), {"shape": [0, -1, 5]}),
    Old("Reshape", 5, [X, np.array([3, -1])], lambda x, s: x.reshape(s), {}, (1,)),
    Old("Concat", 1, [X, X], lambda x, y: np.concatenate((x, y), 1)),
    Old("Concat", 4, [X, X], lambda x, y: np.concatenate((x, y), 2), {"axis": 2}),
    Old("Pad", 1, [f32(2, 3)], lambda x: np.pad(x, ((0, 2), (1, 0)), constant_values=1.5),
        {"paddings": [0, 1, 2, 0], "value": 1.5}),
    Old("Pad", 2, [f32(2, 3)], lambda x: np.pad(x, ((0, 2), (1, 0)), "edge"), {"pads": [0, 1, 2, 0], "mode": "edge"}),
    Old("Split", 1, [f32(6, 2), np.array([1.0, 5.0], np.float32)], lambda x, s: (x[:1], x[1:]), {}, (1,), 2),
    Old("Split", 1, [f32(6, 2)], lambda x: (x[:2], x[2:]), {"split": [2, 4]}, (), 2),
    Old("Split", 2, [f32(2, 6)], lambda x: (x[:, :3], x[:, 3:]), {"axis": 1}, (), 2),
    Old("Tile", 1, [f32(2, 3), np.float32(3), np.float32(1)], lambda x, n, a: np.tile(x, (1, 3)), {}, (1, 2)),
    Old("Tile", 6, [f32(2, 3), np.array([2, 1])], np.tile, {}, (1,)),
    Old("Upsample", 1, [IMAGE], lambda x: x.repeat(2, 2).repeat(3, 3), {"height_scale": 2.0, "width_scale": 3.0}),
    Old("Slice", 1, [f32(5, 6)], lambda x: x[1:, 2:-1], {"starts": [1, 2], "ends": [1000, -1]}),
    Old("Squeeze", 1, [f32(1, 3, 1)], lambda x: x[0], {"axes": [0]}),
    Old("TopK", 1, [f32(2, 7)], lambda x: (-np.sort(-x)[:, :3], np.argsort(-x)[:, :3]), {"k": 3}, (), 2),
    *(Old(name, opset, [X, X[::-1].copy(), f32(2, 3, 4, 5)], f)
      for name, f in (("Sum", lambda *xs: sum(xs)), ("Mean", lambda *xs: sum(xs) / 3),
                      ("Max", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
                      ("Min", lambda x, y, z: np.minimum(np.minimum(x, y), z))) for opset in (1, 6)),
    *(Old("Dropout", opset, [X], lambda x: (x, np.ones_like(x)), {"ratio": 0.3, "is_test": t}, (), 2)
      for opset, t in ((1, 1), (6, 0))),
    *(Old("BatchNormalization", opset, [IMAGE, *STATISTICS], normalised, {"is_test": 1, **more})
      for opset, more in ((1, {"consumed_inputs": [0, 0, 0, 1, 1]}), (6, {}))),
    Old("BatchNormalization", 6, [IMAGE, *EACH], normalised, {"is_test": 1, "spatial": 0}),
    Old("BatchNormalization", 6, [IMAGE, *STATISTICS], normalised),
    Old("BatchNormalization", 6, [IMAGE, *STATISTICS], trained, {}, (), 3),
    Old("LpPool", 1, [np.abs(IMAGE)], lambda x: np.sqrt((x**2).reshape(2, 3, 2, 2, 3, 2).sum((3, 5))),
        {"kernel_shape": [2, 2], "strides": [2, 2], "p": 2.0}),
    Old("GlobalLpPool", 1, [IMAGE], lambda x: (np.abs(x) ** 1.5).sum((2, 3), keepdims=True) ** (1 / 1.5), {"p": 1.5}),
    Old("AveragePool", 1, [IMAGE], lambda x: x.reshape(2, 3, 2, 2, 3, 2).mean((3, 5)),
        {"kernel_shape": [2, 2], "strides": [2, 2]}),
    *(Old(name, opset, [np.abs(X)], f, {"consumed_inputs": [0]} if opset < 6 else {})
      for name, f in (("Abs", np.abs), ("Ceil", np.ceil), ("Exp", np.exp), ("Log", np.log), ("Neg", np.negative),
                      ("Sqrt", np.sqrt), ("Tanh", np.tanh), ("Reciprocal", np.reciprocal),
                      ("Relu", lambda x: np.maximum(x, 0))) for opset in (1, 6)),
]  # fmt: skip

# Operators on trial, which ONNX Runtime still has at operator set 1.
REMOVED = [
    ("Affine", [X], {"alpha": 0.5, "beta": 2.0}),
    ("Scale", [X], {"scale": 1.5}),
    ("ScaledTanh", [X], {"alpha": 0.5, "beta": 2.0}),
    ("ParametricSoftplus", [X], {"alpha": 0.5, "beta": 2.0}),
    ("ThresholdedRelu", [X], {"alpha": 0.4}),
    ("ImageScaler", [IMAGE], {"scale": 2.0, "bias": [0.5, 1.0, -1.0]}),
    ("Crop", [IMAGE], {"border": [1, 0, 2, 1]}),
    ("Crop", [IMAGE], {"border": [1, 1, 0, 0], "scale": [2, 3]}),
    ("DynamicSlice", [IMAGE, np.array([1, 2]), np.array([2, -1]), np.array([0, 3])], {}),
    ("DynamicSlice", [f32(4, 5), np.array([1, 2]), np.array([100, -1])], {}),
    ("MeanVarianceNormalization", [IMAGE], {}),
    ("MeanVarianceNormalization", [IMAGE], {"across_channels": 1, "normalize_variance": 0}),
]


def _proto(operator: str, opset: int, inputs: Sequence[Array], attributes: Mapping[str, Any], weights: Sequence[int],
           outputs: int) -> tuple[Any, dict[str, Array]]:  # fmt: skip
    names = [f"x{n}" for n in range(len(inputs))]
    feeds = {name: array for n, (name, array) in enumerate(zip(names, inputs, strict=True)) if n not in weights}
    fixed = {name: array for name, array in zip(names, inputs, strict=True) if name not in feeds}
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    declared = [value(name, a.shape, str(a.dtype)) for name, a in feeds.items()]
    return model([node], declared, results, fixed, opset, ir_version=3), feeds


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_numpy(case: Old) -> None:
    proto, feeds = _proto(case.operator, case.opset, case.inputs, case.attributes, case.weights, case.outputs)
    found = case.wanted(*case.inputs)
    wanted = found if isinstance(found, tuple) else (found,)
    symbolic = {name: (name,) for name, a in feeds.items() if a.ndim == 1 and a.size > 1}
    for shapes in (None, symbolic):
        for got, want in zip(legato_outputs(proto, feeds, shapes=shapes), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("operator", "inputs", "attributes"), REMOVED)
def test_removed_ones_as_onnxruntime(operator: str, inputs: Sequence[Array], attributes: Mapping[str, Any]) -> None:
    proto, feeds = _proto(operator, 1, inputs, attributes, range(1, len(inputs)), 1)
    proto.ir_version = 8
    (want,) = ort_outputs(proto, feeds)
    for shapes in (None, {"x0": tuple(f"d{n}" for n in range(inputs[0].ndim))}):
        (got,) = legato_outputs(proto, feeds, shapes=shapes)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "wanted"),
    [
        ("ConstantFill", [], {"shape": [2, 3], "value": 2.0, "dtype": 11}, np.full((2, 3), 2.0)),
        ("ConstantFill", [X], {"value": 2.0}, np.full(X.shape, 2, np.float32)),
        ("ConstantFill", [np.array([2])], {"input_as_shape": 1, "extra_shape": [3]}, np.float32([[0] * 3] * 2)),
        ("GivenTensorFill", [], {"shape": [2, 2], "values": [1.0, 2.0, 3.0, 4.0]}, np.float32([[1, 2], [3, 4]])),
    ],
)  # fmt: skip
def test_fills(operator: str, inputs: Sequence[Array], attributes: Mapping[str, Any], wanted: Array) -> None:
    proto, feeds = _proto(operator, 1, inputs, attributes, (), 1)
    (got,) = legato_outputs(proto, feeds)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def test_files_that_name_no_operator_set() -> None:
    """Before version 3 of the format there was one."""
    proto, feeds = _proto("Add", 1, [X, f32(3)], AXIS, (), 1)
    del proto.opset_import[:]
    proto.ir_version = 2
    (got,) = legato_outputs(proto, feeds)
    np.testing.assert_allclose(got, X + column(feeds["x1"]))
    proto.ir_version = 3
    with pytest.raises(ImportModelError, match="names no operator set"):
        from_onnx(proto)


@pytest.mark.parametrize(
    ("y", "attributes", "message"),
    [
        ((3, 4, 5), {"broadcast": 1, "axis": 2}, "too many dims"),
        ((1, 2, 3, 4, 5), {"broadcast": 1}, "too many dims"),
        ((3,), {"broadcast": 1}, "dim 3 is 3, wanted 5"),
        ((3,), {"broadcast": 1, "axis": 7}, "axis 7 is out of range"),
    ],
)
def test_shapes_that_do_not_broadcast(y: tuple[int, ...], attributes: Mapping[str, Any], message: str) -> None:
    proto, _ = _proto("Add", 6, [X, f32(*y)], attributes, (), 1)
    with pytest.raises(ImportModelError, match=message):
        from_onnx(proto)


@pytest.mark.parametrize(("operator", "reason"), [("ATen", "it calls PyTorch"), ("GRUUnit", "GRU is what replaced it")])
def test_removed_ones_that_nothing_runs(operator: str, reason: str) -> None:
    proto, _ = _proto(operator, 1, [X], {}, (), 1)
    (listed,) = check(proto).unsupported
    assert reason in listed.reason
