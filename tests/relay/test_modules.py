"""Modules that can be changed, passes and their contexts, running, text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import ArtifactError, CompileError, RunError, TypeCheckError, UnsupportedError, VerifyError


def double() -> Any:
    x = relay.var("x", shape=(2,))
    return relay.Function([x], x + x)


# ------------------------------------------------------------------ modules


def test_functions_are_set_replaced_and_removed() -> None:
    mod = relay.IRModule({"f": double()})
    f = mod.get_global_var("f")
    kept = mod.clone()
    mod["f"] = relay.Function([x := relay.var("x", shape=(2,))], x)
    mod["g"] = relay.const(1)
    assert (mod.get_global_var("f"), [gv.name_hint for gv in mod.get_global_vars()]) == (f, ["f", "g"])
    assert ("f" in mod, f in mod, "h" in mod, len(mod)) == (True, True, False, 2)
    assert isinstance(kept["f"].body, relay.Call), "a copy keeps what it had"
    assert [gv.name for gv, _ in mod.functions_items()] == ["f", "g"]
    del mod["g"]
    assert list(mod) == [f]
    with pytest.raises(VerifyError, match="two functions are called @f"):
        mod[relay.GlobalVar("f")] = double()
    with pytest.raises(CompileError, match="the module has no function @h"):
        mod.get_global_var("h")


def test_update_joins_by_name() -> None:
    a, b = relay.IRModule({"f": double()}), relay.IRModule()
    b["f"] = relay.Function([x := relay.var("x", shape=(2,))], relay.tanh(x))
    b["main"] = relay.Function([y := relay.var("y", shape=(2,))], relay.Call(b.get_global_var("f"), [y]))
    f = a.get_global_var("f")
    a.update(b)
    assert a["main"].body.op == f, "the name means the function that stays"
    run = relay.create_executor("debug", a).evaluate()
    assert run(np.zeros(2, "float32")).tolist() == [0, 0]
    renamed = a.replace_global_vars({"f": "g"})
    assert renamed["main"].body.op.name == "g"
    assert "f" in a


def test_libraries_and_attributes() -> None:
    mod = relay.IRModule()
    mod.import_from_std("nat.rly")
    assert "nat_add" in mod
    header, *constructors = mod.get_type("nat")
    assert header is mod.get_global_type_var("nat")
    assert [c.tag for c in constructors] == [0, 1]
    with pytest.raises(CompileError, match="constructors of the module have tag 0"):
        mod.get_constructor(0)
    alone = relay.parse('#[version = "0.0.5"]\ntype Box { In(int32), }\ndef @main() { In(1) }')
    assert alone.get_constructor(0) is alone.get_type("Box")[1]
    new = mod.with_attr("executor", "graph")
    assert (new.get_attr("executor"), mod.get_attr("executor"), dict(new.without_attr("executor").attrs)) == (
        "graph",
        None,
        {},
    )


def test_free_variables_become_parameters_of_an_expression_only() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = relay.IRModule.from_expr(relay.add(y, x), functions={"f": double()})
    assert [p.name_hint for p in mod["main"].params] == ["y", "x"]
    assert "f" in mod
    with pytest.raises(VerifyError, match="%y, which nothing in it binds"):
        relay.IRModule.from_expr(relay.Function([x], x + y))
    named = relay.IRModule.from_expr(relay.Function([x], x, attrs={"global_symbol": "entry"}))
    assert "entry" in named


def test_bind() -> None:
    x, y, z = (relay.var(n, shape=(2,)) for n in "xyz")
    func = relay.Function([x, y], x + y)
    bound = relay.bind(func, {x: relay.tanh(z)})
    assert list(bound.params) == [y, z]
    assert relay.bind(func, {z: x}) is func
    assert relay.structural_equal(relay.bind(x + y, {x: z}), relay.add(z, y))


# ------------------------------------------------------------------ equality and text


def test_structural_equality() -> None:
    a, b = double(), double()
    assert relay.structural_equal(a, b)
    assert relay.structural_hash(a) == relay.structural_hash(b)
    relay.assert_structural_equal(relay.IRModule.from_expr(a), relay.IRModule.from_expr(b))
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    assert not relay.structural_equal(x, y)
    assert relay.structural_equal(x, y, map_free_vars=True)
    with pytest.raises(VerifyError, match="the two programs differ"):
        relay.assert_structural_equal(relay.tanh(x), relay.exp(x))


def test_text_goes_both_ways() -> None:
    mod = relay.transform.InferType()(relay.IRModule.from_expr(double()))
    assert mod.script() == mod.astext() == relay.astext(mod)
    assert relay.astext(relay.TensorType((2,))) == relay.pretty_print(relay.TensorType((2,))) == "Tensor[(2,), float32]"
    assert "add(%x, %x)" in mod["main"].astext()
    init = relay.parse('#[version = "0.0.5"]\ndef @f(%x: int32) { add(%x, 1) }')
    more = relay.parse('#[version = "0.0.5"]\ndef @main() { @f(2) }', init_module=init)
    assert int(relay.create_executor("debug", more).evaluate()()) == 3
    assert isinstance(relay.parse_expr("fn (%x: int32) { %x }"), relay.Function)
    assert repr(mod) == "<IRModule @main>"
    held = {"relay.Constant": [relay.const([1, 2]), np.array([3, 4], "int32")]}
    meta = "meta[relay.Constant]"
    more = relay.parse(f'#[version = "0.0.5"]\ndef @main() {{ add({meta}[0], {meta}[1]) }}', init_meta_table=held)
    assert relay.create_executor("debug", more).evaluate()().tolist() == [4, 6]
    wide = relay.transform.InferType()(relay.IRModule.from_expr(relay.const(range(1000))))
    assert relay.parse(wide.astext()).astext() == wide.astext()


# ------------------------------------------------------------------ passes


def test_sequences_run_what_the_context_enables() -> None:
    ran: list[str] = []

    def log(name: str, level: int) -> Any:
        @relay.transform.module_pass(opt_level=level, name=name)
        def run(mod: Any, ctx: Any) -> Any:
            ran.append(name)
            return mod

        return run

    passes = relay.transform.Sequential([log("zero", 0), log("two", 2), log("three", 3)])
    mod = relay.IRModule.from_expr(double())
    context = relay.transform.PassContext
    for make, want in (
        (context(), ["zero", "two"]),
        (context(opt_level=3), ["zero", "two", "three"]),
        (context(opt_level=3, disabled_pass=["two"]), ["zero", "three"]),
        (context(opt_level=0, required_pass=["three"]), ["zero", "three"]),
    ):
        ran.clear()
        with make:
            assert context.current() is make
            passes(mod)
        assert ran == want
    assert context.current().opt_level == 2
    with pytest.raises(CompileError, match=r"there is no pass configuration 'tir\.nothing'"):
        context(config={"tir.nothing": 1})
    with pytest.raises(CompileError, match="is an integer, got 'many'"):
        context(config={"relay.FuseOps.max_depth": "many"})
    assert "relay.FuseOps.max_depth" in context.list_configs()


def test_function_passes_are_functions_or_classes_and_infer_types() -> None:
    @relay.transform.function_pass(opt_level=1)
    class Rename:
        def __init__(self, name: str) -> None:
            self.name = name

        def transform_function(self, func: Any, mod: Any, ctx: Any) -> Any:
            x = relay.var("x", shape=(2,))
            return relay.Function([x], relay.Call(relay.op.get(self.name), [x]))

    mod = relay.IRModule({"main": double(), "skipped": double().with_attr("SkipOptimization", 1)})
    change = Rename("tanh")
    assert (change.info.name, change.info.opt_level) == ("Rename", 1)
    new = change(mod)
    assert relay.analysis.list_op_freqs(new) == {"tanh": 1, "add": 1}
    assert str(new["main"].ret_type) == "Tensor[(2,), float32]"
    with pytest.raises(CompileError, match="needs its opt_level"):
        relay.function_pass(lambda func, mod, ctx: func)
    with pytest.raises(CompileError, match="has no method transform_module"):
        relay.module_pass(opt_level=0)(int)


def test_instruments_see_every_pass_and_may_forbid_it() -> None:
    class Watch:
        def __init__(self) -> None:
            self.events: list[str] = []

        def enter_pass_ctx(self) -> None:
            self.events.append("enter")

        def exit_pass_ctx(self) -> None:
            self.events.append("exit")

        def should_run(self, mod: Any, info: Any) -> bool:
            return bool(info.name != "FoldConstant")

        def run_before_pass(self, mod: Any, info: Any) -> None:
            self.events.append(f"before {info.name}")

        def run_after_pass(self, mod: Any, info: Any) -> None:
            self.events.append(f"after {info.name}")

    watch = Watch()
    mod = relay.IRModule.from_expr(relay.tanh(relay.const([1.0])))
    with relay.transform.PassContext(instruments=[watch]):
        new = relay.transform.FoldConstant()(relay.transform.InferType()(mod))
    assert watch.events == ["enter", "before InferType", "after InferType", "exit"]
    assert relay.analysis.list_op_freqs(new) == {"tanh": 1}


@pytest.mark.parametrize("event", ["enter_pass_ctx", "exit_pass_ctx"])
def test_an_instrument_that_fails_leaves_no_context_behind(event: str) -> None:
    def fail() -> None:
        raise RuntimeError(event)

    context = relay.transform.PassContext
    before = context.current()
    with pytest.raises(RuntimeError, match=event), context(instruments=[SimpleNamespace(**{event: fail})]):
        pass
    assert context.current() is before


def test_required_passes_run_first_and_have_to_exist() -> None:
    def same(mod: Any, ctx: Any) -> Any:
        return mod

    mod = relay.IRModule.from_expr(relay.nn.bias_add(relay.var("x", shape=(2, 3)), relay.var("b", shape=(3,))))
    after = relay.module_pass(same, opt_level=0, required=["CanonicalizeOps"])
    assert relay.analysis.list_op_freqs(relay.transform.Sequential([after])(mod)) != {"nn.bias_add": 1}
    for name, why in (
        ("Nothing", "there is no pass Nothing"),
        ("ManifestAlloc", "memory is planned"),
        ("ConvertLayout", "it needs desired_layouts"),
    ):
        with pytest.raises(CompileError, match=why):
            relay.transform.Sequential([relay.module_pass(same, opt_level=0, required=[name])])(mod)


def test_constants_and_dims_are_numbers_that_fit() -> None:
    for make in (relay.const, relay.Constant):
        with pytest.raises(TypeCheckError, match="have different lengths"):
            make([[1], [1, 2]])
    with pytest.raises(TypeCheckError, match="does not fit into int32"):
        relay.const(2**40)
    assert relay.const(2**40, "int64").data == 2**40
    with pytest.raises(TypeCheckError, match="is not a dim"):
        relay.TensorType((float("inf"),))
    with pytest.raises(CompileError):
        relay.build(relay.IRModule.from_expr(relay.const(1)), "")


def test_passes_keep_what_programs_compute(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.const(rng.normal(size=(4, 3, 3, 3)).astype("float32"))
    scale = relay.const(rng.normal(size=(4, 1, 1)).astype("float32"))
    stats = [relay.const(np.abs(rng.normal(size=4)).astype("float32")) for _ in range(4)]
    y = relay.nn.batch_norm(relay.multiply(relay.nn.conv2d(x, w), scale), *stats)[0]
    body = relay.nn.dropout(relay.nn.bias_add(relay.add(relay.tanh(y), relay.tanh(y)), stats[0]))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], body)))
    data = rng.normal(size=(1, 3, 8, 8)).astype("float32")
    want = relay.create_executor("debug", mod).evaluate()(data)
    t = relay.transform
    for p in (t.FoldConstant(), t.EliminateCommonSubexpr(), t.FoldScaleAxis(), t.SimplifyExpr(), t.SimplifyInference(),
              t.CanonicalizeOps(), t.ToANormalForm(), t.ToGraphNormalForm(), t.FuseOps(), t.AnnotateSpans(),
              t.RemoveUnusedFunctions()):  # fmt: skip
        new = p(mod)
        np.testing.assert_allclose(relay.create_executor("debug", new).evaluate()(data), want, rtol=1e-4, atol=1e-5)
    assert "nn.batch_norm" not in relay.analysis.list_op_freqs(t.SimplifyInference()(mod))
    assert relay.analysis.list_op_freqs(t.EliminateCommonSubexpr()(mod))["tanh"] == 1
    narrow = t.ToMixedPrecision("bfloat16")(mod)
    assert "bfloat16" in relay.analysis.all_dtypes(narrow["main"])
    t.Sequential([t.FoldConstant(), relay._passes.PrintIR("here")])(mod)
    assert capsys.readouterr().out.startswith("here\n#[version")


def test_passes_refuse_what_they_cannot_do() -> None:
    with pytest.raises(UnsupportedError, match="mixed precision of float64"):
        relay.transform.ToMixedPrecision("float64")
    with pytest.raises(UnsupportedError, match="fskip"):
        relay.transform.EliminateCommonSubexpr(lambda e: True)


def test_unused_functions_are_left_out() -> None:
    mod = relay.parse('#[version = "0.0.5"]\ndef @a() { 1 }\ndef @b() { @a() }\ndef @c() { 2 }\ndef @main() { @b() }')
    assert [gv.name for gv in relay.transform.RemoveUnusedFunctions()(mod)] == ["a", "b", "main"]
    assert [gv.name for gv in relay.transform.RemoveUnusedFunctions(["c"])(mod)] == ["c"]


def test_the_type_of_an_expression() -> None:
    x = relay.var("x", shape=(2, 3))
    assert str(relay.transform.InferTypeLocal(relay.transpose(x))) == "Tensor[(3, 2), float32]"


# ------------------------------------------------------------------ running


def test_executors() -> None:
    mod = relay.IRModule.from_expr(double())
    one = np.ones(2, "float32")
    for kind in ("debug", "graph", "vm", "aot"):
        executor = relay.create_executor(kind, mod)
        assert executor.evaluate()(one).tolist() == [2, 2]
    debug = relay.create_executor("debug", mod)
    assert debug.evaluate()(x=one).tolist() == [2, 2]
    assert int(debug.evaluate(relay.add(relay.const(1), relay.const(2)))) == 3
    assert debug.evaluate(mod.get_global_var("main"))(one).tolist() == [2, 2]
    v = relay.var("v", "int32")
    assert int(debug.evaluate(relay.add(v, v), {v: relay.const(4)})) == 8
    with pytest.raises(RunError, match="wanted x"):
        debug.evaluate()(y=one)
    with pytest.raises(CompileError, match="there is no executor 'cuda'"):
        relay.create_executor("cuda")


def test_build_and_optimize() -> None:
    mod = relay.IRModule.from_expr(double())
    assert legato.compile(mod)(np.ones(2, "float32")).tolist() == [2, 2]
    assert relay.build(mod, "llvm")(np.ones(2, "float32")).tolist() == [2, 2]
    optimized, params = relay.optimize(mod)
    assert (params, relay.analysis.list_op_freqs(optimized)) == ({}, {"add": 1})
    with pytest.raises(CompileError, match="executor='graph' is none"):
        relay.build(mod, executor="graph")  # type: ignore[arg-type]
    x = relay.var("x", shape=(2,))
    twice = relay.Function([x, relay.var("x", shape=(2,))], x)
    with pytest.raises(CompileError, match="2 parameters are called %x"):
        relay.build_module.bind_params_by_name(twice, {"x": np.ones(2)})


def test_mistakes_of_construction() -> None:
    with pytest.raises(TypeCheckError, match="has a type and a shape"):
        relay.var("x", relay.scalar_type("int32"), shape=(1,))
    with pytest.raises(TypeCheckError, match="'n' is not a dim"):
        relay.TensorType(("n", 2))
    with pytest.raises(TypeCheckError, match="is not a dim"):
        relay.TensorType((-1,))
    with pytest.raises(TypeCheckError, match="a parameter is a variable"):
        relay.Function([relay.const(1)], relay.const(1))
    with pytest.raises(TypeCheckError, match="is not a number"):
        relay.const({"one": 1})
    with pytest.raises(TypeCheckError, match="only calls of operators have attributes"):
        relay.Call(relay.GlobalVar("f"), [], {"axis": 1})
    with pytest.raises(TypeCheckError, match="relations are not types"):
        relay.TypeRelation()
    with pytest.raises(ArtifactError, match="hold no parameters"):
        relay.load_param_dict(b"nothing")


def test_scopes_end_as_they_should() -> None:
    sb = relay.ScopeBuilder()
    with pytest.raises(CompileError, match="the scope has no result"):
        sb.get()
    with pytest.raises(CompileError, match="an else_scope follows no if_scope"), sb.else_scope():
        pass
    sb.ret(relay.const(1))
    with pytest.raises(CompileError, match="has a result already"):
        sb.ret(relay.const(2))
    open_if = relay.ScopeBuilder()
    with open_if.if_scope(relay.const(True)):
        open_if.ret(relay.const(1))
    with pytest.raises(CompileError, match="an if_scope has no else_scope"):
        open_if.get()
    assert open_if.type_of(relay.const(1)) == relay.scalar_type("int32")
