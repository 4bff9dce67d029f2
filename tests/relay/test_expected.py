"""What users of the original expect to work, and works: one test for each."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError, RunError, TypeCheckError, UnsupportedError
from legato.base.target import host
from legato.interp import evaluate
from legato.ir.op import Op
from tests.extension.own_operator import squareplus

TREES = """
type Tree { Leaf, Node(Tree, (int32, Tensor[(2,), float32]), Tree) }
def @main(%t: Tree) -> int32 { match (%t) { Leaf => 0, Node(%l, %x, %r) => @main(%l) + %x.0 + @main(%r) } }
"""


def network() -> relay.IRModule:
    x = relay.var("x", shape=(2, 3))
    weight = relay.const(np.arange(1200, dtype="float32").reshape(400, 3))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, weight))))


# ------------------------------------------------------------------ values of data types


def trees(leaf: Any, node: Any) -> list[tuple[Any, int]]:
    """Values, written as the original's programs write them, and the sums of their numbers."""
    vector = np.ones(2, "float32")
    one = node(leaf(), (np.int32(3), vector), leaf())
    return [(leaf(), 0), (one, 3), (node(one, (np.int32(4), vector), one), 10)]


def runners(module: legato.ir.module.Module) -> dict[str, Callable[[Any], Any]]:
    mod = relay.IRModule(module)
    return {
        "interpreter": lambda value: evaluate(module, [value]),
        "compiled": legato.compile(module),
        "debug": relay.create_executor("debug", mod=mod).evaluate(),
        "vm": relay.create_executor("vm", mod=mod).evaluate(),
    }


def test_constructors_of_a_module_make_values_for_every_way_to_run() -> None:
    module = legato.parse(TREES)
    runs = runners(module)
    (data,) = module.types.values()
    exe = legato.compile(module)
    read_again = legato.parse(module.__str__())
    (again,) = read_again.types.values()
    pairs = [data.constructors, again.constructors, (exe.constructors["Leaf"], exe.constructors["Node"])]
    for leaf, node in pairs:
        for value, total in trees(leaf, node):
            assert {name: int(run(value)) for name, run in runs.items()} == dict.fromkeys(runs, total)


def test_what_computes_something_is_no_value() -> None:
    module = legato.parse(TREES)
    (leaf, node) = next(iter(module.types.values())).constructors
    number = relay.var("n", "int32")
    computed = node(leaf(), relay.Tuple([number, relay.const([1.0, 2.0])]), leaf())
    for run in runners(module).values():
        with pytest.raises(RunError):
            run(computed)
    with pytest.raises(RunError, match="wanted a call of it"):
        evaluate(module, [leaf])


def test_a_long_list_written_as_an_expression_needs_no_stack() -> None:
    module = legato.parse("def @main(%xs: List[int32]) { @foldl(fn (%s: int32, %x: int32) { %s + %x }, 0, %xs) }")
    _, cons, nil = relay.IRModule(module).get_type("List")
    value = nil()
    for n in range(20_000):
        value = relay.Call(cons, [relay.const(n % 7), value])
    want = sum(n % 7 for n in range(20_000))
    assert int(legato.compile(module)(value)) == int(evaluate(module, [value])) == want


# ------------------------------------------------------------------ passes, building, evaluating


def test_a_pass_takes_a_function() -> None:
    func = network()["main"]
    assert str(relay.transform.InferType()(func).ret_type) == "Tensor[(2, 400), float32]"
    both = relay.transform.Sequential([relay.transform.InferType(), relay.transform.ToANormalForm()])
    assert isinstance(both(func).body, relay.Let)
    assert isinstance(relay.transform.InferType()(network().module), relay.IRModule)
    with pytest.raises(CompileError, match="InferType takes a module or a function, got Call"):
        relay.transform.InferType()(func.body)


@pytest.mark.parametrize(
    "target",
    [
        "llvm",
        {"cpu": "llvm"},
        {1: "host"},
        {"kind": "llvm", "keys": ["cpu"]},
        "llvm -keys=cpu",
        "llvm -mcpu=native",
        None,
    ],
)
def test_targets_that_are_this_machine(target: Any) -> None:
    exe = relay.build(network(), target, target_host="llvm")
    assert exe.target == host().name
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(relay.create_executor("vm", network(), "cpu", target).evaluate()(x), exe(x))


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("llvm -mcpu=core-avx2", "x86-64-v3"),
        ({"cpu": "llvm -mcpu=x86-64-v2"}, "x86-64-v2"),
        ({"kind": "llvm", "mcpu": "haswell"}, "x86-64-v3"),
    ],
)
def test_a_processor_says_the_instruction_set(target: Any, name: str) -> None:
    assert relay.build(network(), target).target == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "llvm -mattr=+avx2"}, "target option -mattr cannot be followed"),
        ({"target": "llvm -mcpu=apple-m1"}, "target option -mcpu=apple-m1 cannot be followed"),
        ({"target": "llvm -keys=arm_cpu,cpu"}, "target option -keys=arm_cpu,cpu cannot be followed"),
        ({"target": {"kind": "cuda"}}, "unknown target 'cuda'"),
        ({"target": {"cuda": "llvm"}}, "there is no device 'cuda'"),
        ({"target": {"cpu": "llvm", "gpu": "cuda"}}, "targets for 2 devices"),
        ({"target": 3}, "3 is no target"),
        ({"target_host": "x86-64-v2"}, "target .* with host 'x86-64-v2'"),
        ({"executor": "graph"}, "executor='graph' is none"),
        ({"workspace_memory_pools": []}, "build has no option workspace_memory_pools"),
    ],
)
def test_targets_that_cannot_be_followed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        relay.build(network(), **options)


def test_a_device_is_the_cpu() -> None:
    class Device:
        device_type = 1

    assert relay.create_executor("vm", network(), Device()).target == host()
    with pytest.raises(CompileError, match="there is no device 'cuda'"):
        relay.create_executor("vm", network(), "cuda")


def test_the_name_of_a_module_is_kept() -> None:
    assert 'mod_name="net"' in relay.build(network(), mod_name="net").program.source


def test_an_expression_is_evaluated_beside_main() -> None:
    text = "def @main(%x: int32) -> int32 { if (%x == 0) { 0 } else { @main(%x - 1) + 2 } }"
    mod = relay.parse(text)
    twice = relay.var("x", "int32")
    for kind in ("debug", "vm"):
        executor = relay.create_executor(kind, mod)
        call = relay.Call(mod.get_global_var("main"), [relay.const(3)])
        assert int(executor.evaluate(call)) == 6
        assert int(executor.evaluate(relay.add(call, twice), {twice: relay.const(1)})) == 7
        assert int(executor.evaluate(relay.Function([twice], mod.get_global_var("main")(twice)))(np.int32(2))) == 4
        with pytest.raises(CompileError, match="binds are for the free variables of an expression"):
            executor.evaluate(None, {twice: relay.const(1)})


# ------------------------------------------------------------------ nodes


def test_attributes_are_a_mapping_too() -> None:
    call = relay.nn.conv2d(relay.var("x", shape=(1, 3, 8, 8)), relay.var("w"), channels=4, kernel_size=(3, 3))
    attrs = call.attrs
    assert attrs["kernel_size"] == attrs.kernel_size == attrs.get_int_tuple("kernel_size") == (3, 3)
    assert list(attrs) == list(attrs.keys()) == [*dict(attrs)]
    assert {**attrs, "groups": 2}["groups"] == 2
    assert (attrs.get_int("channels"), attrs.get_str("data_layout"), "groups" in attrs) == (4, "NCHW", True)
    assert "nothing" not in attrs
    with pytest.raises(KeyError, match="there is no attribute 'nothing'"):
        attrs["nothing"]
    for wrong in (attrs.get_int, attrs.get_int_tuple):
        with pytest.raises(TypeCheckError, match="attribute data_layout is 'NCHW', wanted"):
            wrong("data_layout")


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (n, base)
        for base, names in {
            "Expr": "Var GlobalVar Constant Tuple TupleGetItem Let If Call Function Match Constructor RefCreate "
            "RefRead RefWrite Op RelayExpr",
            "Type": "TensorType TupleType FuncType TypeCall TypeVar GlobalTypeVar RefType TypeData IncompleteType",
            "Pattern": "PatternVar PatternWildcard PatternConstructor PatternTuple",
        }.items()
        for n in names.split()
    ],
)
def test_classes_of_nodes_are_subclasses(name: str, base: str) -> None:
    assert issubclass(getattr(relay, name), getattr(relay, base))
    assert not issubclass(getattr(relay, name), {"Expr": relay.Type}.get(base, relay.Expr))


def test_names_of_the_layers_below() -> None:
    n = relay.tir.Var("n", "int64")
    ty = relay.ir.TensorType((n, relay.tir.IntImm("int32", 3)), "float32")
    assert str(ty) == "Tensor[(n, 3), float32]"
    assert isinstance(n, relay.tir.Var)
    assert isinstance(n, relay.tir.SizeVar)
    assert isinstance(relay.add(relay.const(1), relay.const(2)).op, relay.ir.Op)
    assert relay.ir.Op.get("add") is relay.op.get("add")
    assert legato.ir.op.Op is Op, "the compiler's own packages keep their names"
    with pytest.raises(TypeCheckError, match="dim n of dtype float32"):
        relay.tir.Var("n", "float32")


# ------------------------------------------------------------------ copies, text


def test_copies_and_pickles() -> None:
    mod = network()
    for same in (mod.module, mod["main"], mod["main"].body.attrs, relay.TensorType((1, 2)), relay.PatternWildcard()):
        assert copy.deepcopy(same) is copy.copy(same) is same
    for made in (copy.deepcopy(mod), copy.copy(mod), pickle.loads(pickle.dumps(mod))):
        assert relay.structural_equal(made, mod)
        made["other"] = relay.Function([], relay.const(1))
        assert len(mod) == 1
    for node in (mod.module, mod["main"]):
        assert relay.structural_equal(pickle.loads(pickle.dumps(node)), node)
    assert pickle.loads(pickle.dumps(relay.op.get("add"))) is relay.op.get("add")


def test_a_pickled_module_has_operators_of_its_own_and_its_types() -> None:
    text = "def @main(%x: Tensor[(n,), float32]) { my.squareplus(%x) }"
    module = legato.parse(text, ops=[squareplus])
    found = pickle.loads(pickle.dumps(module))
    assert str(found) == str(module)
    x = np.ones(3, "float32")
    np.testing.assert_array_equal(evaluate(found, [x]), evaluate(module, [x]))


def test_show_prints_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    mod = network()
    mod.show()
    mod["main"].show()
    assert capsys.readouterr().out == f"{mod}\n{mod['main']}\n"


@pytest.mark.parametrize(
    "text",
    [
        "fn (%x: float32) { %x + 1f }",
        "def @main(%x: float32) { %x + 1f }",
        "/* a function */ fn (%x: float32) { %x + 1f }",
    ],
)
def test_text_needs_no_version_and_no_name(text: str) -> None:
    want = relay.parse('#[version = "0.0.5"]\ndef @main(%x: float32) { %x + 1f }')
    for found in (
        relay.parse(text),
        relay.fromtext(f'#[version = "0.0.5"]\n{text}'),
        relay.IRModule(legato.parse(text)),
    ):
        assert relay.structural_equal(found, want)


def test_two_bare_functions_are_two_mains() -> None:
    with pytest.raises(CompileError, match="function `@main` is defined twice"):
        relay.parse("fn () { 1 } fn () { 2 }")


# ------------------------------------------------------------------ operators and counts


def test_operators_that_broadcast_under_their_old_names() -> None:
    x, y = relay.var("x", shape=(2, 1)), relay.var("y", shape=(3,))
    assert str(relay.broadcast_add(x, y).checked_type) == "Tensor[(2, 3), float32]"
    for old, new in {"sub": "subtract", "mul": "multiply", "div": "divide", "maximum": "maximum"}.items():
        assert getattr(relay, f"broadcast_{old}")(x, y).op is relay.op.get(new)
        assert relay.parse(f"fn (%x: float32) {{ broadcast_{old}(%x, 2f) }}")["main"].body.op is relay.op.get(new)
    assert relay.broadcast_to(x, (2, 4)).op is relay.op.get("broadcast_to")


def test_frozen_parameters_are_counted() -> None:
    mod, params = relay.testing.mlp.get_workload(batch_size=1)
    frozen = relay.IRModule.from_expr(relay.build_module.bind_params_by_name(mod["main"], params))
    count = sum(v.size for v in params.values())
    for found in (relay.analysis.analyze_relay(mod, params), relay.analysis.analyze_relay(frozen)):
        assert (found["parameters"], found["bytes"]) == (count, 4 * count)
        assert found["operators"]["nn.dense"] == 3
    assert relay.analysis.analyze_relay(mod)["parameters"] == 0


def test_a_dtype_of_an_input_is_the_models_or_refused() -> None:
    from onnx import TensorProto, helper

    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", ports[:1], ports[1:]))
    assert len(relay.frontend.from_onnx(model, dtype={"x": "float32"})[0]) == 1
    for dtype, why in (({"x": "float16"}, "it is float32"), ({"z": "float32"}, "the inputs are x")):
        with pytest.raises(UnsupportedError, match=why):
            relay.frontend.from_onnx(model, dtype=dtype)


def test_hashes_that_take_free_variables_for_each_other() -> None:
    x, y = (relay.exp(relay.var(name, shape=(2,))) for name in ("x", "y"))
    assert relay.structural_hash(x, map_free_vars=True) == relay.structural_hash(y, map_free_vars=True)
    assert relay.structural_hash(x) != relay.structural_hash(y)


# ------------------------------------------------------------------ types, layers


def test_dims_that_are_equal_make_types_equal() -> None:
    n = relay.ShapeVar("n")
    assert relay.TensorType((n + n, n * 3 - n)) == relay.TensorType((2 * n, n + n))


def test_a_data_type_without_parameters_is_called() -> None:
    nat = relay.GlobalTypeVar("nat")
    assert relay.TypeCall(nat, []) == nat() == nat
    assert nat(relay.TensorType(())) == relay.TypeCall(nat, [relay.TensorType(())])
    mod, zero, succ = relay.IRModule(), relay.Constructor("Zero", [], nat), relay.Constructor("Succ", [nat()], nat)
    mod[nat] = relay.TypeData(nat, [], [zero, succ])
    mod["main"] = relay.Function([], succ(zero()), relay.TypeCall(nat, []))
    assert relay.transform.InferType()(mod)["main"].ret_type == nat


@pytest.mark.parametrize(
    ("data", "weight", "layouts"),
    [((1, 4, 6, 6), (4, 2, 3, 3), ("NCHW", "OIHW")), ((1, 6, 6, 4), (3, 3, 4, 2), ("NHWC", "HWOI"))],
)
def test_weights_of_channels_with_several_results(data: Any, weight: Any, layouts: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in (data, weight))
    options = {
        "groups": 4,
        "channels": 8,
        "kernel_size": (3, 3),
        "data_layout": layouts[0],
        "kernel_layout": layouts[1],
    }
    conv = relay.nn.conv2d(relay.var("x", shape=data), relay.var("w", shape=weight), **options)
    got = relay.create_executor("debug", relay.IRModule.from_expr(conv)).evaluate()(x, w)
    last = layouts[0] == "NHWC"
    images, filters = (x.transpose(0, 3, 1, 2), w.transpose(2, 3, 0, 1)) if last else (x, w)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), (2, 3))
    want = np.einsum("nchwyx,cmyx->ncmhw", windows, filters).reshape(1, 8, 4, 4)
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2) if last else got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("scale", "center"), [(True, True), (False, True), (True, False), (False, False)])
def test_batch_norms_of_given_statistics_become_arithmetic(scale: bool, center: bool) -> None:
    names = ("gamma", "beta", "mean", "var")
    x = relay.var("x", shape=(2, 3, 4))
    norm = relay.nn.batch_norm(x, *(relay.var(n, shape=(3,)) for n in names), scale=scale, center=center)[0]
    mod = relay.IRModule.from_expr(norm)
    new = relay.transform.SimplifyInference()(mod)
    assert "nn.batch_norm" not in relay.analysis.list_op_freqs(new)
    rng = np.random.default_rng(0)
    args = [rng.uniform(0.5, 2, shape).astype("float32") for shape in ((2, 3, 4), *[(3,)] * 4)]
    before, after = (relay.create_executor("debug", m).evaluate()(*args) for m in (mod, new))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_a_choice_between_numbers() -> None:
    c = relay.var("c", shape=(3,), dtype="bool")
    y = relay.var("y", shape=(3,))
    assert str(relay.where(c, 1.0, 0.0).checked_type) == "Tensor[(3,), float32]"
    assert str(relay.where(c, y, 0).checked_type) == str(relay.where(c, 0.5, y).checked_type) == "Tensor[(3,), float32]"


def test_both_names_of_the_order_in_which_channels_come_first() -> None:
    x = np.arange(32, dtype="float32").reshape(1, 8, 2, 2)
    results = [
        relay.create_executor(kind, relay.IRModule.from_expr(made)).evaluate()(x)
        for mode in ("CRD", "CDR")
        for made in [relay.nn.depth_to_space(relay.var("x", shape=x.shape), 2, mode=mode)]
        for kind in ("debug", "vm")
    ]
    want = x.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 4)
    for got in results:
        np.testing.assert_array_equal(got, want)
