"""Visitors and mutators under Relax's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from legato import relax, te
from legato.base.errors import TypeCheckError
from legato.infer.infer import infer, infer_function
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Constant, Function, Tuple, Var
from legato.ir.module import Module
from legato.relax import expr_functor
from legato.script import parse
from tests.programs.settings import examples
from tests.programs.strategy import programs
from tests.programs.values import same

MOD = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            d = R.add(b, a)
            R.output(b, d)
        if c:
            e = R.nn.relu(d)
        else:
            e = R.nn.relu(R.negative(d))
        f = R.match_cast(e, R.Tensor(("m", 4), "float32"))
        return (f, b)
""")
X = np.random.default_rng(0).standard_normal((3, 4), np.float32)


@expr_functor.visitor
class Log(relax.PyExprVisitor):
    """Writes down what is visited."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def visit_call_(self, op: Call) -> None:
        super().visit_call_(op)
        self.seen.append(op.op.name)  # type: ignore[attr-defined]

    def visit_var_(self, op: Var) -> None:
        self.seen.append(op.name)

    def visit_dataflow_var_(self, op: Var) -> None:
        self.seen.append(f"%{op.name}")

    def visit_var_def_(self, var: Var) -> None:
        self.seen.append(f"{var.name}=")

    def visit_dataflow_var_def_(self, var: Var) -> None:
        self.seen.append(f"%{var.name}=")

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> None:
        self.seen.append("{")
        super().visit_dataflow_block_(block)
        self.seen.append("}")

    def visit_match_cast_(self, binding: relax.MatchCast) -> None:
        super().visit_match_cast_(binding)
        self.seen.append(f"cast {binding.struct_info}")


def test_a_visitor_sees_blocks_and_bindings_in_order() -> None:
    log = Log()
    log.visit_expr(MOD["main"])  # type: ignore[arg-type]
    assert " ".join(log.seen) == (
        "x= c= { x exp %a= %a nn.relu b= b %a add d= } c d nn.relu d negative nn.relu e= e f= "
        "cast Tensor[(m, 4), float32] f b"
    )


def test_views_are_the_same_program() -> None:
    main = MOD["main"]
    assert isinstance(main, Function)
    seq = relax.seq_of(main.body)
    assert [type(b).__name__ for b in seq.blocks] == ["DataflowBlock", "BindingBlock"]
    again = infer_function(Function(main.params, seq.to_expr(), type_params=main.type_params))
    assert alpha_equal(again, main)


@expr_functor.mutator
class ReluToTanh(relax.PyExprMutator):
    """Every relu is the tanh of half, which is bound before."""

    def visit_call_(self, op: Call) -> Any:
        call = super().visit_call_(op)
        if getattr(call.op, "name", "") != "nn.relu":
            return call
        return relax.op.tanh(self.builder_.emit(call.args[0] * relax.const(0.5)))

    def transform(self) -> Module:
        for gv, func in MOD.graph_functions():
            self.builder_.update_func(gv, self.visit_expr(func))
        return self.builder_.get()


def test_a_mutator_emits_before_what_it_rewrites() -> None:
    new = ReluToTanh(MOD).transform()
    assert alpha_equal(new, parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.exp(x)
            h = a * R.const(0.5)
            b = R.tanh(h)
            d = R.add(b, a)
            R.output(b, d)
        if c:
            g1 = d * R.const(0.5)
            e = R.tanh(g1)
        else:
            g2 = R.negative(d) * R.const(0.5)
            e = R.tanh(g2)
        f = R.match_cast(e, R.Tensor(("m", 4), "float32"))
        return (f, b)
"""))  # fmt: skip


def test_a_mutator_may_change_types_and_call_tensor_programs() -> None:
    def doubled(x: Any) -> Any:
        return te.compute((x.shape[0] * 2, x.shape[1]), lambda i, j: x[i // 2, j])

    class Doubled(relax.PyExprMutator):
        def visit_call_(self, op: Call) -> Any:
            call = super().visit_call_(op)
            return self.builder_.call_te(doubled, call) if getattr(op.op, "name", "") == "exp" else call

    mutator = Doubled(MOD)
    mutator.builder_.update_func(MOD.var("main"), mutator.visit_expr(MOD["main"]))  # type: ignore[arg-type]
    found = evaluate(mutator.builder_.get(), [X, np.asarray(True)])
    wanted = np.repeat(np.exp(X), 2, axis=0)
    np.testing.assert_allclose(found[0], 2 * wanted, rtol=1e-6)
    np.testing.assert_allclose(found[1], wanted, rtol=1e-6)


@examples(15)
@given(programs())
def test_what_does_not_change_is_the_same(program: Any) -> None:
    mod = infer(program.module)
    mutator = relax.PyExprMutator(mod)
    for _, func in mod.graph_functions():
        assert mutator.visit_expr(func) is func


class Fresh(relax.PyExprMutator):
    """Rebuilds everything: constants are new nodes."""

    def visit_constant_(self, op: Constant) -> Any:
        return relax.Constant(op.data)


@examples(15)
@given(programs())
def test_rebuilt_programs_mean_the_same(program: Any) -> None:
    mod = infer(program.module)
    mutator = Fresh(mod)
    for gv, func in mod.graph_functions():
        mutator.builder_.update_func(gv, mutator.visit_expr(func))
    assert same(evaluate(mutator.builder_.get(), program.args), evaluate(mod, program.args))


def test_depth_and_sharing() -> None:
    x = relax.Var("x", relax.TensorType((2,)))
    deep: Any = x
    for _ in range(3000):
        deep = relax.op.add(deep, deep)
    func = infer_function(Function((x,), Tuple((deep, deep))))
    count = Log()
    count.visit_expr(func)
    assert count.seen.count("add") == 3000
    assert relax.PyExprMutator().visit_expr(func) is func


def test_what_is_no_expression() -> None:
    with pytest.raises(TypeCheckError, match="visited a int"):
        Log().visit_expr(1)  # type: ignore[arg-type]


def test_a_functor_asks_for_its_methods() -> None:
    x = relax.Var("x", relax.TensorType((2,)))
    with pytest.raises(NotImplementedError, match="ExprFunctor has no method for a Call"):
        expr_functor.ExprFunctor().visit_expr(relax.op.exp(x))
