"""Symbolic dims in kernels: one compilation serves all sizes, with the bits of a static one where schedules agree."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, RunError
from legato.ir.module import Module
from legato.runtime.executable import Executable

TERMS, CHANNELS = 300, 250  # so much work in a row that sums have the same parts whatever rows there are
HEADS = 3


def compiled(text: str, n: int | str, target: str = "host") -> Executable:
    """The program with `n` for the dim of that name, which it binds where it is symbolic."""
    binder = "[n: ShapeVar(1, 64)]" if n == "n" else ""
    mod: Module = legato.parse(f'#[version = "0.0.5"]\n{text.replace("BINDER", binder).replace("SIZE", str(n))}')
    return legato.compile(mod, target=target)


DENSE = f"""def @mainBINDER(%x: Tensor[(SIZE, {TERMS}), float32], %w: Tensor[({TERMS}, {CHANNELS}), float32])
  -> Tensor[(SIZE, {CHANNELS}), float32] {{ nn.relu(matmul(%x, %w)) }}"""

ATTENTION = f"""def @mainBINDER(%q: Tensor[({HEADS}, SIZE, 16), float32], %k: Tensor[({HEADS}, 16, SIZE), float32],
    %v: Tensor[({HEADS}, SIZE, 32), float32]) -> Tensor[({HEADS}, SIZE, 32), float32] {{
  %0 = matmul(%q, %k);
  %1 = nn.softmax(%0, axis=2);
  matmul(%1, %v)
}}"""


def bits(exe: Executable, *inputs: np.ndarray) -> bytes:
    return np.asarray(exe(*inputs)).tobytes()


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("target", ["x86-64-v3", "host"])
def test_any_number_of_rows(target: str) -> None:
    """Rows that do not fill a register tile: one tile or two of a height that is chosen at run time."""
    exe, w = compiled(DENSE, "n", target), floats(TERMS, CHANNELS)
    for n in range(1, 33):
        x = floats(n, TERMS)
        np.testing.assert_allclose(np.asarray(exe(x, w)), np.maximum(x @ w, 0), atol=1e-4)


@pytest.mark.parametrize("n", [7, 17, 33])
def test_static_and_symbolic_are_the_same_bits(n: int) -> None:
    inputs = floats(n, TERMS), floats(TERMS, CHANNELS)
    expected = bits(compiled(DENSE, n), *inputs)
    exe = compiled(DENSE, "n")
    for threads in (1, 2, 4):
        assert bits(exe.with_threads(threads), *inputs) == expected


@pytest.mark.parametrize("n", [4, 17, 40, 64])
@pytest.mark.shared(2)
def test_attention_of_static_and_symbolic_lengths_is_the_same_bits(n: int) -> None:
    inputs = floats(HEADS, n, 16), floats(HEADS, 16, n), floats(HEADS, n, 32)
    expected, exe = bits(compiled(ATTENTION, n), *inputs), compiled(ATTENTION, "n")
    assert "n*n" not in str(exe.peak_memory)  # the scores are in no memory of the program's
    for threads in (1, 2, 4):
        assert bits(exe.with_threads(threads), *inputs) == expected


@pytest.mark.parametrize(
    "body",
    [
        "sum(ones(shape=[n * n * n * n]))",
        "sum(ones(shape=[n * n * n * n + 5]))",
        "mean(ones(shape=[n, n, n, n]))",
        "take(ones(shape=[n * n * n * n]), 5)",
    ],
)
def test_elements_that_no_integer_counts_are_out_of_memory(body: str) -> None:
    """65536 to the fourth is 0 in 64 bits, whether or not the tensor is ever in memory."""
    exe = legato.compile(
        legato.parse(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(n,), float32]) -> float32 {{ {body} }}')
    )
    assert exe(np.ones(3, np.float32)) > 0
    with pytest.raises(RunError, match="out of memory"):
        exe(np.ones(1 << 16, np.float32))


@pytest.mark.parametrize("shape", ["65536, 65536, 65536, 65536", "18446744073709551621"])
def test_literal_elements_that_no_integer_counts_are_refused(shape: str) -> None:
    with pytest.raises(CompileError, match=r"at most 2\^63 bytes"):
        legato.parse(f'#[version = "0.0.5"]\ndef @main() {{ sum(ones(shape=[{shape}])) }}')
