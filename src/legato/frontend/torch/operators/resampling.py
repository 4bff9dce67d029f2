"""Images with other extents, and images read between their elements."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from legato.arith.expr import Const, const, floordiv
from legato.arith.simplify import simplify
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.antialias import Smoothing
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._nearest import nearest
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._resize import factor, line

Sizes = Sequence[Size]
Scales = Sequence[float | None]

_METHODS = ("bilinear", "nearest", "bicubic")  # of grid samplers, by their numbers
_PADDINGS = ("zeros", "border", "reflection")


def new_sizes(b: Emitter, x: Expr, output_size: Sizes | None, factors: Scales | None) -> tuple[tuple[Dim, ...], Scales]:
    """The new extents, and the factors where these are given instead."""
    if output_size is not None:
        return b.sizes_of(output_size), (None,) * len(output_size)
    if factors is None or None in factors:
        raise ImportModelError("neither new extents nor factors")
    known = [float(f) for f in factors if f is not None]
    return tuple(_times(d, f) for d, f in zip(b.dims_of(x)[2:], known, strict=True)), known


def _times(d: Dim, scale: float) -> Dim:
    """⌊d · scale⌋ as floats have it."""
    if isinstance(d, Const):
        return const(int(float(d.value) * scale))
    exact = Fraction(scale)
    if exact.denominator > 2**20:
        raise UnsupportedError(f"a symbolic extent {d} times {scale}", hint="give the new extents, or a factor such as "
                               "0.5 or 2.0 that is a whole number of parts of a power of two")  # fmt: skip
    return simplify(floordiv(d * exact.numerator, const(exact.denominator)))


# ------------------------------------------------------------------ the nearest element


@aten("upsample_nearest1d.default")
def upsample_nearest1d(b: Emitter, self: Expr, output_size: Sizes, scales: float | None = None) -> Expr:
    return nearest(b, self, b.sizes_of(output_size), (scales,), False)


@aten("upsample_nearest2d.default")
def upsample_nearest2d(
    b: Emitter, self: Expr, output_size: Sizes, scales_h: float | None = None, scales_w: float | None = None
) -> Expr:
    return nearest(b, self, b.sizes_of(output_size), (scales_h, scales_w), False)


@aten("upsample_nearest3d.default")
def upsample_nearest3d(
    b: Emitter, self: Expr, output_size: Sizes, scales_d: float | None = None, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:  # fmt: skip
    return nearest(b, self, b.sizes_of(output_size), (scales_d, scales_h, scales_w), False)


@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def upsample_nearest(b: Emitter, input: Expr, output_size: Sizes | None, scale_factors: Scales | None) -> Expr:
    return nearest(b, input, *new_sizes(b, input, output_size, scale_factors), False)


@aten("_upsample_nearest_exact1d.default")
def upsample_nearest_exact1d(b: Emitter, self: Expr, output_size: Sizes, scales: float | None = None) -> Expr:
    return nearest(b, self, b.sizes_of(output_size), (scales,), True)


@aten("_upsample_nearest_exact2d.default")
def upsample_nearest_exact2d(
    b: Emitter, self: Expr, output_size: Sizes, scales_h: float | None = None, scales_w: float | None = None
) -> Expr:
    return nearest(b, self, b.sizes_of(output_size), (scales_h, scales_w), True)


@aten("_upsample_nearest_exact3d.default")
def upsample_nearest_exact3d(
    b: Emitter, self: Expr, output_size: Sizes, scales_d: float | None = None, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:  # fmt: skip
    return nearest(b, self, b.sizes_of(output_size), (scales_d, scales_h, scales_w), True)


@aten("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec")
def upsample_nearest_exact(b: Emitter, input: Expr, output_size: Sizes | None, scale_factors: Scales | None) -> Expr:
    return nearest(b, input, *new_sizes(b, input, output_size, scale_factors), True)


# ------------------------------------------------------------------ interpolation


@aten("upsample_linear1d.default")
def upsample_linear1d(
    b: Emitter, self: Expr, output_size: Sizes, align_corners: bool, scales: float | None = None
) -> Expr:
    return between(b, self, b.sizes_of(output_size), (scales,), align_corners)


@aten("upsample_bilinear2d.default")
def upsample_bilinear2d(
    b: Emitter, self: Expr, output_size: Sizes, align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:  # fmt: skip
    return between(b, self, b.sizes_of(output_size), (scales_h, scales_w), align_corners)


@aten("upsample_trilinear3d.default")
def upsample_trilinear3d(
    b: Emitter, self: Expr, output_size: Sizes, align_corners: bool, scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Expr:  # fmt: skip
    return between(b, self, b.sizes_of(output_size), (scales_d, scales_h, scales_w), align_corners)


@aten("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def upsample_linear(
    b: Emitter, input: Expr, output_size: Sizes | None, align_corners: bool, scale_factors: Scales | None
) -> Expr:
    return between(b, input, *new_sizes(b, input, output_size, scale_factors), align_corners)


@aten("upsample_bicubic2d.default")
def upsample_bicubic2d(
    b: Emitter, self: Expr, output_size: Sizes, align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:  # fmt: skip
    return between(b, self, b.sizes_of(output_size), (scales_h, scales_w), align_corners, "cubic")


@aten("upsample_bicubic2d.vec")
def upsample_bicubic(
    b: Emitter, input: Expr, output_size: Sizes | None, align_corners: bool, scale_factors: Scales | None
) -> Expr:
    return between(b, input, *new_sizes(b, input, output_size, scale_factors), align_corners, "cubic")


def interpolation(
    b: Emitter, extents: Sequence[Dim], sizes: Sequence[Dim], scales: Scales, align_corners: bool, method: str
) -> dict[str, Any]:
    """The attributes of a resize that interpolates. Aligned corners alone say how far elements are apart."""
    found: dict[str, Any] = {
        "size": tuple(sizes), "method": method, "cubic_alpha": -0.75,
        "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
    }  # fmt: skip
    if not align_corners and any(scales):
        ratios = [factor(s) if s else (m, n) for s, m, n in zip(scales, sizes, extents, strict=True)]
        found["ratio"] = (*(over for over, _ in ratios), *(under for _, under in ratios))
    return found


def between(
    b: Emitter, x: Expr, sizes: Sequence[Dim], scales: Scales, align_corners: bool, method: str = "linear"
) -> Expr:
    if not b.dtype(x).is_float:
        raise UnsupportedError(f"interpolation of {b.dtype(x)}", hint="convert to float32 before, and round behind it")
    attrs = interpolation(b, b.dims_of(x)[2:], sizes, scales, align_corners, method)
    return b.call(f"image.resize{len(sizes)}d", x, **attrs)


@aten("_upsample_bilinear2d_aa.default")
def upsample_bilinear2d_aa(
    b: Emitter, self: Expr, output_size: Sizes, align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:  # fmt: skip
    return _smoothed(b, self, b.sizes_of(output_size), (scales_h, scales_w), align_corners, "linear")


@aten("_upsample_bicubic2d_aa.default")
def upsample_bicubic2d_aa(
    b: Emitter, self: Expr, output_size: Sizes, align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:  # fmt: skip
    return _smoothed(b, self, b.sizes_of(output_size), (scales_h, scales_w), align_corners, "cubic")


def _smoothed(b: Emitter, x: Expr, sizes: Sequence[Dim], scales: Scales, align_corners: bool, method: str) -> Expr:
    """Without what is too fine for fewer elements: kernels are stretched."""
    if not b.dtype(x).is_float:
        raise UnsupportedError(f"interpolation of {b.dtype(x)}", hint="convert to float32 before, and round behind it")
    if align_corners:
        raise UnsupportedError("antialias with align_corners=True", hint="give align_corners=False")
    y = b.wide(x)
    for n, (extent, size, scale) in enumerate(zip(b.dims_of(x)[2:], sizes, scales, strict=True)):
        ratio = factor(scale) if scale else (size, extent)
        where = line("half_pixel", extent, size, ratio)
        y = Smoothing(b, size, ratio, where, method, -0.5, True).of(y, n + 2)
    return b.to(y, b.dtype(x))


# ------------------------------------------------------------------ grids


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    b: Emitter, input: Expr, grid: Expr, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Expr:
    """input [n, channels, …] at places grid [n, …, rank], from -1 to 1, the first of which is along the last dim."""
    rank = b.rank(input) - 2
    places = b.transpose(grid, axes=(0, rank + 1, *range(1, rank + 1)))
    return b.image.grid_sample(input, places, method=_METHODS[interpolation_mode],
                               padding_mode=_PADDINGS[padding_mode], align_corners=align_corners)  # fmt: skip


@aten("affine_grid_generator")
def affine_grid_generator(b: Emitter, theta: Expr, size: Sizes, align_corners: bool) -> Expr:
    rank = len(size) - 2
    grid = b.image.affine_grid(theta, target_shape=b.sizes_of(size)[2:], align_corners=align_corners)
    return b.transpose(grid, axes=(0, *range(2, rank + 2), 1))
