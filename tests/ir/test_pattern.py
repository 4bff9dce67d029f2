"""Rewriting the language."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from legato.ir.expr import Call, Constant, Expr, Let, Tuple, TupleGetItem, Var, constant
from legato.ir.op import Op
from legato.ir.pattern import (
    bindings_of,
    is_call,
    is_const,
    is_get,
    is_splat,
    is_tuple,
    is_var,
    one_of,
    rewrite,
    rule,
    wildcard,
)


@dataclass(frozen=True)
class Axis:
    """Attributes of `flip`."""

    axis: int


def _op(name: str, *args: str, attrs: type | None = None) -> Op:
    return Op(name, args, lambda *_: None, lambda *_: None, attrs)


ADD, MUL, FLIP = _op("add", "a", "b"), _op("mul", "a", "b"), _op("flip", "x", attrs=Axis)
X, Y = Var("x"), Var("y")


def _call(op: Op, *args: Expr, attrs: Any = None) -> Call:
    return Call(op, args, attrs)


@rule(is_call(ADD, wildcard("x"), is_splat(0), commutative=True))
def add_zero(x: Expr) -> Expr:
    return x


@rule(is_call(FLIP, is_call(FLIP, wildcard("x")).named("inner")).named("outer"))
def flip_twice(x: Expr, inner: Call, outer: Call) -> Expr | None:
    return x if inner.attrs == outer.attrs else None


@rule(is_get(is_tuple(wildcard("a"), wildcard("b")), 1))
def second(a: Expr, b: Expr) -> Expr:
    return b


@rule(is_call(ADD, is_const().named("a"), is_const().named("b")))
def fold(a: Constant, b: Constant) -> Expr:
    return constant(a.data + b.data)


RULES = (add_zero, flip_twice, second)


def test_operators_are_matched_by_identity() -> None:
    other = _op("add", "a", "b")
    zero = constant(0.0)
    assert rewrite(_call(ADD, zero, X), RULES) is X
    same = _call(other, zero, X)
    assert rewrite(same, RULES) is same


def test_attributes_and_repeated_variables() -> None:
    e = _call(FLIP, _call(FLIP, X, attrs=Axis(1)), attrs=Axis(1))
    assert rewrite(e, RULES) is X
    mixed = _call(FLIP, _call(FLIP, X, attrs=Axis(0)), attrs=Axis(1))
    assert rewrite(mixed, RULES) is mixed
    pattern = is_call(FLIP, wildcard(), attrs=lambda a: a.axis == 1)
    assert pattern.match(mixed) == {}
    assert pattern.match(mixed.args[0]) is None
    square = is_call(MUL, wildcard("a"), wildcard("a"))
    typed = Var("x", uid=X.uid)
    assert square.match(_call(MUL, X, typed)) is not None  # one variable, two nodes
    assert square.match(_call(MUL, X, Y)) is None


def test_tuples_and_constants() -> None:
    assert rewrite(TupleGetItem(Tuple((X, Y)), 1), RULES) is Y
    first = TupleGetItem(Tuple((X, Y)), 0)
    assert rewrite(first, RULES) is first
    out = rewrite(_call(ADD, _call(ADD, constant(1.0), constant(2.0)), constant(3.0)), (fold,))
    assert isinstance(out, Constant)
    assert out.data == np.float32(6)
    assert is_tuple().match(Tuple(())) == {}
    assert is_splat(0).match(constant(np.zeros((0,), np.float32))) is None
    assert one_of(is_var(), is_const()).match(X) == {}


def test_sharing_stays() -> None:
    shared = _call(MUL, X, Y)
    e = _call(ADD, _call(ADD, shared, constant(0.0)), shared)
    out = rewrite(e, RULES)
    assert isinstance(out, Call)
    assert out.args == (shared, shared)


def test_patterns_look_through_let_bound_variables() -> None:
    t, u = Var("t"), Var("u")
    flip = _call(FLIP, X, attrs=Axis(0))
    body = Let(t, flip, Let(u, _call(FLIP, t, attrs=Axis(0)), _call(MUL, u, t)))
    assert rewrite(body, RULES) is body
    out = rewrite(body, RULES, bindings=bindings_of(body))
    assert isinstance(out, Let)
    assert out.value is flip
    assert isinstance(out.body, Let)
    assert out.body.value is X
    assert out.body.body is body.body.body  # type: ignore[attr-defined]


def test_a_deep_chain() -> None:
    zero = constant(0.0)
    e: Expr = X
    for n in range(100_000):
        e = _call(ADD, e, zero) if n % 2 else _call(MUL, e, Y)
    counts: Counter[str] = Counter()
    out = rewrite(e, RULES, counts=counts)
    assert counts == {"add_zero": 50_000}
    depth = 0
    while isinstance(out, Call):
        out, depth = out.args[0], depth + 1
    assert depth == 50_000
