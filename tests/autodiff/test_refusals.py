"""What nobody can mean is refused, by an error of its own, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.autodiff import grad, hessian, jacobian, jvp, value_and_grad, vjp
from legato.base.errors import CompileError, UnsupportedError
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.transform.gradient import Gradient
from legato.transform.tangent import Tangent

ALL = pytest.mark.parametrize("differentiate", [grad, value_and_grad, vjp, jvp, jacobian, hessian])
SQUARE = legato.parse("def @main(%x: float64, %y: float64) { %x * %x * %y }")
ARGS = [np.float64(2), np.float64(3)]
TREE = "type Tree { Leaf(float64), Node(Tree, Tree) }\n"


def twins() -> Function:
    """A function whose parameters have the same name."""
    x, y = (relay.var("x", shape=(), dtype="float64") for _ in range(2))
    return relay.Function([x, y], relay.multiply(relay.multiply(x, x), y))


@ALL
@pytest.mark.parametrize("wrt", [1.5, object(), b"x", [["x"]], True, [True], [], (), SQUARE["main"].params[0]])  # type: ignore[union-attr]
def test_what_names_no_parameter(differentiate: Callable[..., Any], wrt: Any) -> None:
    with pytest.raises(CompileError, match="wrt"):
        differentiate(SQUARE, wrt)


def test_positions_are_integers_of_any_kind() -> None:
    assert evaluate(grad(SQUARE, np.int64(1)), ARGS) == 4  # type: ignore[arg-type]


@ALL
@pytest.mark.parametrize("wrt", [0, 1, "x", ["x"]])
def test_a_name_that_two_parameters_have(differentiate: Callable[..., Any], wrt: Any) -> None:
    with pytest.raises(CompileError, match="2 parameters are called 'x'"):
        differentiate(Module.from_expr(twins()), wrt)


def test_parameters_of_one_name_are_told_apart_where_none_is_named() -> None:
    mod = Module.from_expr(twins())
    assert evaluate(grad(mod), ARGS) == (12, 4)
    with pytest.raises(CompileError, match="2 parameters are called 'x'"):
        jacobian(mod)


def test_a_parameter_has_one_tangent() -> None:
    assert evaluate(grad(SQUARE, ["x", "x"]), ARGS) == (12, 12)
    with pytest.raises(CompileError, match="'x' is named twice"):
        jvp(SQUARE, ["x", 0])


@pytest.mark.parametrize("result", ["%t", "if (%x > 0f64) { %t } else { Leaf(%x) }"])
def test_data_has_no_cotangent(result: str) -> None:
    mod = legato.parse(f"{TREE}def @main(%x: float64, %t: Tree) {{ let %u = {result}; (%x * %x, %u) }}")
    for reverse in (lambda m: vjp(m, "x"), Gradient(("x",))):
        with pytest.raises(CompileError, match=r"\(float64, Tree\), wanted tensors"):
            reverse(mod)
    for forward in (lambda m: jvp(m, "x"), Tangent(("x",))):
        assert "dx" in {p.name for p in forward(mod)["main"].params}
    assert {p.name for p in grad(mod, "x", has_aux=True)["main"].params} == {"x", "t"}  # type: ignore[union-attr]


def test_data_has_no_tangent() -> None:
    mod = legato.parse(
        TREE
        + """
    def @main(%t: Tree, %x: float64) { match (%t) { Leaf(%y) => %x * %y, Node(_, _) => %x } }"""
    )
    for forward in (jvp, Tangent(), lambda m: jvp(m, "t")):
        with pytest.raises(UnsupportedError, match="'t' has type Tree: only tensors have tangents"):
            forward(mod)
    tree = evaluate(legato.parse(TREE + "def @main() { Leaf(5f64) }"), [])
    assert evaluate(jvp(mod, "x"), [tree, np.float64(2), np.float64(1)]) == (10, 5)


def test_functions_beside_the_result() -> None:
    mod = legato.parse("def @main(%x: float64, %f: fn (int32) -> int32) { (%x * %x, %f) }")
    with pytest.raises(CompileError, match="wanted tensors"):
        Gradient()(mod)
    for made in (Gradient(aux=True)(mod), Tangent()(mod)):
        assert {p.name for p in made["main"].params} >= {"x", "f"}  # type: ignore[union-attr]


@pytest.mark.parametrize("mod", [3, SQUARE, "x"])
def test_gradient_takes_a_relay_module(mod: Any) -> None:
    with pytest.raises(CompileError, match="gradient: mod"):
        relay.transform.gradient(twins(), mod)


@pytest.mark.parametrize(
    "options",
    [
        {"eps": "a"}, {"eps": 0}, {"atol": None}, {"rtol": "x"}, {"scale": "a"}, {"mean": []}, {"inputs": 3},
        {"inputs": ["a", "b"]}, {"target_devices": 3}, {"target_devices": ["host"]},
    ],
)  # fmt: skip
def test_check_grad_takes_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(CompileError, match=f"check_grad: {next(iter(options)).rstrip('s')}"):
        relay.testing.check_grad(twins(), **options)
