"""Where the maxima of windows are."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.frontend.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["Along", "places_in_planes", "places_of_maxima"]

Along = tuple[int, int, int, Dim]  # windows along a dim: their extent, stride and dilation, and the padding before


def places_of_maxima(
    b: Emitter, x: Expr, y: Expr, windows: Sequence[Along], lowest: float, *, by_columns: bool
) -> Expr:
    """Which element of the flat `x` [n, channels, …] each maximum `y` of a window is, the first of several.

    Padding counts as `lowest`. `by_columns` counts the elements of an image with its first dim moving fastest.
    """
    dims = b.dims_of(x)
    images = b.arange(start=const(0), stop=b.product(dims[:2]), step=1, dtype=dt.int64)
    images = b.multiply(images, b.extent(b.product(dims[2:]), dt.int64))
    places = places_in_planes(b, x, y, windows, lowest, by_columns=by_columns)
    return b.add(places, b.reshape(images, newshape=(*dims[:2], *[1] * len(windows)), allowzero=True))


def places_in_planes(
    b: Emitter, x: Expr, y: Expr, windows: Sequence[Along], lowest: float, *, by_columns: bool = False
) -> Expr:
    """As `places_of_maxima`, within the image of each channel."""
    rank = len(windows)
    starts = [_starts(b, d, w) for d, w in zip(b.dims_of(y)[2:], windows, strict=True)]
    parts = x
    inside: Expr = b.constant(True, dt.bool_)
    for n in reversed(range(rank)):
        size, _, dilation, _ = windows[n]
        own = b.arange(start=0, stop=size * dilation, step=dilation, dtype=dt.int64)
        places = b.add(b.expand_dims(starts[n], axis=1), own)
        at = _within(b, places, b.dims_of(x)[n + 2])
        parts = b.take(parts, at, axis=n + 2)
        inside = b.logical_and(_with_ones(b, b.equal(at, places), 2 * (rank - 1 - n)), inside)
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    count = b.product([const(size) for size, _, _, _ in windows])
    seen = b.transpose(b.where(inside, parts, b.like(lowest, x)), axes=order)
    best = b.argmax(b.reshape(seen, newshape=(*b.dims_of(y), count), allowzero=True), axis=(rank + 2,))
    return _flattened(b, x, b.cast(best, dtype=dt.int64), starts, windows, by_columns=by_columns)


def _starts(b: Emitter, count: Dim, window: Along) -> Expr:
    """Where windows begin along a dim."""
    _, stride, _, before = window
    steps = b.arange(start=const(0), stop=count, step=1, dtype=dt.int64)
    return b.subtract(b.multiply(steps, b.constant(stride, dt.int64)), b.extent(before, dt.int64))


def _within(b: Emitter, places: Expr, extent: Dim) -> Expr:
    """`places`, those outside moved to the ends."""
    last = b.subtract(b.extent(extent, dt.int64), b.constant(1, dt.int64))
    return b.minimum(b.maximum(places, b.constant(0, dt.int64)), last)


def _with_ones(b: Emitter, x: Expr, count: int) -> Expr:
    """`x` with `count` dims of 1 behind its own."""
    return b.expand_dims(x, axis=b.rank(x), num_newaxis=count) if count else x


def _flattened(
    b: Emitter, x: Expr, best: Expr, starts: Sequence[Expr], windows: Sequence[Along], *, by_columns: bool
) -> Expr:
    """The places in their images of elements that are given as numbers within their windows."""
    dims, rank = b.dims_of(x), len(windows)
    found: list[Expr] = []
    for n in reversed(range(rank)):
        size, dilation = (b.constant(v, dt.int64) for v in (windows[n][0], windows[n][2]))
        own, best = b.floor_mod(best, size), b.floor_divide(best, size)
        place = b.add(_with_ones(b, starts[n], rank - 1 - n), b.multiply(own, dilation))
        found.insert(0, _within(b, place, dims[n + 2]))
    order = list(reversed(range(rank))) if by_columns else list(range(rank))
    total = found[order[0]]
    for n in order[1:]:
        total = b.add(b.multiply(total, b.extent(dims[n + 2], dt.int64)), found[n])
    return total
