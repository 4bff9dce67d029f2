"""Loops that somebody says are parallel: divided among threads where that changes nothing, else in order."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from legato.tir.parser import parse_func
from legato.tir.stmt import Barrier, LoopKind
from legato.tir.threads import settled
from legato.tir.walk import loops, statements

PARAMS = "x: Buffer[(n,), float32], w: Buffer[(n, 4), float32], y: Buffer[(n,), float32], n: index"

# Bodies, how many parallel loops and barriers are left.
BODIES = [
    ("parallel i in 0..n { y[i] = x[i]; }", 1, 0),
    ("parallel i in 0..n { vector j in 0..4 { y[i] = w[i, j]; } }", 1, 0),  # the vector loop runs in order
    ("parallel i in 0..n { parallel j in 0..4 { y[i] = y[i] + w[i, j]; } }", 1, 0),
    ("parallel i in 0..n { y[0] = x[i]; }", 0, 0),
    ("parallel i in 0..n { if 0 < i { y[i] = y[i - 1] + x[i]; } }", 0, 0),
    ("parallel i in 0..n { y[i * i % n] = x[i]; }", 0, 0),
    ("for t in 0..3 { parallel i in 0..n { y[i] = x[i] + y[n - 1 - i]; } }", 0, 0),
    ("for t in 0..3 { parallel i in 0..n { y[i] = x[i] * 2f; } }", 1, 0),
    ("for t in 0..n { parallel i in 0..t { y[i] = x[t] * 2f; } }", 0, 0),  # another share of i in every turn
    ("for i in 0..n { y[i] = x[i]; } parallel i in 0..n { y[i] = y[i] * 2f; }", 2, 1),
    ("parallel i in 0..n { y[i] = x[i]; } y[0] = 3f;", 0, 0),  # n may be 0: the access is tested, a thread may leave
    ("parallel i in 0..n { y[i] = x[i]; } if 0 < n { y[0] = 3f; }", 2, 1),
    ("alloc t: Buffer[(n,), float32]; parallel i in 0..n { t[i] = x[i]; } parallel i in 0..n { y[i] = t[n - 1 - i]; }",
     2, 1),
    ("check n < 5000 else 0; parallel i in 0..n { y[i] = x[i]; }", 1, 0),
    ("check n < 5000 else 0; for i in 0..n { y[i] = x[i]; } parallel i in 0..n { y[i] = y[i] * 2f; }", 0, 0),
    ("alloc s: Buffer[(1,), float32, scope=local]; parallel i in 0..n { s[0] = x[i]; y[i] = s[0]; }", 0, 0),
    ("for i in 0..n { y[i] = x[i]; } barrier; for i in 0..n { y[i] = y[i] * 2f; }", 0, 0),  # all threads would run it
    ("parallel i in 0..n { y[i] = x[i]; } barrier; parallel i in 0..n { y[n - 1 - i] = y[n - 1 - i] * 2f; }", 2, 1),
    ("parallel i in 0..n { y[i] = x[i]; } barrier; if 0 < n { parallel i in 0..n { y[0] = y[0] + x[i]; } }", 2, 1),
    ("parallel i in 0..n { y[i] = x[i]; } parallel i in 0..n { y[n - 1 - i] = 2f; }", 2, 1),  # the same elements
    ("parallel i in 0..n { y[i] = x[i]; } if 0 < n { if y[0] < 1f { parallel i in 0..n { y[i] = 5f; } } }", 0, 0),
    ("parallel i in 0..n { y[i] = x[i]; } for k in 0..min(3, n) { if y[k] < 9f { parallel i in 0..n { y[i] = 5f; } } }",
     0, 0),
    ("if 3 < n { for i in 0..n { y[i] = x[i]; } parallel i in 0..n { y[i] = y[i] + 1f; } }", 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("body", "parallel", "barriers"), BODIES)
def test_what_is_divided(body: str, parallel: int, barriers: int) -> None:
    func = settled(parse_func(f"kernel @k({PARAMS}) {{ {body} }}"))
    assert sum(s.kind is LoopKind.PARALLEL for s in loops(func)) == parallel
    assert sum(isinstance(s, Barrier) for s in statements(func)) == barriers
    assert settled(func) is func


@pytest.mark.parametrize("body", [b[0] for b in BODIES])
def test_results_do_not_depend_on_threads(body: str) -> None:
    call = "call_tir(@k, (%x, %w), out=[Tensor[(m,), float32]])"
    head = "def @main(%x: Tensor[(m,), float32], %w: Tensor[(m, 4), float32])"
    mod = legato.parse(f'#[version = "0.0.5"]\nkernel @k({PARAMS}) {{ {body} }}\n{head} {{ {call} }}')
    exe = legato.compile(mod, threads=2, precision="exact")  # as written
    for n in (1, 2, 1500):
        x, w = np.arange(n, dtype=np.float32), np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        wanted = evaluate(mod, [x, w])
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(exe(x, w)), wanted)
