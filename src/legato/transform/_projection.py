"""Products of parts of a tensor, made of all parts at once."""

from __future__ import annotations

from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.types import Dim, TensorType
from legato.ops.linalg import dense

__all__ = ["projected", "projected_type"]


def projected_type(data: TensorType, product: Call) -> TensorType:
    """The type of the products of all parts of `data` along its first dimension, where `product` is that of some."""
    assert isinstance(product.ty, TensorType)
    return TensorType((*data.shape[:-1], product.ty.shape[-1]), product.ty.dtype)


def projected(b: Builder, data: Expr, weight: Expr, product: Call) -> Expr:
    """The products with `weight` of all parts of `data` along its first dimension, where `product` is that of some."""
    ty = data.ty
    assert isinstance(ty, TensorType)
    if ty.rank == 2:
        return b.call_op(dense, (data, weight), product.attrs)
    rows: Dim = ty.shape[0]
    for d in ty.shape[1:-1]:
        rows = rows * d
    flat = b.reshape(data, newshape=(rows, ty.shape[-1]), allowzero=True)
    made = b.call_op(dense, (flat, weight), product.attrs)
    return b.reshape(made, newshape=projected_type(ty, product).shape, allowzero=True)
