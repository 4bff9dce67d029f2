"""The order of nodes, names, nesting: what a graph must be, and that nothing deep or wide breaks the import."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from legato.base.errors import ImportModelError
from legato.frontend.onnx import check, from_onnx
from legato.frontend.onnx.importer import MAX_NODES
from legato.interp import evaluate
from tests.frontend.onnx.peer import legato_outputs, model, value

X = np.arange(4, dtype=np.float32)


def fault(proto: onnx.ModelProto) -> str:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(proto)
    return str(caught.value)


def node(operator: str, reads: str, makes: str, **more: object) -> onnx.NodeProto:
    return helper.make_node(operator, reads.split(), makes.split(), name=makes + "_node", **more)


def test_nodes_in_any_order() -> None:
    nodes = [node("Neg", f"v{n}", f"v{n + 1}") for n in range(200)]
    random.Random(0).shuffle(nodes)
    proto = model([*nodes, node("Identity", "v200", "y")], [value("v0", (4,))])
    np.testing.assert_array_equal(legato_outputs(proto, {"v0": X})[0], X)


def test_cycles() -> None:
    nodes = [node("Add", "x c", "a"), node("Neg", "a", "b"), node("Neg", "b", "c"), node("Neg", "c", "y")]
    assert fault(model(nodes, [value("x", (4,))])) == (
        "import error: the model: nodes form a cycle: b_node → c_node → a_node → b_node"
    )
    unnamed = helper.make_node("Neg", ["y"], ["y"])
    assert fault(model([unnamed], [value("x", (4,))])) == (
        "import error: the model: nodes form a cycle: Op_0 (Neg) → Op_0 (Neg)"
    )


def test_names() -> None:
    x = value("x", (4,))
    assert fault(model([node("Neg", "z", "y")], [x])) == (
        "import error: the model: y_node reads 'z', which nothing defines"
    )
    assert fault(model([node("Neg", "x", "y")], [x], ["w"])) == (
        "import error: the model: the output 'w' is defined by nothing"
    )
    twice = [node("Neg", "x", "y"), helper.make_node("Abs", ["x"], ["y"], name="again")]
    assert fault(model(twice, [x])) == "import error: the model: 'y' is defined twice, by y_node and by again"
    assert fault(model([node("Neg", "x", "x")], [x], ["x"])) == (
        "import error: the model: x_node defines 'x', which is an input or initializer already"
    )
    assert fault(model([node("Neg", "x", "y")], [x, x])) == "import error: the model: input 'x' is defined twice"
    assert fault(model([node("Neg", "x", "y")], [x], [])) == "import error: the model: the graph has no output"


def test_what_no_output_needs_is_left_out() -> None:
    nodes = [node("Neg", "x", "y"), node("Unheard", "x", "z")]
    assert check(model(nodes, [value("x", (4,))])).unsupported == ()


def test_absurd_shapes() -> None:
    big = 1 << 20
    assert fault(model([node("Neg", "x", "y")], [value("x", (big, big))])) == (
        "import error: input 'x': shape (1048576, 1048576) has 1099511627776 elements; at most 68719476736 are accepted"
    )
    shape = {"s": np.array([big, big])}
    grown = fault(model([node("Expand", "x s", "y")], [value("x", (1,))], weights=shape))
    assert grown == (
        "import error: 'y': shape (1048576, 1048576) has 1099511627776 elements; at most 68719476736 are accepted\n"
        "  at y_node"
    )
    symbolic = fault(model([node("Expand", "x s", "y")], [value("x", ("n", 1, 1))], weights=shape))
    assert symbolic.startswith("import error: 'y': shape Tensor[(n, 1048576, 1048576), float32] has more than")


# ------------------------------------------------------------------ local functions


def function(
    name: str, reads: list[str], makes: list[str], nodes: list[onnx.NodeProto], **more: object
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, reads, makes, nodes, opsets, **more)


def with_functions(call: onnx.NodeProto, functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return model([call], [value("x", (4,))], functions=functions, opset_imports=opsets)


def call(name: str, reads: list[str], makes: list[str], **more: object) -> onnx.NodeProto:
    return helper.make_node(name, reads, makes, domain="local", **more)


def test_local_functions_with_attributes() -> None:
    leak = helper.make_node("LeakyRelu", ["a"], ["b"])
    leak.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    inner = function("leak", ["a"], ["b"], [leak], attributes=["slope"])
    pair = function(
        "pair", ["a"], ["n", "l"], [helper.make_node("Neg", ["a"], ["n"]), call("leak", ["n"], ["l"], slope=0.5)]
    )
    proto = with_functions(call("pair", ["x"], ["", "y"]), [inner, pair])
    np.testing.assert_array_equal(legato_outputs(proto, {"x": X})[0], -0.5 * X)


def test_deep_chains_of_functions() -> None:
    last = function("f0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])])
    chain = [function(f"f{n}", ["a"], ["b"], [call(f"f{n - 1}", ["a"], ["b"])]) for n in range(1, 3000)]
    np.testing.assert_array_equal(
        legato_outputs(with_functions(call("f2999", ["x"], ["y"]), [last, *chain]), {"x": X})[0], -X
    )


def test_functions_that_call_themselves() -> None:
    one = function("one", ["a"], ["b"], [call("two", ["a"], ["b"])])
    two = function("two", ["a"], ["b"], [call("one", ["a"], ["b"])])
    assert "local function one calls itself" in fault(with_functions(call("one", ["x"], ["y"]), [one, two]))


def test_functions_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legato.frontend.onnx.importer.MAX_NODES", 2000)
    assert MAX_NODES == 100_000
    last = function("f0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])])
    bomb = [
        function(f"f{n}", ["a"], ["c"], [call(f"f{n - 1}", ["a"], ["b"]), call(f"f{n - 1}", ["b"], ["c"])])
        for n in range(1, 40)
    ]
    assert fault(with_functions(call("f39", ["x"], ["y"]), [last, *bomb])) == (
        "import error: the model: local functions and loops expand to over 2000 nodes"
    )


# ------------------------------------------------------------------ If with a known condition


def branch(operator: str) -> onnx.GraphProto:
    return helper.make_graph([helper.make_node(operator, ["x"], ["r"])], "b", [], [onnx.ValueInfoProto(name="r")])


@pytest.mark.parametrize("chosen", [True, False])
def test_branches(chosen: bool) -> None:
    taken = helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    proto = model([taken], [value("x", (4,))], weights={"c": np.array(chosen)})
    np.testing.assert_array_equal(legato_outputs(proto, {"x": X})[0], -X if chosen else X)


def test_branches_by_shape() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "d"),
        node("Equal", "d four", "c"),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")),
    ]
    weights = {"zero": np.array(0), "four": np.array(4)}
    np.testing.assert_array_equal(legato_outputs(model(nodes, [value("x", (4,))], weights=weights), {"x": X})[0], -X)


def test_files_of_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legato.frontend.onnx.importer.MAX_NODES", 2)
    chain = [node("Neg", "x", "a"), node("Neg", "a", "b"), node("Neg", "b", "y")]
    assert fault(model(chain, [value("x", (4,))])) == "import error: the model: 3 nodes; at most 2 are accepted"


def test_long_chains() -> None:
    count = 20_000
    proto = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    proto.graph.input.append(value("v0", (4,)))
    proto.graph.output.append(onnx.ValueInfoProto(name=f"v{count}"))
    for n in range(count):
        proto.graph.node.add(op_type="Neg", input=[f"v{n}"], output=[f"v{n + 1}"])
    np.testing.assert_array_equal(evaluate(from_onnx(proto), [X]), X)


def test_initializers_that_are_inputs_are_constants() -> None:
    proto = model([node("Add", "x w", "y")], [value("x", (4,)), value("w", (4,))], weights={"w": X})
    assert [param.name for param in from_onnx(proto)["main"].params] == ["x"]
    np.testing.assert_array_equal(legato_outputs(proto, {"x": X})[0], 2 * X)


def test_weights_that_cannot_be_read_matter_only_where_they_are_used() -> None:
    text = TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])
    proto = model([node("Neg", "x", "y")], [value("x", (4,))])
    proto.graph.initializer.append(text)
    assert check(proto).unsupported == ()
