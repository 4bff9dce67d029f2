"""What is gathered from memory again and again is stored once; compiled, it is what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.base.target import Target, host
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Var
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from legato.tir.buffer import Buffer
from tests.lower.programs import lowered, number_of_kernels
from tests.machines import LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]


def resized(
    size: tuple[int, ...], wanted: tuple[int, ...], method: str = "linear", *, is_symbolic: bool = False,
    channels_last: bool = False,
) -> Module:  # fmt: skip
    """Images of three channels resized, and what follows."""
    b, rank = Builder(), len(size)
    batch = fresh("n") if is_symbolic else 2
    layout = {2: "NHWC", 3: "NDHWC"}[rank] if channels_last else {2: "NCHW", 3: "NCDHW"}[rank]
    x = Var("x", ty=TensorType(dims([batch, *size, 3] if channels_last else [batch, 3, *size]), dt.float32))
    y = b.call(f"image.resize{rank}d", x, size=wanted, method=method, layout=layout)
    return Module.from_expr(b.function([x], b.call("nn.relu", y)))


def images(size: tuple[int, ...], *, channels_last: bool) -> Array:
    shape = (2, *size, 3) if channels_last else (2, 3, *size)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@examples(30, fuzz=False)
@given(st.integers(2, 3).flatmap(lambda rank: st.tuples(*[st.tuples(*[st.integers(1, 20)] * rank)] * 2)),
       st.sampled_from(["linear", "cubic"]), st.booleans(), st.booleans(), st.sampled_from(LEVELS))  # fmt: skip
def test_resized_images(
    sizes: tuple[tuple[int, ...], tuple[int, ...]], method: str, is_symbolic: bool, channels_last: bool, target: Target
) -> None:
    size, wanted = sizes
    mod = resized(size, wanted, method if len(size) == 2 else "linear", is_symbolic=is_symbolic,
                  channels_last=channels_last)  # fmt: skip
    number_of_kernels(mod, images(size, channels_last=channels_last), target=target)


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_rows_are_gathered_once_for_all_that_they_serve(is_symbolic: bool) -> None:
    def of(size: tuple[int, ...], wanted: tuple[int, ...], *, channels_last: bool = False) -> int:
        mod = resized(size, wanted, is_symbolic=is_symbolic, channels_last=channels_last)
        return number_of_kernels(mod, images(size, channels_last=channels_last))

    assert of((5, 9), (20, 36)) == 2
    assert of((4, 5, 9), (8, 20, 36)) == 3
    assert of((20, 36), (5, 9)) == 1, "each element serves one"
    assert of((5, 9), (5, 36)) == 1, "rows serve one each"
    assert of((5, 9), (20, 36), channels_last=True) == 1, "nothing is gathered"


def test_masks_that_are_gathered_serve_all_rows() -> None:
    b, rng = Builder(), np.random.default_rng(0)
    x = Var("x", ty=TensorType(dims([2, 40, 40]), dt.float32))
    sums = b.call("reshape", b.call("sum", x, axis=(0, 1)), newshape=(40,))
    moved = b.call("take", sums, b.constant(rng.integers(0, 40, (1, 1, 40))), axis=0)
    mod = Module.from_expr(b.function([x], b.call("add", x, b.call("exp", moved))))
    assert number_of_kernels(mod, rng.standard_normal((2, 40, 40)).astype(np.float32)) == 3, (
        "sums, their gathered exponentials, what is added"
    )


def gathered(b: Builder, x: Expr, extent: int, axis: int) -> Expr:
    """What `x` has along `axis`, in another order, as exponentials."""
    places = np.random.default_rng(0).permutation(extent)
    return b.call("exp", b.call("take", x, b.constant(places), axis=axis))


def test_few_rows_of_what_is_gathered_are_stored_alone() -> None:
    """The stage as a whole has many more."""
    b, x = Builder(), Var("x", ty=TensorType(dims([1000, 64]), dt.float32))
    row = b.call("strided_slice", gathered(b, x, 64, 1), begin=(5,), end=(6,), strides=(1,), axes=(0,))
    mod = Module.from_expr(b.function([x], b.call("broadcast_to", row, shape=(8, 64))))
    assert number_of_kernels(mod, np.random.default_rng(0).standard_normal((1000, 64)).astype(np.float32)) == 2
    buffers = {p for k in lowered(mod, host()).kernels.values() for p in k.params if isinstance(p, Buffer)}
    assert sorted(str(b.shape[0]) for b in buffers) == ["1", "1000", "64", "8"], "a row is stored"


def test_nothing_is_stored_that_only_stored_stages_read() -> None:
    b, x = Builder(), Var("x", ty=TensorType(dims([40, 40]), dt.float32))
    sums = b.call("sum", b.call("broadcast_to", gathered(b, x, 40, 1), shape=(4, 40, 40)), axis=1)
    moved = b.call("take", sums, b.constant(np.arange(40)[::-1].copy()), axis=1)
    mod = Module.from_expr(b.function([x], b.call("nn.relu", moved)))
    few = number_of_kernels(mod, np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32) / 8)
    assert few <= 3, "what is gathered, sums, their order"
