"""Operands of pointwise operators: promoted as PyTorch promotes them, and widened where it computes more precisely."""

from __future__ import annotations

from collections.abc import Callable

from legato.base.dtype import DType, bool_, float32
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Number, Value
from legato.ir.expr import Expr

__all__ = ["as_bool", "combined", "is_negative", "larger", "number_of", "smaller", "wide_float", "widened"]


def combined(
    b: Emitter,
    f: Callable[..., Expr],
    *xs: Value,
    to_float: bool = False,
    steps: bool = False,
    all_digits: bool = False,
) -> Expr:
    """`f` of operands of their common dtype.

    16-bit floats are computed in float32, and rounded once, where `f` takes several `steps`. `all_digits`: there too
    where an operand is a number or of another dtype, which is not rounded before; that is how PyTorch multiplies and
    divides, while it adds numbers that have been rounded.
    """
    dtype = b.result_dtype(*xs)
    dtype = b.float_dtype if to_float and not dtype.is_float else dtype
    if not dtype.is_float or dtype.bits > 16:
        return f(*(b.operand(x, dtype) for x in xs))
    mixed = any(not isinstance(x, Expr) or b.dtype(x) != dtype for x in xs)
    if all_digits and mixed:
        return b.to(f(*(b.operand(x, float32) for x in xs)), dtype)
    rounded = [b.operand(x, dtype) for x in xs]
    return b.to(f(*(b.to(x, float32) for x in rounded)), dtype) if steps else f(*rounded)


def widened(b: Emitter, f: Callable[[Expr], Expr], x: Expr) -> Expr:
    """`f`, several steps, of one tensor: of integers floats, 16-bit floats computed in float32 and rounded once."""
    return combined(b, f, x, to_float=True, steps=True)


def wide_float(b: Emitter, x: Expr, dtype: DType | None = None) -> Expr:
    """`x` as `dtype`, in what its steps are computed in: integers in floats, 16-bit floats in float32."""
    return b.wide(b.as_float(x if dtype is None else b.to(x, dtype)))


def as_bool(b: Emitter, x: Value) -> Expr:
    """An operand as truth values: what is not zero."""
    return b.operand(x, bool_)


def is_negative(b: Emitter, x: Expr) -> Expr:
    """Whether the sign of each element is set: of -0.0 and of some NaNs too."""
    dtype = b.dtype(x)
    if dtype.is_float:
        x = b.reinterpret(x, dtype=f"int{dtype.bits}")
    elif not dtype.is_signed:
        return b.zeros_of(b.dims_of(x), bool_, False)
    return b.less(x, b.like(0, x))


def larger(b: Emitter, dtype: DType) -> Callable[..., Expr]:
    """The larger of two elements of `dtype`."""
    return b.logical_or if dtype.is_bool else b.maximum


def smaller(b: Emitter, dtype: DType) -> Callable[..., Expr]:
    """The smaller of two elements of `dtype`."""
    return b.logical_and if dtype.is_bool else b.minimum


def number_of(value: Number) -> float:
    """A number of an attribute; UnsupportedError where it is symbolic."""
    if not isinstance(value, int | float):
        raise UnsupportedError(
            f"the number {value} is symbolic: it must be known",
            hint="give its dim as a number, which shapes={…} states and dynamic_shapes leaves out",
        )
    return float(value)
