"""Deep programs: nothing recurses on depth, nothing is quadratic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from legato.ir.equal import alpha_equal, structural_hash
from legato.ir.expr import Call, Expr, Function, If, Let, Tuple, Var, constant
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.printer import show
from legato.ir.types import tensor_type
from legato.ir.verify import verify
from legato.ir.visit import free_vars, rename_bound
from tests.heavy import amount
from tests.ir.programs import BY_NAME

ADD = BY_NAME["add"]
X = Var("x", ty=tensor_type((2,)))


def _chain(length: int) -> Expr:
    e: Expr = X
    for _ in range(length):
        e = Call(ADD, (e, X))
    return e


def _lets(length: int) -> Expr:
    variables = [Var("v") for _ in range(length)]
    e: Expr = variables[-1]
    for i in reversed(range(length)):
        e = Let(variables[i], Call(ADD, (variables[i - 1] if i else X, X)), e)
    return e


def _branches(length: int) -> Expr:
    e: Expr = X
    for _ in range(length):
        e = If(constant(True), X, e)
    return e


def _closures(length: int) -> Expr:
    e: Expr = X
    for _ in range(length):
        e = Function((Var("y"),), e)
    return e


def _doubling(length: int) -> Expr:
    e: Expr = X
    for _ in range(length):
        e = Tuple((e, e))
    return e


def _module(body: Expr) -> Module:
    return Module.from_expr(Function((X,), body))


@pytest.mark.sized
@pytest.mark.parametrize(("make", "length"), [(_chain, amount(10_000, 40_000)), (_lets, amount(5_000, 20_000))])
def test_long_programs_as_text(make: Callable[[int], Expr], length: int) -> None:
    module = _module(make(length))
    assert alpha_equal(parse(show(module), ops=[ADD]), module)


@pytest.mark.sized
@pytest.mark.parametrize("make", [_chain, _lets, _branches, _closures, _doubling])
def test_deep_programs(make: Callable[[int], Expr]) -> None:
    length = amount(2_000, 5_000)
    body = make(length)
    module = _module(body)
    verify(module)
    text = show(module)
    assert len(text) < 500 * length
    again = parse(text, ops=[ADD])
    assert alpha_equal(again, module)
    assert structural_hash(again) == structural_hash(module)
    assert free_vars(rename_bound(body)) == (X,)
