"""Rewriting: golden cases, that the meaning stays, and that it ends."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato import relay
from legato.base.errors import CompileError, TypeCheckError, VerifyError
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Expr, Function, Let, Var, constant
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.ir.types import tensor_type
from legato.ir.verify import Stage, verify
from legato.patterns import Callback, Match, Pattern, is_constant, is_let, is_op, is_var, rewrite, rule, wildcard
from tests.patterns.graphs import pattern
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.programs.values import same

x, y = (relay.var(name, shape=(2, 3)) for name in "xy")
one = relay.const(1.0)

RULES = [
    rule("negative(negative(%x)) => %x"),
    rule("multiply(%x, 1f) => %x"),
    rule("subtract(%x, %y) => add(%x, negative(%y))"),
    rule("(%x, %y).0 => %x"),
    rule("(%x, %y).1 => %y"),
    rule("if (%c) { %x } else { %x } => %x"),
    rule("if (True) { %x } else { %y } => %x"),
    rule("maximum(%x, %x) => %x"),
]


def rewritten(module: Module, rules: list[relay.Any]) -> Module:
    """Each function of a module with rules applied."""
    return module.with_functions(
        {gv: rewrite(rules, f, module) if isinstance(f, Function) else f for gv, f in module.functions.items()}
    )


@examples(25)
@given(programs())
def test_equations_keep_the_meaning(program: Program) -> None:
    new = rewritten(program.module, RULES)
    verify(new, Stage.TYPED)
    assert same(evaluate(new, program.args), evaluate(program.module, program.args))


@examples(25)
@given(programs(), st.integers(0, 2**32 - 1))
def test_what_is_replaced_by_itself_keeps_the_meaning(program: Program, seed: int) -> None:
    """A callback may return a copy: nothing is lost, and the end is seen."""
    random = Random(seed)
    main = program.module["main"]
    assert isinstance(main, Function)
    made = pattern(random, random.choice(list(post_order(main.body))), 3, [])
    copy = Callback(made, lambda old, now, match: now.with_children(now.children()))
    new = rewritten(program.module, [copy])
    verify(new, Stage.TYPED)
    assert alpha_equal(new, program.module)


ROW, ZEROS = relay.var("row", shape=(1,)), relay.zeros(shape=[3], dtype="float32")

GOLDEN = {
    "nothing": (RULES, x + y, x + y),
    "inner and outer": (RULES, relay.exp(x * one) * one, relay.exp(x)),
    "three in a row": (RULES, relay.negative(relay.negative(relay.negative(x))), relay.negative(x)),
    "one after the other": (RULES, x - relay.negative(y), x + y),
    "either order": (RULES, one * x, x),
    "another type": (RULES, relay.const(2.0) * x, relay.const(2.0) * x),
    "another shape": ([rule('add(%x, zeros(shape=[3], dtype="float32")) => %x')], ROW + ZEROS, ROW + ZEROS),
    "the same shape": ([rule('add(%x, zeros(shape=[3], dtype="float32")) => %x')], x + ZEROS, x),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    rules, before, after = GOLDEN[name]
    found = rewrite(rules, before)
    assert alpha_equal(found, after)
    assert found.ty == before.ty
    assert name not in ("nothing", "another type") or found is before


def test_a_value_that_is_used_outside_stays() -> None:
    inner = relay.negative(x)
    outer = relay.negative(inner)
    both = relay.Tuple([inner, outer])
    assert rewrite(RULES, both) is both


def test_shared_nodes_stay_shared() -> None:
    e = relay.exp(x * one)
    found = rewrite(RULES, e + e)
    assert found.args[0] is found.args[1]  # type: ignore[attr-defined]  # a call


def test_dims_decide() -> None:
    """What holds for a literal holds for a symbol: (n,) + (1,) is only of shape (n,) if that is known."""
    drop = rule("add(%x, multiply(%y, 0f)) => %x")
    n, m = relay.var("n", shape=(relay.Any(), 3)), relay.var("m", shape=(relay.Any(), 3))
    row = relay.var("row", shape=(1, 3))
    zero = relay.const(0.0)
    assert rewrite(drop, n + row * zero) is n
    same_rows = n + relay.exp(n) * zero
    assert rewrite(drop, same_rows) is n
    other = n + m * zero
    assert rewrite(drop, other) is other


EFFECTS = """#[version = "0.0.5"]
def @main() {
  let %r = ref(1f);
  %0 = subtract({ ref_write(%r, ref_read(%r) + 2f); ref_read(%r) }, ref_read(%r) * 3f);
  (%0, (1f, ref_write(%r, 9f)).0, ref_read(%r))
}
"""


@pytest.mark.parametrize(
    "text", ["subtract(%x, %y) => negative(subtract(%y, %x))", "(%x, %y).0 => %x", "subtract(%x, %y) => negative(%y)"]
)
def test_effects_are_neither_dropped_nor_moved(text: str) -> None:
    module = relay.fromtext(EFFECTS).module
    assert rewritten(module, [rule(text)]) is module


def test_effects_in_order_are_no_obstacle() -> None:
    module = relay.fromtext(EFFECTS).module
    new = rewritten(module, RULES)
    assert "subtract" not in str(new)
    assert same(evaluate(new), evaluate(module))


# ---------------------------------------------------------------------- callbacks


def test_a_callback_sees_old_and_new() -> None:
    part = wildcard()
    seen: list[tuple[Expr, Expr, Expr]] = []

    def build(old: Expr, now: Expr, match: Match) -> Expr:
        seen.append((old, now, match[part]))
        return relay.tanh(match[part])  # type: ignore[no-any-return]

    e = relay.exp(relay.exp(x))
    found = rewrite(Callback(is_op("exp")(part), build), e)
    assert alpha_equal(found, relay.tanh(relay.tanh(x)))
    (inner, _, _), (outer, now, below) = seen
    assert (inner, outer) == (e.args[0], e)
    assert alpha_equal(now, relay.exp(relay.tanh(x)))
    assert alpha_equal(below, relay.tanh(x))


def test_a_match_that_is_declined_is_not_in_the_way() -> None:
    """Two pairs overlap: the upper one is tried first, and left as it is."""
    first, second = is_op("tanh")(wildcard()), wildcard()
    top = is_op("tanh")(is_op("tanh")(second))

    def build(old: Expr, now: Expr, match: Match) -> Expr | None:
        return x if isinstance(match[second], Var) else None

    found = rewrite(Callback(top, build), relay.tanh(relay.tanh(relay.tanh(x))))
    assert alpha_equal(found, relay.tanh(x))
    assert first is not top


def test_once() -> None:
    part = wildcard()
    more = Callback(is_op("exp")(part), lambda old, now, match: relay.exp(relay.exp(match[part])), once=True)
    assert alpha_equal(rewrite(more, relay.exp(x)), relay.exp(relay.exp(x)))


def test_types_on_demand() -> None:
    free = relay.var("free")
    e = relay.exp(free)
    kinds: list[object] = []
    see = Callback(is_op("exp")(None), lambda old, now, match: kinds.append(now.ty), needs_types=False)
    assert rewrite(see, e) is e
    assert kinds == [None]
    annotated = relay.Function([relay.var("v", shape=(2,))], constant(1.0))
    assert rewrite(RULES, annotated) is not None


def test_callbacks_may_change_types() -> None:
    """What uses the result is typed anew; where it does not fit, that is an error."""
    to_double = Callback(is_var("x"), lambda old, now, match: relay.cast(now, dtype="float64"), once=True)
    found = rewrite(to_double, relay.exp(x))
    assert found.ty == tensor_type((2, 3), "float64")
    with pytest.raises(TypeCheckError, match="add: the dtypes differ, float64 and float32"):
        rewrite(to_double, x + y)


# ---------------------------------------------------------------------- errors

ENDLESS = {
    "grows": ("%x => add(%x, 0f)", "the program has grown to more than"),
    "grows slowly": ("exp(%x) => log(exp(%x))", "they still apply after 100 rounds"),
    "in circles": ("add(%x, %y) => add(%y, %x)", "they still apply after 100 rounds"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_rules_without_end(name: str) -> None:
    text, why = ENDLESS[name]
    with pytest.raises(CompileError, match=re.escape(f"rewriting does not come to an end: {why}")):
        rewrite(rule(text), relay.exp(x + y))


def test_what_is_no_expression() -> None:
    with pytest.raises(CompileError, match=r"no expression: <Module @main>\n  hint: of a module, take a function"):
        rewrite(RULES, relay.IRModule.from_expr(x).module)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match=r"double gives no expression: 2\.0"):
        rewrite(Callback(is_var(), lambda old, now, match: 2.0, name="double"), x)  # type: ignore[arg-type,return-value]


TEXTS = {
    "exp(%x)": "a rule has a left and a right side",
    "=> %x": "expected an expression",
    "exp(%x) => %y": "%y is on the right side of a rule only",
    "exp(%x => %x": "expected",
    "ref_read(%x) => %x": "no pattern can be made of <RefRead>",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_that_are_no_rules(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        rule(text)
    assert TEXTS[text] in str(caught.value)


def test_functions_that_are_no_rules() -> None:
    with pytest.raises(CompileError, match="%z is on the right side of a rule only"):
        rule(lambda a: relay.exp(a), lambda z: z)
    with pytest.raises(CompileError, match="a side of a rule is an expression, got 1"):
        rule(lambda a: 1, lambda a: a)  # type: ignore[arg-type,return-value]
    with pytest.raises(CompileError, match="a rule by functions has two sides"):
        rule(lambda a: relay.exp(a))
    with pytest.raises(CompileError, match="a rule is one text, or two functions"):
        rule("exp(%x) => %x", lambda x: x)


def test_rules_are_applied_where_they_are_well_typed() -> None:
    double = relay.var("double", shape=(2, 3), dtype="float64")
    both = relay.Tuple([relay.nn.relu(x), relay.nn.relu(double)])
    found = rewrite(rule("nn.relu(%x) => maximum(%x, 0f)"), both)
    assert alpha_equal(found, relay.Tuple([relay.maximum(x, relay.const(0.0)), relay.nn.relu(double)]))


def test_functions_from_patterns_are_left_alone() -> None:
    cut = is_op("exp")(wildcard()).partition(relay.exp(relay.tanh(x)))
    assert rewrite(rule("exp(%x) => tanh(%x)"), cut) is cut


def test_shared_values() -> None:
    """A rule that says so is applied where a value inside is used outside as well: that one stays."""
    inner = relay.negative(x)
    both = relay.Tuple([inner, relay.negative(inner)])
    assert alpha_equal(rewrite(replace(RULES[0], shared=True), both), relay.Tuple([inner, x]))


def test_a_variable_is_not_moved_out_of_its_scope() -> None:
    body: Pattern = wildcard()
    drop = Callback(is_let(is_var(), wildcard(), body), lambda old, now, match: match[body])
    v = Var("v", ty=x.ty)
    e = Let(v, relay.exp(x), relay.tanh(v), ty=x.ty)
    with pytest.raises(VerifyError, match="rewriting has moved %v out of the scope that binds it"):
        rewrite(drop, e)


def test_depth() -> None:
    e: Expr = x
    for _ in range(5000):
        e = relay.negative(e)
    assert rewrite(RULES[:1], e) is x
    found = rewrite(Callback(is_op("negative")(None) | is_constant(), lambda old, now, match: None), e)
    assert found is e
