"""The simplifier of loop programs: same results under the interpreter, less program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.tir.buffer import Buffer
from legato.tir.equal import alpha_equal
from legato.tir.interp import run
from legato.tir.parser import parse_func
from legato.tir.printer import show
from legato.tir.simplify import simplify
from legato.tir.stmt import Func
from legato.tir.verify import verify
from tests.programs.settings import examples
from tests.tir import programs


def _outputs(func: Func, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    args: list[np.ndarray | int] = []
    for p in func.params:
        if isinstance(p, Buffer):
            shape = tuple(n if str(d) == "n" else int(str(d)) for d in p.shape)
            args.append(rng.integers(-20, 20, shape).astype(p.dtype.numpy))
        else:
            args.append(n)
    assert run(func, args) == 0
    return [a for a in args if isinstance(a, np.ndarray)]


@examples(150, fuzz=False)
@given(programs.kernels, st.integers(1, 5))
def test_the_meaning_stays(func: Func, n: int) -> None:
    simple = simplify(func)
    verify(simple)
    with np.errstate(all="ignore"):
        for a, b in zip(_outputs(func, n), _outputs(simple, n), strict=True):
            np.testing.assert_array_equal(a, b)
    assert simplify(simple) is simple


HEAD = "kernel @k(a: Buffer[(n, 8), int32], n: index[1..]) {\n"


@pytest.mark.parametrize(
    ("body", "simple"),
    [
        ("for i in 0..1 { a[i, i + 1] = 1i32; }", "a[0, 1] = 1i32;"),
        ("for i in 0..0 { a[i, 0] = 1i32; }", ""),
        ("for i in 0..n { }", ""),
        ("let m = n; let k = m; a[k - 1, 0] = 1i32;", "a[n - 1, 0] = 1i32;"),
        ("let m = n // 2; a[0, 0] = 1i32;", "a[0, 0] = 1i32;"),
        ("alloc t: Buffer[(4,), int8]; a[0, 0] = 1i32;", "a[0, 0] = 1i32;"),
        ("for i in 0..n { for j in 0..8 { if (i*8 + j)//8 < n { a[i, j] = 1i32; } } }",
         "for i in 0..n { for j in 0..8 { a[i, j] = 1i32; } }"),
        ("for i in 0..n { for j in 0..8 { if (i*8 + j)%8 != j { a[i, j] = 1i32; } else { } } }", ""),
        ("if n < 4 { if n < 4 { a[0, 0] = 1i32; } else { a[0, 0] = 2i32; } }", "if n < 4 { a[0, 0] = 1i32; }"),
        ("if n < 4 { if n < 6 { a[0, 0] = 1i32; } if 4 <= n { a[0, 1] = 1i32; } }", "if n < 4 { a[0, 0] = 1i32; }"),
        ("if n < 4 { } else { if n < 4 { a[0, 0] = 2i32; } a[0, 0] = 1i32; }", "if 3 < n { a[0, 0] = 1i32; }"),
        ("if n == 4 { a[n - 1, n % 4] = 1i32; }", "if n == 4 { a[3, 0] = 1i32; }"),
        ("check 0 < n else 2; a[0, 0] = 1i32;", "a[0, 0] = 1i32;"),
        ("parallel i in 0..1 { a[i, 0] = 1i32; }", "a[0, 0] = 1i32;"),
        ("for i in 0..n { let m = min(i, n); a[m, 0] = int32(i * 8 // 8); }",
         "for i in 0..n { let m = i; a[m, 0] = int32(i); }"),
    ],
)  # fmt: skip
def test_examples(body: str, simple: str) -> None:
    result = simplify(parse_func(f"{HEAD}{body} }}"))
    wanted = parse_func(f"{HEAD}{simple.replace('let m = i; a[m', 'a[i')} }}")
    assert alpha_equal(result, wanted), show(result)


@pytest.mark.parametrize(
    "body",
    [
        # Memory may change between two reads of it.
        "for i in 0..index(a[0, 0]) { a[0, 0] = 2i32; if i < index(a[0, 0]) { a[0, 1] = 3i32; } }",
        "if a[0, 0] < 3i32 { a[0, 0] = 7i32; if a[0, 0] < 3i32 { a[0, 1] = 3i32; } }",
        "let x = a[0, 0]; a[0, 0] = 1i32; a[0, 1] = x;",
        # One thread does this, not every one.
        "parallel i in 0..1 { a[0, 0] = 1i32; } parallel i in 0..n { a[i, 1] = 1i32; }",
    ],
)
def test_what_must_stay(body: str) -> None:
    func = parse_func(f"{HEAD}{body} }}")
    assert simplify(func) is func


def test_deep_programs() -> None:
    lines = "".join(f"let v{k} = n + {k}; let w{k} = v{k}; " for k in range(2000))
    text = f"{HEAD}{lines} a[w7 % n, w1999 % 8] = 1i32; }}"
    assert show(simplify(parse_func(text))).count("let ") == 2
