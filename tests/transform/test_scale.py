"""Every pass on long programs: nothing recurses on length, nothing is quadratic; and a long chain is compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import legato
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Expr, Function, Let, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ops import table as operators
from legato.pipelines import DEFAULT
from legato.transform import table
from legato.transform.pass_ import run
from tests.heavy import amount, light
from tests.steps import steps

ADD, TANH, NEGATIVE = (operators()[name] for name in ("add", "tanh", "negative"))


def chain(length: int) -> Module:
    """tanh(x + tanh(x + …)), one expression."""
    b = Builder()
    x = b.var("x", (2,))
    e: Expr = x
    for n in range(length):
        e = call(b, ADD, e, x) if n % 2 else call(b, TANH, e)
    return Module.from_expr(b.function([x], e))


def let_chain(length: int) -> Module:
    """let v0 = tanh(x); let v1 = add(v0, x); …"""
    b = Builder()
    x = b.var("x", (2,))
    bindings: list[tuple[Var, Expr]] = []
    last: Expr = x
    for n in range(length):
        value = call(b, ADD, last, x) if n % 2 else call(b, TANH, last)
        last = Var(f"v{n}", ty=value.ty)
        bindings.append((last, value))
    body = last
    for var, value in reversed(bindings):
        body = Let(var, value, body, ty=x.ty)
    return Module.from_expr(b.function([x], body))


def ladder(length: int) -> Module:
    """Every value is used by the next and by the result: skip connections of all lengths."""
    b = Builder()
    x = b.var("x", (2,))
    steps: list[Expr] = [x]
    for _ in range(length):
        steps.append(call(b, TANH, steps[-1]))
    return Module.from_expr(b.function([x], b.tuple_([b.concatenate(steps, axis=0), steps[-1]])))


def call(b: Builder, op: Op, *args: Expr) -> Expr:
    return b.call_op(op, args)


@pytest.mark.sized
@pytest.mark.parametrize("make", light([chain, let_chain, ladder], [chain, let_chain]))
def test_no_pass_recurses_on_length(make: Callable[[int], Module]) -> None:
    length = amount(1_100, 3_000)
    module = make(length)
    assert sys.getrecursionlimit() < length
    for p in table().values():
        p()(module)


@pytest.mark.parametrize("make", light([chain, let_chain, ladder], [let_chain, ladder]))
def test_every_pass_is_linear(make: Callable[[int], Module]) -> None:
    """Four times the length is four times the work, of each pass alone and of all in a row."""
    short, long = make(150), make(600)
    growth = {name: (steps(lambda p=p: p()(short)), steps(lambda p=p: p()(long))) for name, p in table().items()}
    growth["all"] = steps(lambda: run(short, DEFAULT)), steps(lambda: run(long, DEFAULT))
    assert {name: pair for name, pair in growth.items() if pair[1] > 4.3 * pair[0] + 50} == {}


@pytest.mark.parametrize(("make", "length"), [(chain, 1_000), (let_chain, 1_000), (ladder, 300)])
def test_many_operators_are_compiled(make: Callable[[int], Module], length: int) -> None:
    module = make(length)
    x = np.array([0.3, -2.0], np.float32)
    got, wanted = legato.compile(module)(x), evaluate(module, [x])
    for g, w in zip(as_tuple(got), as_tuple(wanted), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


def as_tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_a_long_chain_becomes_few_kernels() -> None:
    exe = legato.compile(chain(1_000))
    assert exe.stats["kernels"] <= 1_000 // 48 + 2


def test_wide_programs() -> None:
    """Two hundred groups of one input, and the sum of their results."""
    b = Builder()
    x = b.var("x", (2,))
    outputs = [b.add(x, b.constant(np.float32(n))) for n in range(200)]
    total = b.sum(b.stack(outputs, axis=0), axis=(0,))
    func = b.function([x], b.tuple_([total, *outputs[:3]]))
    assert isinstance(func, Function)
    module = Module.from_expr(func)
    got = legato.compile(module)(np.zeros(2, np.float32))
    np.testing.assert_allclose(got[0], [19_900, 19_900], rtol=1e-5)
