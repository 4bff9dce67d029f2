"""Which outputs may lie where an input lies: only if no element is read after it was stored."""

from __future__ import annotations

import numpy as np
import pytest

from legato.tir.in_place import in_place
from legato.tir.interp import run
from legato.tir.parser import parse_func

HEAD = "kernel @f(x: Buffer[(4, 6), float32], z: Buffer[(4, 6), float32], y: Buffer[(4, 6), float32])"
SAFE = [
    "parallel i in 0..4 { for j in 0..6 { y[i, j] = max(x[i, j], z[i, 0]); } }",
    "parallel p in 0..24 { y[p // 6, p % 6] = x[p // 6, p % 6] + z[0, 0]; }",
    "for i in 0..4 { for t in 0..2 { vector l in 0..3 { y[i, t * 3 + l] = x[i, t * 3 + l] * x[i, t * 3 + l]; } } }",
    "for i in 0..4 { for j in 0..4 { y[i, j] = x[i, j]; } for k in 0..2 { y[i, 4 + k] = -x[i, 4 + k]; } }",
    "for i in 0..4 { let k = 3 - i; for j in 0..6 { y[k, j] = x[k, j]; } }",
]
UNSAFE = [
    "for i in 0..4 { for j in 0..6 { y[i, j] = x[3 - i, j]; } }",  # elements of others
    "for i in 0..4 { for j in 0..5 { y[i, j] = x[i, j + 1]; } }",
    "for k in 0..2 { for i in 0..4 { for j in 0..6 { y[i, j] = x[i, j] + 1f; } } }",  # stored again and again
    "for i in 0..4 { for t in 0..2 { for l in 0..4 { y[i, t * 2 + l] = x[i, t * 2 + l] + 1f; } } }",  # overlaps
    "for i in 0..4 { for j in 0..6 { y[i, j] = 0f; } for k in 0..6 { y[i, k] = x[i, k]; } }",  # lost before it is read
    "for i in 0..4 { for j in 0..6 { let a = x[i, j]; y[i, j] = 0f; y[i, j] = a; } }",
    "for i in 0..4 { for j in 0..6 { y[i, j] = x[i, j]; y[i, j] = y[i, j] + z[i, j]; } }",
    "for i in 0..4 { for j in 0..6 { if x[0, 0] < 0f { y[i, j] = x[i, j]; } } }",
]


@pytest.mark.parametrize("text", SAFE)
def test_each_element_is_read_and_stored_once(text: str) -> None:
    func = parse_func(f"{HEAD} {{ {text} }}")
    assert (0, 2) in in_place(func)
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 4, 6)).astype(np.float32)
    y, shared = np.zeros_like(x), x.copy()
    run(func, [x, z, y])
    run(func, [shared, z, shared])
    np.testing.assert_array_equal(shared, y)


@pytest.mark.parametrize("text", UNSAFE)
def test_whatever_is_not_shown_is_refused(text: str) -> None:
    assert (0, 2) not in in_place(parse_func(f"{HEAD} {{ {text} }}"))


@pytest.mark.parametrize("facts", ["order=(1, 0)", "halo=((0, 0), (1, 1))", "pad=(0, 2)"])
def test_memory_must_be_alike(facts: str) -> None:
    params = f"x: Buffer[(4, 6), float32, {facts}], y: Buffer[(4, 6), float32]"
    assert (
        in_place(parse_func(f"kernel @f({params}) {{ for i in 0..4 {{ for j in 0..6 {{ y[i, j] = x[i, j]; }} }} }}"))
        == ()
    )
