"""Random numbers, of Threefry by a key: the node's seed, or, without one, which such node of the file it is.

A call of a model is a function of its inputs: it draws the same numbers each time. Numbers that are to be others are an
input. Nodes without a seed have numbers of their own; nodes of one seed have the same. Other libraries draw others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators.math import dropout_10
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._threefry import key_of

_UNSEEDED = 1 << 64  # beyond all seeds


def random_uniform(
    b: Emitter,
    *,
    shape: tuple[int, ...],
    dtype: int = 1,
    seed: float | None = None,
    high: float = 1.0,
    low: float = 0.0,
) -> Expr:
    return _drawn(b, "uniform", seed, _extents(shape), element_type(dtype, "the result"), low, high)


def random_normal(
    b: Emitter,
    *,
    shape: tuple[int, ...],
    dtype: int = 1,
    seed: float | None = None,
    scale: float = 1.0,
    mean: float = 0.0,
) -> Expr:
    return _drawn(b, "normal", seed, _extents(shape), element_type(dtype, "the result"), mean, scale)


def random_uniform_like(
    b: Emitter, x: Expr, *, dtype: int | None = None, seed: float | None = None, high: float = 1.0, low: float = 0.0
) -> Expr:
    return _drawn(b, "uniform", seed, b.dims_of(x), _dtype_like(b, x, dtype), low, high)


def random_normal_like(
    b: Emitter, x: Expr, *, dtype: int | None = None, seed: float | None = None, scale: float = 1.0, mean: float = 0.0
) -> Expr:
    return _drawn(b, "normal", seed, b.dims_of(x), _dtype_like(b, x, dtype), mean, scale)


def bernoulli(b: Emitter, x: Expr, *, dtype: int | None = None, seed: float | None = None) -> Expr:
    """1 with the probability that is given."""
    odds = b.wide(x)
    found = b.less(_drawn(b, "uniform", seed, b.dims_of(x), b.dtype(odds), 0.0, 1.0), odds)
    return b.to(found, _dtype_like(b, x, dtype))


def multinomial(b: Emitter, x: Expr, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Expr:
    """Classes, drawn by logarithms [rows, classes] of what their probabilities are in proportion to."""
    if b.rank(x) != 2 or sample_size < 0:
        raise ImportModelError(f"{sample_size} samples of {x.ty}, wanted 0 or more of a matrix")
    odds = b.nn.softmax(b.wide(x), axis=1)
    found = b.get(b.call("random.multinomial", _key(b, seed), odds, num_samples=sample_size), 1)
    return b.to(found, element_type(dtype, "the result"))


def dropout_12(
    b: Emitter, x: Expr, ratio: Expr | None = None, training_mode: Expr | None = None, *, seed: int | None = None
) -> Expr | tuple[Expr, Expr]:
    """In training elements are dropped, `ratio` of them on average, and the others are larger by as much."""
    known = np.array(False) if training_mode is None else b.array(training_mode)
    if training_mode is None or (known is not None and not known.any()):
        return dropout_10(b, x)
    wide = b.wide(x)
    odds = b.like(0.5, wide) if ratio is None else b.to(b.reshape(ratio, newshape=()), b.dtype(wide))
    training = b.reshape(training_mode, newshape=())
    draw = _drawn(b, "uniform", seed, b.dims_of(x), b.dtype(wide), 0.0, 1.0)
    mask = b.logical_or(b.logical_not(training), b.greater_equal(draw, odds))
    factor = b.where(training, b.divide(b.like(1, wide), b.subtract(b.like(1, wide), odds)), b.like(1, wide))
    y = b.to(b.where(mask, b.multiply(wide, factor), b.like(0, wide)), b.dtype(x))
    return (y, mask) if b.outputs > 1 else y


def _extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    if any(d < 0 for d in shape):
        raise ImportModelError(f"shape is {list(shape)}, wanted extents")
    return shape


def _dtype_like(b: Emitter, x: Expr, code: int | None) -> DType:
    return b.dtype(x) if code is None else element_type(code, "the result")


def _drawn(
    b: Emitter, name: str, seed: float | None, shape: Sequence[Dim | int], dtype: DType, first: float, second: float
) -> Expr:
    """Numbers of a distribution with two parameters."""
    if not dtype.is_float:
        raise ImportModelError(f"random numbers of dtype {dtype}, wanted floats")
    parameters = b.constant(first, dtype), b.constant(second, dtype)
    return b.get(b.call(f"random.{name}", _key(b, seed), *parameters, out_shape=tuple(shape), out_dtype=dtype), 1)


def _key(b: Emitter, seed: float | None) -> Expr:
    if b.repeats:
        hint = "draw them before the loop, or make them an input"
        raise UnsupportedError("random numbers in a loop: each round would draw the same", hint=hint)
    if seed is not None:
        return b.constant(key_of(int(np.float32(seed).view(np.uint32))), dt.uint64)
    b.draws += 1
    return b.constant(key_of(_UNSEEDED + b.draws), dt.uint64)
