"""Tensor programs written by hand, as operators: compiled as these are, with the results that the loops have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.evaluate import evaluate as value_of
from legato.arith.expr import Var
from legato.interp import evaluate
from legato.ir.module import Module
from legato.tir.buffer import Buffer
from legato.tir.parser import parse_func
from legato.transform._programs import unread
from tests.te.kernels import READ, UNREAD
from tests.te.random_kernels import kernel
from tests.te.test_readback import outputs_of

Array = np.ndarray[Any, Any]
CONTRACTIONS = {"batch of matrix products", "sum in a register", "wide sums"}  # take long to compile; one is below
SIZES = ((0, 2), (3, 1), (4, 5))


def module(text: str, outputs: int | None = None) -> tuple[Module, list[Buffer], list[Var]]:
    """A module whose @main calls the kernel of `text`, with its inputs and dims."""
    func = parse_func(text)
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    dims = [p for p in func.params if isinstance(p, Var)]
    types = [f"Tensor[({', '.join(map(str, b.shape))}{',' * (b.rank == 1)}), {b.dtype}]" for b in buffers]
    count = len(buffers) - (outputs_of(func) if outputs is None else outputs)
    params = ", ".join(f"%x{n}: {t}" for n, t in enumerate(types[:count]))
    given = ", ".join(f"%x{n}" for n in range(count)) + "," * (count == 1)
    own = f"[{', '.join(f'{d.name}: ShapeVar' for d in dims)}]" if dims else ""
    call = f"call_tir(@{func.name}, ({given}), out=[{', '.join(types[count:])}])"
    return legato.parse(f'#[version = "0.0.5"]\n{text}\ndef @main{own}({params}) {{ {call} }}'), buffers[:count], dims


def agree(mod: Module, inputs: list[Buffer], dims: list[Var], **options: Any) -> None:
    exe = legato.compile(mod, threads=1, **options)
    for n, m in SIZES:
        sizes = {d: {"n": n + 3, "m": m}.get(d.name, n) for d in dims}
        rng = np.random.default_rng(n)
        shapes = [[int(value_of(d, sizes)) for d in b.shape] for b in inputs]
        args = [np.asarray(rng.standard_normal(s) * 3, b.dtype.numpy) for s, b in zip(shapes, inputs, strict=True)]
        with np.errstate(all="ignore"):
            wanted, found = evaluate(mod, args), exe(*args)
        both = (wanted, found) if isinstance(wanted, tuple) else ((wanted,), (found,))
        for a, b in zip(*both, strict=True):
            np.testing.assert_allclose(np.asarray(b), a, 1e-3, 1e-4)


@pytest.mark.parametrize("name", sorted(READ.keys() - CONTRACTIONS))
def test_what_is_read_is_compiled_to_what_it_means(name: str) -> None:
    mod, inputs, dims = module(READ[name][1])
    assert unread(mod) == {}
    agree(mod, inputs, dims)


@pytest.mark.parametrize("name", ["running sum", "place of the largest", "a scan"])
def test_what_is_not_read_runs_as_written(name: str) -> None:
    mod, inputs, dims = module(UNREAD[name][1])
    assert UNREAD[name][0] in unread(mod)["k"]
    agree(mod, inputs, dims)


@pytest.mark.parametrize("seed", [1, 4, 10])
def test_random_kernels(seed: int) -> None:
    agree(*module(kernel(seed), 2))


RELU = """
kernel @relu(X: Buffer[(n, m), float32], Y: Buffer[(n, m), float32], n: index, m: index) {
  for j in 0..m { for i in 0..n { Y[i, j] = max(X[i, j], 0f); } }
}
def @main[n: ShapeVar](%x: Tensor[(n, 8), float32], %w: Tensor[(16, 8), float32]) {
  tanh(call_tir(@relu, (nn.dense(%x, %w),), out=[Tensor[(n, 16), float32]]))
}"""


def test_a_program_is_fused_with_operators() -> None:
    mod = legato.parse(f'#[version = "0.0.5"]{RELU}')
    exe = legato.compile(mod, keep=["fuse"])
    assert exe.module_after("fuse").count("Primitive=1") == 1
    x, w = np.random.default_rng(0).standard_normal((24, 8), np.float32).reshape(3, 8, 8)[:, 0], np.ones((16, 8))
    np.testing.assert_allclose(exe(x, w.astype("f")), evaluate(mod, [x, w.astype("f")]), 1e-5)


def test_exact_sums_are_formed_as_written() -> None:
    mod, inputs, _ = module(READ["sum in a register"][1])
    args = [np.random.default_rng(0).standard_normal((9, 9), np.float32) for _ in inputs]
    exact = legato.compile(mod, precision="exact")(*args)
    assert np.array_equal(exact, np.asarray(evaluate(mod, args)))
