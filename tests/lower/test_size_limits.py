"""Sizes inside a program that 64 bits do not hold: refused before anything runs, not taken for what is left of them."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.config import config
from legato.base.errors import RunError
from legato.runtime import Executable

LARGE = 1 << 16  # to the fourth it is 0 in 64 bits


def compiled(text: str) -> Executable:
    return legato.compile(legato.parse(f'#[version = "0.0.5"]\n{text}'), threads=1)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("size", ["n * n * n * n", "n * n * n * n + 5", "n * n, n * n", "n, n, n, n"])
def test_a_product_of_dims(size: str) -> None:
    exe = compiled(f"def @main(%x: Tensor[(n), float32]) {{ sum(ones(shape=[{size}])) }}")
    assert exe(ones(2)) == 16 + 5 * ("5" in size)
    with pytest.raises(RunError, match=r"^out of memory: the size n\*n\*n\*n(\*4)? is beyond 2\^63 where n = 65536 "):
        exe(ones(LARGE))


def test_in_a_function_that_is_called() -> None:
    exe = compiled("""
    def @f(%x: Tensor[(n), float32], %k: int32) -> float32 {
      if (%k > 0) { @f(%x, %k - 1) } else { sum(ones(shape=[n * n * n * n])) }
    }
    def @main(%x: Tensor[(m), float32], %k: int32) { @f(%x, %k) }""")
    assert exe(ones(2), np.int32(3)) == 16
    with pytest.raises(RunError, match="out of memory"):
        exe(ones(LARGE), np.int32(3))


def test_dims_of_tensors_without_elements() -> None:
    exe = compiled("def @main(%x: Tensor[(n, m), float32]) { sum(%x) }")
    rows = 1 << (20 if config().bounds else 46)  # the bounds-checked build walks along all of them
    assert exe(np.empty((rows, 0), np.float32)) == 0
    with pytest.raises(RunError, match=r'^input "x": dimension 0 is out of range\n.*\n  wanted: 2\^46 at most$'):
        exe(np.empty((1 << 47, 0), np.float32))


@pytest.mark.parametrize("body", ["exp(%x)", "nn.softmax(%x)", "sum(%x, axis=[1])", "reshape(%x, newshape=[-1])"])
def test_what_cannot_be_too_large_is_not_checked(body: str) -> None:
    exe = compiled(f"def @main(%x: Tensor[(n, 64), float32]) {{ {body} }}")
    assert exe.program.functions["main"].constraints == ()


def test_the_smaller_of_a_dim_and_a_number_is_no_more_than_the_dim() -> None:
    exe = compiled("""
    def @main[n: ShapeVar](%x: Tensor[(n,), float32], %k: Tensor[(1,), int64]) {
      let %dims: Shape[(d,)] = tensor_to_shape(%k);
      strided_slice(%x, begin=[dim[min(d, 9223372036854775807)]], end=[n], axes=[0])
    }""")
    assert exe(ones(3), np.array([1])).shape == (2,)
    assert exe(ones(3), np.array([1 << 60])).shape == (0,)
