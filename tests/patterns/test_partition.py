"""Partitioning: golden cases, and that programs mean what they meant."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato import relay
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.ir.verify import Stage, verify
from legato.patterns import (
    dominates,
    has_attr,
    is_constant,
    is_if,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    partition,
    wildcard,
)
from legato.patterns.graph import typed
from legato.patterns.pattern import FunctionPattern, Pattern
from tests.patterns.graphs import PARAMS, graph, pattern
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.programs.values import same

x, y = (relay.var(name, shape=(2, 3)) for name in "xy")
exp, relu, tanh = relay.exp, relay.nn.relu, relay.tanh


def cut(params: int, name: str, body: Any, **attrs: Any) -> Function:
    """The function that is cut out: `body` makes its body from parameters of x's type."""
    variables = [Var(f"p{i}", ty=x.ty) for i in range(params)]
    return Function(tuple(variables), body(*variables), attrs={"PartitionedFromPattern": name, **attrs})


ANY_TWO = is_op("nn.relu")(wildcard() + wildcard())
DIAMOND = dominates(is_op("exp")(wildcard()), has_attr({"TOpPattern": 0})(None), wildcard() + wildcard())


def add_relu(a: Expr, b: Expr) -> Expr:
    return Call(cut(2, "add_nn.relu_", lambda a, b: relu(a + b)), (a, b))


SUM, EXP = x + y, exp(x * y)

GOLDEN: Mapping[str, tuple[Pattern, Expr, Expr]] = {
    "a chain": (ANY_TWO, relu(x + y), add_relu(x, y)),
    "operands are passed": (ANY_TWO, relu(exp(x) + y), add_relu(exp(x), y)),
    "one input twice": (ANY_TWO, relu(x + x), Call(cut(1, "add_nn.relu_", lambda a: relu(a + a)), (x,))),
    "regions in a row": (ANY_TWO, relu(relu(x + y) + y), add_relu(add_relu(x, y), y)),
    "no match": (ANY_TWO, relu(x - y), relu(x - y)),
    "used outside": (ANY_TWO, relay.Tuple([relu(SUM), SUM]), relay.Tuple([relu(SUM), SUM])),
    "a diamond": (
        DIAMOND,
        relu(EXP) + tanh(EXP),
        Call(cut(1, "exp_nn.relu_tanh_add_", lambda a: (lambda e: relu(e) + tanh(e))(exp(a))), (x * y,)),
    ),
    "a diamond that is used outside": (
        DIAMOND,
        relay.Tuple([EXP, relu(EXP) + EXP]),
        relay.Tuple([EXP, relu(EXP) + EXP]),
    ),
    "a constant that is asked for": (
        is_op("multiply")(is_var(), is_constant()),
        x * relay.const(2.0),
        Call(cut(1, "multiply_", lambda a: a * relay.const(2.0)), (x,)),
    ),
    "a constant that goes in": (
        is_op("exp")(wildcard()),
        exp(relay.const(np.zeros((2, 3), "float32"))),
        Call(cut(1, "exp_", exp), (relay.const(np.zeros((2, 3), "float32")),)),
    ),
    "any arguments": (is_op("add")(None), exp(x) + y, Call(cut(2, "add_", lambda a, b: a + b), (exp(x), y))),
    "a tuple": (
        is_tuple_get_item(is_tuple([is_op("exp")(wildcard()), wildcard()]), 1),
        relay.TupleGetItem(relay.Tuple([exp(x), y]), 1),
        Call(cut(2, "exp_Tuple_TupleGetItem1_", lambda a, b: relay.TupleGetItem(relay.Tuple([exp(a), b]), 1)), (x, y)),
    ),
    "overlapping, from the result on": (
        is_op("exp")(is_op("exp")(wildcard())),
        exp(exp(exp(x))),
        Call(cut(1, "exp_exp_", lambda a: exp(exp(a))), (exp(x),)),
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    made, before, after = GOLDEN[name]
    before, after = typed(before), typed(after)
    found = partition(made, before)
    assert alpha_equal(found, after)
    assert found.ty == before.ty
    assert (found is before) is alpha_equal(before, after)
    assert partition(made, found) is found, "what has been cut out is left alone"


def test_a_branch_is_cut_out_as_a_whole() -> None:
    """What stands in a branch may not be computed before the branch is chosen."""
    flag = relay.var("flag", shape=(), dtype="bool")
    e = relay.If(flag, exp(x), tanh(y))
    found = partition(is_if(wildcard(), wildcard(), wildcard()), e)
    assert isinstance(found, Call)
    assert isinstance(found.op, Function)
    assert found.args == (flag, x, y)
    assert alpha_equal(
        found.op.body, typed(relay.If(*found.op.params[:1], exp(found.op.params[1]), tanh(found.op.params[2])))
    )


def test_a_function_is_cut_out_as_a_whole() -> None:
    v = Var("v", ty=x.ty)
    made = wildcard()
    whole = FunctionPattern(None, is_op("add")(wildcard(), wildcard()))(made)
    e = typed(Call(relay.Function([v], v + y), (exp(x),)))
    found = partition(whole, e)
    assert isinstance(found, Call)
    assert found.args == (y, e.args[0])  # type: ignore[attr-defined]  # a call


def test_attributes_and_check() -> None:
    e = relu(relu(x + y) - y)
    found = partition(is_op("nn.relu")(None), e, {"Composite": "relu"}, lambda e: e.args[0].op.name == "add")  # type: ignore[attr-defined]
    assert alpha_equal(found, typed(relu(Call(cut(1, "nn.relu_", relu, Composite="relu"), (x + y,)) - y)))


EFFECTS = """#[version = "0.0.5"]
def @main() {
  let %r = ref(1f);
  let %bump = fn (%by: float32) { ref_write(%r, ref_read(%r) + %by); ref_read(%r) };
  (%bump(1f), %bump(2f) * ref_read(%r), ref_read(%r))
}
"""


def test_effects_stay_in_order() -> None:
    """A call that touches a cell would come behind the read that is an input."""
    module = relay.fromtext(EFFECTS).module
    both = is_op("multiply")(is_var("bump")(wildcard()), wildcard())
    assert partitioned(module, both) is module
    product = partitioned(module, is_op("multiply")(wildcard(), wildcard()))
    assert "PartitionedFromPattern" in str(product)
    assert same(evaluate(product), evaluate(module))


def partitioned(module: Module, made: Pattern) -> Module:
    functions = {gv: partition(made, f, module=module) for gv, f in module.graph_functions()}
    return module.with_functions({**module.functions, **functions})  # type: ignore[arg-type]  # functions, as they were


@examples(40)
@given(programs(), st.integers(0, 2**32 - 1))
def test_programs_mean_what_they_meant(program: Program, seed: int) -> None:
    random = Random(seed)
    module = program.module
    main = module["main"]
    assert isinstance(main, Function)
    for _ in range(4):
        made = pattern(random, random.choice(list(post_order(main.body))), 3, [])
        new = partitioned(module, made)
        if all(isinstance(f, Function) for f in new.functions.values()):  # none has been cut out as a whole
            verify(new, Stage.TYPED)
            assert same(evaluate(new, program.args), evaluate(module, program.args))


@pytest.mark.parametrize("seed", range(10))
def test_graphs_mean_what_they_meant(seed: int) -> None:
    random = Random(seed)
    cuts = 0
    for _ in range(20):
        e = graph(random, random.randint(4, 16))
        made = pattern(random, random.choice([n for n in post_order(e) if n.children()]), 4, [])
        found = partition(made, e)
        cuts += found is not e
        values = [np.full((2, 3), v, "float32") for v in (0.5, -1.25)]
        assert same(*(evaluate(Module({GlobalVar("main"): Function(PARAMS, f)}), values) for f in (found, e)))
    assert cuts


def test_what_is_cut_out_is_compiled() -> None:
    n = relay.var("n", shape=(relay.ShapeVar("rows"), 4))
    e = relay.exp(relu(relay.nn.dense(n, relay.const(np.eye(4, dtype="float32"))) + relay.const(1.0)))
    func = relay.Function([n], e)
    found = partition(is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard()) + wildcard()), func)
    assert "nn.dense_add_nn.relu_" in str(found)
    module = Module({GlobalVar("main"): typed(found)})  # type: ignore[dict-item]  # a function
    for rows in (1, 3):
        data = np.arange(4 * rows, dtype="float32").reshape(rows, 4) / 8
        np.testing.assert_allclose(legato.compile(module)(data), evaluate(module, [data]), rtol=1e-6)


def test_depth() -> None:
    e: Expr = x
    for _ in range(2500):
        e = exp(tanh(e))
    found = partition(is_op("exp")(is_op("tanh")(wildcard())), e)
    calls = [n for n in post_order(found) if isinstance(n, Call) and isinstance(n.op, Function)]
    assert len(calls) == 2500
