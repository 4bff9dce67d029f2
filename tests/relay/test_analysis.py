"""Analyses: what each says of small programs whose answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError, VerifyError
from legato.relay import Feature, analysis


def scalar(name: str) -> Any:
    return relay.var(name, "float32")


def test_variables_in_order_of_occurrence() -> None:
    a, b, c, d = (scalar(n) for n in "abcd")
    expr = relay.Function([a], relay.Let(b, a + c, relay.Function([d], b + d)))
    assert analysis.free_vars(expr) == [c]
    assert analysis.bound_vars(expr) == [a, b, d]
    assert analysis.all_vars(expr) == [a, b, c, d]
    assert (analysis.free_vars(a), analysis.bound_vars(a), analysis.all_vars(a)) == ([a], [], [a])


def test_variables_of_patterns_are_bound() -> None:
    text = "def @main(%l: List[int32]) { match (%l) { Cons(%h, %t) => %h, Nil => 0, } }"
    mod = relay.parse('#[version = "0.0.5"]\n' + text)
    names = [v.name_hint for v in analysis.bound_vars(mod["main"])]
    assert names == ["l", "h", "t"]
    assert analysis.free_vars(mod["main"].body) == [mod["main"].params[0]]


def test_post_order_visits_each_node_once_children_first() -> None:
    a = scalar("a")
    shared = relay.tanh(a)
    seen: list[Any] = []
    func = relay.Function([a], shared + shared)
    analysis.post_order_visit(func, seen.append)
    assert [type(n).__name__ for n in seen] == ["Var", "Op", "Op", "Call", "Call", "Function"]
    assert seen[-1] is func
    assert seen[0] is a


def test_well_formed() -> None:
    a, b = scalar("a"), scalar("b")
    assert analysis.well_formed(a + b), "free variables are allowed"
    assert analysis.well_formed(relay.Let(b, a, b))
    assert not analysis.well_formed(relay.Let(b, a, relay.Let(b, a, b))), "bound twice"
    assert not analysis.well_formed(relay.Let(b, a, b) + b), "used outside"
    assert not analysis.well_formed(relay.Function([a, a], a))
    assert analysis.well_formed(relay.IRModule.from_expr(relay.Function([a], relay.Let(b, a, b))))


def test_type_variables() -> None:
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    x, y = relay.var("x", a), relay.var("y", relay.TupleType([b]))
    func = relay.Function([x, y], x, a, [a])
    assert analysis.all_type_vars(func) == [a, b]
    assert analysis.bound_type_vars(func) == [a]
    assert analysis.free_type_vars(func) == [b]
    ty = relay.FuncType([a, b], a, [b])
    assert (analysis.free_type_vars(ty), analysis.bound_type_vars(ty)) == ([a], [b])


def test_kinds() -> None:
    kind = relay.TypeKind
    tensor, a = relay.TensorType((2,)), relay.TypeVar("a")
    shape = relay.TypeVar("s", kind.ShapeVar)
    for ty in (tensor, relay.TupleType([tensor, a]), relay.FuncType([a], a, [a]), relay.RefType(tensor)):
        assert analysis.check_kind(ty) == kind.Type
    assert analysis.check_kind(shape) == kind.ShapeVar
    assert analysis.check_kind(relay.GlobalTypeVar("T")) == kind.AdtHandle
    with pytest.raises(TypeCheckError, match="has kind ShapeVar, wanted Type"):
        analysis.check_kind(relay.TupleType([shape]))
    mod = relay.parse('#[version = "0.0.5"]\ntype Box[A] { In(A), }\ndef @main() { In(1) }')
    box = mod.get_global_type_var("Box")
    assert analysis.check_kind(relay.TypeCall(box, [tensor]), mod) == kind.Type
    assert analysis.check_kind(mod[box], mod) == kind.TypeData
    with pytest.raises(TypeCheckError, match="Box takes 1 arguments, got 2"):
        analysis.check_kind(relay.TypeCall(box, [tensor, tensor]), mod)
    with pytest.raises(TypeCheckError, match="is not a data type"):
        analysis.check_kind(relay.TypeCall(a, [tensor]))
    with pytest.raises(TypeCheckError, match="no data type T"):
        analysis.check_kind(relay.GlobalTypeVar("T"), mod)


def test_features() -> None:
    a, b = scalar("a"), scalar("b")
    detect = analysis.detect_feature
    assert detect(a) == {Feature.fVar}
    assert detect(relay.Let(b, a, b)) == {Feature.fVar, Feature.fLet}
    shared = relay.tanh(a)
    assert detect(shared + shared) == {Feature.fVar, Feature.fCall, Feature.fOp, Feature.fGraph}
    assert Feature.fGraph not in detect(a + a), "atoms may stand in many places"
    loop = relay.var("loop")
    assert Feature.fLetRec in detect(relay.Let(loop, relay.Function([a], relay.Call(loop, [a])), loop))
    assert Feature.fLetRec not in detect(relay.Let(b, a, relay.tanh(b)))
    mod = relay.parse(
        '#[version = "0.0.5"]\ndef @main(%c: bool, %l: List[int32]) {\n'
        "  let %r = ref((1, 2));\n  ref_write(%r, (3, 4));\n"
        "  match? (%l) { Nil => if (%c) { ref_read(%r).0 } else { @length(Cons(1, %l)) } }\n}\n"
    )
    assert detect(mod) | {Feature.fGraph} == set(Feature) - {Feature.fLetRec}
    inner = relay.Function([a], relay.tanh(a), attrs={"Primitive": 1})
    assert Feature.fOp not in detect(relay.Call(inner, [b])), "a primitive function is like an operator"


def test_counts() -> None:
    x, w = relay.var("x", shape=(1, 8, 6, 6)), relay.var("w", shape=(4, 8, 3, 3))
    first = relay.nn.relu(relay.nn.conv2d(x, w))
    second = relay.nn.conv2d(first, relay.var("w2", shape=(4, 4, 1, 1)))
    both = relay.Tuple([second, relay.nn.conv2d(x, relay.var("w3", shape=(2, 8, 1, 1)))])
    mod = relay.IRModule.from_expr(both)
    assert analysis.list_op_freqs(mod) == {"nn.conv2d": 3, "nn.relu": 1}
    assert analysis.count_layers(mod, ["nn.conv2d"]) == analysis.count_layers(both, {"nn.conv2d"}) == 2
    assert analysis.count_layers(both, ["nn.conv2d", "nn.relu"]) == 3
    assert analysis.all_dtypes(both) == {"float32"}


def test_multiplications() -> None:
    count = analysis.get_total_mac_number
    x = relay.var("x", shape=(2, 8, 6, 6))
    grouped = relay.nn.conv2d(x, relay.var("w", shape=(16, 4, 3, 3)), groups=2)
    assert count(grouped) == 2 * 16 * 4 * 4 * (4 * 3 * 3)
    transposed = relay.nn.conv2d_transpose(x, relay.var("w", shape=(8, 4, 3, 3)))
    assert count(transposed) == 2 * 4 * 8 * 8 * (8 * 3 * 3)
    strided = relay.nn.conv2d_transpose(x, relay.var("w", shape=(8, 4, 3, 3)), strides=(2, 2), groups=2)
    assert count(strided) == 2 * 8 * 13 * 13 * (4 * 3 * 3)
    assert count(relay.nn.dense(relay.var("a", shape=(2, 3)), relay.var("b", shape=(5, 3)))) == 2 * 3 * 5
    assert count(relay.nn.batch_matmul(relay.var("a", shape=(7, 2, 3)), relay.var("b", shape=(7, 5, 3)))) == 7 * 30
    n = relay.ShapeVar("n")
    with pytest.raises(TypeCheckError, match="has dims that are not numbers"):
        count(relay.nn.dense(relay.var("a", shape=(n, 3)), relay.var("b", shape=(5, 3))))


def test_what_calls_look_like() -> None:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(3, 5))
    assert analysis.search_fc_transpose(relay.nn.dense(x, relay.transpose(w, [1, 0]))) == ["w"]
    assert analysis.check_constant(relay.Tuple([relay.const(1), relay.const(2)]))
    assert not analysis.check_constant(relay.Tuple([relay.const(1), x]))
    assert analysis.collect_device_info(x) == analysis.collect_device_annotation_ops(x) == {}
    fused = analysis.extract_fused_functions(relay.IRModule.from_expr(relay.tanh(relay.nn.relu(x))))
    assert [sorted(analysis.list_op_freqs(f)) for f in fused.values()] == [["nn.relu", "tanh"]]


def test_basic_blocks() -> None:
    a, cond, v = scalar("a"), relay.var("c", "bool"), relay.var("v")
    shared = relay.tanh(a)
    with pytest.raises(VerifyError, match="is used in several blocks and bound in none"):
        analysis.check_basic_block_normal_form(relay.If(cond, shared, relay.exp(shared)))
    assert analysis.check_basic_block_normal_form(relay.Let(v, shared, relay.If(cond, v, relay.exp(v))))
    assert analysis.check_basic_block_normal_form(shared + shared)


def test_matches_without_their_types_are_refused() -> None:
    header = relay.GlobalTypeVar("T")
    only = relay.Constructor("Only", [], header)
    match = relay.Match(only(), [relay.Clause(relay.PatternConstructor(only), relay.const(1))])
    with pytest.raises(TypeCheckError, match="data type T is not defined"):
        analysis.unmatched_cases(match)


# ------------------------------------------------------------------ functions and values on the way

CALLS = """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) { %0 = nn.relu(%x); let %y = @f(%0 + 1f); (@f(%y), @g(3)) }
def @f(%y: Tensor[(2), float32], Compiler="mine") -> Tensor[(2), float32] { %y + %y }
def @g(%n: int32) -> int32 { if (%n == 0) { 0 } else { @g(%n - 1) } }
"""


def test_call_graph() -> None:
    graph = relay.analysis.CallGraph(relay.parse(CALLS))
    assert [v.name_hint for v in graph["main"]] == ["f", "g"]
    assert [graph.ref_count(v) for v in ("main", "f", "g")] == [0, 1, 2]
    assert [graph.is_recursive(v) for v in ("main", "f", "g")] == [False, False, True]
    assert graph.global_call_count("main") == 2
    assert str(graph).splitlines()[-3:] == ["@main (named by 0)", "  names @f", "  names @g"]
    with pytest.raises(CompileError):
        graph["h"]


def test_calibration_data() -> None:
    mod = relay.parse(CALLS)
    x = np.float32([1, -2])
    found = relay.analysis.get_calibration_data(mod, {"x": x})
    [(function, values)] = found.items()
    assert function.name_hint == "f"
    np.testing.assert_array_equal(values["inputs"][0].numpy(), [4, 2])
    np.testing.assert_array_equal(values["outputs"][0].numpy(), [8, 4])
    with pytest.raises(CompileError, match="no data for x"):
        relay.analysis.get_calibration_data(mod, {})


def test_an_expression_on_the_way() -> None:
    mod = relay.parse("def @main(%x: Tensor[(2, 3), float32]) { nn.softmax(nn.relu(%x) + 1f) }")
    part = relay.analysis.extract_intermdeiate_expr(mod, 1)
    assert relay.analysis.list_op_freqs(part) == {"nn.relu": 1, "add": 1}
    with pytest.raises(CompileError, match="has no expression 3"):
        relay.analysis.extract_intermediate_expr(mod, 3)
    with pytest.raises(AttributeError, match="there is no analysis AnnotatedRegionSet: regions are"):
        relay.analysis.AnnotatedRegionSet  # noqa: B018
