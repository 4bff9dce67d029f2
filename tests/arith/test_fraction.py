"""Fractions for floats: the nearest float to a fraction, and the simplest fraction that a float stands for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.fraction import is_float32, nearest_float, simplest

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=2.0**-60, max_value=2.0**60)


@given(FLOATS)
def test_simplest_is_that_float(x: float) -> None:
    found = simplest(x)
    assert np.float32(float(found)) == np.float32(x)
    assert simplest(-x) == -found
    assert found.denominator <= Fraction(x).denominator


def test_simplest() -> None:
    for a in range(1, 60):
        for b in range(1, 60):
            assert simplest(a / b) == simplest(float(np.float32(a / b))) == Fraction(a, b)
    assert simplest(0.0) == 0


@given(st.fractions(min_value=2**-60, max_value=2**60))
def test_nearest_float(x: Fraction) -> None:
    assert float(nearest_float(x, 53)) == x.numerator / x.denominator
    assert nearest_float(-x, 53) == -nearest_float(x, 53)
    assert is_float32(float(nearest_float(x, 24)))
    assert abs(nearest_float(x, 24) - x) <= x * Fraction(1, 1 << 24)
