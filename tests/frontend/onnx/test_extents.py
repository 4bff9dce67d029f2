"""Extents that exporters compute with tensors, through floats too: symbols give what numbers give, and the runtime."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import legato
from legato.arith.evaluate import evaluate as value_at
from legato.arith.expr import fresh
from legato.base.errors import ImportModelError, RunError, UnsupportedError
from legato.frontend.onnx import from_onnx
from legato.frontend.onnx.rounding import ceiled, floored
from legato.interp import evaluate
from legato.ir.types import TensorType
from tests.frontend.onnx.peer import Array, model, ort_outputs, value

FACTORS = (0.3, 0.57, 1.3, 0.02, 7.3, 0.001)


@pytest.mark.parametrize("factor", FACTORS)
def test_rounding_is_that_of_float32(factor: float) -> None:
    n, c = fresh("n"), np.float32(factor)
    numbers = np.r_[0:150, np.random.default_rng(0).integers(0, 1 << 20, 50)]
    exact = Fraction(float(c))
    for p, q, product in ((exact.numerator, exact.denominator, numbers.astype(np.float32) * c),
                          (exact.denominator, exact.numerator, numbers.astype(np.float32) / c)):  # fmt: skip
        for formula, rounded in ((floored(n, p, q), np.floor(product)), (ceiled(n, p, q), np.ceil(product))):
            assert formula is not None
            small = product < 2**23
            found = [value_at(formula, {n: int(k)}) for k in numbers[small]]
            np.testing.assert_array_equal(found, rounded[small])


def test_integer_arithmetic() -> None:
    """Every step of two integers and the extent of x, a symbol or a number."""
    for a in (-3, -1, 1, 2, 4):
        nodes = [
            helper.make_node("Shape", ["x"], ["n"]),
            helper.make_node("Add", ["n", "a"], ["s"]),
            helper.make_node("Div", ["s", "two"], ["d"]),
            helper.make_node("Div", ["s", "minus"], ["e"]),
            helper.make_node("Mod", ["s", "three"], ["m"], fmod=0),
            helper.make_node("Abs", ["s"], ["b"]),
            helper.make_node("Sign", ["s"], ["g"]),
            helper.make_node("Equal", ["s", "two"], ["is"]),
            helper.make_node("Less", ["s", "two"], ["less"]),
            helper.make_node("And", ["is", "less"], ["and"]),
            helper.make_node("Not", ["and"], ["not"]),
            helper.make_node("Where", ["less", "n", "two"], ["w"]),
            helper.make_node("Cast", ["is"], ["i"], to=TensorProto.INT64),
            helper.make_node("Cast", ["not"], ["o"], to=TensorProto.INT64),
            helper.make_node("Concat", ["d", "e", "m", "b", "g", "w", "i", "o"], ["y"], axis=0),
            helper.make_node("Max", ["y", "zero"], ["z"]),
            helper.make_node("ConstantOfShape", ["z"], ["shaped"]),
        ]
        weights = {"a": [a], "two": [2], "minus": [-2], "three": [3], "zero": [0]}
        arrays = {name: np.array(v) for name, v in weights.items()}
        proto = model(nodes, [value("x", ("n",))], ["y", "shaped"], arrays)
        _same_for_symbols_and_numbers(proto, range(6))


STEPS = ("Mul", "Div", "Add", "Sub", "Floor", "Ceil", "Round", "Neg")


def _chain(seed: int) -> onnx.ModelProto:
    """An extent through random float steps, and back."""
    rng = random.Random(seed)
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Cast", ["s"], ["f0"], to=TensorProto.FLOAT)]
    weights: dict[str, Array] = {"zero": np.array([0])}
    for k in range(rng.randint(1, 4)):
        step, last = rng.choice(STEPS), f"f{k}"
        reads = [last]
        if step in STEPS[:4]:
            weights[f"c{k}"] = np.array([rng.choice((0.5, 2.0, 0.25, 3.0, 0.3, 1.3, 0.7, 1.0, -0.5, 16.0))], np.float32)
            reads = rng.choice(([last, f"c{k}"], [f"c{k}", last])) if step in ("Mul", "Add", "Sub") else [last, f"c{k}"]
        nodes.append(helper.make_node(step, reads, [f"f{k + 1}"]))
    nodes += [
        helper.make_node("Cast", [nodes[-1].output[0]], ["i"], to=TensorProto.INT64),
        helper.make_node("Max", ["i", "zero"], ["y"]),
        helper.make_node("ConstantOfShape", ["y"], ["shaped"]),
    ]
    return model(nodes, [value("x", ("n",))], ["y", "shaped"], weights)


def test_chains_of_float_steps() -> None:
    known = sum(_same_for_symbols_and_numbers(_chain(seed), (0, 1, 2, 5, 9, 10, 50, 171)) for seed in range(60))
    assert known > 35  # of the others the floats are rounded twice


def _same_for_symbols_and_numbers(proto: onnx.ModelProto, extents: range | tuple[int, ...]) -> bool:
    """Whether the model is accepted; then it is right for all `extents`."""
    try:
        module = from_onnx(proto)
    except UnsupportedError:
        return False
    for extent in extents:
        x = np.zeros(extent, np.float32)
        wanted = ort_outputs(proto, {"x": x})
        for program in (module, from_onnx(proto, shapes={"x": (extent,)})):
            for got, want in zip(evaluate(program, [x]), wanted, strict=True):
                assert got.shape == want.shape
                np.testing.assert_array_equal(got, want)
    return True


def test_squares_of_squares_are_no_dims() -> None:
    nodes = [helper.make_node("Shape", ["x"], ["v0"])]
    nodes += [helper.make_node("Mul", [f"v{k}", f"v{k}"], [f"v{k + 1}"]) for k in range(60)]
    proto = model(nodes, [value("x", ("n",))], ["v60"])
    assert evaluate(from_onnx(proto), [np.zeros(1, np.float32)]) == 1


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_resizing_by_scales(mode: str) -> None:
    """The extent is floor(extent * scale) as float32 has it, of a number and of a symbol."""
    for scale in (0.29, 0.57, 1.13, 0.52, 0.65, 1.3, 2.0):
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode)
        proto = model([node], [value("x", (1, 1, "n", 1))], weights={"s": np.array([1, 1, scale, 1], np.float32)})
        for extent in (50, 100, 170, 340, 425):
            x = np.zeros((1, 1, extent, 1), np.float32)
            wanted = ort_outputs(proto, {"x": x})[0].shape
            assert _type(proto, (1, 1, extent, 1)).static_shape() == wanted
            formula = _type(proto).shape[2]
            assert evaluate(from_onnx(proto), [x]).shape == wanted, formula


SCALES: dict[str, Sequence[str | float]] = {
    "of others": ("n/m", "n/m"), "beside a number": ("m/n", 1.5), "of data": ("data", 0.5), "of itself": ("m/n", "m/n"),
}  # fmt: skip


@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel"])
@pytest.mark.shared(2)
def test_resizing_by_computed_scales(scales: Sequence[str | float], mode: str, coordinates: str) -> None:
    """Two extents by factors: quotients of extents, what the data says, numbers."""
    nodes = [helper.make_node("Shape", [v], [f"{v}s"], start=-1) for v in "xw"]
    nodes += [helper.make_node("Cast", [f"{v}s"], [f"{v}f"], to=TensorProto.FLOAT) for v in "xw"]
    nodes += [helper.make_node("Div", ["xf", "wf"], ["n/m"]), helper.make_node("Div", ["wf", "xf"], ["m/n"])]
    numbers = {str(s): np.array([s], np.float32) for s in scales if isinstance(s, float)}
    nodes += [
        helper.make_node("Concat", ["ones", *map(str, scales)], ["scales"], axis=0),
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=coordinates),
    ]
    inputs = [value("x", (1, 1, "k", "n")), value("w", ("m",)), value("data", (1,))]
    proto = model(nodes, inputs, weights={**numbers, "ones": np.ones(2, np.float32)})
    module = from_onnx(proto)
    exe = legato.compile(module)
    for k, n, m, data in ((3, 4, 6, 1.5), (5, 3, 2, 2), (4, 9, 2, 0.7), (2, 1, 4, 1)):
        x = np.random.default_rng(k).standard_normal((1, 1, k, n)).astype(np.float32)
        feeds = {"x": x, "w": np.zeros(m, np.float32), "data": np.array([data], np.float32)}
        wanted = ort_outputs(proto, feeds)[0]
        args = [feeds[t.name] for t in exe.inputs]
        for found in (evaluate(module, args), exe(*args)):
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_resizing_that_keeps_the_aspect_ratio(policy: str, mode: str) -> None:
    shape = helper.make_node("Shape", ["w"], ["s"])
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy
    )
    proto = model([shape, node], [value("x", (1, 1, "h", "k")), value("w", ("a", "b"))], opset=18)
    module = from_onnx(proto)
    exe = legato.compile(module)
    for h, k, a, b in ((3, 5, 7, 4), (4, 4, 2, 6), (9, 3, 3, 3), (2, 7, 5, 1), (0, 1, 0, 2), (1, 0, 2, 0)):
        x = np.random.default_rng(h).standard_normal((1, 1, h, k)).astype(np.float32)
        args = [x, np.zeros((a, b), np.float32)]
        wanted = ort_outputs(proto, dict(zip("xw", args, strict=True)))[0]
        fixed = from_onnx(proto, shapes={"x": x.shape, "w": (a, b)})
        for found in (evaluate(module, args), exe(*args), evaluate(fixed, args)):
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


def _type(proto: onnx.ModelProto, shape: tuple[int, ...] | None = None) -> TensorType:
    ty = from_onnx(proto, shapes=None if shape is None else {"x": shape})["main"].body.ty
    assert isinstance(ty, TensorType)
    return ty


def test_codes_of_reshape() -> None:
    """Relay's -2, -3 and -4 mean nothing here."""
    for code in (-2, -3, -4):
        node = helper.make_node("Reshape", ["x", "s"], ["y"])
        with pytest.raises(ImportModelError) as caught:
            from_onnx(model([node], [value("x", ("n", 3, 4))], weights={"s": np.array([code, 4])}))
        assert caught.value.message == f"the new shape is [{code}, 4], wanted extents, 0 or -1"


def _reshaped(dims: tuple[str | int, ...], *target: str | int) -> onnx.ModelProto:
    """x, whose shape is `dims`, in a new shape: numbers, or formulas of one extent."""
    halves = {"m": ("Mul", 1), "m//2": ("Div", 2), "2m": ("Mul", 2)}
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Slice", ["s", "i0", "i1"], ["m"])]
    weights = {"i0": np.array([dims.index("m")]), "i1": np.array([dims.index("m") + 1])}
    for k, part in enumerate(target):
        operator, by = halves.get(str(part), ("", part))
        weights[f"c{k}"] = np.array([by])
        nodes.append(helper.make_node(operator or "Identity", ["m", f"c{k}"] if operator else [f"c{k}"], [f"p{k}"]))
    nodes.append(helper.make_node("Concat", [f"p{k}" for k in range(len(target))], ["t"], axis=0))
    return model([*nodes, helper.make_node("Reshape", ["x", "t"], ["y"])], [value("x", dims)], weights=weights)


@pytest.mark.parametrize(
    ("dims", "target", "taken"),
    [
        (("m",), ("m//2", -1), True),  # a half of one element is none: the one stays
        (("m",), ("m", -1), False),
        ((2, "m"), ("m", -1), False),
        (("m", 3, "m"), ("m", 3, "m"), True),
        (("m", 3, "m"), ("2m", -1), False),
        (("k", 6, "m"), ("m", 6, -1), False),
    ],
)
def test_zeros_that_are_computed(dims: tuple[str | int, ...], target: tuple[str | int, ...], taken: bool) -> None:
    """Of ONNX, a 0 in the new shape means the extent that is there. Never is it another; `taken`: nor refused."""
    proto = _reshaped(dims, *target)
    module = from_onnx(proto)
    exe = legato.compile(module)
    for m, k in itertools.product((0, 1, 2, 5), (0, 1, 2, 5) if "k" in dims else (0,)):
        x = np.arange(math.prod(shape := [{"m": m, "k": k}.get(str(d), d) for d in dims]), dtype=np.float32)
        wanted, found, run = (_shape_or_none(f, x.reshape(shape)) for f in (
            lambda x: ort_outputs(proto, {"x": x})[0], lambda x: evaluate(module, [x]), exe))  # fmt: skip
        assert found == run
        assert found == wanted or (found is None and not taken) or wanted is None


def _shape_or_none(function: Callable[[Array], Any], x: Array) -> tuple[int, ...] | None:
    try:
        found: Array = function(x)
    except (RunError, Fail, InvalidArgument, RuntimeException):
        return None
    return found.shape


def test_squeeze_without_axes() -> None:
    proto = model([helper.make_node("Squeeze", ["x"], ["y"])], [value("x", ("n", 12, 1))])
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(proto)
    assert caught.value.details == (
        "Op_0 (Squeeze): ai.onnx.Squeeze of operator set 17: without axes, the rank of the result depends on whether "
        "the dim n is 1 (say what n is, as in shapes={'x': (1, None, None)} or shapes={'x': ('n:2..', None, None)})",
    )
    for first, rows, rank in ((1, 1, 1), ("n:2..", 3, 2), (3, 3, 2)):
        x = np.arange(rows * 12, dtype=np.float32).reshape(rows, 12, 1)
        found = evaluate(from_onnx(proto, shapes={"x": (first, None, None)}), [x])
        assert found.ndim == rank
        np.testing.assert_array_equal(found, ort_outputs(proto, {"x": x})[0])


def test_slices_backwards_from_before_the_first_element() -> None:
    """A start that lies before element 0 is element 0, of numbers and of symbols."""
    for start, end in ((-2, -4), (-1, -9), (-9, -12), (1, -9), (0, -9)):
        weights = {"a": np.array([start]), "b": np.array([end]), "axis": np.array([0]), "step": np.array([-1])}
        node = helper.make_node("Slice", ["x", "a", "b", "axis", "step"], ["y"])
        proto = model([node], [value("x", ("n", 2))], weights=weights)
        for rows in (1, 2, 3, 5):
            x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
            wanted = ort_outputs(proto, {"x": x})[0]
            for shape in ((rows, 2), ("n", 2)):
                found = evaluate(from_onnx(proto, shapes={"x": shape}), [x])
                np.testing.assert_array_equal(found, wanted)
