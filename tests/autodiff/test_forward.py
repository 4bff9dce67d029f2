"""Forward mode: tangents against differences, against reverse mode, and how programs with tangents look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.autodiff import grad, jvp, vjp
from legato.base.errors import CompileError
from legato.interp import evaluate
from legato.ir.types import Type
from legato.transform._gradient.cotangents import is_continuous
from tests.autodiff.programs import PROGRAMS, argument, arguments, assert_near, difference, inner, main_of, program


def still(ty: Type | None, value: Any) -> Any:
    """A direction in which only floats move."""
    if isinstance(value, tuple):
        return tuple(still(t, v) for t, v in zip(ty.fields, value, strict=True))  # type: ignore[union-attr]
    return value if is_continuous(ty) else np.zeros_like(value)


class Case:
    """A program at a point, with a direction."""

    def __init__(self, name: str) -> None:
        self.mod = program(name)
        self.params = main_of(self.mod).params
        self.args = arguments(self.mod)
        values = arguments(self.mod, seed=1)
        self.direction = [still(p.ty, v) for p, v in zip(self.params, values, strict=True)]
        self.moves = [d for p, d in zip(self.params, self.direction, strict=True) if is_continuous(p.ty)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents_are_derivatives(name: str) -> None:
    case = Case(name)
    value, tangent = evaluate(jvp(case.mod), [*case.args, *case.moves])
    assert_near(value, evaluate(case.mod, case.args), 0)
    assert_near(tangent, difference(case.mod, case.args, case.direction))


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_is_reverse(name: str) -> None:
    case = Case(name)
    dy = argument(main_of(case.mod).body.ty, np.random.default_rng(2))
    tangent = evaluate(jvp(case.mod), [*case.args, *case.moves])[1]
    gradients = evaluate(vjp(case.mod), [*case.args, dy])[1]
    assert inner(tangent, dy) == pytest.approx(inner(gradients, case.moves), rel=1e-12)


@pytest.mark.parametrize("name", ["products", "layers"])
def test_programs_with_tangents_compile(name: str) -> None:
    case = Case(name)
    made = jvp(case.mod)
    args = [*case.args, *case.moves]
    for got, wanted in zip(legato.compile(made)(*args), evaluate(made, args), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_tangents_of_chosen_parameters() -> None:
    mod = program("products")
    made = jvp(mod, ["y"])
    assert [p.name for p in main_of(made).params] == ["x", "y", "dy"]
    assert [p.name for p in main_of(jvp(mod, (1, "x"))).params] == ["x", "y", "dy", "dx"]
    assert_near(evaluate(made, [0.5, 2.0, 1.0])[1], np.float64(np.sin(0.5) * 1.5))


def test_names_that_are_taken() -> None:
    mod = legato.parse("def @main(%x: float64, %dx: float64) { %x * %dx }")
    assert [p.name for p in main_of(jvp(mod, "x")).params] == ["x", "dx", "dx_"]
    mod = legato.parse("def @main(%x: float64, %dy: float64) { %x * %dy }")
    assert [p.name for p in main_of(vjp(mod)).params] == ["x", "dy", "dy_"]


def test_what_holds_no_floats_has_zeros() -> None:
    mod = legato.parse("def @main(%x: Tensor[(2), float64], %i: int32) { (%i, %x * %x, (%i + 1, 2f64)) }")
    x = np.array([1.0, -3.0])
    tangent = evaluate(jvp(mod), [x, np.int32(4), np.array([1.0, 0.5])])[1]
    assert (tangent[0], tangent[0].dtype) == (0, np.int32)
    assert tangent[1].tolist() == [2.0, -3.0]
    assert (tangent[2][0], tangent[2][1]) == (0, 0.0)


def test_functions_stay_functions() -> None:
    func = main_of(program("products"))
    made = jvp(func)
    assert type(made) is type(func)
    assert len(made.params) == 4


def test_second_derivatives_forward_over_reverse_and_over_forward() -> None:
    mod = legato.parse("def @main(%x: float64) { exp(%x * %x) * %x }")
    x = 0.7
    wanted = np.exp(x * x) * (4 * x**3 + 6 * x)
    over_reverse = jvp(grad(mod, "x"))
    assert evaluate(over_reverse, [x, 1.0])[1] == pytest.approx(wanted)
    twice = jvp(jvp(mod), "x")
    assert evaluate(twice, [x, 1.0, 1.0])[1][1] == pytest.approx(wanted)


def test_what_is_refused() -> None:
    mod = program("without floats")
    with pytest.raises(CompileError, match=r"'i' has type .*int32.*no gradient"):
        jvp(mod, "i")
    with pytest.raises(CompileError, match="there is no parameter 'z'"):
        jvp(mod, "z")
    with pytest.raises(CompileError, match="there is no parameter 2"):
        jvp(mod, 2)
    with pytest.raises(CompileError, match="wanted floats"):
        jvp(legato.parse("def @main(%x: float64, %i: int32) { %i + 1 }"))


OWN = """
    def @half(%x: Tensor[(3), float64], %y: Tensor[(3), float64], Gradient="back") -> Tensor[(3), float64] {
      %x * %y
    }
    def @back(%x: Tensor[(3), float64], %y: Tensor[(3), float64], %dy: Tensor[(3), float64])
        -> (Tensor[(3), float64], Tensor[(3), float64]) {
      (%y * %dy * 0.5f64, %x * %dy * 0.5f64)
    }
    def @block(%x: Tensor[(3), float64], Remat=1) -> Tensor[(3), float64] { exp(sin(%x)) }
    def @main(%x: Tensor[(3), float64]) { @half(%x, @block(%x)) }"""


def test_functions_with_a_gradient_of_their_own_have_its_transpose() -> None:
    mod = legato.parse(OWN)
    rng = np.random.default_rng(0)
    x, dx, dy = rng.standard_normal((3, 3))
    tangent = evaluate(jvp(mod), [x, dx])[1]
    gradients = evaluate(vjp(mod), [x, dy])[1]
    assert inner(tangent, dy) == pytest.approx(inner(gradients, [dx]), rel=1e-12)
    block = np.exp(np.sin(x))
    np.testing.assert_allclose(tangent, 0.5 * dx * block + 0.5 * x * block * np.cos(x) * dx, rtol=1e-12)


def test_second_derivatives_of_functions_with_a_gradient_of_their_own() -> None:
    mod = legato.parse("""
        def @f(%x: float64, Gradient="back") -> float64 { round(%x) }
        def @back(%x: float64, %dy: float64) -> (float64,) { (sin(%x) * %dy,) }
        def @main(%x: float64) { @f(%x) * %x }""")
    # the gradient is round(x) + x·sin(x); that of round is sin
    wanted = np.sin(0.7) + np.sin(0.7) + 0.7 * np.cos(0.7)
    assert evaluate(jvp(grad(mod, "x")), [0.7, 1.0])[1] == pytest.approx(wanted)
    assert evaluate(grad(grad(mod, "x"), "x"), [0.7]) == pytest.approx(wanted)
