"""Broadcasting of dims that are at most 1: what they stretch to is decided when the program runs."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module

END = 2**31 - 1
FIRST = "strided_slice(%x, begin=[0], end=[1], axes=[1])"
LAST = f"strided_slice(%x, begin=[-1], end=[{END}], axes=[1])"
BODIES = [
    f"%x - {FIRST}",
    f"%x / {LAST}",
    f"{LAST} * %x",
    f"{FIRST} - {LAST}",
    f"where(%x > {FIRST}, %x, {LAST})",
    f"broadcast_to({FIRST}, shape=[n, m])",
    f"nn.batch_matmul(reshape({FIRST}, newshape=[n, -1, 1]), reshape(%x, newshape=[n, m, 1]))",
    f"nn.softmax(%x - {LAST}, axis=1) + {FIRST}",
]
SIZES = [(0, 3), (1, 1), (1, 0), (3, 1), (3, 4), (2, 0), (5, 9)]


def program(body: str) -> Module:
    return legato.parse(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, m), float32]) {{ {body} }}')


@pytest.mark.parametrize("body", BODIES)
def test_decided_when_it_runs(body: str) -> None:
    module = program(body)
    exe = legato.compile(module)
    for size in SIZES:
        x = np.random.default_rng(1).random(size).astype("float32") + 1
        with np.errstate(all="ignore"):
            try:
                expected = np.asarray(evaluate(module, [x]))
            except RunError:
                with pytest.raises(RunError):
                    exe(x)
                continue
        np.testing.assert_allclose(np.asarray(exe(x)), expected, rtol=1e-5, atol=1e-6)


def test_a_slice_of_itself_asks_for_nothing() -> None:
    for body in BODIES[:3]:
        main = program(body)["main"]
        assert isinstance(main, Function)
        assert "constraints" not in main.attrs
        assert str(main.body.ty) == "Tensor[(n, m), float32]"
