"""Every way to leave a buffer is found when a tested function runs, by the interpreter and in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.runtime.violation import AccessInfo, violation
from legato.tir import interp
from legato.tir.bounds import WORDS, AccessTests, checked
from legato.tir.parser import parse_func
from legato.tir.stmt import Func
from tests.codegen.running import RUNNABLE, copies, run

X, Y = "x: Buffer[(5, 4), float32]", "y: Buffer[(8,), float32]"
HALO = "x: Buffer[(5, 4), float32, halo=((1, 1), (0, 2))]"
SYMBOLIC = "x: Buffer[(5, n), float32]"

# What a kernel does to x (5, 4), y (8,) and k = [0, 3, 9, -1, 0, 0, 0, 0] with n = 4, and how the test that fails ends.
OUTSIDE = [
    (X, "y[8] = 1f;", "stores to y[8] of [8]"),
    (X, "y[n - 5] = 1f;", "stores to y[-1] of [8]"),
    (X, "for i in 0..5 { y[i] = x[i, 4]; }", "reads x[0, 4] of [5, 4]"),  # within the memory of x
    (X, "for i in 0..n { y[i] = x[i - 1, 3]; }", "reads x[-1, 3] of [5, 4]"),
    (X, "vector i in 0..8 { y[i + 1] = 0f; }", "stores to y[8] of [8]"),  # the last lane
    (X, "vector i in 0..8 { y[i] = x[2 - i // 2, 0]; }", "reads x[-1, 0] of [5, 4]"),
    (X, "vector i in 0..8 { if i < 5 { y[i] = x[0, i]; } }", "reads x[0, 4] of [5, 4]"),
    (X, "vector i in 0..8 { y[i] = select(2 <= i and i < 7, x[0, i - 3], 0f); }", "reads x[0, -1] of [5, 4]"),
    (X, "vector i in 0..8 { y[i] = x[max(index(k[i]), 0), 0]; }", "reads x[9, 0] of [5, 4]"),  # a gather
    (X, "vector i in 0..8 { y[i] = x[0, index(k[i + 1]) % 4]; }", "reads k[8] of [8]"),
    (X, "for i in 0..n { y[index(k[3 - i])] = 1f; }", "stores to y[-1] of [8]"),
    (SYMBOLIC, "for j in 0..n + 1 { y[j] = x[4, j]; }", "reads x[4, 4] of [5, 4]"),
    (HALO, "for i in 0..n { y[i] = x[i - 2, 3]; }", "reads x[-2, 3] of [-1..6, 6]"),
    (HALO, "for j in 0..n { y[j] = x[5, j + 3]; }", "reads x[5, 6] of [-1..6, 6]"),
    (X, "alloc t: Buffer[(3, 2), bool, scope=local]; t[n // 2, 2] = True;", "stores to t[2, 2] of [3, 2]"),
    (X, "alloc t: Buffer[(3, 2), float32, scope=register]; unroll i in 0..4 { t[0, i % 3] = 1f; }",
     "stores to t[0, 2] of [3, 2]"),
    (X, "vector i in 0..4 { alloc t: Buffer[(4,), float32, scope=local]; t[i + 1] = 0f; y[i] = t[i + 1]; }",
     "stores to t[4] of [4]"),
    (X, "for i in 0..n { if i < 3 { y[0] = 1f; } else { y[i + 5] = 1f; } }", "stores to y[8] of [8]"),
    (X, "y[0] = select(n < 4, 1f, select(0f < x[n + 1, 0], 1f, 2f));", "reads x[5, 0] of [5, 4]"),
    (X, "if 0f < x[0, n] { y[0] = 1f; }", "reads x[0, 4] of [5, 4]"),
    (X, "for i in 0..index(k[n + 4]) { y[0] = 1f; }", "reads k[8] of [8]"),
    (X, "alloc t: Buffer[(4,), float32, scope=local]; for i in 0..n - 1 { t[i] = x[0, i]; } y[n] = t[3] + 1f;",
     "stores to y[4] what depends on memory that nothing has stored to"),
    (X, "alloc t: Buffer[(4,), float32, scope=register]; vector i in 0..4 { if i < 3 { t[i] = 1f; } }"
     " let v = t[2] * t[3]; y[0] = v;", "stores to y[0] what depends on memory that nothing has stored to"),
    (X, "alloc t: Buffer[(1,), float32, scope=local]; if t[0] < 0f { y[0] = 1f; }",
     "decides on what depends on memory that nothing has stored to"),
]  # fmt: skip
INSIDE = [
    (X, "vector i in 0..8 { y[i] = select(i < 4, x[0, i], 0f); }"),
    (X, "vector i in 0..8 { if i < 4 { y[i] = x[0, i]; } }"),
    (X, "for i in 0..n + 2 { y[i] = select(i < n, select(0f < x[0, i], 1f, 2f), 0f); }"),
    (HALO, "for i in 0..7 { for j in 0..6 { y[i] = x[i - 1, j]; } }"),
    (X, "prefetch x[n + 100, 0];"),
    (X, "alloc t: Buffer[(1,), float32, scope=local]; if n < 9 or t[0] < 0f { y[0] = 1f; }"),
    (X, "alloc t: Buffer[(1,), float32, scope=local]; if t[0] < 0f and 9 < n { y[0] = 1f; }"),
    (X, "alloc t: Buffer[(8,), float32, scope=local]; vector i in 0..8 { if i < n + 1 { t[i] = 1f; } }"
     " alloc u: Buffer[(8,), float32, scope=register]; vector i in 0..8 { u[i] = t[i] + 1f; }"
     " vector i in 0..8 { if i <= n { y[i] = u[i]; } }"),
    (X, "alloc t: Buffer[(1,), float32, scope=local]; y[0] = select(n < 9, 1f, t[0]);"),
]  # fmt: skip


def with_tests(params: str, body: str) -> tuple[Func, AccessTests]:
    tests = AccessTests(0)
    head = f"kernel @f({params}, {Y}, k: Buffer[(8,), int32], n: index[0..])"
    return checked(parse_func(f"{head} {{ {body} }}"), tests, {}), tests


def arguments(report: np.ndarray) -> list[Any]:
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    return [x, np.zeros(8, np.float32), np.array([0, 3, 9, -1, 0, 0, 0, 0], np.int32), 4, report]


@pytest.mark.parametrize(("params", "body", "message"), OUTSIDE)
def test_what_lies_outside_is_found(params: str, body: str, message: str) -> None:
    func, tests = with_tests(params, body)
    infos = [AccessInfo(t.message, t.is_ours) for t in tests.found]
    runs = [interp.run, *(lambda f, args, t=target: run(f, args, t) for target in RUNNABLE)]
    for run_it in runs:
        report = np.full(WORDS, -1)
        status = run_it(func, arguments(report))
        assert status == 256 + report[0]
        told = str(violation(infos, int(report[0]), report.tolist()))
        assert told.splitlines()[0].replace(", whose extents are", " of") == f"kernel f {message}"


@pytest.mark.parametrize(("params", "body"), INSIDE)
def test_what_lies_inside_is_not(params: str, body: str) -> None:
    func, _ = with_tests(params, body)
    report = np.full(WORDS, -1)
    args = arguments(report)
    for target in RUNNABLE:
        assert run(func, copies(args), target) == 0
    assert interp.run(func, args) == 0
    assert report[0] == -1
