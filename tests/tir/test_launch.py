"""How kernels are launched: what their loops allow, and what they are worth."""

from __future__ import annotations

import pytest

from legato.tir.launch import FEWEST_STORES, LaunchKind, launch_kind
from legato.tir.parser import parse_func

MANY = FEWEST_STORES


def kernel(body: str) -> str:
    return f"kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {{\n{body}\n}}"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param("for i in 0..n { y[i] = x[i]; }", LaunchKind.ALONE, id="no loop that threads divide"),
        pytest.param(f"parallel i in 0..{MANY - 1} {{ y[i] = x[i]; }}", LaunchKind.SHARES, id="little to do"),
        pytest.param(f"parallel i in 0..{MANY} {{ y[i] = x[i]; }}", LaunchKind.PIECES, id="much to do"),
        pytest.param("parallel i in 0..n { y[i] = x[i]; }", LaunchKind.PARTS, id="nobody knows how much"),
        pytest.param(f"parallel i in 0..n {{ for j in 0..{MANY} {{ y[i] = x[j]; }} }}", LaunchKind.PIECES, id="enough"),
        pytest.param(
            f"parallel i in 0..{MANY} {{ vector l in 0..16 {{ y[i*16 + l] = x[i*16 + l]; }} }}",
            LaunchKind.PIECES,
            id="vectors",
        ),
        pytest.param(
            f"parallel i in 0..{MANY - 1} {{ if x[i] < 0f {{ y[i] = 0f; }} else {{ y[i] = x[i]; }} }}",
            LaunchKind.SHARES,
            id="one of two branches",
        ),
        pytest.param(
            f"for r in 0..2 {{ parallel i in 0..{MANY} {{ y[i] = x[i] + float32(r); }} }}",
            LaunchKind.SHARES,
            id="repeated: every piece would be",
        ),
        pytest.param(
            f"parallel i in 0..{MANY} {{ check i < n else 0; y[i] = x[i]; }}", LaunchKind.SHARES, id="may fail"
        ),
        pytest.param(
            f"parallel i in 0..{MANY} {{ y[i] = x[i]; }} barrier;", LaunchKind.GANG, id="threads wait for each other"
        ),
    ],
)
def test_kinds(body: str, kind: LaunchKind) -> None:
    assert launch_kind(parse_func(kernel(body))) is kind
