"""The matrices of minimal filtering: exact over rationals, for any distinct points."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.target import TARGETS, Target
from legato.lower.algorithms.cook_toom import F1, F2, F4, TAPS, Matrix, Scheme, combined, gathered, scheme
from legato.te.lower import to_tir
from legato.te.tensor import compute, placeholder
from legato.tir import interp

numbers = st.fractions(-4, 4, max_denominator=8)


def product(matrix: Matrix, x: list[Fraction]) -> list[Fraction]:
    return [sum((c * v for c, v in zip(row, x, strict=True)), Fraction(0)) for row in matrix]


def filtered(s: Scheme, x: list[Fraction], w: list[Fraction]) -> list[Fraction]:
    """Aᵀ((G w) ∘ (B x))."""
    pairs = zip(product(s.weights, w), product(s.data, x), strict=True)
    return product(s.result, [a * b for a, b in pairs])


@given(st.data(), st.integers(1, 4))
def test_products_at_any_points_give_the_correlation(data: st.DataObject, outputs: int) -> None:
    points = data.draw(st.lists(numbers, min_size=outputs + 1, max_size=outputs + 1, unique=True))
    s = scheme(outputs, points)
    x = data.draw(st.lists(numbers, min_size=s.inputs, max_size=s.inputs))
    w = data.draw(st.lists(numbers, min_size=TAPS, max_size=TAPS))
    assert filtered(s, x, w) == [sum(x[i + k] * w[k] for k in range(TAPS)) for i in range(outputs)]
    assert filtered(F1, x[:TAPS], w) == filtered(s, x, w)[:1]


def test_the_usual_algorithm() -> None:
    half = Fraction(1, 2)
    assert F2.weights == ((-1, 0, 0), (half, half, half), (half, -half, half), (0, 0, 1))
    assert F2.result == ((1, 1, 1, 0), (0, 1, -1, 1))


@pytest.mark.parametrize("target", [TARGETS["x86-64-v2"], TARGETS["x86-64-v4"]], ids=["plain", "fma"])
@pytest.mark.parametrize("s", [F1, F2, F4], ids=["F1", "F2", "F4"])
def test_sums_are_those_of_the_rows(s: Scheme, target: Target) -> None:
    x = placeholder("x", (s.inputs,), "float64")
    reads = [x[n] for n in range(s.inputs)]
    values = np.random.default_rng(0).standard_normal(s.inputs)
    for matrix, form in ((s.data, combined), (s.result, gathered)):
        for row in matrix:
            y = compute((1,), lambda i, row=row, form=form: form(row, reads, target), "y")
            got = np.zeros(1)
            assert interp.run(to_tir([y], [x], "sum"), [values, got]) == 0
            assert got[0] == pytest.approx(float(np.dot(np.array(row, np.float64), values)), rel=1e-12)
