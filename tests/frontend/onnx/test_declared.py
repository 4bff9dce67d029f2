"""What a file declares of the inputs and outputs of bodies and functions is compared with what was made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from legato.base.errors import ImportModelError
from legato.frontend.onnx import check, from_onnx
from tests.frontend.onnx.peer import legato_outputs, model, value

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.arange(3, dtype=np.float32)


def tensor(name: str, code: int = FLOAT, shape: Sequence[int] | None = (3,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, code, shape)


def sequence(name: str, code: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, code, None)


def branches(result: onnx.ValueInfoProto) -> onnx.ModelProto:
    """An If that gives x or -x, the first branch declared as `result`."""
    then = helper.make_graph([helper.make_node("Identity", ["x"], [result.name])], "then", [], [result])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [tensor("e")])
    node = helper.make_node("If", ["c"], ["y"], name="which", then_branch=then, else_branch=other)
    return model([node], [value("x", (3,)), value("c", (), "bool")])


def loop(state: onnx.ValueInfoProto, after: onnx.ValueInfoProto, part: onnx.ValueInfoProto) -> onnx.ModelProto:
    """A Loop that doubles x and yields it."""
    nodes = [
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Add", ["s", "s"], ["a"]),
        helper.make_node("Identity", ["s"], ["p"]),
    ]
    inputs = [tensor("i", INT64, ()), tensor("go", TensorProto.BOOL, ()), state]
    body = helper.make_graph(nodes, "body", inputs, [tensor("on", TensorProto.BOOL, ()), after, part])
    node = helper.make_node("Loop", ["n", "", "x"], ["z", "y"], name="rounds", body=body)
    return model([node], [value("n", (), "int64"), value("x", (3,))], ("z", "y"))


def scan(state: onnx.ValueInfoProto, part: onnx.ValueInfoProto) -> onnx.ModelProto:
    """Sums so far."""
    nodes = [helper.make_node("Add", ["s", "x"], ["a"]), helper.make_node("Identity", ["a"], ["p"])]
    body = helper.make_graph(nodes, "body", [state, tensor("x", shape=())], [tensor("a", shape=()), part])
    node = helper.make_node("Scan", ["first", "xs"], ["z", "y"], name="sums", body=body, num_scan_inputs=1)
    return model([node], [value("first", ()), value("xs", (3,))], ("z", "y"))


def mapped(item: onnx.ValueInfoProto) -> onnx.ModelProto:
    """A SequenceMap."""
    body = helper.make_graph([helper.make_node("Neg", ["s"], ["a"])], "body", [item], [tensor("a", shape=None)])
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["l"]),
        helper.make_node("SequenceMap", ["l"], ["m"], name="each", body=body),
        helper.make_node("SequenceAt", ["m", "n"], ["y"]),
    ]
    return model(nodes, [value("x", (3,)), value("n", (), "int64")])


def called(info: onnx.ValueInfoProto) -> onnx.ModelProto:
    """A function of the model, with what it says of its values."""
    function = helper.make_function("own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                    [helper.make_opsetid("", 17)], value_info=[info])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    node = helper.make_node("Twice", ["x"], ["y"], domain="own", name="call")
    return model([node], [value("x", (3,))], functions=[function], opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (branches(tensor("t", INT64)), "'t' is declared as INT64, but is float32"),
        (branches(sequence("t")), "'t' is declared as a sequence, but is Tensor"),
        (loop(tensor("s", INT64), tensor("a"), tensor("p")), "'s' is declared as INT64"),
        (loop(tensor("s"), tensor("a", INT64), tensor("p")), "'a' is declared as INT64"),
        (loop(tensor("s"), tensor("a"), tensor("p", INT64)), "'p' is declared as INT64"),
        (loop(sequence("s"), tensor("a"), tensor("p")), "'s' is declared as a sequence"),
        (scan(tensor("s", INT64, ()), tensor("p", shape=())), "'s' is declared as INT64"),
        (scan(tensor("s", FLOAT, ()), tensor("p", INT64, ())), "'p' is declared as INT64"),
        (mapped(tensor("s", INT64)), "'s' is declared as INT64"),
        (called(tensor("a", INT64)), "'a' is declared as INT64"),
        (called(tensor("b", INT64)), "'b' is declared as INT64"),
    ],
)
def test_other_types_than_declared(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ImportModelError, match=message) as caught:
        from_onnx(proto)
    assert caught.value.span is not None
    assert caught.value.span.source in ("which", "rounds", "sums", "each", "call")


def test_outputs_that_are_sequences() -> None:
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["l"])]
    for declared, message in ((tensor("l"), "declared as a tensor"), (sequence("l", INT64), "declared as INT64")):
        proto = model(nodes, [value("x", (3,))], ())
        proto.graph.output.append(declared)
        with pytest.raises(ImportModelError, match=message):
            from_onnx(proto)


@pytest.mark.parametrize(
    ("proto", "feeds", "wanted"),
    [
        (branches(tensor("t", shape=(7,))), {"c": np.array(True)}, X),  # extents are not held against a file
        (branches(onnx.ValueInfoProto(name="t")), {"c": np.array(True)}, X),
        (loop(onnx.ValueInfoProto(name="s"), tensor("a"), tensor("p")), {"n": np.array(1)}, 2 * X),
        (called(tensor("a")), {}, 2 * X),
    ],
)
def test_what_is_left_open(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(legato_outputs(proto, {"x": X, **feeds})[0], wanted)


@pytest.mark.parametrize(
    "result",
    [tensor("y", TensorProto.COMPLEX64), helper.make_sparse_tensor_value_info("y", FLOAT, (3,))],
    ids=["complex", "sparse"],
)
def test_a_report_lists_results_of_other_types_than_there_are(result: onnx.ValueInfoProto) -> None:
    proto = model([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Swirl", ["x"], ["z"])], [value("x", (3,))])
    del proto.graph.output[:]
    proto.graph.output.extend([result, onnx.ValueInfoProto(name="z")])
    listed = check(proto).unsupported
    assert {item.operator for item in listed} == {"output", "Swirl"}
    assert any(str(item).startswith("'y'") for item in listed)
