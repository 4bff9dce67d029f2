"""Networks built as Relay's tutorials build them: typed, printed, walked, changed and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError


def mlp(weights_are_turned: bool = False) -> relay.IRModule:
    """dense, add, relu, dense, add: 784 inputs, 256 hidden, 10 outputs."""
    shapes = {"w1": (256, 784), "w2": (10, 256)}
    if weights_are_turned:
        shapes = {name: shape[::-1] for name, shape in shapes.items()}
    x = relay.var("x", shape=(1, 784), dtype="float32")
    w1, w2 = (relay.var(name, shape=shape, dtype="float32") for name, shape in shapes.items())
    b1 = relay.var("b1", shape=(256,), dtype="float32")
    b2 = relay.var("b2", shape=(10,), dtype="float32")
    act = relay.nn.relu(relay.add(relay.nn.dense(x, w1), b1))
    out = relay.add(relay.nn.dense(act, w2), b2)
    return relay.IRModule.from_expr(relay.Function([x, w1, b1, w2, b2], out))


def cnn() -> relay.IRModule:
    """A convolution with relu and pooling, and a dense layer."""
    x = relay.var("x", shape=(1, 3, 32, 32), dtype="float32")
    w_conv = relay.var("w_conv", shape=(16, 3, 3, 3), dtype="float32")
    w_dense = relay.var("w_dense", shape=(10, 4096), dtype="float32")
    b_dense = relay.var("b_dense", shape=(10,), dtype="float32")
    act = relay.nn.relu(relay.nn.conv2d(x, w_conv, kernel_size=(3, 3), padding=(1, 1)))
    flat = relay.nn.batch_flatten(relay.nn.max_pool2d(act, pool_size=(2, 2), strides=(2, 2)))
    out = relay.add(relay.nn.dense(flat, w_dense), b_dense)
    mod = relay.IRModule.from_expr(relay.Function([x, w_conv, w_dense, b_dense], out))
    return relay.transform.InferType()(mod)


def arrays(mod: relay.IRModule, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=p.checked_type.concrete_shape).astype("float32") for p in mod["main"].params]


# ------------------------------------------------------------------ types


def test_types_print_and_compare_by_value() -> None:
    n = relay.ShapeVar("n")
    assert str(relay.TensorType((1, 3, 224, 224), "float32")) == "Tensor[(1, 3, 224, 224), float32]"
    assert str(relay.TensorType((n, 3, 224, 224), "float32")) == "Tensor[(n, 3, 224, 224), float32]"
    parts = relay.TupleType([relay.TensorType((1, 64, 56, 56)), relay.TensorType((64,)), relay.TensorType((64,))])
    assert str(parts) == "(Tensor[(1, 64, 56, 56), float32], Tensor[(64,), float32], Tensor[(64,), float32])"
    assert relay.TensorType((2,), "int8") == relay.TensorType([2], "int8") != relay.TensorType((3,), "int8")


def test_a_convolution_gets_its_type() -> None:
    x = relay.var("x", shape=(1, 3, 224, 224), dtype="float32")
    w = relay.var("w", shape=(64, 3, 7, 7), dtype="float32")
    y = relay.nn.conv2d(x, w, strides=(2, 2), padding=(3, 3))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(y))
    assert str(mod["main"].ret_type) == "Tensor[(1, 64, 112, 112), float32]"
    assert [p.name_hint for p in mod["main"].params] == ["x", "w"]


def test_a_weight_without_a_type_gets_one() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    y = relay.nn.conv2d(x, relay.var("w"), channels=4, kernel_size=(3, 3))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(y))
    assert str(mod["main"].params[1].checked_type) == "Tensor[(4, 3, 3, 3), float32]"


# ------------------------------------------------------------------ the MLP


def test_mlp_is_typed_printed_and_run() -> None:
    mod = relay.transform.InferType()(mlp())
    assert mod.astext(show_meta_data=False) == (
        '#[version = "0.0.5"]\n\n'
        "def @main(%x: Tensor[(1, 784), float32], %w1: Tensor[(256, 784), float32], %b1: Tensor[(256,), float32], "
        "%w2: Tensor[(10, 256), float32], %b2: Tensor[(10,), float32]) -> Tensor[(1, 10), float32] {\n"
        "  %0 = nn.dense(%x, %w1);\n"
        "  %1 = add(%0, %b1);\n"
        "  %2 = nn.relu(%1);\n"
        "  %3 = nn.dense(%2, %w2);\n"
        "  add(%3, %b2)\n"
        "}\n"
    )
    assert str(mod) == mod.astext(show_meta_data=False)
    assert relay.structural_equal(relay.parse(mod.astext()), mod)
    x, w1, b1, w2, b2 = given = arrays(mod)
    want = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
    np.testing.assert_allclose(relay.create_executor("debug", mod).evaluate()(*given), want, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(relay.build(mod)(*given), want, rtol=1e-3, atol=1e-3)


def test_dense_with_a_weight_of_inputs_by_outputs_says_so_in_one_line() -> None:
    mod = mlp(weights_are_turned=True)
    assert "nn.dense(%x, %w1)" in str(mod), "an ill-typed program can be built and printed"
    with pytest.raises(TypeCheckError) as error:
        relay.transform.InferType()(mod)
    assert error.value.message == "nn.dense: the weight (784, 256) is given as (in, out), wanted (out, in)"


def test_an_undefined_name_is_reported() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: float32) { add(%x, %nope) }\n'
    with pytest.raises(CompileError) as error:
        relay.parse(text)
    assert "%nope" in error.value.message
    y = relay.var("y", shape=(2,))
    with pytest.raises(CompileError, match="%y"):
        relay.IRModule()["main"] = relay.Function([], relay.nn.relu(y))


# ------------------------------------------------------------------ let and expression trees


def test_let_names_what_a_tree_writes_again() -> None:
    x = relay.var("x", shape=(1, 784), dtype="float32")
    w = relay.var("w", shape=(256, 784), dtype="float32")
    v0, v1 = relay.var("v0"), relay.var("v1")
    bound = relay.Let(v0, relay.nn.dense(x, w), relay.Let(v1, relay.nn.relu(v0), relay.add(v1, v0)))
    dense = relay.nn.dense(x, w)
    shared = relay.add(relay.nn.relu(dense), dense)
    doubled = relay.add(relay.nn.relu(relay.nn.dense(x, w)), relay.nn.dense(x, w))
    counts = [relay.analysis.list_op_freqs(e)["nn.dense"] for e in (bound, shared, doubled)]
    assert counts == [1, 1, 2], "a node that stands in two places is computed once; only a second node is a second time"
    typed = [relay.transform.InferType()(relay.IRModule.from_expr(e)) for e in (bound, shared, doubled)]
    assert {str(m["main"].ret_type) for m in typed} == {"Tensor[(1, 256), float32]"}
    again = relay.transform.ToGraphNormalForm()(typed[0])
    assert relay.structural_equal(again, typed[1])
    assert relay.Feature.fLet in relay.analysis.detect_feature(relay.transform.ToANormalForm()(typed[1]))


# ------------------------------------------------------------------ the CNN, walked and changed


def test_cnn_has_the_shapes_it_should() -> None:
    assert str(cnn()["main"].ret_type) == "Tensor[(1, 10), float32]"


def test_operators_are_counted() -> None:
    counts: dict[str, int] = {}

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and hasattr(node.op, "name"):
            counts[node.op.name] = counts.get(node.op.name, 0) + 1

    relay.analysis.post_order_visit(cnn()["main"], visit)
    want = {"nn.conv2d": 1, "nn.relu": 1, "nn.max_pool2d": 1, "nn.batch_flatten": 1, "nn.dense": 1, "add": 1}
    assert counts == want == relay.analysis.list_op_freqs(cnn())


class OpCounter(relay.ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.ops: dict[str, int] = {}

    def visit_call(self, call: Any) -> None:
        if isinstance(call.op, relay.op.Op):
            self.ops[call.op.name] = self.ops.get(call.op.name, 0) + 1
        super().visit_call(call)


class ReLUReplacer(relay.ExprMutator):
    def visit_call(self, call: Any) -> Any:
        call = super().visit_call(call)
        if isinstance(call.op, relay.op.Op) and call.op.name == "nn.relu":
            return relay.nn.leaky_relu(call.args[0], alpha=0.01)
        return call


class ShapeAnalyzer(relay.ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[str, list[int]]] = []

    def visit_call(self, call: Any) -> None:
        super().visit_call(call)
        if call.checked_type and isinstance(call.checked_type, relay.TensorType):
            self.shapes.append((call.op.name, [int(d) for d in call.checked_type.shape]))


def test_a_visitor_counts_and_a_mutator_replaces() -> None:
    mod = cnn()
    before, after = OpCounter(), OpCounter()
    before.visit(mod["main"])
    new = ReLUReplacer().visit(mod["main"])
    after.visit(new)
    assert list(before.ops) == ["add", "nn.dense", "nn.batch_flatten", "nn.max_pool2d", "nn.relu", "nn.conv2d"]
    assert "nn.relu" not in after.ops
    assert after.ops["nn.leaky_relu"] == before.ops["nn.relu"] == 1
    assert relay.analysis.list_op_freqs(mod)["nn.relu"] == 1, "the module is as it was"
    typed = relay.transform.InferType()(relay.IRModule.from_expr(new))
    x, *weights = arrays(typed)
    run = relay.create_executor("debug", typed).evaluate()
    assert not np.array_equal(run(x, *weights), relay.create_executor("debug", mod).evaluate()(x, *weights))


def test_shapes_are_read_off_the_types() -> None:
    analyzer = ShapeAnalyzer()
    analyzer.visit(cnn()["main"])
    assert analyzer.shapes == [
        ("nn.conv2d", [1, 16, 32, 32]),
        ("nn.relu", [1, 16, 32, 32]),
        ("nn.max_pool2d", [1, 16, 16, 16]),
        ("nn.batch_flatten", [1, 4096]),
        ("nn.dense", [1, 10]),
        ("add", [1, 10]),
    ]


def test_shapes_of_a_program_without_types_cannot_be_read() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w")
    with pytest.raises(TypeCheckError, match="has no type yet"):
        ShapeAnalyzer().visit(relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3)))


# ------------------------------------------------------------------ symbolic batch


def test_two_layers_with_a_symbolic_batch() -> None:
    n = relay.ShapeVar("n")
    data = relay.var("data", shape=(n, 784))
    w0, b0 = relay.var("w0", shape=(784, 128)), relay.var("b0", shape=(128,))
    w1, b1 = relay.var("w1", shape=(128, 10)), relay.var("b1", shape=(10,))
    lv0 = relay.nn.relu(relay.nn.matmul(data, w0) + b0)
    lv2 = relay.nn.matmul(lv0, w1) + b1
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([data, w0, b0, w1, b1], lv2)))
    assert mod["main"].ret_type.shape[0] is n, "the batch of the result is that of the input, not any"
    assert str(mod["main"].ret_type) == "Tensor[(n, 10), float32]"
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=s).astype("float32") for s in ((784, 128), (128,), (128, 10), (10,))]
    exe = relay.build(mod)
    for batch in (1, 3):
        x = rng.normal(size=(batch, 784)).astype("float32")
        want = np.maximum(x @ weights[0] + weights[1], 0) @ weights[2] + weights[3]
        np.testing.assert_allclose(exe(x, *weights), want, rtol=1e-3, atol=1e-3)
        got = relay.create_executor("debug", mod).evaluate()(x, *weights)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
