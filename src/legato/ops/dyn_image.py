"""Resizes whose sizes or scales the program computes: dyn.image.resize2d, dyn.nn.upsampling and their like."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.ir.attr_record import Attrs
from legato.ir.attrs import make_attrs
from legato.ir.expr import Constant, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Type
from legato.ops._computed import LARGEST, PARTS, as_dims, quotient, stacked
from legato.ops._dynamic import evaluated, fresh_dims, known_count
from legato.ops._rules import FLOAT, require_dtype, require_rank, tensor
from legato.ops._tensors import Array, DtypeName
from legato.ops._window import data_order, dim_order, spatial_letters, window_rank
from legato.ops.image import resize1d, resize2d, resize3d

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["DynResize2DAttrs", "DynUpsampling3DAttrs", "DynUpsamplingAttrs"]

_RESIZES = {1: resize1d, 2: resize2d, 3: resize3d}


# ------------------------------------------------------------------ sizes


@dataclass(frozen=True, slots=True)
class DynResize2DAttrs(Attrs):
    """As Resize2DAttrs, where size and roi are arguments."""

    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: DtypeName = ""


def _size_type(rank: int, rel: Relation, data: Type, size: Type, roi: Type, a: DynResize2DAttrs) -> Type | None:
    count, known = known_count(rel, size, "size"), rel.value(1)
    require_dtype(rel, tensor(rel, roi, "roi"), FLOAT, "roi")
    dims = fresh_dims(rel, "size", count) if known is None else known
    return _RESIZES[rank].type_rel(rel, data, _resize_attrs(rank, a, dims, (0.0,) * 2 * rank))


def _resize_attrs(rank: int, a: DynResize2DAttrs, size: Sequence[Any], roi: Sequence[float]) -> Any:
    is_crop = a.coordinate_transformation_mode == "tf_crop_and_resize"
    return make_attrs(_RESIZES[rank], {**a, "size": tuple(size), "roi": tuple(roi) if is_crop else ()})


def _resize_reference(rank: int, data: Array, size: Array, roi: Array, a: DynResize2DAttrs) -> Array:
    attrs = _resize_attrs(rank, a, size.ravel().tolist(), roi.ravel().tolist())
    found: Array = evaluated(_RESIZES[rank], [data], attrs)
    return found


def _resize(rank: int, b: Builder, data: Expr, size: Expr, roi: Expr, a: DynResize2DAttrs) -> Expr:
    is_crop = a.coordinate_transformation_mode == "tf_crop_and_resize"
    if is_crop and not isinstance(roi, Constant):
        hint = "give a constant, or another coordinate_transformation_mode"
        raise UnsupportedError(f"dyn.image.resize{rank}d: roi is computed when the program runs", hint=hint)
    region = roi.data.ravel().tolist() if isinstance(roi, Constant) else ()
    return b.call_op(_RESIZES[rank], [data], _resize_attrs(rank, a, as_dims(b, size, "size"), region))


def _sized(rank: int, attrs: type[DynResize2DAttrs], samples: tuple[Sample, ...]) -> Op:
    return Op(
        name=f"dyn.image.resize{rank}d",
        args=("data", "size", "roi"),
        attrs=attrs,
        text_defaults={"rounding_method": "round"},
        type_rel=partial(_size_type, rank),
        reference=partial(_resize_reference, rank),
        expand=partial(_resize, rank),
        samples=samples,
        doc="data with its spatial dimensions resized to `size`; `roi` is for tf_crop_and_resize: starts, then ends.",
    )


@dataclass(frozen=True, slots=True)
class DynResize1DAttrs(DynResize2DAttrs):
    """As DynResize2DAttrs, in one dimension."""

    layout: str = "NCW"


@dataclass(frozen=True, slots=True)
class DynResize3DAttrs(DynResize2DAttrs):
    """As DynResize2DAttrs, in three dimensions."""

    layout: str = "NCDHW"


_NEAREST = {
    "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric", "rounding_method": "floor",
}  # fmt: skip


def _samples(shape: tuple[int, ...], size: tuple[int, ...]) -> tuple[Sample, ...]:
    """One for each attribute."""
    new, rank = np.array(size, np.int32), len(size)
    roi = np.array([-0.25] * rank + [1.5] * rank, np.float32)
    x = (shape, "float32")
    return (
        Sample((x, new, np.zeros(2 * rank, np.float32)), {"method": "cubic", "cubic_alpha": -0.75}),
        Sample((x, new, np.zeros(2 * rank, np.float32)), {"method": "cubic", "cubic_exclude": 1}),
        Sample((x, new, roi), {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}),
        Sample((x, new, roi), _NEAREST, exact=True),
    )


dyn_resize1d = _sized(1, DynResize1DAttrs, _samples((1, 2, 5), (8,)))
dyn_resize2d = _sized(2, DynResize2DAttrs, _samples((1, 2, 3, 4), (5, 2)))
dyn_resize3d = _sized(3, DynResize3DAttrs, _samples((1, 1, 2, 3, 2), (3, 3, 4)))

# ------------------------------------------------------------------ scales


@dataclass(frozen=True, slots=True)
class DynUpsamplingAttrs(Attrs):
    """As UpsamplingAttrs, where the factors are arguments."""

    layout: str = "NCHW"
    method: str = "nearest_neighbor"
    align_corners: bool = False


@dataclass(frozen=True, slots=True)
class DynUpsampling3DAttrs(Attrs):
    """As Upsampling3DAttrs, where the factors are arguments."""

    layout: str = "NCDHW"
    method: str = "nearest_neighbor"
    coordinate_transformation_mode: str = "asymmetric"


_Upsampling = DynUpsamplingAttrs | DynUpsampling3DAttrs


def _spatial(a: _Upsampling) -> tuple[int, ...]:
    order = dim_order(a.layout, "NC" + spatial_letters(window_rank(a.layout)))
    assert order is not None
    return order.at[2:]


def _upsampled_type(rank: int, rel: Relation, data: Type, *given: Any) -> Type | None:
    *scales, a = given
    order = data_order(rel, a.layout, "NC" + spatial_letters(rank), "layout")
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, order.rank, what="data")
    for n, scale in enumerate(scales):
        found = tensor(rel, scale, f"scale {n}")
        require_rank(rel, found, 0, what=f"scale {n}")
        require_dtype(rel, found, FLOAT, f"scale {n}")
    sizes = fresh_dims(rel, "scaled", rank)
    return _RESIZES[rank].type_rel(rel, ty, _scaled_attrs(rank, a, sizes, [(1, 1)] * rank))


def _scaled_attrs(rank: int, a: _Upsampling, sizes: Sequence[Any], factors: Sequence[tuple[Any, Any]]) -> Any:
    mode = "align_corners" if isinstance(a, DynUpsamplingAttrs) and a.align_corners else "asymmetric"
    mode = a.coordinate_transformation_mode if isinstance(a, DynUpsampling3DAttrs) else mode
    ratio = (*(over for over, _ in factors), *(under for _, under in factors))
    found = {"layout": a.layout, "method": a.method, "coordinate_transformation_mode": mode, "ratio": ratio}
    return make_attrs(_RESIZES[rank], {"size": tuple(sizes), **found})


def _factor(scale: float) -> tuple[int, int]:
    """`_computed.quotient` of a number; (-1, 1) of one that is not finite."""
    if not np.isfinite(scale):
        return -1, 1
    under = np.arange(1, LARGEST + 1, dtype=np.float32)
    over = np.rint(under * np.float32(scale))
    exact = np.flatnonzero(over / under == np.float32(scale))
    if len(exact):
        return int(over[exact[0]]), int(exact[0]) + 1
    return int(np.floor(np.float32(scale) * np.float32(PARTS))), PARTS


def _upsampled_reference(rank: int, data: Array, *given: Any) -> Array:
    *scales, a = given
    factors = [_factor(float(s)) for s in scales]
    pairs = zip((data.shape[n] for n in _spatial(a)), factors, strict=True)
    sizes = [max(2 * n * over + under, 0) // (2 * under) for n, (over, under) in pairs]
    found: Array = evaluated(_RESIZES[rank], [data], _scaled_attrs(rank, a, sizes, factors))
    return found


def _upsampled(rank: int, b: Builder, data: Expr, *given: Any) -> Expr:
    """The extents are n·over/under, rounded to the nearest (halves up)."""
    *scales, a = given
    factors = [quotient(b, b.cast(s, dtype=dt.float32)) for s in scales]
    over, under = (stacked(b, parts) for parts in zip(*factors, strict=True))
    two = b.constant(2, dt.int64)
    own = b.take(b.shape_of(data, dtype=dt.int64), b.constant(np.array(_spatial(a))), axis=0, mode="fast")
    twice = b.add(b.multiply(b.multiply(own, two), over), under)
    sizes = as_dims(b, b.floor_divide(twice, b.multiply(under, two)), "scaled")
    dims = zip(as_dims(b, over, "over"), as_dims(b, under, "under"), strict=True)
    return b.call_op(_RESIZES[rank], [data], _scaled_attrs(rank, a, sizes, [*dims]))


def _upsampling(rank: int, scales: tuple[str, ...], attrs: type, samples: tuple[Sample, ...]) -> Op:
    return Op(
        name="dyn.nn.upsampling" if rank == 2 else "dyn.nn.upsampling3d",
        args=("data", *scales),
        attrs=attrs,
        text_defaults={"coordinate_transformation_mode": "half_pixel"} if rank == 3 else {},
        type_rel=partial(_upsampled_type, rank),
        reference=partial(_upsampled_reference, rank),
        expand=partial(_upsampled, rank),
        samples=samples,
        doc="data with its spatial extents multiplied by the scales and rounded to the nearest integer.",
    )


_X, _TWO = ((1, 2, 3, 4), "float32"), np.array(2, np.float32)

dyn_upsampling = _upsampling(2, ("scale_h", "scale_w"), DynUpsamplingAttrs, (
    Sample((_X, _TWO, np.array(1.5, np.float32)), exact=True),
    Sample((_X, np.array(0.7, np.float32), _TWO), {"method": "bilinear", "align_corners": True}),
))  # fmt: skip
dyn_upsampling3d = _upsampling(3, ("scale_d", "scale_h", "scale_w"), DynUpsampling3DAttrs, (
    Sample((((1, 1, 2, 2, 1), "float32"), _TWO, np.array(1, np.float32), np.array(3, np.float32)), exact=True),
))  # fmt: skip
