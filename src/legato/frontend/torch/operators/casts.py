"""Conversions of elements."""

from __future__ import annotations

from legato.base.dtype import DType, int32, int64
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("_to_copy")
def to_copy(b: Emitter, self: Expr, *, dtype: DType | None = None) -> Expr:
    return self if dtype is None else converted(b, self, dtype)


@aten("prims::convert_element_type")
def convert_element_type(b: Emitter, a: Expr, dtype: DType) -> Expr:
    return converted(b, a, dtype)


def converted(b: Emitter, x: Expr, dtype: DType) -> Expr:
    """`x` as `dtype`. A float as a short integer is the low bits of a longer one: 300 as int8 is 44."""
    if b.dtype(x).is_float and dtype.is_int and dtype.bits < 32:
        x = b.to(x, int32 if dtype.is_signed else int64)
    return b.to(x, dtype)
