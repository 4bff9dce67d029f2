"""Reductions of the same rows are one kernel, but not where many rows would compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.infer.builder import Builder
from legato.ir.expr import Var
from legato.ir.module import Module
from legato.ir.types import TensorType, dims
from tests.lower.programs import number_of_kernels

HEADS, PLACES, DEPTH = 4, 25, 8


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_weights_of_attention_are_normalised_once_for_all_channels(is_symbolic: bool) -> None:
    """What attends to images becomes channels of images again: those of a head have the same weights."""
    b, batch = Builder(), fresh("n") if is_symbolic else 2
    x = Var("x", ty=TensorType(dims([batch, 3 * HEADS * DEPTH, 5, 5]), dt.float32))
    parts = b.call("reshape", x, newshape=(0, HEADS, 3 * DEPTH, PLACES))
    q, k, v = (
        b.call("strided_slice", parts, begin=(n * DEPTH,), end=((n + 1) * DEPTH,), strides=(1,), axes=(2,))
        for n in range(3)
    )
    scores = b.call("matmul", b.call("transpose", q, axes=(0, 1, 3, 2)), k)
    weights = b.call("nn.softmax", scores, axis=3)
    y = b.call("matmul", weights, b.call("transpose", v, axes=(0, 1, 3, 2)))
    y = b.call("reshape", b.call("transpose", y, axes=(0, 1, 3, 2)), newshape=(0, HEADS * DEPTH, 5, 5))
    mod = Module.from_expr(b.function([x], y))
    images = np.random.default_rng(0).standard_normal((2, 3 * HEADS * DEPTH, 5, 5)).astype(np.float32)
    assert number_of_kernels(mod, images) > 2, "scores, and apart from each other weights and what they weigh"
