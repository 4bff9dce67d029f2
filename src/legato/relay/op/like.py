"""Operators that take a shape or dtype from another tensor: from its type, where that is known.

Where it is not, they are calls of the operators of these names, and type inference finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.base.errors import TypeCheckError
from legato.ir.expr import Expr
from legato.ir.types import TensorType
from legato.relay.op._functions import function

__all__ = ["broadcast_to_like", "cast_like", "collapse_sum_like", "reshape_like", "slice_like"]


def cast_like(data: Expr, dtype_like: Expr) -> Any:
    """`data` with elements of the dtype of `dtype_like`."""
    if not isinstance(dtype_like.ty, TensorType):
        return function("cast_like")(data, dtype_like)
    return function("cast")(data, dtype_like.ty.dtype)


def broadcast_to_like(data: Expr, broadcast_type: Expr) -> Any:
    """`data` in the shape of `broadcast_type`."""
    if not isinstance(broadcast_type.ty, TensorType):
        return function("broadcast_to_like")(data, broadcast_type)
    return function("broadcast_to")(data, broadcast_type.ty.shape)


def reshape_like(
    data: Expr,
    shape_like: Expr,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Any:
    """`data` with its dims from `lhs_begin` to `lhs_end` replaced by those of `shape_like` from `rhs_begin` on."""
    if not isinstance(shape_like.ty, TensorType) or not isinstance(data.ty, TensorType):
        return function("reshape_like")(data, shape_like, lhs_begin, lhs_end, rhs_begin, rhs_end)
    new = shape_like.ty.shape[rhs_begin:rhs_end]
    if lhs_begin == 0 and lhs_end is None:
        return function("reshape")(data, new)
    own = data.ty.shape
    end = len(own) if lhs_end is None else lhs_end
    return function("reshape")(data, (*own[:lhs_begin], *new, *own[end:]))


def slice_like(data: Expr, shape_like: Expr, axes: Sequence[int] | None = None) -> Any:
    """The beginning of `data` along `axes` (all: None), as long as `shape_like` is there."""
    if not isinstance(data.ty, TensorType) or not isinstance(shape_like.ty, TensorType):
        return function("slice_like")(data, shape_like, axes)
    own, like = data.ty.shape, shape_like.ty.shape
    rank = len(own)
    listed = tuple(axes or range(rank))
    for a in listed:
        if not -rank <= a < rank or a % rank >= len(like):
            raise TypeCheckError(f"relay.slice_like: there is no axis {a} in tensors of {rank} and {len(like)} dims")
    chosen = tuple(a % rank for a in listed)
    return function("strided_slice")(data, (0,) * len(chosen), tuple(like[a] for a in chosen), axes=chosen)


def collapse_sum_like(data: Expr, collapse_type: Expr) -> Any:
    """The sums of `data` over what broadcasting from the shape of `collapse_type` would have repeated."""
    if not isinstance(collapse_type.ty, TensorType):
        return function("collapse_sum_like")(data, collapse_type)
    return function("collapse_sum_to")(data, collapse_type.ty.shape)
