"""How large groups of operators are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.atoms import is_primitive
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.transform.fuse import Fuse


def chain(count: int, first: str = "nn.relu", residual: bool = False) -> Module:
    """@main that computes `count` operators, one after the other; `residual`: each adds to the sum of all before."""
    b = Builder()
    x = b.var("x", (3, 5))
    y: Expr = b.op(first)(x)
    for n in range(count - 1):
        y = (
            b.add(y, b.maximum(y, b.constant(np.float32(n))))
            if residual
            else b.op(("tanh", "negative", "abs")[n % 3])(y)
        )
    return Module.from_expr(b.function([x], y))


def sizes(mod: Module) -> list[int]:
    """How many operators each group has."""
    main = mod["main"]
    assert isinstance(main, Function)
    groups = [n for n in post_order(main) if is_primitive(n)]
    return sorted(sum(isinstance(n, Call) for n in post_order(g)) for g in groups)


@pytest.mark.parametrize(
    ("count", "options", "wanted"),
    [
        (80, {}, [80]),
        (128, {}, [128]),
        (129, {}, [1, 128]),
        (80, {"max_ops": 2}, [2] * 40),
        (80, {"max_ops": 60}, [20, 60]),
    ],
)
def test_chains_of_elementwise_operators(count: int, options: dict[str, Any], wanted: list[int]) -> None:
    assert sizes(Fuse(**options)(chain(count))) == wanted


def test_others_have_fewer_around() -> None:
    assert sizes(Fuse()(chain(80, "transpose"))) == [32, 48]
    b = Builder()
    x, w = b.var("x", (3, 5)), b.var("w", (4, 5))
    y: Expr = b.nn.dense(x, w)
    for _ in range(79):
        y = b.tanh(y)
    assert sizes(Fuse()(Module.from_expr(b.function([x, w], y)))) == [32, 48]


@pytest.mark.parametrize("residual", [False, True])
def test_a_chain_of_80_is_one_kernel(residual: bool) -> None:
    mod = chain(41 if residual else 80, residual=residual)
    assert sizes(Fuse()(mod)) == [81 if residual else 80]
    x = np.linspace(-2, 2, 15, dtype="float32").reshape(3, 5)
    np.testing.assert_allclose(legato.compile(mod, threads=1)(x), evaluate(mod, [x]), rtol=1e-5)
