"""Passes with walks of their own, on deep programs: chains of 5,000 operators, lets and branches, with sharing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from legato.infer.builder import Builder
from legato.ir.expr import Expr, Let, Var
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.transform.canonicalize_cast import CanonicalizeCast
from legato.transform.combine_dense import CombineDense
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.eta_expand import EtaExpand
from legato.transform.pass_ import Pass
from legato.transform.to_basic_block import ToBasicBlock

DEPTH = 5_000
PASSES = [CanonicalizeCast(), CombineDense(2), EliminateDead(), EliminateDead(once=True), EtaExpand(), ToBasicBlock()]


@cache
def graph() -> Module:
    b = Builder()
    x = b.var("x", (2,), "int8")
    value: Expr = x
    for _ in range(DEPTH):
        wide = b.op("cast")(value, dtype="int32")
        value = b.op("cast")(b.add(wide, b.negative(wide)), dtype="int8")
    return Module.from_expr(b.function([x], value))


@cache
def lets() -> Module:
    b = Builder()
    x = b.var("x", (2,))
    names = [x, *(Var(f"v{n}", ty=x.ty) for n in range(DEPTH))]
    body: Expr = names[-1]
    for before, var in zip(names[-2::-1], names[:0:-1], strict=True):
        body = Let(var, b.divide(before, 3.0), body, ty=x.ty)
    return Module.from_expr(b.function([x], body))


@cache
def branches() -> Module:
    b = Builder()
    x, c = b.var("x", (2,)), b.var("c", (), "bool")
    value: Expr = x
    for _ in range(DEPTH):
        value = b.if_(c, b.tanh(value), value)
    return Module.from_expr(b.function([x, c], value))


@pytest.mark.parametrize("p", PASSES, ids=repr)
@pytest.mark.parametrize("make", [graph, lets, branches])
@pytest.mark.shared(3)
def test_depth_is_no_limit(p: Pass, make: Callable[[], Module]) -> None:
    old = make()
    new = p(old)
    assert p(new) is new
    assert size(new) <= 2 * size(old)


def size(mod: Module) -> int:
    return sum(1 for _, func in mod.graph_functions() for _ in post_order(func))
