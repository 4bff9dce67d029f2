"""Pools: maxima and means of windows, which slide or are given by the extents of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from legato.arith.expr import const, max_
from legato.arith.simplify import simplify
from legato.base.dtype import float64, int64
from legato.frontend.maxima import places_in_planes
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._windows import numbers, unbatched
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr
from legato.ir.types import Dim

Sizes = Sequence[Size]


def sliding(
    b: Emitter, rank: int, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> dict[str, Any]:
    """The attributes of a pool whose windows slide; without a stride they lie side by side."""
    size = numbers(b, kernel, rank, "kernel_size")
    return {
        "pool_size": size, "strides": numbers(b, stride, rank, "stride") if stride else size,
        "padding": numbers(b, padding, rank, "padding"), "dilation": numbers(b, dilation, rank, "dilation"),
        "ceil_mode": ceil_mode,
    }  # fmt: skip


# ------------------------------------------------------------------ maxima


@aten("max_pool1d")
def max_pool1d(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> Expr:  # fmt: skip
    return _maxima(b, self, 1, sliding(b, 1, kernel_size, stride, padding, dilation, ceil_mode))


@aten("max_pool2d")
def max_pool2d(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> Expr:  # fmt: skip
    return _maxima(b, self, 2, sliding(b, 2, kernel_size, stride, padding, dilation, ceil_mode))


@aten("max_pool3d")
def max_pool3d(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> Expr:  # fmt: skip
    return _maxima(b, self, 3, sliding(b, 3, kernel_size, stride, padding, dilation, ceil_mode))


@aten("max_pool2d_with_indices")
def max_pool2d_with_indices(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> tuple[Expr, Expr]:  # fmt: skip
    windows = sliding(b, 2, kernel_size, stride, padding, dilation, ceil_mode)
    return _maxima(b, self, 2, windows), _places(b, self, 2, windows)


@aten("max_pool3d_with_indices")
def max_pool3d_with_indices(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> tuple[Expr, Expr]:  # fmt: skip
    windows = sliding(b, 3, kernel_size, stride, padding, dilation, ceil_mode)
    return _maxima(b, self, 3, windows), _places(b, self, 3, windows)


def _maxima(b: Emitter, x: Expr, rank: int, windows: dict[str, Any]) -> Expr:
    return unbatched(b, x, rank, lambda x: b.call(f"nn.max_pool{rank}d", x, **windows))


def _places(b: Emitter, x: Expr, rank: int, windows: dict[str, Any]) -> Expr:
    """Where in its plane the maximum of each window is: the first of several, but the last of NaNs."""
    if not b.dtype(x).is_float:
        return unbatched(b, x, rank, lambda x: _places_of_integers(b, x, rank, windows))

    def found(x: Expr) -> Expr:
        y = b.call(f"nn.max_pool{rank}d_take", _numbered(b, x), b.to(x, float64), **windows)
        return _last_of_nans(b, x, b.to(y, int64), f"nn.max_pool{rank}d", windows)

    return unbatched(b, x, rank, found)


def _last_of_nans(b: Emitter, x: Expr, first: Expr, pool: str, windows: dict[str, Any]) -> Expr:
    """The places `first`, of a window with NaNs that of the last."""
    place = b.to(_numbered(b, x), int64)
    last = b.call(pool, b.where(b.isnan(x), place, b.like(-1, place)), **windows)
    return b.where(b.less(last, b.like(0, last)), first, last)


def _numbered(b: Emitter, x: Expr) -> Expr:
    """The number of each element in its plane."""
    shape = b.dims_of(x)
    count = b.product(shape[2:])
    places = b.to(b.arange(start=const(0), stop=count, step=1, dtype="int64"), float64)
    return b.broadcast(b.reshape(places, newshape=shape[2:], allowzero=True), shape)


def _places_of_integers(b: Emitter, x: Expr, rank: int, windows: dict[str, Any]) -> Expr:
    y = b.call(f"nn.max_pool{rank}d", x, **windows)
    each = zip(*(windows[key] for key in ("pool_size", "strides", "dilation", "padding")), strict=True)
    along = [(size, step, apart, const(before)) for size, step, apart, before in each]
    return places_in_planes(b, x, y, along, b.dtype(x).min)


@aten("adaptive_max_pool2d")
def adaptive_max_pool2d(b: Emitter, self: Expr, output_size: Sizes) -> tuple[Expr, Expr]:
    return _adaptive_maxima(b, self, output_size, 2)


@aten("adaptive_max_pool3d")
def adaptive_max_pool3d(b: Emitter, self: Expr, output_size: Sizes) -> tuple[Expr, Expr]:
    return _adaptive_maxima(b, self, output_size, 3)


def _adaptive_maxima(b: Emitter, x: Expr, output_size: Sizes, rank: int) -> tuple[Expr, Expr]:
    windows = {"output_size": b.sizes_of(output_size)}
    pool = f"nn.adaptive_max_pool{rank}d"

    def found(x: Expr) -> Expr:
        y = b.call(f"{pool}_take", _numbered(b, x), b.to(x, float64), **windows)
        return _last_of_nans(b, x, b.to(y, int64), pool, windows)

    return unbatched(b, x, rank, lambda x: b.call(pool, x, **windows)), unbatched(b, x, rank, found)


# ------------------------------------------------------------------ means


@aten("avg_pool1d")
def avg_pool1d(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Expr:  # fmt: skip
    return _means(b, self, 1, sliding(b, 1, kernel_size, stride, padding, (1,), ceil_mode), count_include_pad, None)


@aten("avg_pool2d")
def avg_pool2d(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Size | None = None,
) -> Expr:  # fmt: skip
    windows = sliding(b, 2, kernel_size, stride, padding, (1,), ceil_mode)
    return _means(b, self, 2, windows, count_include_pad, divisor_override)


@aten("avg_pool3d")
def avg_pool3d(
    b: Emitter, self: Expr, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Size | None = None,
) -> Expr:  # fmt: skip
    windows = sliding(b, 3, kernel_size, stride, padding, (1,), ceil_mode)
    return _means(b, self, 3, windows, count_include_pad, divisor_override)


def _means(
    b: Emitter, x: Expr, rank: int, windows: dict[str, Any], count_include_pad: bool, divisor: Size | None
) -> Expr:
    def found(x: Expr) -> Expr:
        y = b.call(f"nn.avg_pool{rank}d", x, **windows, count_include_pad=count_include_pad)
        return y if divisor is None else _divided(b, x, y, windows, b.literal(divisor, "divisor_override"))

    return unbatched(b, x, rank, found)


def _divided(b: Emitter, x: Expr, y: Expr, windows: dict[str, Any], divisor: int) -> Expr:
    """The sum of each window, divided by one number."""
    size, strides, padding = windows["pool_size"], windows["strides"], windows["padding"]
    pairs = zip(b.dims_of(x)[2:], b.dims_of(y)[2:], size, strides, padding, strict=True)
    around: list[tuple[int, Dim]] = [(pair[4], _behind(*pair)) for pair in pairs]
    wide = b.nn.pad(b.wide(x), b.like(0, b.wide(x)), pad_width=((0, 0), (0, 0), *around))
    if b.dtype(x).is_float:
        mean = b.call(f"nn.avg_pool{len(size)}d", wide, pool_size=size, strides=strides)
        found = b.multiply(mean, b.like(math.prod(size) / divisor, wide))
    else:  # means of integers are rounded
        parts = b.sliding_window(wide, axis=2, window_shape=size, strides=strides)
        total = b.sum(parts, axis=tuple(range(-len(size), 0)))
        found = b.divide(total, b.like(divisor, total))
    found = b.strided_slice(found, begin=(0,) * len(size), end=b.dims_of(y)[2:], axes=tuple(range(2, b.rank(y))))
    return b.to(found, b.dtype(x))


def _behind(extent: Dim, count: Dim, size: int, stride: int, before: int) -> Dim:
    """Zeros to be put behind, such that all windows are full."""
    return simplify(max_((count - 1) * stride + size - before - extent, const(0)))


@aten("_adaptive_avg_pool2d", "adaptive_avg_pool2d")
def adaptive_avg_pool2d(b: Emitter, self: Expr, output_size: Sizes) -> Expr:
    return _adaptive_means(b, self, output_size, 2)


@aten("_adaptive_avg_pool3d", "adaptive_avg_pool3d")
def adaptive_avg_pool3d(b: Emitter, self: Expr, output_size: Sizes) -> Expr:
    return _adaptive_means(b, self, output_size, 3)


@aten("adaptive_avg_pool1d")
def adaptive_avg_pool1d(b: Emitter, self: Expr, output_size: Sizes) -> Expr:
    return _adaptive_means(b, self, output_size, 1)


def _adaptive_means(b: Emitter, x: Expr, output_size: Sizes, rank: int) -> Expr:
    sizes = b.sizes_of(output_size)
    return unbatched(b, x, rank, lambda x: b.call(f"nn.adaptive_avg_pool{rank}d", x, output_size=sizes))
