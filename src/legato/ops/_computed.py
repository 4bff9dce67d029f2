"""Numbers of shapes that the program computes, brought into the form in which they are dims: none is below 0.

What is meant by other numbers (the rest, from the end, cut off) is computed by the program itself, on tensors of int64
of rank 0 or 1, before their elements become dims (`as_dims`). What has no meaning becomes a number below 0, which is an
error of the call then.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from legato.arith.expr import Const, const
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.ir.expr import Expr
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.types import Dim, ShapeType, TensorType

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["LARGEST", "PARTS", "as_dims", "counted", "extent_scalar", "fraction", "invalid_unless", "new_shape",
           "quotient", "range_count", "require", "signed", "slice_bounds", "slice_places", "stacked", "steps",
           "wide"]  # fmt: skip

INVALID: Final = -2  # what has no meaning; -1 has one in shapes
LARGEST: Final = 256  # denominators of scales
PARTS: Final = 1 << 24  # the parts that other scales consist of


def wide(b: Builder, x: Expr) -> Expr:
    """`x` in int64."""
    assert isinstance(x.ty, TensorType)
    return x if x.ty.dtype == dt.int64 else b.cast(x, dtype=dt.int64)


def _int(b: Builder, value: int) -> Expr:
    return b.constant(value, dt.int64)


def extent_scalar(b: Builder, d: Dim, dtype: DType) -> Expr:
    """A dim as a scalar."""
    if isinstance(d, Const):
        return b.constant(int(d.value), dtype)
    return b.squeeze(b.arange(start=d, stop=d + 1, step=1, dtype=dtype), axis=(0,))


def steps(b: Builder, count: Dim, dtype: DType = dt.int64) -> Expr:
    """0, 1, … below `count`."""
    found = b.arange(start=const(0), stop=count, step=1, dtype=dt.int64)
    return found if dtype == dt.int64 else b.cast(found, dtype=dtype)


def stacked(b: Builder, parts: Sequence[Expr]) -> Expr:
    """Numbers (int64) as a vector."""
    if not parts:
        return b.constant(np.zeros(0, np.int64))
    return b.concatenate(tuple(b.reshape(wide(b, p), newshape=(1,)) for p in parts), axis=0)


def invalid_unless(b: Builder, holds: Expr, x: Expr) -> Expr:
    """`x` where `holds`, elsewhere a number that is no dim."""
    return b.where(holds, x, _int(b, INVALID))


def signed(b: Builder, x: Expr) -> tuple[Expr, Expr]:
    """Two tensors without numbers below 0, whose difference `x` is."""
    x, zero = wide(b, x), _int(b, 0)
    return b.maximum(x, zero), b.maximum(b.negative(x), zero)


def as_dims(b: Builder, x: Expr, name: str) -> tuple[Dim, ...]:
    """The elements of a tensor of integers, of known shape, as dims of the body that is open; none may be below 0."""
    assert isinstance(x.ty, TensorType)
    count = prod(x.ty.static_shape())
    if not count:
        return ()
    flat = x if x.ty.rank == 1 else b.reshape(x, newshape=(count,))
    dims = tuple(DimVar(f"{name}{n}", lo=0) for n in range(count))
    b.let(name, b.match_cast(b.call(TENSOR_TO_SHAPE, flat), ShapeType(dims)))
    return dims


def require(b: Builder, holds: Expr, name: str) -> None:
    """Ends the call unless `holds`, a tensor of rank 0."""
    as_dims(b, invalid_unless(b, holds, _int(b, 0)), name)


# ------------------------------------------------------------------ shapes


def new_shape(b: Builder, own: Expr, shape: Expr, allowzero: bool) -> Expr:
    """The shape that `shape` says a tensor of extents `own` is to have: an extent of its own for 0, unless
    `allowzero`, and what is left for -1, once, and with `allowzero` not beside 0. Other numbers below 0 stay."""
    wanted, one = wide(b, shape), _int(b, 1)
    is_rest, is_zero = b.equal(wanted, _int(b, -1)), b.equal(wanted, _int(b, 0))
    whole, known = own, b.where(is_rest, one, wanted)
    if not allowzero:  # what is kept is no factor of either side: it may be 0
        count, rank = _length(wanted), _length(own)
        wanted = b.where(is_zero, _sized(b, own, count, INVALID), wanted)
        whole = b.where(_sized(b, is_zero, rank, fill=False), one, own)
        known = b.where(b.logical_or(is_rest, is_zero), one, wanted)
    total, others = (b.prod(v, axis=(0,)) for v in (whole, known))
    marks = b.cast(is_rest, dtype=dt.int64)
    marks = b.where(is_zero, _int(b, 2), marks) if allowzero else marks
    part = b.floor_divide(total, others)
    holds = b.logical_and(b.equal(b.sum(marks, axis=(0,)), one), b.equal(b.multiply(part, others), total))
    return b.where(is_rest, invalid_unless(b, holds, part), wanted)


def _length(x: Expr) -> int:
    assert isinstance(x.ty, TensorType)
    return prod(x.ty.static_shape())


def _sized(b: Builder, x: Expr, count: int, fill: int) -> Expr:
    """The first `count` elements of a vector, which is filled up to so many."""
    assert isinstance(x.ty, TensorType)
    length = _length(x)
    if length > count:
        return b.strided_slice(x, begin=(0,), end=(count,), strides=(1,), axes=(0,))
    more = b.constant(np.full(count - length, fill, x.ty.dtype.numpy))
    return b.concatenate((x, more), axis=0) if length < count else x


# ------------------------------------------------------------------ slices


def counted(b: Builder, p: Expr, n: Expr) -> Expr:
    """Positions among `n`, which below 0 count from the end."""
    p = wide(b, p)
    return b.where(b.less(p, _int(b, 0)), b.add(p, n), p)


def _between(b: Builder, p: Expr, least: Expr, most: Expr) -> Expr:
    return b.maximum(b.minimum(p, most), least)


def slice_bounds(b: Builder, start: Expr, end: Expr, n: Expr) -> tuple[Expr, Expr]:
    """Where slices of `n` elements with steps above 0 begin and end, in 0..n."""
    first, last = (_between(b, counted(b, p, n), _int(b, 0), n) for p in (start, end))
    return first, last


def slice_places(b: Builder, start: Expr, end: Expr, step: Expr, n: Expr, least: int) -> tuple[Expr, Expr]:
    """Where a slice of `n` elements begins, for any step but 0, and how many it takes. One that goes backwards begins
    at element `least` at least: -1, as in Python, is none."""
    zero, before, most, step = _int(b, 0), _int(b, -1), b.subtract(n, _int(b, 1)), wide(b, step)
    first, last = (counted(b, p, n) for p in (start, end))
    forwards = [_between(b, p, zero, n) for p in (first, last)]
    backwards = [b.minimum(b.maximum(first, _int(b, least)), most), b.minimum(b.maximum(last, before), most)]
    is_forward = b.greater(step, zero)
    begin, stop = (b.where(is_forward, f, k) for f, k in zip(forwards, backwards, strict=True))
    count = _quotient_up(b, b.subtract(stop, begin), step)
    return begin, invalid_unless(b, b.not_equal(step, zero), count)


def _quotient_up(b: Builder, x: Expr, by: Expr) -> Expr:
    """x / by, rounded up, of integers; 0 where that is below 0."""
    return b.maximum(b.negative(b.floor_divide(b.negative(x), by)), _int(b, 0))


# ------------------------------------------------------------------ ranges and scales


def range_count(b: Builder, start: Expr, limit: Expr, delta: Expr) -> Expr:
    """How many numbers start, start + delta, … there are up to but without `limit`; for numbers that are finite, and
    delta not 0."""
    assert isinstance(start.ty, TensorType)
    if start.ty.dtype.is_float:
        first, last, by = (b.cast(v, dtype=dt.float64) for v in (start, limit, delta))
        zero = b.constant(np.float64(0))
        steps = b.maximum(b.ceil(b.divide(b.subtract(last, first), by)), zero)
        is_finite = b.equal(b.add(b.multiply(by, zero), b.multiply(b.add(first, last), zero)), zero)
        holds = b.logical_and(is_finite, b.not_equal(by, zero))
        return invalid_unless(b, holds, b.cast(steps, dtype=dt.int64))
    first, last, by = (wide(b, v) for v in (start, limit, delta))
    return invalid_unless(b, b.not_equal(by, _int(b, 0)), _quotient_up(b, b.subtract(last, first), by))


def fraction(b: Builder, scale: Expr) -> tuple[Expr, Expr, Expr]:
    """The quotient of small integers (float32) that a float32 of rank 0 stands for, and whether there is one."""
    under = b.arange(start=const(1), stop=const(LARGEST + 1), step=1, dtype=dt.float32)
    over = b.round(b.multiply(under, scale))
    is_same = b.equal(b.divide(over, under), scale)
    at = b.argmax(b.cast(is_same, dtype=dt.int32), axis=(0,))
    p, q = (b.take(v, at, axis=0, mode="fast") for v in (over, under))
    return p, q, b.any(is_same, axis=(0,))


def quotient(b: Builder, scale: Expr) -> tuple[Expr, Expr]:
    """The quotient of small integers that a float32 of rank 0 stands for, or else its first bits."""
    (p, q, is_exact), bits = fraction(b, scale), b.constant(np.float32(PARTS))
    found = b.where(is_exact, p, b.floor(b.multiply(scale, bits))), b.where(is_exact, q, bits)
    over_, under_ = (b.cast(v, dtype=dt.int64) for v in found)
    return invalid_unless(b, b.isfinite(scale), over_), under_
