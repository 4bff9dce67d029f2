"""The check that names the first node whose gradient is not finite."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.autodiff import check_finite
from legato.base.errors import RunError
from tests.autodiff.programs import PROGRAMS, arguments, program

TEXT = """def @main(%x: Tensor[(3), float64], %y: Tensor[(3), float64]) {
  let %a = %x * %y;
  let %b = sqrt(%a);
  let %c = exp(%b);
  sum(%c) + sum(%x)
}"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_finite_gradients_pass(name: str) -> None:
    mod = program(name)
    check_finite(mod, *arguments(mod))


def test_the_first_value_on_the_way_back_is_named() -> None:
    mod = legato.parse(TEXT)
    check_finite(mod, np.array([1.0, 4.0, 9.0]), np.ones(3))
    with pytest.raises(RunError, match=r"by the result of multiply, used by sqrt, is not finite: it has inf") as found:
        check_finite(mod, np.array([1.0, 0.0, 9.0]), np.ones(3))
    assert "<text>:2:" in str(found.value)


def test_parameters_are_named() -> None:
    mod = legato.parse("def @main(%x: float64, %y: float64) { log(%x) * %y }")
    with pytest.raises(RunError, match="by the parameter x, used by log, is not finite: it has inf"):
        check_finite(mod, 0.0, 2.0, wrt="x")
    with pytest.raises(RunError, match="by the parameter y, used by multiply, is not finite: it has -inf"):
        check_finite(mod, 0.0, 2.0)
    check_finite(mod, 1.0, 2.0, wrt="y")


def test_what_is_not_differentiated_may_be_infinite() -> None:
    mod = legato.parse("def @main(%x: float64, %y: float64) { exp(%x) * %y }")
    check_finite(mod, -np.inf, 2.0, wrt="x")
    check_finite(mod, 0.0, np.inf, wrt="y")
    with pytest.raises(RunError, match="by the result of exp, used by multiply,"):
        check_finite(mod, 0.0, np.inf, wrt="x")


def test_branches_and_functions() -> None:
    mod = legato.parse("""
        def @f(%x: float64, %n: int32) -> float64 { if (%n == 0) { %x } else { @f(sqrt(%x), %n - 1) } }
        def @main(%x: float64) { @f(%x, 2) }""")
    check_finite(mod, 4.0)
    with pytest.raises(RunError, match="by the result of sqrt is not finite: it has inf"):
        check_finite(mod, 0.0)
