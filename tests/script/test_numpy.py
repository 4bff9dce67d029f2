"""NumPy's functions in decorated ones: the program computes what NumPy does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.relay import Tensor, relay_model
from legato.script.numpy_functions import _RULES

Whole = Tensor[(3, 4), "int32"]
X, Y = np.random.default_rng(0).uniform(0.1, 0.9, (2, 3, 4)).astype("float32")
IX, IY = np.random.default_rng(1).integers(0, 5, (2, 3, 4)).astype("int32")


def unary(x: Tensor[(3, 4)], y: Tensor[(3, 4)]):
    """Functions of one tensor."""
    return (
        np.abs(x), np.absolute(y), np.arccos(x), np.arccosh(x + 1), np.arcsin(x), np.arcsinh(x), np.arctan(x),
        np.arctanh(x), np.ceil(x), np.cos(x), np.cosh(x), np.exp(x), np.floor(x), np.isfinite(x), np.isinf(x),
        np.isnan(x), np.log(x), np.log10(x), np.log2(x), np.negative(x), np.reciprocal(x), np.rint(x), np.sign(x),
        np.sin(x), np.sinh(x), np.sqrt(x), np.square(x), np.tan(x), np.tanh(x), np.trunc(x), np.ones_like(x),
        np.zeros_like(x),
    )  # fmt: skip


def binary(x: Tensor[(3, 4)], y: Tensor[(3, 4)]):
    """Functions of several."""
    return (
        np.add(x, y), np.subtract(x, y), np.multiply(x, y), np.divide(x, y), np.floor_divide(x, y), np.mod(x, y),
        np.remainder(x, y), np.fmod(x, y), np.power(x, 2), np.maximum(x, y), np.minimum(x, 1), np.less(x, y),
        np.less_equal(x, y), np.greater(x, y), np.greater_equal(x, y), np.equal(x, y), np.not_equal(x, y),
        np.logical_and(x < y, y < 0.5), np.logical_or(x < y, y < 0.5), np.logical_xor(x < y, y < 0.5),
        np.logical_not(x < y), np.where(np.less(x, y), x, 0.25), np.where(x < y, 1.0, 0.5), np.clip(x, 0.3, 0.7),
        np.full_like(x, 2.5), np.exp(x) + np.sqrt(2.0),
    )  # fmt: skip


def integers(x: Whole, y: Whole):
    """Functions of integers."""
    return (
        np.bitwise_and(x, y), np.bitwise_or(x, y), np.bitwise_xor(x, y), np.left_shift(x, y), np.right_shift(x, y),
        np.invert(x), np.mod(x, 3), np.floor_divide(x, 3),
    )  # fmt: skip


def along_axes(x: Tensor[(3, 4)], y: Tensor[(3, 4)]):
    """Reductions."""
    return (
        np.sum(x, axis=1, keepdims=True), np.mean(x, axis=(0, 1)), np.max(x), np.min(y, 0), np.prod(x, axis=0),
        np.var(x, axis=0), np.var(x, axis=0, ddof=1), np.std(x), np.cumsum(x, axis=1), np.any(np.greater(x, y)),
        np.all(np.greater(x, y), axis=1), np.argmax(x, axis=1), np.argmin(x, axis=1),
    )  # fmt: skip


def shapes(x: Tensor[(3, 4)], y: Tensor[(3, 4)]):
    """What moves elements."""
    both = np.concatenate((x, y), axis=1)
    return (
        np.matmul(np.transpose(both), both), np.reshape(x, (2, -1)), np.stack([x, y]), np.expand_dims(x, 0),
        np.squeeze(np.expand_dims(x, 1), 1), np.flip(x, 1), np.broadcast_to(x, (2, 3, 4)), np.transpose(x, (1, 0)),
    )  # fmt: skip


@pytest.mark.parametrize("function", [unary, binary, integers, along_axes, shapes])
def test_programs_compute_what_numpy_does(function: Any) -> None:
    data = (IX, IY) if function is integers else (X, Y)
    program = relay(function)
    for got in (program(*data), legato.compile(program)(*data)):
        for one, want in zip(got, function(*data), strict=True):
            np.testing.assert_allclose(one, want, rtol=2e-5, atol=1e-6)
            assert one.dtype.kind == want.dtype.kind


def test_every_function_of_the_table_is_tested() -> None:
    text = Path(__file__).read_text()
    assert [f.__name__ for f in _RULES if f"np.{f.__name__}(" not in text] == []


def test_a_model_may_be_a_function() -> None:
    @relay_model
    def net(x: Tensor[(3,)]):
        return np.tanh(x) * 2

    np.testing.assert_allclose(net(np.ones(3, "float32")), 2 * np.tanh(np.ones(3, "float32")), rtol=1e-6)
    assert [p.name for p in net.mod["main"].params] == ["x"]
