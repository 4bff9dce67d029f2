"""Gradients over the whole language: reverse mode = forward mode = finite differences, once more for the gradient's own
gradient, interpreted = compiled."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import legato
from legato.autodiff.program import main_of, with_result
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Tuple, Var
from legato.ir.module import Module
from legato.ir.verify import Stage, verify
from legato.transform._gradient import general
from legato.transform.gradient import Gradient
from legato.transform.to_a_normal import ToANormal
from tests.autodiff.language_programs import PROGRAMS, arguments

STEP = 1e-6
NAMES = pytest.mark.parametrize("name", PROGRAMS)


@cache
def module(name: str) -> Module:
    """One of the programs."""
    return ToANormal()(infer(legato.parse(PROGRAMS[name])))


def given(name: str) -> list[Any]:
    """Its arguments."""
    return arguments(main_of(module(name)).params, np.random.default_rng(len(name)))


def places(args: list[Any]) -> list[int]:
    """Which arguments are floats."""
    return [n for n, a in enumerate(args) if a.dtype == np.float64]


def moved(args: list[Any], directions: list[Any], step: float) -> list[Any]:
    """The arguments, a step away."""
    new = list(args)
    for n, d in zip(places(args), directions, strict=True):
        new[n] = args[n] + step * d
    return new


def slope(mod: Module, args: list[Any], directions: list[Any]) -> Any:
    """The derivative of the result of a program in a direction, by central differences."""
    upper, lower = (evaluate(mod, moved(args, directions, s)) for s in (STEP, -STEP))
    return (np.asarray(upper) - np.asarray(lower)) / (2 * STEP)


def directions_for(args: list[Any]) -> list[Any]:
    """A random direction for each float."""
    rng = np.random.default_rng(9)
    return [rng.uniform(-1, 1, args[n].shape) for n in places(args)]


def inner(left: Any, right: Any) -> float:
    """The inner product of lists of arrays."""
    return sum(float(np.sum(a * b)) for a, b in zip(left, right, strict=True))


@NAMES
def test_reverse_mode_is_the_derivative(name: str) -> None:
    mod, args = module(name), given(name)
    new = Gradient()(mod)
    verify(new, Stage.TYPED)
    value, gradients = evaluate(new, args)
    np.testing.assert_array_equal(value, evaluate(mod, args))
    directions = directions_for(args)
    wanted = float(slope(mod, args, directions))
    assert abs(inner(gradients, directions) - wanted) <= 1e-7 * max(1.0, abs(wanted))
    compiled = legato.compile(new)(*args)
    for got, g in zip(compiled[1], gradients, strict=True):
        np.testing.assert_allclose(got, g, rtol=1e-12, atol=1e-14)


@NAMES
@pytest.mark.shared(2)
def test_forward_mode_is_reverse_mode(name: str) -> None:
    mod, args = module(name), given(name)
    wrt = [main_of(mod).params[n] for n in places(args)]
    new = infer(general.forward(mod, wrt, [Var(f"d{p.name}", ty=p.ty) for p in wrt]))
    verify(new, Stage.TYPED)
    directions = directions_for(args)
    _, tangent = evaluate(new, [*args, *directions])
    _, gradients = evaluate(Gradient()(mod), args)
    np.testing.assert_allclose(tangent, inner(gradients, directions), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(legato.compile(new)(*args, *directions)[1], tangent, rtol=1e-12, atol=1e-14)


@NAMES
def test_gradients_have_gradients(name: str) -> None:
    """The gradient of one element of the gradient, in a direction, is a difference of gradients."""
    mod, args = module(name), given(name)

    def first(fields: Any) -> Any:
        gradients = fields[1]
        assert isinstance(gradients, Tuple)
        return gradients.fields[0]

    once = with_result(ToANormal()(Gradient()(mod)), first)
    twice = Gradient()(once)
    verify(twice, Stage.TYPED)
    directions = directions_for(args)
    wanted = float(np.sum(slope(once, args, directions)))
    _, gradients = evaluate(twice, args)
    assert abs(inner(gradients, directions) - wanted) <= 1e-6 * max(1.0, abs(wanted))
