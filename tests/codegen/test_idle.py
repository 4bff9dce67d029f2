"""Tensors without elements, but of a large extent: loops over them that do nothing are left out."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.config import config
from legato.base.errors import UnsupportedError
from legato.codegen.idle import touched
from legato.tir.parser import parse_func
from legato.tir.walk import loops
from tests.codegen.running import check

HUGE = 1 << 40
EXPRESSIONS = (
    "exp(%x)", "%x + 1f", "transpose(%x)", "reshape(%x, newshape=[-1])", "concatenate((%x, %x))",
    "tile(%x, reps=[1, 2])", "sum(%x)", "sum(%x, axis=[0])", "max(%x)", "mean(%x)", "prod(%x)", "argmax(%x)",
    "cumsum(%x)", "nn.softmax(%x)", "nn.relu(sum(%x, axis=[0]))", "sort(%x)", "where(%x > 0f, %x, %x)",
    "nn.matmul(transpose(%x), %x)", "strided_slice(%x, begin=[0, 0], end=[5, 5])",
)  # fmt: skip


@pytest.mark.skipif(config().bounds, reason="loops that only test are run: 2^40 turns of them do not end")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_nothing_takes_no_time(expression: str) -> None:
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, m), float32]) {{ {expression} }}'
    exe = legato.compile(legato.parse(text), threads=2)
    huge, some = (np.asarray(exe(np.empty((n, 0), np.float32))) for n in (HUGE, 8))
    assert huge.size == some.size
    if huge.size:
        np.testing.assert_array_equal(huge, some)


def kernel(body: str) -> str:
    matrix = "Buffer[(n, m), float32]"
    return f"kernel @f(x: {matrix}, y: {matrix}, z: Buffer[(n,), float32], n: index, m: index) {{\n{body}\n}}"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("for i in 0..n { for j in 0..m { y[i, j] = x[i, j]; } }", [["x", "y"]]),
        ("for i in 0..n { for j in 0..m { y[i, j] = 0f; } if 0 < m { y[i, 0] = x[i, 0]; } }", [["x", "y"], ["y"]]),
        ("for i in 0..n { y[i, 0] = x[i, 0]; }", None),  # it counts elements
        ("for i in 0..n { for j in 0..16 { y[i, j] = x[i, j]; } }", None),
        ("for i in 0..n { z[i] = 0f; for j in 0..m { z[i] = z[i] + x[i, j]; } }", [["x", "z"], ["z"]]),
        (
            "for i in 0..n { alloc s: Buffer[(1,), float32, scope=local]; s[0] = 0f;"
            " for j in 0..m { s[0] = s[0] + x[i, j]; } y[i, 0] = s[0]; }",
            [["y"]],
        ),
        (
            "alloc s: Buffer[(1,), float32, scope=local]; s[0] = 0f;"
            " for i in 0..n { for j in 0..m { s[0] = s[0] + x[i, j]; } } z[0] = s[0];",
            [["x"]],
        ),
        (
            "alloc s: Buffer[(1,), float32, scope=local];"
            " for i in 0..n { for j in 0..m { s[0] = select(j < 3, x[i, j], 1f); } } z[0] = s[0];",
            None,  # what is not read need not be there
        ),
        ("for i in 0..n { for j in 0..m { check j < 3 else 0; y[i, j] = x[i, j]; } }", None),
    ],
)
def test_what_stores_touch(body: str, names: list[list[str]] | None) -> None:
    func = parse_func(kernel(body))
    found = touched(func)
    outer = [kinds for loop, kinds in found.items() if loop is next(iter(loops(func)))]
    assert [sorted(sorted(b.name for b in kind) for kind in kinds) for kinds in outer] == ([names] if names else [])


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("m", [0, 1, 5])
def test_loops_run_where_there_is_something_to_do(n: int, m: int) -> None:
    func = parse_func(kernel("for i in 0..n { for j in 0..m { z[i] = z[i] + x[i, j]; y[i, j] = x[i, j]; } }"))
    x = np.arange(n * m, dtype=np.float32).reshape(n, m)
    check(func, [x, np.zeros_like(x), np.ones(n, np.float32), n, m])


def test_local_buffers_are_limited() -> None:
    program = kernel("alloc s: Buffer[(300000,), float32, scope=local]; s[0] = x[0, 0]; z[0] = s[0];")
    x = np.ones((1, 1), np.float32)
    with pytest.raises(UnsupportedError, match="local buffers of 1200000 bytes; a kernel may have 1048576"):
        check(parse_func(program), [x, x.copy(), np.ones(1, np.float32), 1, 1])
