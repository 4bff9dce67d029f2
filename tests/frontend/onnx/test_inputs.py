"""The types of inputs: names that are dims, and what the caller says of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import legato
from legato.arith.expr import Var
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import check, from_onnx
from legato.ir.types import TensorType
from tests.frontend.onnx.peer import legato_outputs, model, value


def two(first: tuple[object, ...], second: tuple[object, ...]) -> onnx.ModelProto:
    """Two inputs, each negated."""
    nodes = [helper.make_node("Neg", ["a"], ["p"]), helper.make_node("Neg", ["b"], ["q"])]
    return model(nodes, [value("a", first), value("b", second)], ["p", "q"])  # type: ignore[arg-type]


def types(proto: onnx.ModelProto, **shapes: object) -> list[TensorType]:
    return [p.ty for p in from_onnx(proto, shapes=shapes)["main"].params]  # type: ignore[misc]


def shown(proto: onnx.ModelProto, **shapes: object) -> list[str]:
    return [str(ty) for ty in types(proto, **shapes)]


def test_names_are_dims() -> None:
    a, b = types(two(("n", 3), ("n", "m")))
    assert a.shape[0] is b.shape[0]
    assert str(b) == "Tensor[(n, m), float32]"


def test_placeholders_are_all_different() -> None:
    a, b = types(two(("?", None), ("?", "-1")))
    dims = {*a.shape, *b.shape}
    assert len(dims) == 4
    assert [d.name for d in a.shape if isinstance(d, Var)] == ["a_0", "a_1"]


def test_names_that_are_no_identifiers() -> None:
    assert shown(two(("p2o.Dim.0", 1), ("7 days", 1))) == [
        "Tensor[(p2o_Dim_0, 1), float32]",
        "Tensor[(d7_days, 1), float32]",
    ]


def test_numbers_and_names_of_the_caller() -> None:
    proto = two(("n", "h"), ("n", 8))
    assert shown(proto, a=(4, None)) == ["Tensor[(4, h), float32]", "Tensor[(4, 8), float32]"]
    assert shown(proto, a=("batch", "w")) == ["Tensor[(batch, w), float32]", "Tensor[(batch, 8), float32]"]
    assert shown(proto, b=("n", "h")) == ["Tensor[(n, h), float32]", "Tensor[(n, h), float32]"]


def test_ranges() -> None:
    a, b = types(two(("n", "h"), ("n", "h")), a=("n:1..16", "h: 32 .. "), b=("n", None))
    n, h = a.shape
    assert isinstance(n, Var)
    assert isinstance(h, Var)
    assert (n.lo, n.hi, h.lo, h.hi) == (1, 16, 32, None)
    assert b.shape == a.shape


def test_inputs_without_a_rank() -> None:
    proto = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", None)])
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(proto)
    assert caught.value.details == ("input 'x' has no shape (give one: shapes={'x': (1, 'n', …)})",)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(legato_outputs(proto, {"x": x}, shapes={"x": (2, "n")})[0], -x)


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"c": (1, 2)}, "shapes: the model has no input 'c'"),
        ({"a": (1, 2, 3)}, "shapes['a']: got 3 dimensions, but the model's input has 2"),
        ({"a": "n"}, "shapes['a']: got 'n', wanted one item per dimension"),
        ({"a": (1, -2)}, "shapes['a'][1]: got -2, wanted a number of elements, a name or None"),
        ({"a": (1, 2.5)}, "shapes['a'][1]: got 2.5, wanted a number, a name or None"),
        ({"a": (1, "n:x")}, "shapes['a'][1]: got 'n:x', wanted a name, or a name and its range as in 'h:32..960'"),
        ({"a": (1, None), "b": (2, None)}, "shapes['b'][0]: dim 'n' of the model is both 1 and 2"),
        (
            {"a": (None, "h:1..2"), "b": (None, "h:1..3")},
            "shapes['b'][1]: dim 'h' is given twice, with different ranges",
        ),
    ],
)
def test_faults(shapes: dict[str, object], text: str) -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(two(("n", "h"), ("n", 8)), shapes=shapes)  # type: ignore[arg-type]
    assert caught.value.message == text


def test_what_is_not_a_tensor() -> None:
    sequence = helper.make_tensor_sequence_value_info("x", onnx.TensorProto.FLOAT, None)
    with pytest.raises(UnsupportedError, match="input 'x': the shape of its elements is not declared"):
        from_onnx(model([helper.make_node("Identity", ["x"], ["y"])], [sequence]))


def test_inputs_that_are_not_supported_hide_no_other_faults() -> None:
    text = helper.make_tensor_value_info("t", onnx.TensorProto.COMPLEX64, [2])
    shapeless = value("r", None)
    nodes = [
        helper.make_node("Swirl", ["t"], ["s"], name="words"),
        helper.make_node("Whirl", ["x"], ["u"], name="few"),
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Neg", ["r"], ["m"]),
    ]
    report = check(model(nodes, [text, shapeless, value("x", ("n",))], ["s", "u", "n", "m"]))
    assert list(map(str, report.unsupported)) == [
        "input 't': element type COMPLEX64 (export the model with real and imaginary parts as tensors of floats)",
        "input 'r' has no shape (give one: shapes={'r': (1, 'n', …)})",
        "words: ai.onnx.Swirl of operator set 17: no such operator in Legato",
        "few: ai.onnx.Whirl of operator set 17: no such operator in Legato",
    ]
    assert [(use.operator, use.count, use.is_supported) for use in report.table] == [
        ("Swirl", 1, False), ("Whirl", 1, False), ("Neg", 2, True)
    ]  # fmt: skip
    assert list(report.inputs) == ["x"]
    assert str(report.outputs["n"]) == "Tensor[(n,), float32]"


def test_the_table_lists_what_is_refused_of_domains_that_the_file_does_not_name() -> None:
    nodes = [helper.make_node("BeamSearch", ["x"], ["y"], domain="com.microsoft")]
    (use,) = check(model(nodes, [value("x", (2,))])).table
    assert (use.opset, use.refused, use.is_supported) == (1, 1, False)


def test_sequences_of_one_element_are_named_as_others_are() -> None:
    sequence = helper.make_tensor_sequence_value_info("xs", onnx.TensorProto.FLOAT, None)
    proto = model([helper.make_node("ConcatFromSequence", ["xs"], ["y"], axis=0)], [sequence])
    for count in (1, 2):
        exe = legato.compile(proto, shapes={"xs": [(2,)] * count})
        assert [t.name for t in exe.inputs] == [f"xs.{n}" for n in range(count)]


def test_files_that_onnxruntime_optimised_for_one_processor() -> None:
    nodes = [helper.make_node("ReorderInput", [f"x{n}"], [f"x{n + 1}"], domain="com.microsoft.nchwc") for n in range(9)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft.nchwc", 1)]
    report = check(model(nodes, [value("x0", (1, 8, 4, 4))], ["x9"], opset_imports=opsets))
    assert list(map(str, report.unsupported)) == [
        "Op_0 (ReorderInput): com.microsoft.nchwc.ReorderInput of operator set 1: ONNX Runtime has optimised this file "
        "for one kind of processor: compile the original, or one that it saved with ORT_ENABLE_EXTENDED at most"
    ]
