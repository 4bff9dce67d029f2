"""Passes under Relax's names: what each makes of a program, and that it means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato import relax, te
from legato.base.errors import CompileError, UnsupportedError
from legato.interp import evaluate
from legato.ir.expr import Call, Constant, Dataflow, Function, Let
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.verify import verify
from legato.relax import transform as T
from legato.relay import IRModule
from legato.script import parse
from legato.tir.stmt import Func

TEXT = """
@I.ir_module
class Module:
    @R.function(private=True)
    def scaled(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
        return x * R.const(2.0, "float32")

    @R.function(private=True)
    def never(x: R.Tensor(("n", 4), "float32")):
        return x

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        cls = Module
        with R.dataflow():
            c = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
            same = x
            dead = R.exp(x)
            a = R.tanh(same)
            b = R.tanh(x)
            p = R.matmul(a, w)
            q = R.nn.softmax(p + b * c)
            flat = R.reshape(R.nn.dropout(q)[0], (-1, 2))
            R.output(q, flat)
        z = cls.scaled(q, q)
        return (z, flat)
"""
MOD = parse(TEXT)
X, W = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((3, 4), (4, 4)))
WANTED = evaluate(MOD, [X, W])
PASSES = [
    T.Normalize(), T.CanonicalizeBindings(), T.ToNonDataflow(), T.ConvertToDataflow(), T.FoldConstant(),
    T.EliminateCommonSubexpr(), T.DeadCodeElimination(), T.RemoveRedundantReshape(), T.DecomposeOpsForInference(),
    T.FoldBatchnormToConv2D(), T.LambdaLift(), T.InlinePrivateFunctions(), T.RemoveUnusedParameters(),
    T.LegalizeOps(), T.FuseOps(), T.RewriteDataflowReshape(), T.AttachGlobalSymbol(), T.StaticPlanBlockMemory(),
    T.BindSymbolicVars({"n": 3}), relax.get_pipeline("zero"),
    T.Sequential([T.LegalizeOps(), T.AnnotateTIROpPattern(), T.FoldConstant(), T.FuseOps(), T.FuseTIR(),
                  T.DeadCodeElimination(), T.RewriteDataflowReshape(), T.ToNonDataflow(), T.RemovePurityChecking(),
                  T.CallTIRRewrite(), T.StaticPlanBlockMemory()]),
    T.CombineParallelMatmul(),
]  # fmt: skip


def _calls(mod: Module) -> list[str]:
    nodes = (n for _, f in mod.graph_functions() for n in post_order(f))
    return [n.op.name for n in nodes if isinstance(n, Call) and isinstance(n.op, Op)]


def _has(mod: Module, kind: type) -> bool:
    return any(isinstance(n, kind) for _, f in mod.graph_functions() for n in post_order(f))


def _agrees(mod: Module, *args: Any) -> bool:
    found = evaluate(mod, args or [X, W])
    return all(np.allclose(g, w, rtol=1e-5) for g, w in zip(found, WANTED, strict=True))


@pytest.mark.parametrize("n", range(len(PASSES)))
def test_the_meaning_stays(n: int) -> None:
    new = PASSES[n](MOD)
    verify(new)
    assert isinstance(new, Module)
    assert _agrees(new)


def test_compiled_pipelines_agree() -> None:
    for n in (13, 19, 20):
        found: Any = legato.compile(PASSES[n](MOD))(X, W)
        assert all(np.allclose(g, w, rtol=1e-5) for g, w in zip(found, WANTED, strict=True))


def test_what_each_does() -> None:
    calls = _calls(MOD)
    assert calls.count("tanh") == 2
    assert _calls(T.EliminateCommonSubexpr()(MOD)).count("tanh") == 1
    assert "exp" not in _calls(T.DeadCodeElimination()(MOD))
    assert [gv.name for gv in T.DeadCodeElimination()(MOD).functions] == ["scaled", "main"]
    assert [gv.name for gv in T.InlinePrivateFunctions()(MOD).functions] == ["main"]
    assert "nn.dropout" not in _calls(T.DecomposeOpsForInference()(MOD))
    folded = T.FoldConstant()(MOD)
    assert 3.0 in [n.data for _, f in folded.graph_functions() for n in post_order(f) if isinstance(n, Constant)]
    assert not _has(T.ToNonDataflow()(MOD), Dataflow)
    assert _has(T.ConvertToDataflow()(T.ToNonDataflow()(MOD)), Dataflow)
    assert _has(folded, Dataflow), "blocks are there again"
    scaled = T.RemoveUnusedParameters()(MOD)["scaled"]
    assert isinstance(scaled, Function)
    assert [p.name for p in scaled.params] == ["x"]
    legal = T.LegalizeOps()(MOD)
    assert set(_calls(legal)) == {"call_tir"}
    assert "reshape" in _calls(T.RewriteDataflowReshape()(legal))
    assert _has(T.FuseTIR()(T.FuseOps()(MOD)), Let)
    fused = T.Sequential([T.LegalizeOps(), T.FuseOps(), T.FuseTIR()])(MOD)  # in Relax's order
    assert "fused_matmul_tanh_multiply_add1" in fused
    assert sum(isinstance(f, Func) for f in T.FuseTIR()(T.FuseOps()(MOD)).functions.values()) > 2


def test_parameters_and_dims_are_bound() -> None:
    bound = T.BindParams("main", {"w": W})(MOD)
    assert _agrees(bound, X)
    n = next(iter(MOD["main"].type_params))  # type: ignore[union-attr]
    for mapping in ({"n": 3}, {n: 3}, {n: te.var("m")}):
        assert _agrees(T.BindSymbolicVars(mapping, "main")(MOD))
    static = T.BindSymbolicVars({"n": 3}, "main")(MOD)["main"]
    assert isinstance(static, Function)
    assert static.params[0].ty == relax.TensorType((3, 4))
    both = T.BindParams("main", {MOD["main"].params[0]: X, "w": W})(MOD)  # type: ignore[union-attr]
    assert all(np.allclose(g, w, rtol=1e-5) for g, w in zip(evaluate(both, []), WANTED, strict=True))
    for params, message in (({"q": W}, "0 parameters of @main are called q"), ({"w": X}, "a value of shape")):
        with pytest.raises(CompileError, match=message):
            T.BindParams("main", params)(MOD)
    with pytest.raises(CompileError, match="no parameter of main has the dim k"):
        T.BindSymbolicVars({"k": 3}, "main")(MOD)


def test_operators_become_what_a_rule_says() -> None:
    def tanh(bb: relax.BlockBuilder, call: Call) -> Call:
        return bb.call_te(lambda x: te.compute(x.shape, lambda *i: te.tanh(x[i]) * 1.0), call.args[0],
                          primfunc_name_hint="my_tanh")  # fmt: skip

    mod = T.LegalizeOps({"relax.tanh": tanh}, skip_ops=["matmul"])(MOD)
    assert "my_tanh" in mod
    assert {"matmul", "call_tir"} <= set(_calls(mod))
    assert _agrees(mod)
    with pytest.raises(CompileError, match="no operator 'tahn'"):
        T.LegalizeOps({"tahn": tanh})


def test_passes_of_users() -> None:
    seen: list[str] = []

    @T.function_pass(opt_level=0)
    def doubled(func: Function, mod: IRModule, context: T.PassContext) -> Function:
        seen.append(func.params[0].name)
        return func

    @T.module_pass(opt_level=1, name="only-main")
    def only_main(mod: IRModule, context: T.PassContext) -> IRModule:
        return IRModule({"main": mod["main"]})

    kept = T.InlinePrivateFunctions()(MOD)
    assert _agrees(T.Sequential([doubled, only_main])(kept))
    assert seen == ["x"]
    assert isinstance(T.Normalize()(IRModule(MOD)), IRModule)
    with T.PassContext(opt_level=0):
        assert T.Sequential([only_main])(MOD) is MOD


def test_required_passes_run_first_and_have_to_exist() -> None:
    def same(mod: IRModule, context: T.PassContext) -> Module:
        return mod.module

    after = T.module_pass(same, opt_level=0, required=["LegalizeOps"])
    assert "call_tir" in _calls(T.Sequential([after])(MOD))
    for name, why in (("Nothing", "there is no pass Nothing"), ("ConvertLayout", "layout is a fact of buffers")):
        with pytest.raises(CompileError, match=why):
            T.Sequential([T.module_pass(same, opt_level=0, required=[name])])(MOD)


def test_the_configuration_limits_groups() -> None:
    with T.PassContext(config={"relax.FuseOps.max_depth": 1}):
        each = T.FuseTIR()(T.FuseOps()(MOD))
    assert len(each.functions) > len(T.FuseTIR()(T.FuseOps()(MOD)).functions)
    assert T.FuseOps(0)(MOD) is MOD


def test_what_there_is_not_says_why() -> None:
    for name, why in (("ConvertLayout", "lowering decides"), ("Gradient", "legato.grad"),
                      ("FuseOpsByPattern", "a pattern of relax.dpl"), ("TopologicalSort", "not yet")):  # fmt: skip
        with pytest.raises(UnsupportedError, match=why):
            getattr(T, name)()
    with pytest.raises(AttributeError, match="no pass FuseOp"):
        T.FuseOp  # noqa: B018
    with pytest.raises(UnsupportedError, match="results of float16"):
        T.ToMixedPrecision("float16")
    with pytest.raises(CompileError, match="no pipeline 'one'"):
        relax.get_pipeline("one")
    with pytest.raises(CompileError, match="in all functions"):
        T.DecomposeOpsForInference("main")


def test_parallel_products_are_combined() -> None:
    b = relax.BlockBuilder()
    x, q, k = (relax.Var(name, relax.TensorStructInfo(shape, "float32"))
               for name, shape in (("x", (2, 3, 4)), ("q", (4, 5)), ("k", (4, 6))))  # fmt: skip
    with b.function("main", [x, q, k]):
        with b.dataflow():
            products = [b.emit(relax.op.nn.relu(b.emit(relax.op.matmul(x, w)))) for w in (q, k)]
            out = b.emit_output(relax.Tuple(products))
        b.emit_func_output(out)
    old = b.get()
    new = T.CombineParallelMatmul()(old)
    assert (_calls(old).count("matmul"), _calls(new).count("matmul")) == (2, 1)
    assert _has(new, Dataflow)
    args = [np.random.default_rng(0).standard_normal(s, np.float32) for s in ((2, 3, 4), (4, 5), (4, 6))]
    for got, want in zip(evaluate(new, args), evaluate(old, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    with pytest.raises(UnsupportedError, match="a check of which products"):
        T.CombineParallelMatmul(lambda *_: True)
