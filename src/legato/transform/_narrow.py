"""Tensors of float32 in 16 bits and back: what passes that narrow a program have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, constant
from legato.ir.types import TensorType, TupleType, Type
from legato.ops.select import cast

__all__ = ["in_dtype", "is_float32", "narrowed", "widened"]


def is_float32(ty: Type | None) -> bool:
    """Whether it is the type of a tensor of float32."""
    return isinstance(ty, TensorType) and ty.dtype is dt.float32


def narrowed(ty: Type | None, dtype: DType) -> Type | None:
    """A type with its tensors of float32 in `dtype`."""
    if isinstance(ty, TupleType):
        fields = (narrowed(f, dtype) for f in ty.fields)
        return TupleType(tuple(f for f in fields if f is not None))
    return replace(ty, dtype=dtype) if isinstance(ty, TensorType) and is_float32(ty) else ty


def in_dtype(x: Expr, dtype: DType) -> Expr:
    """`x` in another dtype: a constant is converted here, all else by a cast."""
    if not isinstance(x, Constant):
        return Builder(span=x.span).call(cast, x, dtype=dtype.name)
    with np.errstate(over="ignore"):
        return constant(x.data.astype(dtype.numpy), dtype)


def widened(x: Expr, dtype: DType) -> Expr | None:
    """The tensor of `dtype` that `x` is a cast of: what has only been made wider. None where it is no such cast."""
    if not isinstance(x, Call) or x.op is not cast:
        return None
    (y,) = x.args
    return y if isinstance(y.ty, TensorType) and y.ty.dtype is dtype else None
