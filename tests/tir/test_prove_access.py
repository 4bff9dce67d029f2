"""What is proven to be inside is inside, whatever the dims and the data are; what often occurs is proven."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Const, Var
from legato.base.errors import InternalError
from legato.tir import interp
from legato.tir.parser import parse_func
from legato.tir.prove_access import prove_accesses
from legato.tir.stmt import Func
from tests.codegen.test_random import arguments, kernels
from tests.programs.settings import examples

PARAMS = """x: Buffer[(n, m), float32], k: Buffer[(n,), int32], h: Buffer[(n, 8), float32, halo=((0, 0), (1, 2))],
            y: Buffer[(n,), float32], n: index, m: index, p: index"""
PROVEN = [
    "for i in 0..n { y[i] = 1f; }",
    "for i in 0..n { for j in 0..m { y[i] = x[n - 1 - i, j]; } }",
    "for i in 0..n // 4 { vector l in 0..4 { y[i * 4 + l] = 1f; } }",
    "for i in 0..(n + 7) // 8 { vector l in 0..8 { if i * 8 + l < n { y[i * 8 + l] = 1f; } } }",
    "for i in 0..n * m { y[i // m] = x[i // m, i % m]; }",
    "for i in 0..p { if i < n { y[i] = 1f; } else { if 0 < n { y[n - 1] = 1f; } } }",
    "for i in 0..n { for j in 0..10 { y[i] = h[i, j - 1] + h[i, min(j, 9)]; } }",
    "for i in 0..n { if 0 < m { y[i] = x[i, max(0, min(index(k[i]), m - 1))]; } }",
    "for i in 0..n { y[i] = select(0i32 <= k[i] and k[i] < 7i32, h[i, index(k[i])], 0f); }",
    "for i in 0..n { let j = index(k[i]); if 0 <= j and j < m { y[i] = x[i, j]; } }",
    "for i in 0..n { if 0 < m { y[i] = x[i, index(k[i]) % m]; } }",
    "for i in 0..n { y[i] = select(y[i] < 2.5f, 0f, select(1f < y[i] or y[i] == 0f, 1f, 2f)); }",
    "if 2 <= n { y[select(p < 3, 0, 1)] = 1f; }",
    "for i in 0..n { if 0 < m { y[i] = select(0f < x[i, 0], 0f, x[i, 0]); } }",
    "for i in 0..n { prefetch x[i + 9, 0]; }",
    "alloc t: Buffer[(n + 1,), float32, scope=local]; for i in 0..n { t[i + 1] = 1f; }",
]
UNPROVEN = [
    ("for i in 0..n + 1 { y[i] = 1f; }", "subscript 0, i, may be n or more"),
    ("y[0] = 1f;", "subscript 0, 0, may be n or more"),
    ("for i in 0..p { y[i] = 1f; }", "subscript 0, i, may be n or more"),
    ("for i in 0..n { y[i - 1] = 1f; }", "subscript 0, i - 1, may be less than 0"),
    ("for i in 0..n { y[index(k[i])] = 1f; }", "subscript 0, index(k[i]), may be less than 0"),
    ("for i in 0..n { if i < m { y[i] = x[m, i]; } }", "subscript 0, m, may be n or more"),
    ("for i in 0..n { y[(i * 4611686018427387904 + i) // 8] = 1f; }",
     "i * 4611686018427387904 may leave 64 bits"),
    ("for i in 0..n * n * n * n * n { if i < n { y[i] = 1f; } }", "n * n may leave 64 bits"),
    ("for i in 0..n { k[i] = 9i32; if k[i] < int32(n) { y[index(k[i])] = 1f; } }", "subscript 0, index(k[i]), may be"),
]  # fmt: skip


def kernel(body: str) -> Func:
    return parse_func(f"kernel @f({PARAMS}) {{ {body} }}")


@pytest.mark.parametrize("body", PROVEN)
def test_what_often_occurs_is_proven(body: str) -> None:
    assert [f.reason for f in prove_accesses(kernel(body)) if f.reason] == []


@pytest.mark.parametrize(("body", "reason"), UNPROVEN)
def test_what_may_lie_outside_is_not(body: str, reason: str) -> None:
    reasons = [f.reason for f in prove_accesses(kernel(body)) if f.reason]
    assert any(r.startswith(reason) for r in reasons), reasons


def extents(func: Func, dims: dict[Var, int], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for p in func.params:
        if isinstance(p, Var):
            out.append(dims[p])
        else:
            shape = [int(d.value) if isinstance(d, Const) else dims[d] for d in p.shape]  # type: ignore[index]
            out.append(rng.integers(-3, 6, shape).astype(p.dtype.numpy))
    return out


@pytest.mark.parametrize("body", [*PROVEN, *(body for body, _ in UNPROVEN[:6])])
def test_proven_is_inside_for_small_dims(body: str) -> None:
    func = kernel(body)
    if all(f.reason is None for f in prove_accesses(func)):
        run_all(func)
    else:
        with pytest.raises(InternalError, match="out of bounds"):
            run_all(func)


def run_all(func: Func) -> None:
    names = {p.name: p for p in func.params if isinstance(p, Var)}
    for n, m, p in itertools.product((0, 1, 2, 3, 9), (0, 1, 3), (0, 2, 5)):
        interp.run(func, extents(func, {names["n"]: n, names["m"]: m, names["p"]: p}, n + m))


@examples(60, fuzz=False)
@given(kernels(wild=True), st.integers(0, 100))
def test_what_lies_outside_was_not_proven(func: Func, seed: int) -> None:
    unproven = {f.access.buffer.name for f in prove_accesses(func) if f.reason}
    try:
        interp.run(func, arguments(func, seed))
    except InternalError as error:
        name, found, _ = str(error).partition("[")
        if not found or name not in unproven:
            raise
