"""The nearest elements as PyTorch finds them: with a factor that is a float, whose rounding decides ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Const, const
from legato.arith.simplify import simplify
from legato.base.dtype import float32, float64, int64
from legato.frontend.torch.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["nearest"]

_POWERS = tuple(2**n for n in range(8))


def nearest(b: Emitter, x: Expr, sizes: Sequence[Dim], scales: Sequence[float | None], exact: bool) -> Expr:
    """`x` with its last dims of other `sizes`: each element that of `x` at ⌊o · f⌋, or (`exact`) ⌊(o + ½) · f⌋, where f
    is 1 / scale, or else the quotient of the extents."""
    rank = len(sizes)
    pairs = list(zip(b.dims_of(x)[-rank:], sizes, scales, strict=True))
    if all(_is_exact(b, x, *pair, exact) for pair in pairs):
        where = ("half_pixel", "round") if exact else ("asymmetric", "floor")
        return b.call(f"image.resize{rank}d", x, size=tuple(sizes), method="nearest_neighbor",
                      coordinate_transformation_mode=where[0], rounding_method=where[1])  # fmt: skip
    for n, pair in enumerate(pairs):
        if pair[0] is not pair[1]:
            x = b.take(x, _places(b, x, *pair, exact), axis=b.rank(x) - rank + n)
    return x


def _is_exact(b: Emitter, x: Expr, extent: Dim, size: Dim, scale: float | None, exact: bool) -> bool:
    """Whether floats find the same elements as the quotient of the extents."""
    if isinstance(extent, Const) and isinstance(size, Const):
        n, m = int(extent.value), int(size.value)
        dtype = np.dtype(np.float64 if b.dtype(x) == float64 else np.float32)
        old, new, ratio = (np.asarray(v, dtype) for v in (n, max(m, 1), 1 / scale if scale else 0))
        places = np.asarray(np.arange(m) + (0.5 if exact else 0.0), dtype)
        found = np.minimum(np.floor(places * (ratio if scale else old / new)).astype(np.int64), n - 1)
        numbers = np.arange(m) * 2 + exact
        return bool(np.array_equal(found, numbers * n // max(2 * m, 1)))
    return any(simplify(size - extent * p) is const(0) and scale in (None, p) for p in _POWERS)


def _places(b: Emitter, x: Expr, extent: Dim, size: Dim, scale: float | None, exact: bool) -> Expr:
    dtype = float64 if b.dtype(x) == float64 else float32
    if scale:
        f: Expr = b.constant(1 / scale, dtype)
    else:
        f = b.divide(b.extent(extent, dtype), b.extent(size, dtype))
    places = b.to(b.arange(start=const(0), stop=size, step=1, dtype="int64"), dtype)
    places = b.add(places, b.like(0.5, places)) if exact else places
    found = b.to(b.floor(b.multiply(places, f)), int64)
    return b.minimum(found, b.subtract(b.extent(extent, int64), b.constant(1, int64)))
