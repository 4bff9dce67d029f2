"""Operands of which the model does not say how many numbers they have, and what follows from other inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import legato
from legato.base.errors import ImportModelError, RunError
from legato.frontend.onnx import check as report
from legato.frontend.onnx import from_onnx
from legato.frontend.onnx.reader import MICROSOFT
from legato.interp import evaluate
from tests.frontend.onnx.peer import Array, model, value
from tests.frontend.onnx.test_computed_shapes import X, check, ints, node

CUBE = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
C_TYPE = value("x", ("l", "m", "n"))


def listed(name: str, dtype: str = "int64") -> Any:
    """An input with any number of numbers."""
    return value(name, (f"number_of_{name}",), dtype)


def fed(x: Array, **numbers: Any) -> dict[str, Array]:
    return {"x": x, **{name: np.array(v, np.int64) for name, v in numbers.items()}}


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceL2"])
@pytest.mark.shared(2)
def test_reductions(operator: str) -> None:
    """No axes are all of them; twice the same, or one that there is not, is refused by the axes' number alone."""
    proto = model([node(operator, "x a")], [C_TYPE, listed("a")], opset=18)
    exe = legato.compile(from_onnx(proto))
    for axes in ([], [0], [1, -1], [2, 0], [0, 1, 2]):
        feeds = fed(CUBE, a=axes)
        known = from_onnx(model([node(operator, "x a")], [C_TYPE], weights={"a": feeds["a"]}, opset=18))
        wanted = legato.compile(known)(CUBE)
        np.testing.assert_allclose(exe(*(feeds[i.name] for i in exe.inputs)), wanted, rtol=1e-6)
    for axes in ([0, 0], [3], [-4, 1], [1, -2]):
        feeds = fed(CUBE, a=axes)
        with pytest.raises(RunError, match="the axes are some that there are"):
            exe(*(feeds[i.name] for i in exe.inputs))


def test_ranks_that_depend_on_how_many_axes_there_are() -> None:
    for made in (node("ReduceSum", "x a", keepdims=0), node("Squeeze", "x a")):
        (found,) = report(model([made], [C_TYPE, listed("a")], opset=13)).unsupported
        assert found.reason == (
            "the rank of the result depends on how many axes there are, number_of_a "
            "(say what number_of_a is, as in shapes={'a': (1,)})"
        )


def test_slices() -> None:
    cases = [
        fed(CUBE, b=b, e=e, a=a, s=s)
        for b, e, a, s in (
            ([1], [9], [2], [1]), ([0, -1], [2, 9], [1, 0], [1, 1]), ([], [], [], []),
            ([3, 0], [-9, 1], [-1, 0], [-2, 1]), ([0, 0, 0], [1, 2, 3], [2, 1, 0], [3, 1, 2]),
            ([2**62], [-(2**62)], [1], [-1]),
        )
    ]  # fmt: skip
    numbers = [listed(name) for name in "beas"]
    check(model([node("Slice", "x b e a s")], [C_TYPE, *numbers]), cases)
    check(model([node("Slice", "x b e a")], [C_TYPE, *numbers[:3]]),
          [{name: v for name, v in c.items() if name != "s"} for c in cases if np.all(c["s"] == 1)])  # fmt: skip
    check(
        model([node("Slice", "x b e")], [C_TYPE, *numbers[:2]]), [fed(CUBE, b=[0, 1], e=[1, 3]), fed(CUBE, b=[], e=[])]
    )


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pads(mode: str) -> None:
    proto = model([node("Pad", "x p none a", mode=mode)], [value("x", ("m", "n")), listed("p"), listed("a")],
                  weights={"none": np.float32(7)}, opset=18)  # fmt: skip
    cases = [fed(X, p=p, a=a) for p, a in (([1, 2], [1]), ([0, 1, 2, 0], [1, 0]), ([], []))]
    check(proto, cases if mode != "constant" else [*cases, fed(X, p=[-1, 2], a=[-1])])


def test_numbers_that_other_inputs_count() -> None:
    """A call with other numbers of them is refused before anything runs, naming what there should be."""
    pad, tile = node("Pad", "x k"), node("Tile", "x k")
    split, top = node("Split", "x k", "y z", axis=1), node("TopK", "x k", "y z")
    for made, outputs, numbers, text in (
        (pad, "y", [0, 1, 2, 0], "the number of pads"), (tile, "y", [1, 2], "the number of repeats"),
        (split, "yz", [1, 3], "the number of parts"), (top, "yz", [2], "the number of k"),
    ):  # fmt: skip
        proto = model([made], [value("x", ("m", "n")), listed("k")], tuple(outputs), opset=18)
        check(proto, [fed(X, k=numbers)])
        exe = legato.compile(from_onnx(proto))
        with pytest.raises(RunError, match=text):
            exe(*(fed(X, k=[*numbers, 1])[i.name] for i in exe.inputs))


@pytest.mark.parametrize(("inputs", "numbers"), [
    ("x  k", ([1, 1, 2, 2], [1, 2, 1, 0.5])), ("x   k", ([1, 1, 6, 2], [1, 1, 3, 4])),
])  # fmt: skip
def test_factors_and_sizes(inputs: str, numbers: tuple[list[float], ...]) -> None:
    image, shape = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4), value("x", ("b", "c", "h", "w"))
    resize = helper.make_node("Resize", inputs.split(" "), ["y"], coordinate_transformation_mode="asymmetric")
    dtype = "float32" if inputs == "x  k" else "int64"
    exe = legato.compile(from_onnx(model([resize], [shape, listed("k", dtype)])))
    for k in (np.array(n, dtype) for n in numbers):
        wanted = legato.compile(from_onnx(model([resize], [shape], weights={"k": k})))(image)
        np.testing.assert_array_equal(exe(*({"x": image, "k": k}[i.name] for i in exe.inputs)), wanted)


@pytest.mark.parametrize("roi", [(0.4, 0.6, 0.6, 0.8), (-0.25, 0.1, 1.3, 0.77), (0.123456, 0.9, 0.654321, 0.1)])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.shared(3)
def test_regions(roi: tuple[float, ...], mode: str) -> None:
    """A region that the data decides is read as one that is known."""
    image = np.random.default_rng(0).normal(size=(1, 1, 8, 9)).astype(np.float32)
    resize = helper.make_node("Resize", ["x", "r", "", "s"], ["y"], mode=mode, axes=[2, 3], extrapolation_value=9.0,
                              coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    region, sizes = np.array(roi, np.float32), ints(5, 6)
    inputs, weights = [value("x", (1, 1, "h", 9)), value("r", (4,))], {"s": sizes}
    wanted = legato.compile(from_onnx(model([resize], inputs[:1], weights={**weights, "r": region}, opset=18)))(image)
    found = legato.compile(from_onnx(model([resize], inputs, weights=weights, opset=18)))(image, region)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def attention(**shapes: Any) -> legato.Module:
    inputs = [value(name, shape) for name, shape in shapes.items()]
    return from_onnx(model([node("Attention", "q k v")], inputs, opset=23))


@pytest.mark.heavy
def test_heads_of_any_number() -> None:
    """Queries share heads of keys and values as these are many in a call: the same program as for known extents."""
    rng, exe = np.random.default_rng(0), legato.compile(attention(q="abcd", k="efgh", v="ijkl"))
    for q_heads, kv_heads in ((2, 2), (6, 2), (3, 1)):
        shapes = {"q": (1, q_heads, 3, 8), "k": (1, kv_heads, 5, 8), "v": (1, kv_heads, 5, 4)}
        feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        wanted = evaluate(attention(**shapes), list(feeds.values()))
        found = exe(*(feeds[i.name] for i in exe.inputs))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(RunError, match="queries share the heads"):
        exe(*({**feeds, "k": np.repeat(feeds["k"], 2, axis=1)}[i.name] for i in exe.inputs))


def test_windows_that_attributes_state() -> None:
    inputs = [value("x", ("b", "c", "h", "w")), value("k", ("o", "i", "r", "s"))]
    feeds = {"x": np.ones((1, 2, 5, 5), np.float32), "k": np.ones((3, 2, 3, 3), np.float32)}
    proto = model([node("Conv", "x k", kernel_shape=[3, 3])], inputs)
    check(proto, [feeds])
    exe = legato.compile(from_onnx(proto))
    with pytest.raises(RunError, match="the number of elements of the weight"):
        exe(*({**feeds, "k": np.ones((3, 2, 3, 1), np.float32)}[i.name] for i in exe.inputs))
    with pytest.raises(ImportModelError, match="the weight"):
        from_onnx(model([node("Conv", "x k", kernel_shape=[3, 2])], [inputs[0], value("k", (3, 2, 3, 3))]))


def test_squeeze_of_a_computed_extent() -> None:
    """Without axes an extent that the data decides must not be 1: the result would have another rank."""
    nodes = [node("Concat", "k ones", "r", axis=0), node("Tile", "x r", "t"), node("Squeeze", "t")]
    inputs = [value("x", (1, 3, 4)), value("k", (1,), "int64")]
    exe = legato.compile(from_onnx(model(nodes, inputs, weights={"ones": ints(1, 1)})))
    assert exe(CUBE[:1], ints(2)).shape == (2, 3, 4)
    with pytest.raises(RunError, match="Squeeze without axes: a computed extent is not 1"):
        exe(CUBE[:1], ints(1))


def test_what_must_be_a_constant_is_named() -> None:
    nodes = [node("Cast", "t", "axis", to=6), helper.make_node("ExpandDims", ["x", "axis"], ["y"], domain=MICROSOFT)]
    (found,) = report(model(nodes, [value("x", ("m", 4)), value("t", (), "int64")])).unsupported
    assert found.reason == "axis is known only at run time (give what decides it for good, as in constants={'t': …})"
