"""The rewrite engine, on scalar expressions; `tests/ir/test_pattern.py` has it on the language."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from legato.arith.evaluate import evaluate
from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, const, fresh
from legato.base.errors import InternalError
from legato.base.rewrite import Pattern, node, one_of, rewrite, rule, wildcard
from tests.arith import strategies

X, Y = fresh("x"), fresh("y")


def _op(op: Op, a: Pattern, b: Pattern, commutative: bool = False) -> Pattern:
    return node(Binary, a, b, commutative=commutative).where(lambda e: e.op is op)


def _literal(value: int) -> Pattern:
    return node(Const).where(lambda e: e.value == value)


@rule(_op(Op.ADD, wildcard("a"), wildcard("a")))
def double(a: Expr) -> Expr:
    return a * 2


@rule(_op(Op.SUB, _op(Op.ADD, wildcard("a"), wildcard("b"), commutative=True), wildcard("a")))
def cancel(a: Expr, b: Expr) -> Expr:
    return b


@rule(_op(Op.FLOORDIV, _op(Op.MUL, wildcard("a"), node(Const).named("k")), node(Const).named("k")))
def divide_back(a: Expr, k: Const) -> Expr | None:
    return a if k.value else None


RULES = (double, cancel, divide_back)


def test_rules_apply_inside_and_again() -> None:
    assert rewrite((X + X) // 2, RULES) is X
    assert rewrite(((X + X) // 2 + Y) - X, RULES) is Y
    counts: Counter[str] = Counter()
    rewrite((X + Y) - X + ((X + Y) - X), RULES, counts=counts)
    assert counts == {"cancel": 1, "double": 1}


def test_nothing_to_do_gives_the_same_object() -> None:
    e = (X + 3) * Y
    assert rewrite(e, RULES) is e
    assert rewrite(e, ()) is e


def test_a_match_may_need_the_second_order_of_an_inner_pattern() -> None:
    pattern = _op(Op.SUB, _op(Op.MUL, wildcard("a"), wildcard("b"), commutative=True), wildcard("b"))
    assert pattern.match(X * Y - Y) == {"a": X, "b": Y}
    assert pattern.match(Y * X - Y) == {"a": X, "b": Y}
    assert pattern.match(X * Y - 3) is None


def test_alternatives_and_names() -> None:
    pattern = one_of(_literal(1), _literal(2)).named("k") | node(Select).named("s")
    assert pattern.match(const(2)) == {"k": const(2)}
    assert pattern.match(const(3)) is None
    assert one_of(_literal(1), _literal(2)).head is Const
    assert pattern.head is None
    assert wildcard().match(X) == {}


def test_a_pattern_of_a_base_class() -> None:
    @rule(node(Expr).where(lambda e: isinstance(e, Var)))
    def forget() -> Expr:
        return const(0)

    assert rewrite(X + 5, (forget,)) is const(5)


def test_the_first_rule_wins_and_none_declines() -> None:
    @rule(_op(Op.ADD, wildcard("a"), wildcard("b")))
    def decline(a: Expr, b: Expr) -> None:
        return None

    assert rewrite(X + X, (decline, double)) is X * 2
    assert divide_back.name == "divide_back"


def test_endless_rules_are_found() -> None:
    @rule(_op(Op.ADD, wildcard("a"), wildcard("b")))
    def swap(a: Expr, b: Expr) -> Expr:
        return b + a

    @rule(_op(Op.MUL, wildcard("a"), node(Const).named("k")))
    def grow(a: Expr, k: Const) -> Expr:
        return a * (int(k.value) + 1)

    for e, name in ((X + Y, "swap"), (X * 3, "grow")):
        with pytest.raises(InternalError, match=f"does not come to an end; the last rule was {name}"):
            rewrite(e, (swap, grow))


def test_a_deep_chain() -> None:
    e: Expr = X
    for n in range(40_000):
        e = ((e + Y) - Y) if n % 2 else e - n
    counts: Counter[str] = Counter()
    simple = rewrite(e, (*RULES,), counts=counts)
    assert counts["cancel"] == 20_000
    depth = 0
    while isinstance(simple, Binary):
        simple, depth = simple.a, depth + 1
    assert depth == 19_999  # the first `- 0` is folded at birth


@given(strategies.indices([X, Y]))
def test_the_value_stays(e: Expr) -> None:
    for x, y in ((0, 0), (3, 5), (7, 1)):
        values = {X: x, Y: y}
        assert evaluate(rewrite(e, RULES), values) == evaluate(e, values)
