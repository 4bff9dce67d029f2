"""The largest and the smallest over axes, and where they are: of equal ones the first; NaN before all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.base.dtype import int64, uint8
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("amax")
def amax(b: Emitter, self: Expr, dim: Sequence[Size] = (), keepdim: bool = False) -> Expr:
    return _most(b, self, b.axes_of(dim, b.rank(self)), keepdim)


@aten("amin")
def amin(b: Emitter, self: Expr, dim: Sequence[Size] = (), keepdim: bool = False) -> Expr:
    return _least(b, self, b.axes_of(dim, b.rank(self)), keepdim)


@aten("max.default")
def max_(b: Emitter, self: Expr) -> Expr:
    return _most(b, self, b.axes_of(None, b.rank(self)), False)


@aten("min.default")
def min_(b: Emitter, self: Expr) -> Expr:
    return _least(b, self, b.axes_of(None, b.rank(self)), False)


@aten("max.dim")
def max_along(b: Emitter, self: Expr, dim: Size, keepdim: bool = False) -> tuple[Expr, Expr]:
    return _most(b, self, b.axes_of(dim, b.rank(self)), keepdim), _place(b, b.argmax, self, dim, keepdim)


@aten("min.dim")
def min_along(b: Emitter, self: Expr, dim: Size, keepdim: bool = False) -> tuple[Expr, Expr]:
    return _least(b, self, b.axes_of(dim, b.rank(self)), keepdim), _place(b, b.argmin, self, dim, keepdim)


@aten("argmax")
def argmax(b: Emitter, self: Expr, dim: Size | None = None, keepdim: bool = False) -> Expr:
    return _place(b, b.argmax, self, dim, keepdim)


@aten("argmin")
def argmin(b: Emitter, self: Expr, dim: Size | None = None, keepdim: bool = False) -> Expr:
    return _place(b, b.argmin, self, dim, keepdim)


def _most(b: Emitter, x: Expr, axes: tuple[int, ...], keepdim: bool) -> Expr:
    return b.call("any" if b.dtype(x).is_bool else "max", x, axis=axes, keepdims=keepdim)


def _least(b: Emitter, x: Expr, axes: tuple[int, ...], keepdim: bool) -> Expr:
    return b.call("all" if b.dtype(x).is_bool else "min", x, axis=axes, keepdims=keepdim)


def _place(b: Emitter, f: Callable[..., Expr], x: Expr, dim: Size | None, keepdim: bool) -> Expr:
    x = b.to(x, uint8) if b.dtype(x).is_bool else x
    return b.to(f(x, axis=b.axes_of(dim, b.rank(x)), keepdims=keepdim), int64)
