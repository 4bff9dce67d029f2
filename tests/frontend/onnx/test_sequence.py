"""Sequences and optional values as ONNX Runtime has them: of known length, of any length, in branches and loops."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato.base.errors import ImportModelError, RunError
from legato.frontend.onnx import check, from_onnx
from legato.interp import evaluate
from legato.interp.values import Data
from legato.ir.expr import Match
from legato.ir.scope import post_order
from legato.prelude import library
from tests.frontend.onnx.peer import model, ort_outputs, value
from tests.frontend.onnx.test_control import INPUTS, X, agree, branch, choice, graph, node

P = value("p", (), "int64")
THREE = node("SequenceConstruct", "x n e", "s")
MAKE = [node("Neg", "x", "n"), node("Exp", "x", "e"), THREE]


def at(position: int) -> dict[str, np.ndarray]:
    return {"x": X, "p": np.array(position)}


@pytest.mark.parametrize("operator", ["SequenceAt", "SequenceErase", "SequenceInsert"])
@pytest.mark.parametrize("position", [0, 1, -1, -3])
def test_positions(operator: str, position: int) -> None:
    """Known, the sequence stays a tuple; else it is a List, and gives the same."""
    reads = "s x p" if operator == "SequenceInsert" else "s p"
    nodes = [*MAKE, node(operator, reads, "t"), node("ConcatFromSequence", "t", "y", axis=0)]
    if operator == "SequenceAt":
        nodes = [*MAKE, node(operator, reads, "y")]
    known = agree(model(nodes, [value("x", (3, 4))], weights={"p": np.array(position)}), {"x": X})
    assert not any(isinstance(n, Match) for n in post_order(known["main"]))
    proto = model(nodes, [value("x", (3, 4)), P])
    module = from_onnx(proto)
    found = evaluate(module, [at(position)[p.name] for p in module["main"].params])
    np.testing.assert_allclose(found, ort_outputs(proto, at(position))[0], rtol=1e-5)


def test_positions_that_are_not_there() -> None:
    nodes = [*MAKE, node("SequenceAt", "s p", "y")]
    with pytest.raises(ImportModelError, match="position 3 in a sequence of 3 elements"):
        from_onnx(model(nodes, [value("x", (3, 4))], weights={"p": np.array(3)}))
    module = from_onnx(model(nodes, [value("x", (3, 4)), P]))
    exe = legato.compile(module)
    for position in (3, -4):
        with pytest.raises(RunError, match=r"no clause of match at Op_\d+ \(.*\) fits"):
            evaluate(module, [X, np.array(position)])
        with pytest.raises(RunError, match=r"no clause of match at .*SequenceAt.* fits"):
            exe(X, np.array(position))


PAIRS = helper.make_node("SequenceMap", ["s"], ["y"], body=graph([node("SequenceConstruct", "a a", "b")], "a", "b"))


@pytest.mark.parametrize("last", [node("SequenceInsert", "s s", "y"), node("SequenceConstruct", "x s", "y"), PAIRS])
def test_sequences_of_sequences_are_refused(last: onnx.NodeProto) -> None:
    (listed,) = check(model([*MAKE, last], [value("x", (3, 4))])).unsupported
    assert listed.reason == "an input that is not a tensor (take tensors out of a sequence or tuple before)"


def test_splitting_and_joining() -> None:
    for split in (None, np.array(2), np.array([1, 2])):
        weights = {} if split is None else {"k": split}
        parts = node("SplitToSequence", "x" if split is None else "x k", "s", axis=0)
        nodes = [
            parts,
            node("SequenceLength", "s", "y"),
            node("ConcatFromSequence", "s", "z", axis=1 if split is None else 0),
        ]
        agree(model(nodes, [value("x", (3, 4))], ("y", "z"), weights), {"x": X})
    nodes = [
        node("SplitToSequence", "x", "s", axis=0, keepdims=0),
        node("ConcatFromSequence", "s", "y", axis=1, new_axis=1),
    ]
    agree(model(nodes, [value("x", (3, 4))]), {"x": X})


@pytest.mark.parametrize("new", [0, 1])
def test_loops_that_carry_sequences(new: int) -> None:
    steps = [node("Cast", "i", "f", to=1), node("Add", "x f", "y"), node("SequenceInsert", "a y", "b")]
    body = graph([node("Identity", "c", "d"), *steps], "", "d b")
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    body.input.extend([value("i", (), "int64"), value("c", (), "bool"), helper.make_value_info("a", sequence)])
    nodes = [
        node("SequenceEmpty", "", "e"),
        helper.make_node("Loop", ["p", "", "e"], ["s"], body=body),
        node("ConcatFromSequence", "s", "y", axis=1, new_axis=new),
        node("SequenceLength", "s", "n"),
    ]
    proto = model(nodes, [value("x", (3, 4)), P], ("y", "n"))
    module = from_onnx(proto)
    for rounds in (1, 4):
        found = evaluate(module, [at(rounds)[p.name] for p in module["main"].params])
        for got, want in zip(found, ort_outputs(proto, at(rounds)), strict=True):
            np.testing.assert_array_equal(got, want)
    with pytest.raises(RunError, match=r"no clause of match at Op_\d+ \(.*\) fits"):
        evaluate(module, [at(0)[p.name] for p in module["main"].params])


def test_branches_that_give_sequences_of_several_lengths() -> None:
    then = branch([node("SequenceConstruct", "x x", "r")], "r")
    orelse = branch([node("Neg", "x", "n"), node("SequenceConstruct", "n", "r")], "r")
    module = from_onnx(model([choice(then, orelse, "s"), node("SequenceLength", "s", "y")], INPUTS))
    assert [int(evaluate(module, [X, np.array(flag)])) for flag in (True, False)] == [2, 1]


def listed(items: list[np.ndarray]) -> Data:
    (data,) = (d for header, d in library().types.items() if header.name == "List")
    cons, nil = data.constructors
    found = Data(nil, ())
    for item in reversed(items):
        found = Data(cons, (item, found))
    return found


def test_inputs_that_are_sequences() -> None:
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, (3, "n"))
    inputs = [helper.make_value_info("s", helper.make_sequence_type_proto(element)), value("w", (3, 1))]
    body = graph([node("Add", "a b", "t"), node("Mul", "t w", "u")], "a b", "u t")
    nodes = [node("SequenceMap", "s s", "u t", body=body), node("ConcatFromSequence", "u", "y", axis=0)]
    proto, w = model(nodes, inputs, ("y",)), X[:, :1]
    wanted = np.concatenate([2 * X * w, 4 * X * w])
    free, fixed = from_onnx(proto), from_onnx(proto, shapes={"s": [(3, 4), (3, 4)]})
    np.testing.assert_array_equal(evaluate(free, [listed([X, 2 * X]), w]), wanted)
    np.testing.assert_array_equal(evaluate(fixed, [(X, 2 * X), w]), wanted)
    assert str(fixed["main"].params[0].ty) == "(Tensor[(3, 4), float32], Tensor[(3, 4), float32])"
    for shapes, text in (
        ({"s": (3, 4)}, "shapes['s'][0]: got 3, wanted a shape"),
        ({"s": "ab"}, "shapes['s']: got 'ab', wanted a shape for each element of the sequence"),
    ):
        with pytest.raises(ImportModelError) as caught:
            from_onnx(proto, shapes=shapes)
        assert caught.value.message == text


def test_optional_values() -> None:
    then = branch([node("Optional", "x", "o")], "o")
    empty = helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(TensorProto.FLOAT, (3, 4)))
    maybe = choice(then, branch([empty], "o"), "m")
    module = from_onnx(model([maybe, node("OptionalHasElement", "m", "y")], INPUTS, opset=18))
    assert [bool(evaluate(module, [X, np.array(flag)])) for flag in (True, False)] == [True, False]
    module = from_onnx(model([maybe, node("OptionalGetElement", "m", "y")], INPUTS, opset=18))
    np.testing.assert_array_equal(evaluate(module, [X, np.array(True)]), X)
    with pytest.raises(RunError, match=r"no clause of match at .*OptionalGetElement.* fits the value None"):
        evaluate(module, [X, np.array(False)])


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([node("SequenceLength", "x", "y")], "an input of type Tensor[(3, 4), float32], wanted a sequence"),
        ([node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", "y", axis=0)], "a sequence without elements"),
        ([node("SplitToSequence", "x k", "s"), node("SequenceLength", "s", "y")], "parts of extent 0"),
        ([node("SequenceConstruct", "x", "s"), node("ConcatFromSequence", "s", "y", axis=2)], "axis 2 is out of range"),
    ],
)
def test_malformed(nodes: list, text: str) -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(model(nodes, [value("x", (3, 4))], weights={"k": np.array(0)}))
    assert text in caught.value.message


def test_sequences_are_no_tensors() -> None:
    (listed,) = check(model([*MAKE, node("Relu", "s", "y")], [value("x", (3, 4))])).unsupported
    assert "tensor" in listed.reason
