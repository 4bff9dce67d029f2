"""Sequences of any length whose tensors have several shapes: compiled = interpreted = ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato.base.errors import RunError
from legato.frontend.onnx import check, from_onnx
from legato.interp import evaluate
from tests.frontend.onnx.peer import Array, model, ort_outputs, value
from tests.frontend.onnx.test_control import X, agree, branch, choice, graph, loop, node

P = value("p", (), "int64")
ANY = [value("x", ("n", 4))]
MAKE = [node("Transpose", "x", "t"), node("Exp", "x", "e"), node("SequenceConstruct", "x t e", "s")]


def both_agree(proto: onnx.ModelProto, *cases: Mapping[str, Array]) -> None:
    """Interpreted and compiled, the model gives what ONNX Runtime gives."""
    exe = legato.compile(agree(proto, *cases))
    for feeds in cases:
        found = exe(*(feeds[i.name] for i in exe.inputs))
        for got, want in zip(found if isinstance(found, tuple) else (found,), ort_outputs(proto, feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    assert exe.stats["host_operators"] == 0
    assert exe.leaked == 0


def at(*positions: int, x: Array = X) -> list[dict[str, Array]]:
    return [{"x": x, "p": np.array(p)} for p in positions]


def test_positions() -> None:
    insert = [node("Concat", "x x", "xx", axis=0), node("SequenceInsert", "s xx p", "r")]
    insert += [node("SequenceAt", "r p", "y")]
    erase = [node("SequenceErase", "s p", "r"), node("SequenceAt", "r zero", "y")]
    for nodes in ([node("SequenceAt", "s p", "y")], insert, erase):
        proto = model([*MAKE, *nodes], [*ANY, P], weights={"zero": np.array(0)})
        both_agree(proto, *at(0, 1, 2, -1, -3), *at(1, x=X[:1]))


def test_tensors_of_several_ranks_are_refused() -> None:
    nodes = [node("Flatten", "x", "f", axis=0), node("Shape", "x", "h"), node("Expand", "x h", "g")]
    nodes += [node("Unsqueeze", "x zero", "u"), node("SequenceConstruct", "x u", "s"), node("SequenceAt", "s p", "y")]
    (listed,) = check(model(nodes, [*ANY, P], weights={"zero": np.array([0])})).unsupported
    assert listed.reason == (
        "the sequence: its length, or a position in it, is known only at run time: "
        "its elements cannot be Tensor[(n, 4), float32] and Tensor[(1, n, 4), float32]"
    )


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("new", [0, 1])
@pytest.mark.shared(2)
def test_splits(rank: int, new: int) -> None:
    """How a tensor is split is known at run time; parts may have no elements, and there may be none."""
    split = value("k", ("parts",) if rank else (), "int64")
    nodes = [
        node("SplitToSequence", "x k", "s", axis=0),
        node("SequenceAt", "s p", "y"),
        node("SequenceLength", "s", "n"),
    ]
    sizes = [(3,), (1, 2), (2, 0, 1), (0, 0, 3)] if rank else [1, 2, 3, 7]
    feeds = [{"k": np.array(k, np.int64), **case} for k in sizes for case in at(0, -1)]
    both_agree(model(nodes, [*ANY, P, split], ("y", "n")), *feeds)
    if not new:
        joined = [nodes[0], node("ConcatFromSequence", "s", "y", axis=0)]
        both_agree(model(joined, [*ANY, split]), *({"k": f["k"], "x": X} for f in feeds))


@pytest.mark.parametrize("split", [(1, 1), (4, -1), 0, -2])
def test_splits_that_do_not_fit(split: tuple[int, ...] | int) -> None:
    k = np.array(split, np.int64)
    proto = model([node("SplitToSequence", "x k", "s"), node("SequenceAt", "s p", "y")],
                  [*ANY, P, value("k", ("parts",) * k.ndim, "int64")])  # fmt: skip
    exe = legato.compile(from_onnx(proto))
    with pytest.raises(RunError):
        exe(*({"x": X, "p": np.array(0), "k": k}[i.name] for i in exe.inputs))


def test_splits_into_rows() -> None:
    for keep in (0, 1):
        nodes = [node("SplitToSequence", "x", "s", axis=0, keepdims=keep), node("SequenceAt", "s p", "y")]
        both_agree(model(nodes, [*ANY, P]), *at(0, 2, -1), *at(0, x=X[:1]))


def test_splits_of_symbolic_sizes() -> None:
    nodes = [node("SplitToSequence", "x k", "s", axis=0), node("ConcatFromSequence", "s", "y", axis=0)]
    cases = [{"x": X, "k": np.array(k)} for k in ([1, 2], [0, 3], [3, 0])]
    both_agree(model(nodes, [*ANY, value("k", (2,), "int64")]), *cases)


def test_branches() -> None:
    """One branch gives two tensors of one shape, the other one of another."""
    then = branch([node("SequenceConstruct", "x x", "r")], "r")
    orelse = branch([node("Transpose", "x", "t"), node("SequenceConstruct", "t", "r")], "r")
    nodes = [choice(then, orelse, "s"), node("SequenceAt", "s last", "y"), node("SequenceLength", "s", "n")]
    flag = value("c", (), "bool")
    proto = model(nodes, [*ANY, flag], ("y", "n"), weights={"last": np.array(-1)})
    both_agree(proto, {"x": X, "c": np.array(True)}, {"x": X, "c": np.array(False)})


@pytest.mark.parametrize("new", [0, 1])
def test_loops_that_carry_what_grows(new: int) -> None:
    """Round i puts i + 1 rows into the sequence; or, if they are to be joined along a new axis, one."""
    steps = [node("Add", "i one", "j"), node("Unsqueeze", "j zero", "e")]
    steps += [node("Slice", f"x zero {'e' if not new else 'ones'} zero", "r"), node("SequenceInsert", "a r", "b")]
    body = graph([node("Identity", "c", "d"), *steps], "", "d b")
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    body.input.extend([value("i", (), "int64"), value("c", (), "bool"), helper.make_value_info("a", sequence)])
    nodes = [node("SequenceEmpty", "", "empty"), helper.make_node("Loop", ["p", "", "empty"], ["s"], body=body),
             node("ConcatFromSequence", "s", "y", axis=0, new_axis=new)]  # fmt: skip
    weights = {"one": np.array(1), "zero": np.array([0]), "ones": np.array([1])}
    both_agree(model(nodes, [*ANY, P], weights=weights), *at(1, 2, 3))


def test_loops_that_yield_what_each_round_computes() -> None:
    """Rows from p on, the same number in each round; of no round there are no rows either."""
    steps = [node("Unsqueeze", "p zero", "b"), node("Slice", "x b end zero", "r"), node("Identity", "r", "y")]
    body = graph([node("Identity", "c", "d"), *steps], "", "d y")
    body.input.extend([value("i", (), "int64"), value("c", (), "bool")])
    nodes = [helper.make_node("Loop", ["k", ""], ["y"], body=body)]
    weights = {"zero": np.array([0]), "end": np.array([99])}
    proto = model(nodes, [*ANY, P, value("k", (), "int64")], weights=weights)
    both_agree(proto, *({"k": np.array(3), **case} for case in at(0, 1, 3)))


def test_rounds_that_yield_several_shapes() -> None:
    body = graph([node("Concat", "a a", "b", axis=0)], "i c a", "c b b")
    exe = legato.compile(
        from_onnx(model([loop("p c x", "y ys", body)], [*ANY, P, value("c", (), "bool")], ("y", "ys")))
    )
    feeds = {"x": X, "c": np.array(True), "p": np.array(1)}
    np.testing.assert_array_equal(exe(*(feeds[i.name] for i in exe.inputs))[1], [np.concatenate([X, X])])
    with pytest.raises(RunError):
        exe(*({**feeds, "p": np.array(2)}[i.name] for i in exe.inputs))


def test_maps() -> None:
    body = graph([node("Transpose", "a", "t"), node("Concat", "a a", "u", axis=0)], "a", "t u")
    nodes = [node("SplitToSequence", "x k", "s", axis=0), node("SequenceMap", "s", "t u", body=body),
             node("SequenceAt", "t p", "y"), node("ConcatFromSequence", "u", "z", axis=0)]  # fmt: skip
    module = from_onnx(model(nodes, [*ANY, P, value("k", ("parts",), "int64")], ("y", "z")))
    parts, exe = np.split(X, [1]), legato.compile(module)
    wanted = np.concatenate([np.concatenate([part, part]) for part in parts])
    for p, part in enumerate(parts):
        feeds = {"x": X, "p": np.array(p), "k": np.array([1, 2])}
        for y, z in (evaluate(module, [feeds[v.name] for v in module["main"].params]),
                     exe(*(feeds[i.name] for i in exe.inputs))):  # fmt: skip
            np.testing.assert_array_equal(y, part.T)
            np.testing.assert_array_equal(z, wanted)
