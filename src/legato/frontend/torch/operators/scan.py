"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable

from legato.base.dtype import DType, int64
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("cumsum")
def cumsum(b: Emitter, self: Expr, dim: Size, *, dtype: DType | None = None) -> Expr:
    return _running(b, b.cumsum, self, dim, dtype)


@aten("cumprod")
def cumprod(b: Emitter, self: Expr, dim: Size, *, dtype: DType | None = None) -> Expr:
    return _running(b, b.cumprod, self, dim, dtype)


def _running(b: Emitter, f: Callable[..., Expr], x: Expr, dim: Size, dtype: DType | None) -> Expr:
    """Along an axis; integers are int64."""
    x = b.to(x, dtype or (b.dtype(x) if b.dtype(x).is_float else int64))
    axis = b.axis_of(dim, b.rank(x))
    return f(x, axis=axis) if b.rank(x) else x
