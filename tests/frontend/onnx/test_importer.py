"""What cannot be compiled is listed at once; custom operators; spans; the report."""

from __future__ import annotations

import re
import typing
from contextlib import suppress
from inspect import Parameter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typing_extensions import TypeAliasType

from legato.base.errors import ImportModelError, TypeCheckError, UnsupportedError
from legato.base.node import post_order
from legato.frontend.onnx import check, from_onnx
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.signature import signature, table
from legato.interp import evaluate
from legato.ir.expr import Call, Expr
from tests.frontend.onnx.peer import legato_outputs, model, ort_outputs, value

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_everything_unsupported_at_once() -> None:
    nodes = [
        helper.make_node("Whirl", ["x"], ["a"], name="first"),
        helper.make_node("Reshape", ["x", "a"], ["b"], name="needs first"),
        helper.make_node("Twist", ["x"], ["c"], domain="their.domain"),
        helper.make_node("BatchNormalization", ["img", "1", "1", "1", "1"], ["d", "mean"], name="norm"),
        helper.make_node("Identity", ["mean"], ["e"], name="needs the second output"),
        helper.make_node("Spin", ["b"], ["f"], name="after the first"),
        helper.make_node("Relu", ["x"], ["g"], name="fine", angle=3),
    ]
    inputs = [value("x", (2, 3)), value("img", (1, 1, 4, 4))]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("their.domain", 3)]
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(model(nodes, inputs, list("bcdefg"), {"1": np.ones(1, np.float32)}, opset_imports=opsets))
    assert str(caught.value) == (
        "unsupported: the model: 5 nodes cannot be compiled "
        "(Whirl, their.domain::Twist, BatchNormalization, Spin, Relu)\n"
        "  first: ai.onnx.Whirl of operator set 17: no such operator in Legato\n"
        "  Op_2 (Twist): their.domain.Twist of operator set 3: no such operator in Legato\n"
        "  norm: ai.onnx.BatchNormalization of operator set 17: its output number 2\n"
        "  after the first: ai.onnx.Spin of operator set 17: no such operator in Legato\n"
        "  fine: ai.onnx.Relu of operator set 17: attribute angle\n"
        "  hint: converters of your own for operators: from_onnx(…, custom="
        '{"Whirl": function, "their.domain::Twist": function, "BatchNormalization": function, …}) (docs/operators.md)'
    )


def test_shapes_that_depend_on_the_data() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"], name="r")
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(model([node], [value("x", (2, 3)), value("s", ("k",), "int64")]))
    assert caught.value.details == (
        "r: ai.onnx.Reshape of operator set 17: the new shape is Tensor[(k,), int64]: its rank must be known "
        "(say what k is, as in shapes={'s': (1,)})",
    )


def test_ill_typed_models() -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"], name="product")
    with pytest.raises(TypeCheckError) as caught:
        from_onnx(model([node], [value("x", (2, 3))]))
    assert str(caught.value).startswith("type error: matmul: the summed dimension")
    assert caught.value.span is not None
    assert caught.value.span.source == "product"
    (listed,) = check(model([node], [value("x", (2, 3))])).unsupported
    assert (listed.node, listed.operator) == ("product", "MatMul")
    assert listed.reason.startswith("matmul: the summed dimension")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (
            helper.make_node("Transpose", ["x"], ["y"], perm="ab"),
            "attribute perm of Transpose is a string, wanted several int",
        ),
        (helper.make_node("MaxPool", ["x"], ["y"]), "MaxPool lacks its attribute kernel_shape"),
        (helper.make_node("Add", ["x"], ["y"]), "Add lacks its input y"),
        (helper.make_node("Add", ["", "x"], ["y"]), "Add lacks its input x"),
        (helper.make_node("Relu", ["x", "x"], ["y"]), "Relu has 2 inputs, wanted at most 1"),
        (helper.make_node("Softmax", ["x"], ["y"], axis=2), "axis 2 is out of range for rank 2"),
    ],
)
def test_malformed_nodes(node: onnx.NodeProto, text: str) -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(model([node], [value("x", (2, 3))]))
    assert (caught.value.message, str(caught.value.span)) == (text, f"Op_0 ({node.op_type})")


@pytest.mark.parametrize("inputs", [[], [""], ["", ""]], ids=len)
def test_nodes_without_inputs_compile_or_say_what_they_lack(inputs: list[str]) -> None:
    sample: dict[Any, Any] = {onnx.AttributeProto.INT: 1, onnx.AttributeProto.INTS: [1]}
    for schema in onnx.defs.get_all_schemas():
        given = {a.name: sample.get(int(a.type), "") for a in schema.attributes.values() if a.required}
        with suppress(ImportModelError):
            check(model([helper.make_node(schema.name, inputs, ["y"], domain=schema.domain, **given)], []))


def test_operands_of_any_rank_compile_or_are_refused() -> None:
    """Every converter of every domain, with floats, integers and strings, is given each rank."""
    shapes: list[tuple[int | str, ...]] = [(), (0,), ("n",), (2, 3, 4, 5), ("a", "b", "c")]
    for (domain, name), versions in table().items():
        own = signature(versions[0][1])
        given = {name: _sample(hint) for name, (hint, default) in own.attributes.items() if default is Parameter.empty}
        count = len(own.inputs) + own.variadic
        node = helper.make_node(name, [f"x{n}" for n in range(count)], ["y"], domain=domain, **given)
        opsets = [helper.make_opsetid("", 24), *([helper.make_opsetid(domain, versions[0][0])] if domain else [])]
        for shape, dtype in product(shapes, ("float32", "int64", "object")):
            inputs = [value(f"x{n}", shape, dtype) for n in range(count)]
            with suppress(ImportModelError):  # check lists what else is wrong
                check(model([node], inputs, opset_imports=opsets))


def test_keys_of_the_past_without_its_values() -> None:
    heads = value("x", (1, 2, 3, 4))
    node = helper.make_node("Attention", ["x", "x", "x", "", "x"], ["y"])
    with pytest.raises(ImportModelError, match="past keys without past values"):
        from_onnx(model([node], [heads], opset=23))


@pytest.mark.parametrize(
    ("node", "opset"),
    [
        (helper.make_node("ConstantFill", [], ["y"], shape=[2], value=float("nan"), dtype=TensorProto.INT32), 8),
        (helper.make_node("ConstantFill", [], ["y"], shape=[2], value=float("nan"), dtype=TensorProto.INT4), 8),
        (helper.make_node("ParametricSoftplus", ["x"], ["y"], alpha=float("nan")), 8),
        (helper.make_node("Upsample", ["x"], ["y"], scales=[float("nan"), 1.0]), 8),
    ],
)
def test_attributes_that_are_no_numbers(node: onnx.NodeProto, opset: int) -> None:
    with pytest.raises(ImportModelError, match="out of range"):
        from_onnx(model([node], [value("x", (2, 3), "int32")], opset=opset))


@pytest.mark.parametrize("dtype", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_numbers_where_other_elements_are_wanted_are_listed(dtype: int) -> None:
    proto = model([helper.make_node("ConstantFill", [], ["y"], shape=[2], dtype=dtype)], [], opset=8)
    (listed,) = check(proto).unsupported
    assert listed.operator == "ConstantFill"
    with pytest.raises(UnsupportedError, match=re.escape(listed.reason)):
        from_onnx(proto)


def _sample(hint: Any) -> Any:
    """A value of an attribute."""
    item = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
    if item is not None:
        return [_sample(item)]
    return {bool: 1, int: 1, float: 1.0, str: "NONE"}.get(hint, numpy_helper.from_array(np.ones(1, np.float32)))


def test_custom_operators() -> None:
    def twice(b: Emitter, x: Expr, y: Expr | None = None, *, scale: float = 2.0, names: tuple[str, ...] = ()) -> Expr:
        assert y is None
        assert names == ("a", "b")
        return b.multiply(x, b.like(scale, x))

    def relu(b: Emitter, x: Expr) -> Expr:
        return b.negative(x)

    nodes = [
        helper.make_node("Twice", ["x"], ["a"], domain="their.domain", scale=3.0, names=["a", "b"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    proto = model(nodes, [value("x", (2, 3))])
    found = legato_outputs(proto, {"x": X}, custom={"their.domain::Twice": twice, "Relu": relu})
    np.testing.assert_array_equal(found[0], -3 * X)


def test_custom_converters_without_annotations() -> None:
    def scale(b, x, *, by=2.0, ints=(), what=None):  # type: ignore[no-untyped-def]  # as users write them
        assert (ints, what) == ((1, 2), "text")
        return b.multiply(x, b.like(by, x))

    node = helper.make_node("Scale", ["x"], ["y"], by=3.0, ints=[1, 2], what="text")
    proto = model([node], [value("x", (2, 3))])
    np.testing.assert_array_equal(legato_outputs(proto, {"x": X}, custom={"Scale": scale})[0], 3 * X)


ARRAY = TypeAliasType("ARRAY", np.ndarray[Any, np.dtype[Any]])  # as `numpy.typing.NDArray[Any]` is since NumPy 2.5


def test_attributes_whose_types_are_aliases() -> None:
    def plus(b: Emitter, x: Expr, *, by: ARRAY, axes: TypeAliasType("AXES", tuple[int, ...]) = ()) -> Expr:  # type: ignore[valid-type]
        assert axes == (1, 2)
        return b.add(x, b.constant(by))

    node = helper.make_node("Plus", ["x"], ["y"], by=onnx.numpy_helper.from_array(X), axes=[1, 2])
    proto = model([node], [value("x", (2, 3))])
    np.testing.assert_array_equal(legato_outputs(proto, {"x": X}, custom={"Plus": plus})[0], X + X)


def test_custom_converters_that_are_wrong() -> None:
    def number(b: Emitter, x: Expr) -> int:
        return 3

    def unknown(b: Emitter, x: Expr, *, n: Nothing = 1) -> Expr:  # type: ignore[name-defined]  # noqa: F821
        return x

    proto = model([helper.make_node("Own", ["x"], ["y"])], [value("x", (2, 3))])
    for function, text in (
        (number, "the converter of Own returned 3, wanted an expression or several"),
        (unknown, "unknown: the annotation of n means nothing: name 'Nothing' is not defined"),
    ):
        with pytest.raises(ImportModelError) as caught:
            from_onnx(proto, custom={"Own": function})
        assert caught.value.message == text


def test_nodes_carry_their_names() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["a"], name="negate"), helper.make_node("Relu", ["a"], ["y"])]
    main = from_onnx(model(nodes, [value("x", (2, 3))]))["main"]
    calls = [n for n in post_order([main]) if isinstance(n, Call)]  # type: ignore[type-var]
    assert [str(c.span) for c in calls] == ["negate", "Op_1 (Relu)"]
    assert main.attrs["output_names"] == ("y",)


def test_outputs_may_be_inputs_constants_and_the_same() -> None:
    proto = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", (2, 3))], ["y", "x", "w", "y"], {"w": X})
    for found, wanted in zip(legato_outputs(proto, {"x": X}), (-X, X, X, -X), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_report(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Nonsense", ["h"], ["s"], name="words"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    proto = model(nodes, [value("x", ("n", 3))], ["y", "s"], {"w": np.ones((3, 5), np.float32)}, producer_name="me")
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    report = check(path)
    assert {name: str(ty) for name, ty in report.inputs.items()} == {"x": "Tensor[(n, 3), float32]"}
    assert {name: str(ty) for name, ty in report.outputs.items()} == {"y": "Tensor[(n, 5), float32]", "s": "None"}
    assert (report.ir_version, dict(report.opsets), report.producer) == (8, {"": 17}, "me")
    assert (report.nodes, report.operators) == (3, {"MatMul": 1, "Nonsense": 1, "Relu": 1})
    assert (report.parameters, report.bytes) == (15, 60)
    assert [str(item) for item in report.unsupported] == [
        "words: ai.onnx.Nonsense of operator set 17: no such operator in Legato"
    ]


def test_shape_arithmetic_becomes_dims() -> None:
    """x (n, 4, h) flattened the way exporters write it: with the product of two dims, through floats, and back."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["c"]),
        helper.make_node("Gather", ["s", "two"], ["h"]),
        helper.make_node("Mul", ["c", "h"], ["ch"]),
        helper.make_node("Cast", ["ch"], ["chi"], to=TensorProto.INT32),
        helper.make_node("Cast", ["chi"], ["chl"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["chl", "zero"], ["u"]),
        helper.make_node("Concat", ["minus", "u"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    weights = {"one": np.array(1), "two": np.array(2), "zero": np.array([0]), "minus": np.array([-1])}
    main = from_onnx(model(nodes, [value("x", ("n", 4, "h"))], weights=weights))["main"]
    assert str(main.body.ty) == "Tensor[(n, h * 4), float32]"
    assert len([n for n in post_order([main]) if isinstance(n, Call)]) == 1  # type: ignore[type-var]


@pytest.mark.parametrize("by_sizes", [True, False])
def test_resizing_by_arithmetic_on_shapes(by_sizes: bool) -> None:
    """Upsampling with dynamic extents, as torch exported it before operator set 11 and after: through floats."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "two", "four", "zero"], ["hw"]),
        helper.make_node("Cast", ["hw"], ["hwf"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["hwf", "factor"], ["scaled"]),
        helper.make_node("Floor", ["scaled"], ["floored"]),
    ]
    if by_sizes:
        nodes += [
            helper.make_node("Cast", ["floored"], ["size"], to=TensorProto.INT64),
            helper.make_node("Slice", ["s", "zero", "two", "zero"], ["nc"]),
            helper.make_node("Concat", ["nc", "size"], ["sizes"], axis=0),
            helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest"),
        ]
    else:
        nodes += [
            helper.make_node("Div", ["floored", "hwf"], ["ratio"]),
            helper.make_node("Concat", ["ones", "ratio"], ["scales"], axis=0),
            helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest"),
        ]
    weights = {
        "zero": np.array([0]),
        "two": np.array([2]),
        "four": np.array([4]),
        "factor": np.array([2.5, 0.6 if by_sizes else 1.5], np.float32),
        "ones": np.ones(2, np.float32),
    }
    proto = model(nodes, [value("x", ("n", 3, "h", "w"))], weights=weights)
    module = from_onnx(proto)
    if by_sizes:
        assert str(module["main"].body.ty) == "Tensor[(n, 3, h * 5 // 2, w * 3 // 5), float32]"
    for height, width in ((4, 10), (23, 81), (51, 161), (69, 12)):  # the second to 6th: a / b * b is less than a
        x = np.random.default_rng(0).standard_normal((1, 3, height, width)).astype(np.float32)
        wanted = ort_outputs(proto, {"x": x})[0]
        assert evaluate(module, [x]).shape == wanted.shape
        if (height, width) == (4, 10):
            np.testing.assert_array_equal(legato_outputs(proto, {"x": x})[0], wanted)
