"""Sweeps: as rewriting, where no rule makes work for another elsewhere; effects are kept, and endless rules named."""

from __future__ import annotations

import pytest
from hypothesis import given

from legato import relay
from legato.base.errors import InternalError
from legato.base.tally import counting
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.effects import Effects
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Expr, Function, TupleGetItem
from legato.ir.module import Module
from legato.ir.verify import Stage, verify
from legato.ops.unary import negative
from legato.patterns import Match, is_tuple, is_tuple_get_item, rewrite
from legato.patterns.sweep import Local, Sweep, of_calls
from legato.transform.canonicalize import RULES
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.programs.values import same


def twice(call: Call) -> Expr | None:
    """negative(negative(x)) is x."""
    inner = call.args[0]
    return inner.args[0] if isinstance(inner, Call) and inner.op is negative else None


def field(old: Expr, now: Expr, match: Match) -> Expr | None:
    """(a, b).0 is a."""
    assert isinstance(now, TupleGetItem)
    return now.value.fields[now.index]  # type: ignore[attr-defined]  # of a tuple, says the pattern


DROPPING = Local(is_tuple_get_item(is_tuple()), field, drops=True)
RULES_OF_TESTS = (of_calls(negative, twice), DROPPING)


def swept(rules: tuple[Local, ...], module: Module) -> Module:
    """Each function of a module after a sweep."""
    sweep = Sweep(*rules)
    return module.with_functions(
        {gv: sweep.over(f, Effects(f, module)) if isinstance(f, Function) else f for gv, f in module.functions.items()}  # type: ignore[misc]
    )


@examples(40)
@given(programs())
def test_the_meaning_stays(program: Program) -> None:
    new = swept(RULES_OF_TESTS, program.module)
    verify(new, Stage.TYPED)
    assert same(evaluate(new, program.args), evaluate(program.module, program.args))
    assert swept(RULES_OF_TESTS, new) is new


@examples(25)
@given(programs())
def test_a_sweep_is_a_rewrite(program: Program) -> None:
    rules = (*RULES, of_calls(negative, twice))
    module = program.module
    new = swept(rules, module)
    functions = {gv: rewrite([*rules], f, module) for gv, f in module.graph_functions()}
    assert all(alpha_equal(new.functions[gv], f) for gv, f in functions.items())


def test_what_is_dropped_does_nothing() -> None:
    text = "(%x, {}).0"
    for dropped, stays in (("abs(%x)", False), ("ref_write(%r, %x)", True), ("@loop(%x)", True)):
        module = infer(
            relay.parse(f"""#[version = "0.0.5"]
            def @loop(%x: float32) -> float32 {{ @loop(%x) }}
            def @main(%x: float32) -> float32 {{ let %r = ref(%x); {text.format(dropped)} }}""").module
        )
        new = swept((DROPPING,), module)
        assert (new is module) == stays
        for_rewrite = rewrite(DROPPING, module["main"], module)  # type: ignore[arg-type]
        assert (for_rewrite is module["main"]) == stays


def test_rules_are_counted_with_their_lines() -> None:
    x = relay.var("x", shape=(2,))
    func = infer(Module.from_expr(relay.Function([x], relay.negative(relay.negative(relay.negative(x))))))
    with counting() as counts:
        swept(RULES_OF_TESTS, func)
    ((rule, times),) = counts.items()
    assert times == 1
    assert rule.name == "negative: twice"
    assert rule.at.startswith(__file__)


def test_rules_without_an_end_are_named() -> None:
    x = relay.var("x", shape=(2,))
    func = infer(Module.from_expr(relay.Function([x], relay.negative(x))))
    again = of_calls(negative, lambda call: Call(call.op, call.args, ty=call.ty))
    with pytest.raises(InternalError, match="for ever"):
        swept((again,), func)
