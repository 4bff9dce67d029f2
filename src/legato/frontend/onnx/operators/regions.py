"""Regions of images, read by bins. 16-bit floats are computed in float32, and rounded once."""

from __future__ import annotations

from legato.arith.expr import const
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

_ALIGNED = {"half_pixel": True, "output_half_pixel": False}
_MODES = {"avg": "avg", "max": "max_tap"}  # the largest weighted element: so have ONNX's reference and ONNX Runtime it


def roi_align(
    b: Emitter,
    x: Expr,
    rois: Expr,
    batch_indices: Expr,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Expr:
    return _aligned(
        b,
        x,
        rois,
        batch_indices,
        "output_half_pixel",
        mode,
        (output_height, output_width),
        sampling_ratio,
        spatial_scale,
    )


def roi_align_16(
    b: Emitter,
    x: Expr,
    rois: Expr,
    batch_indices: Expr,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Expr:
    return _aligned(b, x, rois, batch_indices, coordinate_transformation_mode, mode, (output_height, output_width),
                    sampling_ratio, spatial_scale)  # fmt: skip


def _aligned(
    b: Emitter,
    x: Expr,
    rois: Expr,
    images: Expr,
    coordinates: str,
    mode: str,
    size: tuple[int, int],
    samples: int,
    scale: float,
) -> Expr:
    mode = mode.lower()
    if coordinates not in _ALIGNED or mode not in _MODES or min(size) < 1 or samples < 0:
        raise ImportModelError(f"coordinate_transformation_mode {coordinates!r}, wanted one of {', '.join(_ALIGNED)}; "
                               f"mode {mode!r}, one of {', '.join(_MODES)}; {size[0]} x {size[1]} bins, 1 or more; "
                               f"sampling_ratio {samples}, 0 or more")  # fmt: skip
    if b.rank(x) != 4 or b.rank(rois) != 2 or b.rank(images) != 1:
        raise ImportModelError(f"regions {rois.ty} of the images {images.ty} of {x.ty}, wanted rank 2, 1 and 4")
    b.require(b.dims_of(rois)[0], b.dims_of(images)[0], "regions and the images they are of")
    b.require(b.dims_of(rois)[1], const(4), "numbers of a region")
    wide, corners = b.wide(x), b.to(rois, b.dtype(b.wide(x)))
    regions = b.concatenate(b.expand_dims(b.to(images, b.dtype(wide)), axis=1), corners, axis=1)
    found = b.vision.roi_align(wide, regions, pooled_size=size, spatial_scale=scale, sample_ratio=samples or -1,
                               mode=_MODES[mode], aligned=_ALIGNED[coordinates])  # fmt: skip
    return b.to(found, b.dtype(x))


def max_roi_pool(b: Emitter, x: Expr, rois: Expr, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0) -> Expr:
    if b.rank(x) != 4 or b.rank(rois) != 2 or len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise ImportModelError(f"regions {rois.ty} of {x.ty} as bins {list(pooled_shape)}")
    wide = b.wide(x)
    regions = b.to(rois, b.dtype(wide))
    return b.to(b.vision.roi_pool(wide, regions, pooled_size=pooled_shape, spatial_scale=spatial_scale), b.dtype(x))
