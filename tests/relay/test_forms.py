"""Passes over the structure of programs, under Relay's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import VerifyError
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.relay import transform
from legato.relay.prelude import Prelude
from legato.relay.testing import run_opt_pass


def parsed(text: str) -> Any:
    return transform.InferType()(relay.parse(f'#[version = "0.0.5"]\n{text}'))


def test_levels_and_names() -> None:
    made = [transform.DeadCodeElimination(), transform.LambdaLift(), transform.Inline(), transform.EtaExpand(),
            transform.DefuseOps(), transform.DynamicToStatic(), transform.InlinePrimitives(),
            transform.ToBasicBlockNormalForm(), transform.PartialEvaluate()]  # fmt: skip
    assert [(p.info.name, p.info.opt_level) for p in made] == [
        ("DeadCodeElimination", 1),
        ("LambdaLift", 1),
        ("InlineGlobals", 1),
        ("EtaExpand", 1),
        ("DefuseOps", 3),
        ("DynamicToStatic", 2),
        ("InlinePrimitives", 1),
        ("ToBasicBlockNormalForm", 1),
        ("PartialEvaluate", 1),
    ]


def test_dead_code() -> None:
    x, y, z = (relay.var(name, shape=()) for name in "xyz")
    assert run_opt_pass(relay.Let(x, y, z), transform.DeadCodeElimination()).name_hint == "z"
    used = run_opt_pass(relay.Let(x, relay.exp(y), relay.tanh(x)), transform.DeadCodeElimination())
    assert isinstance(used, relay.Let)
    assert isinstance(run_opt_pass(used, transform.DeadCodeElimination(inline_once=True)), relay.Call)
    cell = relay.Let(x, relay.RefRead(relay.RefCreate(y)), z)
    assert isinstance(run_opt_pass(cell, transform.DeadCodeElimination()), relay.Let)
    assert run_opt_pass(cell, transform.DeadCodeElimination(ignore_impurity=True)).name_hint == "z"


def test_functions() -> None:
    mod = parsed("""
        def @f(%x: int32, Inline=1) { add(%x, %x) }
        def @main(%x: int32) { let %g = fn (%y: int32) { add(%x, %y) }; %g(@f(%x)) }""")
    inlined = transform.Inline()(mod)
    assert [gv.name for gv in inlined] == ["main"]
    assert len(transform.LambdaLift()(inlined)) == 2


def test_groups_are_called_in_place() -> None:
    mod = parsed("""
        def @group(%x: float32, Primitive=1) { exp(%x) }
        def @main(%x: float32) { let %f = fn (%y: float32, Primitive=1) { tanh(%y) }; @group(%f(%x)) }""")
    made = transform.InlinePrimitives()(mod)
    assert [gv.name for gv in made] == ["main"]
    body = transform.DefuseOps()(made)["main"].body
    assert (body.op.name, body.args[0].op.name) == ("exp", "tanh")


def test_values_are_written_out() -> None:
    mod = parsed("type Box { Box(int32) } def @aux(%x: int32) -> int32 { %x } def @make() { Box } def @main() { @aux }")
    bodies = [
        [type(transform.EtaExpand(*flags)(mod)[name].body).__name__ for name in ("make", "main")]
        for flags in ((), (True,), (False, True))
    ]
    assert bodies == [["Constructor", "GlobalVar"], ["Function", "GlobalVar"], ["Constructor", "Function"]]


def test_defusing_undoes_fusing() -> None:
    mod = parsed("def @main(%x: Tensor[(n, 4), float32]) { let %a = exp(%x); (tanh(%a), nn.softmax(add(%a, %x))) }")
    graph = transform.ToGraphNormalForm()(mod)
    fused = transform.FuseOps()(graph)
    assert not alpha_equal(fused["main"], graph["main"])
    assert alpha_equal(transform.DefuseOps()(fused)["main"], graph["main"])


def test_known_shapes_are_attributes() -> None:
    x, n = relay.var("x", shape=(2, 3)), relay.var("n", shape=(2,), dtype="int64")
    known = relay.reshape(x, relay.add(relay.const([1, 4], "int64"), relay.const([2, -2], "int64")))
    zeros = relay.zeros(relay.shape_of(known), "float32")
    made = run_opt_pass(relay.Tuple([known, relay.reshape(x, n), zeros]), transform.DynamicToStatic())
    assert [call.op.name for call in made.fields] == ["reshape", "dyn.reshape", "zeros"]
    assert str(made.fields[0].checked_type) == "Tensor[(3, 2), float32]"


def test_functions_become_data() -> None:
    mod = parsed("""
        def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
        def @main(%x: float32, %c: bool) {
          let %g = fn (%y: float32) { add(%x, %y) };
          @apply(if (%c) { %g } else { tanh }, %x)
        }""")
    want = relay.create_executor("debug", mod).evaluate()(np.float32(1.5), np.bool_(True))
    before = mod.module
    func = transform.Defunctionalization(mod["main"], mod)
    assert mod["main"] is func
    assert mod.module is not before
    assert mod.type_definitions
    assert relay.create_executor("debug", mod).evaluate()(np.float32(1.5), np.bool_(True)) == want


def test_expressions() -> None:
    x = relay.var("x", shape=(2,))
    two = relay.add(relay.const(1.0), relay.const(1.0))
    body = relay.multiply(relay.tanh(x), two)
    folded = transform.FoldConstantExpr(body, relay.IRModule())
    assert folded.args[1].data == 2
    assert isinstance(transform.FoldConstantExpr(relay.Function([x], body), relay.IRModule()), relay.Function)
    normal = transform.ToANormalFormExpr(body)
    assert isinstance(normal, relay.Let)
    assert alpha_equal(normal, run_opt_pass(body, transform.ToANormalForm()))
    assert transform.FoldConstantExpr(body, relay.IRModule(), fold_qnn=True).args[1].data == 2


def test_shared_values_are_bound() -> None:
    """As in the original's test_top_level_nested_if."""
    c, y, z = relay.var("c", "bool"), relay.var("y", shape=()), relay.var("z", shape=())
    y2, z2, one = relay.add(y, y), relay.add(z, z), relay.const(1.0)
    inner = relay.If(c, relay.add(z2, y2), relay.add(one, y2))
    before = relay.If(c, inner, relay.If(c, z2, one))
    with pytest.raises(VerifyError, match="bound in none"):
        relay.analysis.check_basic_block_normal_form(before)
    got = run_opt_pass(before, transform.ToBasicBlockNormalForm())
    assert relay.analysis.check_basic_block_normal_form(got)
    v, w = relay.var("v"), relay.var("w")
    inner = relay.Let(v, relay.add(y, y), relay.If(c, relay.add(w, v), relay.add(one, v)))
    wanted = relay.Let(w, relay.add(z, z), relay.If(c, inner, relay.If(c, w, one)))
    assert str(got) == str(run_opt_pass(wanted, transform.InferType())).replace("%v", "%x2").replace("%w", "%x1")


def evaluated(expr: Any, mod: Any = None) -> Any:
    """`expr`, a function of `mod`, after partial evaluation and what Relay ran behind it."""
    mod = relay.IRModule() if mod is None else mod
    mod["main"] = expr if isinstance(expr, relay.Function) else relay.Function([], expr)
    steps = [transform.InferType(), transform.PartialEvaluate(), transform.DeadCodeElimination(inline_once=True)]
    return transform.Sequential(steps)(mod)["main"]


def test_partial_evaluation() -> None:
    t = relay.TypeVar("t")
    x, d = relay.Var("x", t), relay.var("d", shape=())
    first = relay.Function([x], relay.TupleGetItem(relay.Tuple([relay.const(4.0), x]), 1), None, [t])
    assert relay.structural_equal(evaluated(first), relay.Function([x], x, t, [t]))
    assert evaluated(relay.Function([d], d + d)(relay.const(4.0))).body.data == 8
    r, u = relay.Var("r"), relay.Var("u")
    body = relay.Let(u, relay.RefWrite(r, relay.RefRead(r) * relay.RefRead(r)), relay.RefRead(r))
    square = evaluated(relay.Function([d], relay.Let(r, relay.RefCreate(d), body)))
    assert relay.structural_equal(square, relay.Function([d], d * d, relay.scalar_type("float32")))
    a, b = relay.Var("a"), relay.Var("b")
    clause = relay.Clause(relay.PatternTuple([relay.PatternVar(a), relay.PatternVar(b)]), a + b)
    assert evaluated(relay.Match(relay.Tuple([relay.const(1), relay.const(1)]), [clause])).body.data == 2


def test_partial_evaluation_of_functions_of_the_module() -> None:
    mod = relay.IRModule()
    _, cons, nil = Prelude(mod).mod.get_type("List")
    t, loop = relay.TypeVar("t"), relay.GlobalVar("loop")
    x = relay.Var("x", t)
    mod[loop] = relay.Function([x], loop(x), t, [t])
    same = relay.GlobalVar("same")
    y = relay.Var("y", t)
    mod[same] = relay.Function([y], y, t, [t])
    numbers = cons(relay.const(1), cons(relay.const(2), nil()))
    mapped = evaluated(mod.get_global_var("map")(same, numbers), mod)
    mod["wanted"] = relay.Function([], numbers)
    wanted = transform.InferType()(mod)["wanted"]
    assert relay.structural_equal(mapped.body, wanted.body)
    endless = evaluated(loop(relay.const(1)), mod).body
    assert isinstance(endless, relay.Let)
    assert endless.value.op == loop


def test_reshapes_that_stand_alone_are_no_groups() -> None:
    x = relay.var("x", shape=(relay.ShapeVar("n"), 4))
    flat = relay.reshape(relay.exp(relay.reshape(x, newshape=(-1,))), newshape=(-1, 2))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.nn.relu(flat), relay.expand_dims(x, 0)])))
    one = relay.transform.FuseOps()
    with relay.transform.PassContext(config={"relay.FuseOps.max_depth": 1}):
        fused = one(mod)
    new = relay.transform.RemoveStandaloneReshapes()(fused)
    assert str(fused.module).count("Primitive=1") == 5
    assert str(new.module).count("Primitive=1") == 2  # exp and relu
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    for got, wanted in zip(evaluate(new.module, [given]), evaluate(mod.module, [given]), strict=True):
        np.testing.assert_array_equal(got, wanted)
