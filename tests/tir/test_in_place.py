"""Which outputs may lie where an input lies: only if no element is read after it was stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.tir.in_place import in_place
from legato.tir.interp import run
from legato.tir.parser import parse_func
from tests.programs.settings import examples

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


@pytest.mark.parametrize("text", [UNSAFE[n] for n in (0, 2, 3, 4)])
def test_memory_that_is_shared_shows(text: str) -> None:
    func = parse_func(f"{HEAD} {{ {text} }}")
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 4, 6)).astype(np.float32)
    y, shared = np.zeros_like(x), x.copy()
    run(func, [x, z, y])
    run(func, [shared, z, shared])
    touched = y != 0
    assert (shared[touched] != y[touched]).any()


@pytest.mark.parametrize("text", UNSAFE)
def test_whatever_is_not_shown_is_refused(text: str) -> None:
    assert (0, 2) not in in_place(parse_func(f"{HEAD} {{ {text} }}"))


ROWS = st.sampled_from(
    ["i", "i", "i", "i", "3 - i", "i // 2", "2 * (i % 2)", "index(k[i])", "index(k[index(k[i])])", "0"]
)
COLUMNS = st.sampled_from(["j", "j", "j", "j", "j", "5 - j", "3 * (j // 3) + j % 3", "j % 5", "j // 2 + 3", "0"])
VALUES = ("x[{}, {}]", "x[{}, {}] + z[i, 5 - j]", "z[i, j]", "max(x[{}, {}], y[i, j])", "x[{0}, {1}] * x[{0}, {1}]")


@st.composite
def stores(draw: st.DrawFn) -> str:
    row, column = draw(ROWS), draw(COLUMNS)
    same = draw(st.integers(0, 2)) > 0
    place = (row, column) if same else (draw(ROWS), draw(COLUMNS))
    value = draw(st.sampled_from(VALUES)).format(*place)
    changes = draw(st.sampled_from(["", "", "k[i] = int32((i + 1) % 4);"]))
    store = f"y[{row}, {column}] = {value};"
    guard = draw(st.sampled_from(["{}", "if 0i32 < k[i] {{ {} }}", "if j < 3 {{ {} }}"]))
    return guard.format(f"{changes} {store}")


NESTS = st.sampled_from([
    "for i in 0..4 {{ for j in 0..6 {{ {} }} }}",
    "for i in 0..4 {{ for t in 0..2 {{ for l in 0..3 {{ let j = t * 3 + l; {} }} }} }}",
    "for i in 0..4 {{ for t in 0..2 {{ for l in 0..3 {{ let j = t * 2 + l; {} }} }} }}",
])  # fmt: skip


@examples(200, fuzz=False)
@given(st.lists(st.tuples(NESTS, stores()), min_size=1, max_size=2), st.integers(0, 99))
def test_memory_that_may_be_shared_is(parts: list[tuple[str, str]], seed: int) -> None:
    body = " ".join(nest.format(store) for nest, store in parts)
    func = parse_func(f"{HEAD[:-1]}, k: Buffer[(4,), int32]) {{ {body} }}")
    if (0, 2) not in in_place(func):
        return
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, 4, 6)).astype(np.float32)
    k = rng.integers(0, 4, 4).astype(np.int32)
    alone, shared = [x.copy(), z, x.copy(), k.copy()], x.copy()
    run(func, alone)
    run(func, [shared, z, shared, k.copy()])
    np.testing.assert_array_equal(shared, alone[2])


@pytest.mark.parametrize("facts", ["order=(1, 0)", "halo=((0, 0), (1, 1))", "pad=(0, 2)"])
def test_memory_must_be_alike(facts: str) -> None:
    params = f"x: Buffer[(4, 6), float32, {facts}], y: Buffer[(4, 6), float32]"
    assert (
        in_place(parse_func(f"kernel @f({params}) {{ for i in 0..4 {{ for j in 0..6 {{ y[i, j] = x[i, j]; }} }} }}"))
        == ()
    )
