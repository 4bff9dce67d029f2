"""Operators whose extents, sizes and padding are numbers in a file or symbols: as ONNX Runtime has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import legato
from legato.base.errors import ImportModelError, RunError, TypeCheckError
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from tests.frontend.onnx.peer import Array, model, ort_outputs, value


def agree(proto: onnx.ModelProto, *cases: Array, compiled: bool = True) -> None:
    """The model gives what ONNX Runtime gives, where that takes it, with symbols and with the numbers of each case."""
    symbolic = from_onnx(proto)
    exe = legato.compile(symbolic) if compiled else None
    for x in cases:
        wanted = ort_outputs(proto, {"x": x})
        fixed = from_onnx(proto, shapes={"x": x.shape})
        for found in (evaluate(symbolic, [x]), evaluate(fixed, [x]), *([exe(x)] if exe else [])):
            results = found if isinstance(found, tuple) else (found,)
            assert [r.shape for r in results] == [w.shape for w in wanted]
            for got, want in zip(results, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def image(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


WINDOWS: list[tuple[str, dict[str, object]]] = [
    ("Conv", {}),
    ("ConvTranspose", {}),
    ("MaxPool", {"kernel_shape": [3, 2]}),
    ("AveragePool", {"kernel_shape": [3, 2]}),
    ("AveragePool", {"kernel_shape": [2, 3], "count_include_pad": 1}),
    ("LpPool", {"kernel_shape": [3, 2]}),
]


@pytest.mark.parametrize(("operator", "attributes"), WINDOWS)
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.shared(3)
def test_automatic_padding(operator: str, attributes: dict[str, object], auto_pad: str) -> None:
    compiled = auto_pad == "SAME_UPPER" and operator != "LpPool"
    weights = {"w": image(2, 2, 3, 2)} if "Conv" in operator else {}
    for strides in ((2, 2), (1, 2)):
        node = helper.make_node(operator, ["x", *weights], ["y"], auto_pad=auto_pad, strides=strides, **attributes)
        proto = model([node], [value("x", ("n", 2, "h", "w"))], weights=weights)
        cases = [image(1, 2, *extents) for extents in ((5, 6), (4, 7), (3, 3))]
        agree(proto, *cases, compiled=compiled and strides == (2, 2))


def split(sizes: Sequence[int] | None, parts: int, rows: int | str) -> onnx.ModelProto:
    weights = {} if sizes is None else {"s": np.array(sizes)}
    more = {"num_outputs": parts} if sizes is None else {}
    outputs = [f"y{n}" for n in range(parts)]
    node = helper.make_node("Split", ["x", *weights], outputs, axis=0, **more)
    return model([node], [value("x", (rows, 2))], outputs, weights, opset=18)


def test_split() -> None:
    agree(split([2, 0, 3], 3, "n"), image(5, 2))
    for parts in (1, 2, 3, 4):
        agree(split(None, parts, "n"), *(image(n, 2) for n in (4, 6, 7, 12)))
    for sizes in ([2, 2], [2, 5], [7, -1]):
        with pytest.raises(ImportModelError, match="for an extent of 6"):
            from_onnx(split(sizes, 2, 6))
    with pytest.raises(ImportModelError, match="3 sizes of parts for 2 outputs"):
        from_onnx(split([1, 2, 3], 2, "n"))
    proto = split([2, 2], 2, "n")
    for run in (lambda x: evaluate(from_onnx(proto), [x]), legato.compile(proto)):
        with pytest.raises(RunError):
            run(image(6, 2))
        assert [part.shape for part in run(image(4, 2))] == [(2, 2), (2, 2)]


def test_topk() -> None:
    """k: all, half, up to two, none, more than there are."""
    shape = helper.make_node("Shape", ["x"], ["n"], start=1)
    weights = {"two": np.array([2]), "none": np.array([0])}
    halves = helper.make_node("Div", ["n", "two"], ["k"]), helper.make_node("Min", ["n", "two"], ["k"])
    for makes in ([], [halves[0]], [halves[1]]):
        top = helper.make_node("TopK", ["x", "k" if makes else "n"], ["y", "i"])
        agree(
            model([shape, *makes, top], [value("x", (2, "n"))], ["y", "i"], weights),
            image(2, 5),
            image(2, 1),
            image(2, 0),
        )
    top = helper.make_node("TopK", ["x", "none"], ["y", "i"])
    agree(model([top], [value("x", (2, "n"))], ["y", "i"], weights), image(2, 5))
    longer = [shape, helper.make_node("Add", ["n", "two"], ["k"]), helper.make_node("TopK", ["x", "k"], ["y", "i"])]
    with pytest.raises(TypeCheckError, match="k elements of dimension 1"):
        from_onnx(model(longer, [value("x", (2, "n"))], ["y", "i"], weights))
    three = model(
        [helper.make_node("TopK", ["x", "three"], ["y"])], [value("x", (2, "n"))], weights={"three": np.array([3])}
    )
    for run in (lambda x: evaluate(from_onnx(three), [x]), legato.compile(three)):
        with pytest.raises(RunError):
            run(image(2, 2))


def test_shapes_with_minus_one() -> None:
    """As torch writes an expand that keeps dims, as tf2onnx a slice to the end, and quotients of products of dims."""
    numbers = {"minus": [-1], "minuses": [-1, -1, -1], "ones": [1, 1, 1], "big": [2**31 - 1], "begin": [0, 1]}
    weights: dict[str, Array] = {name: np.array(v) for name, v in (numbers | {"two": [2], "four": [4]}).items()}
    expand = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Concat", ["s", "minus", "minus"], ["c"], axis=0),
        helper.make_node("Equal", ["c", "minuses"], ["e"]),
        helper.make_node("Where", ["e", "ones", "c"], ["t"]),
        helper.make_node("Expand", ["w", "t"], ["y"]),
    ]
    inputs = [value("x", ("n", "m"))]
    agree(model(expand, inputs, weights={**weights, "w": image(1, 1, 4)}), *(image(n, 4) for n in (1, 3)))
    slices = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Equal", ["s", "minus"], ["q"]),
        helper.make_node("Cast", ["q"], ["qi"], to=onnx.TensorProto.INT64),
        helper.make_node("Mul", ["qi", "big"], ["qb"]),
        helper.make_node("Add", ["s", "qb"], ["e"]),
        helper.make_node("Slice", ["x", "begin", "e"], ["y"]),
    ]
    agree(model(slices, inputs, weights=weights), image(3, 4), image(1, 1))
    quotients = [
        helper.make_node("Shape", ["x"], ["n"], end=1),
        helper.make_node("Shape", ["x"], ["m"], start=1),
        helper.make_node("Mul", ["n", "m"], ["nm"]),
        helper.make_node("Mul", ["nm", "four"], ["q"]),
        helper.make_node("Mul", ["n", "two"], ["d"]),
        helper.make_node("Div", ["q", "d"], ["r"]),
        helper.make_node("Div", ["r", "two"], ["t"]),
        helper.make_node("Concat", ["t", "n"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    agree(model(quotients, inputs, weights=weights), image(3, 4), image(2, 5))
