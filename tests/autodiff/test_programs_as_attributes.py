"""Operators whose attribute is a program, call_te and scan: no gradient is made of that, but one may be given."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato import autodiff
from legato.base.errors import UnsupportedError
from legato.base.lexer import quote
from legato.interp import evaluate

SQUARE = """kernel @square(X: Buffer[(4,), float32], Y: Buffer[(4,), float32]) {
  for i in 0..4 { Y[i] = X[i] * X[i]; }
}"""
STEP = """#[version = "0.0.5"]
def @main(%t: int32, %h: Tensor[(4,), float32]) { (tanh(%h),) }
"""
CALLS = {
    "call_te": f"call_te(%x, program={quote(SQUARE)})",
    "scan": f"scan(%x, step={quote(STEP)}, steps=3, slices=0).0",
}


@pytest.mark.parametrize("name", CALLS)
def test_no_gradient_is_made(name: str) -> None:
    mod = legato.parse(f"""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(4,), float32]) {{ sum({CALLS[name]}) }}
    """)
    with pytest.raises(UnsupportedError, match=f"the operator {name} has no gradient") as caught:
        autodiff.grad(mod)
    assert 'a function with its own gradient (Gradient="NAME")' in str(caught.value.hint)


def test_one_may_be_given() -> None:
    mod = legato.parse(f"""
    #[version = "0.0.5"]
    def @back(%x: Tensor[(4,), float32], %dy: Tensor[(4,), float32]) {{ (2f * %x * %dy,) }}
    def @square(%x: Tensor[(4,), float32], Gradient="back") -> Tensor[(4,), float32] {{ {CALLS["call_te"]} }}
    def @main(%x: Tensor[(4,), float32]) {{ sum(@square(%x)) }}
    """)
    x = np.array([1, -2, 0.5, 3], np.float32)
    (dx,) = evaluate(autodiff.grad(mod), [x])
    np.testing.assert_array_equal(dx, 2 * x)
