"""Jacobians and Hessians against differences, in both modes, written one after the other and as loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import grad, hessian, jacobian
from legato.base.errors import CompileError, UnsupportedError
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from tests.autodiff.programs import arguments, assert_near, difference, floats, main_of

MODES = ("forward", "reverse")
PROGRAMS = {
    "one after the other": """
        def @main(%x: Tensor[(3), float64], %y: Tensor[(2, 1), float64]) { sin(%x) * %y + exp(%y) }""",
    "a loop": """
        def @main(%x: Tensor[(3, 4), float64], %w: Tensor[(5, 4), float64]) { tanh(nn.dense(%x, %w)) }""",
    "a number": "def @main(%x: float64, %y: Tensor[(4), float64]) { sum(%y * %y * %x) }",
    "symbolic": "def @main(%x: Tensor[(n, 2), float64], %y: Tensor[(n), float64]) { sum(%x * %x, axis=[1]) * %y }",
    "nothing": "def @main(%x: Tensor[(0), float64], %y: Tensor[(2), float64]) { sum(exp(%x)) + %y }",
    "several results": """
        def @main(%x: Tensor[(3), float64], %y: Tensor[(3, 4), float64]) { (sum(%x * %x), sum(%y, axis=[1]) * %x) }""",
    "branches": """
        def @main(%x: Tensor[(3), float64], %y: float64) {
          if (sum(%x) > %y) { exp(%x) * %y } else { %x * %x - %y }
        }""",
    "recursion": """
        def @power(%x: Tensor[(2), float64], %n: int32) -> Tensor[(2), float64] {
          if (%n == 0) { %x } else { @power(%x * sin(%x), %n - 1) }
        }
        def @main(%x: Tensor[(2), float64], %y: Tensor[(2), float64]) { (@power(%x, 3) * %y, %y) }""",
}


def program(name: str) -> Module:
    """One of PROGRAMS."""
    return legato.parse(PROGRAMS[name])


def by_differences(mod: Module, args: list[Any]) -> list[list[np.ndarray[Any, Any]]]:
    """For each field of the result the derivatives by each parameter."""
    found: list[list[np.ndarray[Any, Any]]] = [[] for _ in floats(evaluate(mod, args))]
    for n, arg in enumerate(args):
        directions = np.eye(arg.size).reshape((arg.size, *arg.shape))
        still = [np.zeros_like(a) for a in args]
        columns = [difference(mod, args, [*still[:n], d, *still[n + 1 :]]) for d in directions]
        for k, value in enumerate(floats(evaluate(mod, args))):
            column = np.zeros((0, *value.shape)) if not columns else np.stack([c[k] for c in columns])
            found[k].append(np.moveaxis(column, 0, -1).reshape((*value.shape, *arg.shape)))
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_jacobians_are_derivatives(name: str, mode: str) -> None:
    mod = program(name)
    args = [np.asarray(a) for a in arguments(mod)]
    got = evaluate(jacobian(mod, mode=mode), args)
    wanted = by_differences(mod, args)
    is_tuple = len(wanted) > 1
    for row, right in zip(got if is_tuple else [got], wanted, strict=True):
        for block, expected in zip(row, right, strict=True):
            assert block.shape == expected.shape
            assert_near(block, expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["one after the other", "a loop", "symbolic", "branches"])
@pytest.mark.shared(2)
def test_jacobians_compile(name: str, mode: str) -> None:
    mod = jacobian(program(name), mode=mode)
    args = [np.asarray(a) for a in arguments(mod)]
    for got, wanted in zip(legato.compile(mod)(*args), evaluate(mod, args), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_one_parameter_gives_one_tensor() -> None:
    mod = program("one after the other")
    args = [np.asarray(a) for a in arguments(mod)]
    both = evaluate(jacobian(mod), args)
    assert_near(evaluate(jacobian(mod, "y"), args), both[1], 1e-14)
    assert_near(evaluate(jacobian(mod, [1, "x"]), args), (both[1], both[0]), 1e-14)


def test_the_mode_with_fewer_directions_is_taken() -> None:
    mod = legato.parse("def @main(%x: Tensor[(3), float64], %y: Tensor[(2, 3), float64]) { %x * %y }")
    assert str(jacobian(mod, "x")) == str(jacobian(mod, "x", mode="forward"))
    assert str(jacobian(mod)) == str(jacobian(mod, mode="reverse"))
    symbolic = program("symbolic")
    assert str(jacobian(symbolic)) == str(jacobian(symbolic, mode="reverse"))


@pytest.mark.parametrize("text", [
    "def @main(%x: Tensor[(3), float64], %y: Tensor[(2), float64]) { sum(exp(%x) * sin(%x)) * sum(%y * %y) }",
    "def @main(%x: Tensor[(3, 4), float64], %y: Tensor[(4), float64]) { let %t = tanh(%x * %y); sum(%t * %t) }",
    "def @main(%x: float64, %y: float64) { if (%x > %y) { exp(%x * %y) } else { %x * %y * %y } }",
], ids=["one after the other", "loops", "branches"])  # fmt: skip
def test_hessians_are_jacobians_of_gradients(text: str) -> None:
    mod = legato.parse(text)
    args = [np.asarray(a) for a in arguments(mod)]
    got = evaluate(hessian(mod), args)
    for row, wanted in zip(got, by_differences(grad(mod), args), strict=True):
        assert_near(row, wanted)
    assert_near(got[0][1], np.moveaxis(got[1][0], range(args[1].ndim), range(-args[1].ndim, 0)), 1e-12)
    assert_near(evaluate(hessian(mod, "y"), args), got[1][1], 1e-13)


PEERS: dict[str, Callable[..., Any]] = {
    "one after the other": lambda x, y: x.sin() * y + y.exp(),
    "a loop": lambda x, w: (x @ w.T).tanh(),
    "several results": lambda x, y: ((x * x).sum(), y.sum(1) * x),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PEERS)
def test_jacobians_are_those_of_pytorch(torch: Any, name: str, mode: str) -> None:
    mod = program(name)
    args = [np.asarray(a) for a in arguments(mod)]
    wanted = torch.func.jacrev(PEERS[name], argnums=(0, 1))(*map(torch.from_numpy, args))
    for got, expected in zip(floats(evaluate(jacobian(mod, mode=mode), args)), leaves(wanted), strict=True):
        assert_near(got, expected, 1e-10)


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    """The tensors in a value, as arrays."""
    return [a for v in value for a in leaves(v)] if isinstance(value, tuple) else [value.numpy()]


def test_hessians_are_those_of_pytorch(torch: Any) -> None:
    mod = legato.parse("""
        def @main(%x: Tensor[(3, 4), float64], %w: Tensor[(2, 4), float64]) {
          let %h = tanh(nn.dense(%x, %w));
          sum(%h * %h) + sum(exp(%w))
        }""")
    args = [np.asarray(a) for a in arguments(mod)]

    def loss(x: Any, w: Any) -> Any:
        h = (x @ w.T).tanh()
        return (h * h).sum() + w.exp().sum()

    gradient = torch.func.jacrev(loss, argnums=(0, 1))
    wanted = torch.func.jacrev(gradient, argnums=(0, 1))(*map(torch.from_numpy, args))
    made = hessian(mod)
    for run in (lambda: evaluate(made, args), lambda: legato.compile(made)(*args)):
        for got, expected in zip(floats(run()), leaves(wanted), strict=True):
            assert_near(got, expected, 1e-10)


def test_functions_stay_functions() -> None:
    func = main_of(program("one after the other"))
    assert isinstance(jacobian(func), Function)
    with pytest.raises(UnsupportedError, match="calls functions of its own"):
        jacobian(main_of(program("branches")), mode="reverse")


def test_what_is_refused() -> None:
    mod = legato.parse("def @main(%x: Tensor[(3), float64], %i: int32, %p: (float64, float64)) { (%x * %p.0, %i) }")
    with pytest.raises(CompileError, match=r"parameter 'p' has type \(float64, float64\), wanted a tensor of floats"):
        jacobian(mod)
    with pytest.raises(CompileError, match="field 1 of the result has type int32"):
        jacobian(mod, "x")
    with pytest.raises(CompileError, match="there is no parameter 'z'"):
        jacobian(mod, "z")
    with pytest.raises(CompileError, match="there is no mode 'sideways'"):
        jacobian(mod, "x", mode="sideways")
    with pytest.raises(CompileError, match="wanted one float"):
        hessian(legato.parse("def @main(%x: Tensor[(3), float64]) { %x }"))
