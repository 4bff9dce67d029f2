"""The element in the middle, and where it is: of equal ones any may be meant."""

from __future__ import annotations

import math

from legato.arith.expr import Const, const, floordiv
from legato.base.dtype import int64, uint8
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("median.default")
def median(b: Emitter, self: Expr) -> Expr:
    """The lower of two; NaN where any is, and of nothing."""
    values, _ = median_along(b, _flat(b, self), 0)
    return values


@aten("nanmedian.default")
def nanmedian(b: Emitter, self: Expr) -> Expr:
    values, _ = nanmedian_along(b, _flat(b, self), 0)
    return values


@aten("median.dim")
def median_along(b: Emitter, self: Expr, dim: Size, keepdim: bool = False) -> tuple[Expr, Expr]:
    """Where there are NaNs, the first of them."""
    axis = b.axis_of(dim, b.rank(self))
    if not b.rank(self):
        return self, b.zeros_of((), int64)
    middle = floordiv(b.dims_of(self)[axis] - 1, const(2))
    found = b.take(_order(b, self, axis), b.reshape(b.extent(middle, int64), newshape=(1,)), axis=axis)
    if b.dtype(self).is_float:
        bad = b.isnan(self)
        first = b.to(b.argmax(b.to(bad, uint8), axis=(axis,), keepdims=True), int64)
        found = b.where(b.any(bad, axis=(axis,), keepdims=True), first, found)
    return _at(b, self, found, axis, keepdim)


@aten("nanmedian.dim")
def nanmedian_along(b: Emitter, self: Expr, dim: Size, keepdim: bool = False) -> tuple[Expr, Expr]:
    """Of what is not NaN, which is sorted before all NaNs."""
    if not b.dtype(self).is_float or not b.rank(self):
        return median_along(b, self, dim, keepdim)
    axis = b.axis_of(dim, b.rank(self))
    many = b.sum(b.to(b.logical_not(b.isnan(self)), int64), axis=(axis,), keepdims=True)
    middle = b.floor_divide(b.maximum(b.subtract(many, 1), 0), 2)
    return _at(b, self, b.gather(_order(b, self, axis), middle, axis=axis), axis, keepdim)


def _order(b: Emitter, x: Expr, axis: int) -> Expr:
    return b.argsort(x, axis=axis, dtype=int64)


def _at(b: Emitter, x: Expr, places: Expr, axis: int, keepdim: bool) -> tuple[Expr, Expr]:
    """The elements at places along an axis, one a row, and the places."""
    values = b.gather(x, places, axis=axis)
    if b.dtype(x).is_float:
        extent = b.dims_of(x)[axis]
        none = b.equal(b.extent(extent, int64), b.constant(0, int64))
        known = isinstance(extent, Const) and extent.value
        values = values if known else b.where(none, b.like(math.nan, x), values)
    return (values, places) if keepdim else (b.squeeze(values, axis=(axis,)), b.squeeze(places, axis=(axis,)))


def _flat(b: Emitter, x: Expr) -> Expr:
    return b.reshape(x, newshape=(b.product(b.dims_of(x)),), allowzero=True)
