"""Gradient rules of operators: what they are made of, and the conventions that they keep.

A rule is `(b, call, dy) -> contributions`: for each argument of the call, what the cotangent `dy` of its result adds to
the cotangent of that argument, an expression of the argument's type, written with the builder `b`. None: nothing flows
there (integers, indices, what has derivative 0 almost everywhere). For a tuple argument it is a Python tuple of these.
Where the result is a tuple, `dy` is one, with zeros for fields that nobody uses. A rule is linear in `dy` and made of
operators alone, so that forward mode and second derivatives follow from it; it may mention `call`, whose value is not
computed again, and `call.args`.

Conventions, at points without a derivative:
    kinks        one-sided derivatives differ: the derivative of the side where the function is flat (relu at 0: 0);
                 where it is flat on neither, of the side to which the formula counts the point (leaky_relu: below);
                 abs, sign at 0: 0; clip at its bounds: 1, as inside
    ties         max, min, maximum and minimum of equal elements share it equally, NaNs that max and min choose too;
                 pooling, sort and topk give it to the element that they choose, the first one
    steps        floor, ceil, round, trunc, sign, comparisons: 0 everywhere
    outside      of the domain (log of a negative number) and at poles: what the formula gives, NaN or infinity
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.arith.prove import prove_equal
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.types import Dim, TensorType
from legato.ops._tensors import accumulator

__all__ = [
    "BinaryGradient", "Contribution", "Rule", "UnaryGradient", "count", "dtype_of", "extent_of", "extents",
    "in_shape", "narrowed", "no_gradient", "of_binary", "of_unary", "only", "put_back", "shape_of", "shifted",
    "sum_to", "widened",
]  # fmt: skip

Contribution = Any  # an Expr, None, or a tuple of contributions
Rule = Callable[[Builder, Call, Expr], Sequence[Contribution]]
UnaryGradient = Callable[[Builder, Expr, Expr, Expr], Contribution]
BinaryGradient = Callable[[Builder, Expr, Expr, Expr, Expr], Contribution]


def of_unary(derivative: UnaryGradient) -> Rule:
    """The rule of an elementwise function of one tensor from `(b, x, y, dy) -> dx`, where y is the result."""
    return lambda b, call, dy: [derivative(b, call.args[0], call, dy)]


def of_binary(left: BinaryGradient, right: BinaryGradient) -> Rule:
    """The rule of a broadcasting function of two tensors from two functions `(b, x1, x2, y, dy)`.

    Each gives a gradient of the result's shape, or None; it is summed to the shape of its operand.
    """

    def rule(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
        x1, x2 = call.args
        found = ((f(b, x1, x2, call, dy), x) for f, x in ((left, x1), (right, x2)))
        return [None if g is None else sum_to(b, g, shape_of(x)) for g, x in found]

    return rule


def no_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of a function whose derivative is 0 almost everywhere."""
    return [None] * len(call.args)


def dtype_of(x: Expr) -> DType:
    """The dtype of a tensor."""
    assert isinstance(x.ty, TensorType)
    return x.ty.dtype


def shape_of(x: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor."""
    assert isinstance(x.ty, TensorType)
    return x.ty.shape


def extents(dims: Iterable[Dim]) -> tuple[Dim | int, ...]:
    """`dims` as attributes have them: integers where they are known."""
    return tuple(int(d.value) if isinstance(d, Const) else d for d in dims)


def in_shape(b: Builder, x: Expr, shape: Sequence[Dim]) -> Expr:
    """`x` with its elements laid out in `shape`, whose dims stand for themselves: an extent of 0 is no code."""
    if len(shape) == len(shape_of(x)) and all(map(prove_equal, shape_of(x), shape)):
        return x
    new = extents(shape)
    return b.reshape(x, newshape=new, allowzero=True) if 0 in new else b.reshape(x, newshape=new)


def only(b: Builder, condition: Expr, dy: Expr) -> Expr:
    """`dy` where the condition holds, elsewhere 0, whatever `dy` is there."""
    return b.where(condition, dy, 0)


def widened(b: Builder, x: Expr) -> Expr:
    """`x` in the dtype in which sums of its elements are formed."""
    dtype = accumulator(dtype_of(x))
    return x if dtype == dtype_of(x) else b.cast(x, dtype=dtype)


def narrowed(b: Builder, x: Expr, like: Expr) -> Expr:
    """`x` in the dtype of `like`."""
    dtype = dtype_of(like)
    return x if dtype == dtype_of(x) else b.cast(x, dtype=dtype)


def count(b: Builder, x: Expr, axes: Sequence[int]) -> Expr:
    """How many elements of `x` lie along `axes`, in the dtype of sums: a constant, or computed from the extents."""
    dims, dtype = [shape_of(x)[n] for n in axes], accumulator(dtype_of(x))
    literals = [int(d.value) for d in dims if isinstance(d, Const)]
    if len(literals) == len(dims):
        return b.constant(float(math.prod(literals)), dtype)
    counted = b.take(b.shape_of(x, dtype=dt.int64), b.constant(np.array(axes, np.int64)), axis=0)
    return b.cast(b.prod(counted), dtype=dtype)


def extent_of(b: Builder, x: Expr, axis: int) -> Expr:
    """The extent of a dimension of `x` as an int64 scalar: a constant, or computed."""
    d = shape_of(x)[axis]
    if isinstance(d, Const):
        return b.constant(int(d.value), dt.int64)
    return b.take(b.shape_of(x, dtype=dt.int64), axis % len(shape_of(x)), axis=0)


def shifted(b: Builder, x: Expr, axis: int, *, back: bool = False, fill: float = 0.0) -> Expr:
    """At each place the element before it along `axis` (`back`: behind it), and `fill` where there is none."""
    shape = shape_of(x)
    axis %= len(shape)
    ends = tuple((int(not back), int(back)) if n == axis else (0, 0) for n in range(len(shape)))
    begin = int(back)
    longer = b.nn.pad(x, fill, pad_width=ends)
    return b.strided_slice(longer, begin=(begin,), end=extents([shape[axis] + begin]), strides=(1,), axes=(axis,))


def put_back(b: Builder, x: Expr, dy: Expr, subscripts: Expr, axis: int) -> Expr:
    """`dy` at the places of `x` along `axis` that `subscripts` name, and 0 at all others."""
    return b.scatter_elements(b.zeros_like(x), subscripts, dy, axis=axis, reduction="add")


def sum_to(b: Builder, x: Expr, shape: Sequence[Dim]) -> Expr:
    """`x` summed over the axes that broadcasting from `shape` made: the transpose of `broadcast_to`.

    Whether a dim of `shape` is 1 where the result's is not may be known only when the program runs.
    """
    given = shape_of(x)
    if len(given) == len(shape) and all(map(prove_equal, given, shape)):
        return x
    extra = len(given) - len(shape)
    if not all(prove_equal(n, d) or _is_one(d) for n, d in zip(given[extra:], shape, strict=True)):
        return b.collapse_sum_to(x, shape=extents(shape))
    ones = [extra + n for n, d in enumerate(shape) if _is_one(d) and not _is_one(given[extra + n])]
    if ones:
        x = b.sum(x, axis=tuple(ones), keepdims=True)
    return b.sum(x, axis=tuple(range(extra))) if extra else x


def _is_one(d: Dim) -> bool:
    return isinstance(d, Const) and d.value == 1
