"""Shapes that only the data decides: compiled = interpreted = ONNX Runtime, and what one refuses, the others refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import legato
from legato.base.errors import InternalError, RunError, UnsupportedError
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from legato.ir.expr import Function
from tests.frontend.onnx.peer import Array, model, ort_outputs, value

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Feeds = Mapping[str, Array]


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def outcome(run: Callable[[], Any]) -> Any:
    """The outputs, or None where the call is refused."""
    try:
        found = run()
    except InternalError:
        raise
    except (RunError, Fail, InvalidArgument, RuntimeException):
        return None
    return found if isinstance(found, tuple) else (found,)


def check(proto: onnx.ModelProto, cases: Sequence[Feeds]) -> None:
    module = from_onnx(proto)
    exe = legato.compile(module)
    for feeds in cases:
        args = [feeds[t.name] for t in exe.inputs]
        theirs = outcome(lambda feeds=feeds: ort_outputs(proto, feeds))  # type: ignore[misc]
        for ours in (outcome(lambda a=args: evaluate(module, a)), outcome(lambda a=args: exe(*a))):  # type: ignore[misc]
            assert (ours is None) == (theirs is None), feeds
            for a, b in zip(ours or (), theirs or (), strict=True):
                np.testing.assert_array_equal(a, b, err_msg=str(feeds))
                assert a.dtype == b.dtype


def node(op: str, inputs: str, outputs: str = "y", **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


X_TYPE = value("x", ("n", 4))


def shape(rank: int) -> onnx.ValueInfoProto:
    return value("s", (rank,), "int64")


def with_shape(*shapes: Array, x: Array = X) -> list[Feeds]:
    return [{"x": x, "s": s} for s in shapes]


def test_reshape() -> None:
    proto = model([node("Reshape", "x s")], [X_TYPE, shape(2)])
    check(proto, with_shape(ints(2, 6), ints(12, 1), ints(-1, 6), ints(0, -1), ints(5, 2), ints(-1, -1), ints(-2, 6)))
    check(proto, with_shape(ints(3, 0), ints(0, 0), ints(5, 0), x=X[:0]))


def test_reshape_keeps_what_is_known() -> None:
    steps = [node("Concat", "four s", "t", axis=0), node("Reshape", "x t")]
    module = from_onnx(model(steps, [X_TYPE, shape(1)], weights={"four": ints(4)}))
    main = module["main"]
    assert isinstance(main, Function)
    assert str(main.body.ty).startswith("Tensor[(4, ")


def test_constant_of_shape() -> None:
    proto = model([node("ConstantOfShape", "s")], [shape(2)])
    check(proto, [{"s": s} for s in (ints(2, 3), ints(0, 3), ints(-1, 3), ints(2, -3))])


def test_tile() -> None:
    check(model([node("Tile", "x s")], [X_TYPE, shape(2)]), with_shape(ints(2, 3), ints(0, 1), ints(1, 1)))


def test_topk() -> None:
    proto = model([node("TopK", "x s", "y z")], [X_TYPE, shape(1)], ["y", "z"])
    check(proto, with_shape(ints(2), ints(4), ints(0), ints(5)))


def test_split() -> None:
    proto = model([node("Split", "x s", "y z", axis=1)], [X_TYPE, shape(2)], ["y", "z"])
    check(proto, with_shape(ints(2, 2), ints(4, 0), ints(3, 2), ints(1, 1)))


def test_one_hot() -> None:
    inputs = [value("x", ("n",), "int64"), value("s", (1,), "int64"), value("v", (2,))]
    feeds: Feeds = {"x": ints(0, 2, 1), "v": np.array([0, 1], np.float32)}
    check(model([node("OneHot", "x s v")], inputs), [{**feeds, "s": ints(n)} for n in (1, 2, 5)])


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_pad(mode: str) -> None:
    pads = [ints(1, 0, 2, 1), ints(-1, 0, 2, -1), ints(0, 0, 0, 0), ints(-4, 0, 0, 0)]
    check(model([node("Pad", "x s", mode=mode)], [X_TYPE, shape(4)], opset=18), with_shape(*pads))


@pytest.mark.parametrize("upper", [0, 1])
def test_trilu(upper: int) -> None:
    proto = model([node("Trilu", "x s", upper=upper)], [X_TYPE, value("s", (), "int64")])
    check(proto, [{"x": X, "s": np.array(k, np.int64)} for k in (-3, -1, 0, 2, 5)])


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_range(dtype: str) -> None:
    proto = model([node("Range", "a b c")], [value(name, (), dtype) for name in "abc"])
    bounds = [(2, 7, 2), (2, 7, 1), (7, 2, -2), (2, 7, -1), (0, 0, 3), (-3, 4, 7), (-3, 5, 7)]
    check(proto, [{n: np.array(v, dtype) for n, v in zip("abc", b, strict=True)} for b in bounds])


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_slice(step: int) -> None:
    proto = model([node("Slice", "x s e a t")], [X_TYPE, shape(1), value("e", (1,), "int64")],
                  weights={"a": ints(0), "t": ints(step)})  # fmt: skip
    ends = (-4, -2, -1, 0, 1, 2, 3, 5, -(2**63)) + ((2**63 - 1,) if step > 0 else ())  # for -1, ONNX Runtime's own rule
    cases = [{"x": X, "s": ints(a), "e": ints(b)} for a, b in product((-5, -3, -1, 0, 1, 3, 4), ends)]
    check(proto, [*cases, {"x": X[:0], "s": ints(0), "e": ints(2)}, {"x": X[:0], "s": ints(-1), "e": ints(-3)}])


def test_slice_by_computed_steps() -> None:
    inputs = [X_TYPE, shape(1), value("e", (1,), "int64"), value("t", (1,), "int64")]
    proto = model([node("Slice", "x s e a t")], inputs, weights={"a": ints(0)})
    bounds = (-9, -2, 0, 1, 2, 9)
    check(proto, [{"x": x, "s": ints(a), "e": ints(b), "t": ints(step)}
                  for a, b in product(bounds, bounds) for step in (1, 2, -1, -3) for x in (X, X[:0])])  # fmt: skip
    check(proto, [{"x": X, "s": ints(0), "e": ints(3), "t": ints(0)}])
    steps = [node("Shape", "x", "n", end=1), node("Slice", "x s e a n")]
    check(
        model(steps, [X_TYPE, shape(1)], weights={"a": ints(0), "e": ints(9)}), with_shape(ints(0), ints(-1), ints(4))
    )


def test_slice_of_what_has_no_elements() -> None:
    """Whatever the data says, it begins and ends at 0."""
    proto = model([node("Slice", "x s e a")], [value("x", ("n", 0)), shape(1)], weights={"e": ints(9), "a": ints(1)})
    check(proto, with_shape(ints(0), ints(3), ints(-2), x=X[:, :0]))


def test_slice_of_known_axes_and_others() -> None:
    steps = [node("Concat", "one s", "b", axis=0), node("Slice", "x b e a t")]
    weights = {"one": ints(1), "e": ints(3, 4), "a": ints(0, 1), "t": ints(1, 1)}
    check(model(steps, [X_TYPE, shape(1)], weights=weights), with_shape(ints(0), ints(-1), ints(3)))


def body(name: str, nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], *outputs: str) -> Any:
    return helper.make_graph(list(nodes), name, list(inputs), [onnx.ValueInfoProto(name=o) for o in outputs])


def test_extents_that_come_with_a_branch_are_numbers_beside_it() -> None:
    """Where the result of an If is sliced at a computed place, its extent is there first."""
    then = body("then", [node("Concat", "x x", "a", axis=0)], [], "a")
    orelse = body("else", [node("Neg", "x", "b")], [], "b")
    steps = [node("If", "c", "z", then_branch=then, else_branch=orelse), node("Slice", "z s e")]
    proto = model(steps, [value("c", (), "bool"), X_TYPE, shape(1)], weights={"e": ints(9)})
    check(proto, [{"c": np.array(c), "x": X, "s": s} for c in (True, False) for s in (ints(-2), ints(1), ints(5))])


def test_in_a_branch() -> None:
    then = body("then", [node("Reshape", "x s", "r"), node("Exp", "r", "a")], [], "a")
    orelse = body("else", [node("Transpose", "x", "b")], [], "b")
    proto = model([node("If", "c", then_branch=then, else_branch=orelse)], [value("c", (), "bool"), X_TYPE, shape(2)])
    check(proto, [{"c": np.array(c), "x": X * 0, "s": s} for c in (True, False) for s in (ints(2, 6), ints(5, 5))])


def test_in_a_loop() -> None:
    steps = [node("Reshape", "v s", "r"), node("Add", "r one", "r1"), node("Reshape", "r1 own", "w"),
             node("Identity", "go", "on")]  # fmt: skip
    inputs = [value("i", (), "int64"), value("go", (), "bool"), value("v", None)]
    nodes = [node("Shape", "x", "own"), helper.make_node("Loop", ["m", "", "x"], ["y"])]
    nodes[1].attribute.append(helper.make_attribute("body", body("body", steps, inputs, "on", "w")))
    proto = model(nodes, [value("m", (), "int64"), X_TYPE, shape(2)], weights={"one": np.array(1, np.float32)})
    del proto.graph.node[1].attribute[0].g.input[2].type.tensor_type.shape.dim[:]
    check(proto, [{"m": np.array(m), "x": X, "s": s} for m in (0, 1, 3) for s in (ints(2, -1), ints(6, 2))])


def test_in_a_local_function() -> None:
    f = helper.make_function("own", "F", ["x", "s"], ["y"], [node("Reshape", "x s")], [helper.make_opsetid("", 17)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    nodes = [helper.make_node("F", ["x", "s"], ["t"], domain="own"), node("Transpose", "t")]
    proto = model(nodes, [X_TYPE, shape(2)], functions=[f], opset_imports=opsets)
    check(proto, with_shape(ints(2, 6), ints(-1, 3)))


def test_numbers_that_are_data_and_shape() -> None:
    """An element of the shape is the product of the input's extent and a number that the data decides."""
    steps = [node("Shape", "x", "h", start=0, end=1), node("Mul", "h s", "p"), node("Concat", "p four", "t", axis=0),
             node("Tile", "x two", "z"), node("Reshape", "z t")]  # fmt: skip
    weights = {"four": ints(4), "two": numpy_helper.to_array(numpy_helper.from_array(ints(2, 1)))}
    check(model(steps, [X_TYPE, shape(1)], weights=weights), with_shape(ints(2), ints(1)))


# ------------------------------------------------------------------ results whose extents the data decides

SPARSE = X % 3


def test_nonzero() -> None:
    check(model([node("NonZero", "x")], [X_TYPE]), [{"x": x} for x in (X, SPARSE, X * 0, X[:0])])


@pytest.mark.parametrize(("axis", "lengths"), [(None, (12, 2, 0)), (0, (3, 1)), (1, (4, 2, 0))])
def test_compress(axis: int | None, lengths: tuple[int, ...]) -> None:
    attrs = {} if axis is None else {"axis": axis}
    proto = model([node("Compress", "x c", **attrs)], [X_TYPE, value("c", ("m",), "bool")])
    rng = np.random.default_rng(0)
    check(proto, [{"x": X, "c": rng.random(n) < p} for n in lengths for p in (0.5, 0.0, 1.0)])


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.shared(2)
def test_unique(axis: int | None, is_sorted: int) -> None:
    attrs = {} if axis is None else {"axis": axis}
    shape_of_x = (3, "n") if axis == 1 else ("n", 3)
    proto = model([node("Unique", "x", "y i v c", sorted=is_sorted, **attrs)], [value("x", shape_of_x)], list("yivc"))
    rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [0, 0, 0], [1, 0, 0]], np.float32)
    cases = [rows, rows[::-1], rows[:1], rows[:0]] if axis is not None else [rows, rows[:1], rows[2:]]
    check(proto, [{"x": np.ascontiguousarray(x.T if axis == 1 else x)} for x in cases])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape_of_x", [("m", "n", "k"), (3, 3, 3)])
def test_unique_parts_of_any_extent(shape_of_x: tuple[int | str, ...], axis: int) -> None:
    """9 elements are more than are compared without a loop."""
    proto = model([node("Unique", "x", "y i v c", axis=axis)], [value("x", shape_of_x)], list("yivc"))
    rng = np.random.default_rng(axis)
    cases = [np.take(rng.integers(-1, 1, (3, 3, 3)).astype(np.float32), [0, 1, 0], axis)]
    if shape_of_x[0] == "m":
        cases += [
            np.take(rng.integers(0, 2, shape).astype(np.float32), [1, 0, 1, 1], axis)
            for shape in [(2, 2, 5), (3, 2, 2)]
        ]
    check(proto, [{"x": np.ascontiguousarray(x)} for x in cases])


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression(center: int) -> None:
    inputs = [value("b", ("k", "n", 4)), value("s", ("k", "c", "n")), value("m", (1,), "int64"), value("o", (1,)),
              value("l", (1,))]  # fmt: skip
    proto = model([node("NonMaxSuppression", "b s m o l", center_point_box=center)], inputs)
    rng, cases = np.random.default_rng(0), []
    for n, most, overlap, least in ((20, 5, 0.3, 0.2), (40, 99, 0.5, 0.0), (1, 1, 0.5, 0.5), (0, 3, 0.5, 0.1),
                                    (9, 0, 0.5, 0.1), (60, 60, 0.1, -1)):  # fmt: skip
        boxes, scores = rng.random((2, n, 4)), np.round(rng.random((2, 3, n)), 1)  # scores that are equal, too
        limits = {"m": ints(most), "o": np.array([overlap], np.float32), "l": np.array([least], np.float32)}
        cases.append({"b": boxes.astype(np.float32), "s": scores.astype(np.float32), **limits})
    check(proto, cases)


def test_what_is_found_goes_on() -> None:
    """Its number is a dim of the program: of types, of attributes, of what is made with it."""
    steps = [node("NonZero", "x", "at"), node("Transpose", "at", "rows"), node("Shape", "rows", "h", start=0, end=1),
             node("ConstantOfShape", "h", "zeros"), node("GatherND", "x rows", "v"), node("Exp", "v", "e"),
             node("Add", "e zeros", "y")]  # fmt: skip
    proto = model(steps, [X_TYPE])
    module = from_onnx(proto)
    exe = legato.compile(module)
    for x in (X, SPARSE, X * 0):
        for got in (evaluate(module, [x]), exe(x)):
            np.testing.assert_allclose(got, ort_outputs(proto, {"x": x})[0], rtol=1e-6)


@pytest.mark.parametrize("keep", [0, 1])
def test_axes_of_a_sum(keep: int) -> None:
    proto = model([node("ReduceSum", "x s", keepdims=keep)], [value("x", ("n", 4, "m")), shape(2)])
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    check(proto, with_shape(ints(0, 1), ints(2, 0), ints(-1, -2), ints(1, 5), x=x))


def test_axes_that_follow_from_extents() -> None:
    steps = [node("Shape", "x", "n", end=1), node("ReduceSum", "x n"), node("Unsqueeze", "x n", "z")]
    check(model(steps, [X_TYPE], ["y", "z"]), [{"x": np.zeros((n, 4), np.float32)} for n in (0, 1, 2, 3)])


def test_axes_of_other_operators() -> None:
    axis, x = value("s", (1,), "int64"), X.reshape(3, 1, 4)
    check(model([node("Unsqueeze", "x s")], [X_TYPE, axis]), with_shape(ints(0), ints(1), ints(-1), ints(3)))
    check(model([node("Squeeze", "x s")], [value("x", (3, 1, 4)), axis]), with_shape(ints(1), ints(-2), x=x))
    cumsum = model([node("CumSum", "x s")], [X_TYPE, value("s", (), "int64")])
    check(cumsum, [{"x": X, "s": np.array(a, np.int64)} for a in (0, 1, -1, 2)])


def test_axes_of_which_there_are_too_many_choices() -> None:
    proto = model([node("ReduceSum", "x s")], [value("x", (1,) * 40), shape(20)])
    with pytest.raises(UnsupportedError, match="137846528820 choices"):
        from_onnx(proto)


def test_computed_dims_are_called_as_the_file_declares_them() -> None:
    """Not where an input's dim, or another computed one, has the name: that they are equal is not for sure."""
    nodes = [
        node("NonZero", "x", "z"),
        node("Transpose", "z", "t"),
        node("Reshape", "x s", "r"),
        node("Relu", "r", "q"),
    ]
    proto = model([*nodes, node("Neg", "x", "e")], [X_TYPE, shape(2)])
    proto.graph.ClearField("output")
    proto.graph.output.extend([
        value("t", ("hits", "axes"), "int64"), value("e", ("m", 4)), value("r", ("rows", "n")), value("q", ("a", "b")),
        value("z", ("c", "rows"), "int64"),
    ])  # fmt: skip
    exe = legato.compile(proto)
    assert [str(o) for o in exe.outputs] == [
        "t: int64[hits, 2]", "e: float32[n, 4]", "r: float32[rows, b]", "q: float32[rows, b]", "z: int64[2, hits]",
    ]  # fmt: skip
    check(proto, with_shape(ints(2, 6), ints(4, 3), ints(5, 5)))
