"""Which programs only give their input another shape."""

from __future__ import annotations

import pytest

from legato.tir.parser import parse_func
from legato.tir.reshape import is_reshape

CASES = [
    ("(n, 4)", "(n * 4,)", "for i in 0..n * 4 { y[i] = x[i // 4, i % 4]; }", True),
    ("(n * 4,)", "(n, 4)", "for i in 0..n { parallel j in 0..4 { y[i, j] = x[i * 4 + j]; } }", True),
    ("(2, 3, n)", "(6, n)", "for i in 0..6 { for j in 0..n { y[i, j] = x[i // 3, i % 3, j]; } }", True),
    ("(n, 4)", "(4, n)", "for i in 0..4 { for j in 0..n { y[i, j] = x[j, i]; } }", False),
    ("(n, 4)", "(n, 4)", "for i in 0..n { for j in 0..4 { y[i, j] = x[i, j] + 1f; } }", False),
    ("(n, 4)", "(n, 4)", "for i in 0..n { for j in 0..4 { y[i, j] = x[i - 1, j + 4]; } }", False),
    ("(8,)", "(4,)", "for i in 0..4 { y[i] = x[i]; }", False),
    ("(4,)", "(4,)", "for i in 0..3 { y[i] = x[i]; }", False),
    ("(4,)", "(4,)", "for i in 0..4 { y[i] = x[i]; y[0] = 1f; }", False),
]


@pytest.mark.parametrize(("given", "made", "body", "wanted"), CASES)
def test_reshapes(given: str, made: str, body: str, wanted: bool) -> None:
    params = f"x: Buffer[{given}, float32], y: Buffer[{made}, float32], n: index[0..]"
    assert is_reshape(parse_func(f"kernel @f({params}) {{ {body} }}")) is wanted
