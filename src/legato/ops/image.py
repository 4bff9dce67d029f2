"""Resizing images: image.resize1d, resize2d and resize3d; nn.upsampling and upsampling3d.

Interpolation is separable: one stage for each dimension whose extent changes. Source coordinates are exact rationals
(`_resize`). Integers and 16-bit floats are interpolated in float32; integers are then truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from legato.arith.expr import Expr, const, eq, expr, lor, max_, min_, select
from legato.arith.prove import provably_different
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._families import quiet
from legato.ops._gradients import Contribution, dtype_of, extents, shape_of
from legato.ops._indexing import guarded
from legato.ops._resize import (
    COORDINATES,
    METHODS,
    ROUNDINGS,
    Axis,
    Crop,
    Factor,
    Method,
    crop,
    factor,
    line,
    scaled_extent,
)
from legato.ops._rules import NUMBER, at_least, require_dtype, require_rank, tensor
from legato.ops._tensors import (
    Array,
    DtypeName,
    accumulator,
    as_int,
    converted,
    product,
    require_choice,
    result_dtype,
    tensor_bytes,
)
from legato.ops._window import data_order, dim_order, spatial_letters, window_rank
from legato.te.tensor import Tensor, compute
from legato.tir.expr import cast

__all__ = ["Resize1DAttrs", "Resize2DAttrs", "Resize3DAttrs", "Upsampling3DAttrs", "UpsamplingAttrs", "resize1d",
           "resize2d", "resize3d", "resize_axes", "spatial_dims", "upsampling", "upsampling3d"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resize2DAttrs(Attrs):
    """`size`: the new extents; `roi`: starts then ends, for tf_crop_and_resize; `layout`: of data and result; `method`:
    nearest_neighbor, linear or cubic.

    `coordinate_transformation_mode`: where the centre of a new element lies in the data, by ONNX's names.
    `rounding_method`: which element is the nearest; "" is round for align_corners, else floor. `cubic_alpha`: the
    parameter of the cubic kernel; `cubic_exclude`: 1 leaves out taps beyond the edge, which otherwise repeats.
    `extrapolation_value`: what stands outside the data, for tf_crop_and_resize; `out_dtype`: that of the result ("":
    that of the data). `scale`: factors to use instead of the ratios of extents; `ratio`: the same as quotients,
    numerators then denominators, both above 0; `crop`: `roi` as quotients, the numerators of starts, those of ends,
    then denominators for both, above 0.
    """

    size: tuple[int | Dim, ...]
    roi: tuple[float, ...] = ()
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: DtypeName = ""
    scale: tuple[float, ...] = ()
    ratio: tuple[int | Dim, ...] = ()
    crop: tuple[int | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Resize1DAttrs(Resize2DAttrs):
    """As Resize2DAttrs, in one dimension."""

    layout: str = "NCW"


@dataclass(frozen=True, slots=True)
class Resize3DAttrs(Resize2DAttrs):
    """As Resize2DAttrs, in three dimensions."""

    layout: str = "NCDHW"


def spatial_dims(layout: str) -> tuple[int, ...]:
    """The dimensions of `layout` that are resized."""
    order = dim_order(layout, "NC" + spatial_letters(window_rank(layout)))
    assert order is not None
    return order.at[2:]


def _sizes(a: Resize2DAttrs) -> tuple[Dim, ...]:
    return tuple(const(s) if isinstance(s, int) else s for s in a.size)


def _factor(a: Resize2DAttrs, k: int) -> Factor | None:
    """The factor of the k-th dimension, if one is given."""
    if a.ratio:
        over, under = (max_(expr(d), const(1)) for d in (a.ratio[k], a.ratio[k + len(a.size)]))
        return simplify(over), simplify(under)
    return factor(a.scale[k]) if a.scale else None


def _range(a: Resize2DAttrs, k: int) -> Crop:
    """The range of the k-th dimension that tf_crop_and_resize covers."""
    rank = len(a.size)
    if a.crop:
        first, last, den = (expr(a.crop[n]) for n in (k, k + rank, k + 2 * rank))
        return first, last, simplify(max_(den, const(1)))
    return crop(a.roi[k], a.roi[k + rank]) if a.roi else crop(0, 1)


def _relation(rank: int, rel: Relation, data: Type, a: Resize2DAttrs) -> Type:
    order = data_order(rel, a.layout, "NC" + spatial_letters(rank), "layout")
    require_choice(rel, "method", a.method, METHODS)
    require_choice(rel, "rounding_method", a.rounding_method, ROUNDINGS)
    require_choice(rel, "coordinate_transformation_mode", a.coordinate_transformation_mode, COORDINATES)
    if (
        len(a.size) != rank
        or (a.scale and len(a.scale) != rank)
        or any(len(v) != 2 * rank for v in (a.roi, a.ratio) if v)
        or len(a.crop) not in (0, 3 * rank)
    ):
        raise rel.fail(f"size and scale take {rank} numbers, roi and ratio {2 * rank}, crop {3 * rank}")
    if any(s <= 0 for s in a.scale) or any(isinstance(s, int) and s < 0 for s in a.size):
        raise rel.fail("sizes must not be negative and scales must be positive")
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, order.rank, what="data")
    require_dtype(rel, ty, NUMBER, "data")
    n, c, *_ = order.checked_extents(rel, ty.shape)
    for size in _sizes(a):
        at_least(rel, size, 0, "size")
    for part in a.ratio:
        at_least(rel, expr(part), 1, "ratio")
    for part in a.crop[2 * rank :]:
        at_least(rel, expr(part), 1, "crop")
    return TensorType(order.checked_shape(rel, (n, c, *_sizes(a))), result_dtype(a.out_dtype, ty.dtype))


def resize_axes(a: Resize2DAttrs, shape: Sequence[Dim]) -> dict[int, Axis]:
    """The dimensions that change, the innermost first: interpolated along it, few rows serve many of the result."""
    mode, found = a.coordinate_transformation_mode, {}
    rounding = a.rounding_method or ("round" if mode == "align_corners" else "floor")
    method = Method(METHODS[a.method], rounding, a.cubic_alpha, bool(a.cubic_exclude))
    spatial = spatial_dims(a.layout)
    for k, (d, m) in enumerate(zip(spatial, _sizes(a), strict=True)):
        n, scale = shape[d], _factor(a, k)
        stays = scale in (None, (const(1), const(1))) and mode not in ("tf_crop_and_resize", "tf_half_pixel_for_nn")
        if not stays or n is not m:
            found[d] = Axis(n, m, line(mode, n, m, scale, _range(a, k)), method, stays)
    return dict(sorted(found.items(), reverse=True))


def _working_dtype(a: Resize2DAttrs, dtype: DType) -> DType:
    """The dtype of interpolated values."""
    return dtype if METHODS[a.method] == "nearest" else accumulator(dtype) if dtype.is_float else dt.float32


def _reference(data: Array, a: Resize2DAttrs) -> Array:
    dtype = dt.dtype(data.dtype)
    axes = resize_axes(a, [const(n) for n in data.shape])
    x = data.astype(_working_dtype(a, dtype).numpy)
    if 0 in data.shape:  # there is nothing to interpolate
        x = np.zeros([as_int(axes[d].m) if d in axes else n for d, n in enumerate(data.shape)], x.dtype)
    else:
        x = _interpolated(x, axes)
    if a.coordinate_transformation_mode == "tf_crop_and_resize":
        for d, axis in axes.items():
            outside = axis.outside_all().reshape([-1 if n == d else 1 for n in range(x.ndim)])
            x = np.where(outside, x.dtype.type(a.extrapolation_value), x)
    return np.ascontiguousarray(converted(x, result_dtype(a.out_dtype, dtype)))


def _interpolated(x: Array, axes: Mapping[int, Axis]) -> Array:
    for d, axis in axes.items():
        if axis.method.kind == "nearest":
            x = np.take(x, axis.nearest_all(), axis=d)
            continue
        shape = [-1 if n == d else 1 for n in range(x.ndim)]
        terms = [np.take(x, i, axis=d) * w.reshape(shape) for i, w in axis.taps_all(dt.dtype(x.dtype))]
        x = sum(terms[1:], terms[0])
    return x


def _compute(data: Tensor, a: Resize2DAttrs, out: TensorType) -> Tensor:
    axes = resize_axes(a, data.shape)
    if METHODS[a.method] == "nearest":
        x = _nearest_stage(data, axes)
    else:
        x = data
        for d, axis in axes.items():
            x = _weighted_stage(x, d, axis, _working_dtype(a, data.dtype))
    crop = a.coordinate_transformation_mode == "tf_crop_and_resize"

    def element(*i: Expr) -> Expr:
        value = cast(x[i], out.dtype)
        if not crop:
            return value
        outside: Expr = const(False, dt.bool_)
        for d, axis in axes.items():
            outside = lor(outside, axis.outside(i[d]))
        return select(outside, const(a.extrapolation_value, out.dtype), value)

    return compute(out.shape, element, "resized") if crop or x.dtype != out.dtype or x is data else x


def _nearest_stage(x: Tensor, axes: dict[int, Axis]) -> Tensor:
    shape = [axes[d].m if d in axes else n for d, n in enumerate(x.shape)]
    sources = [n for axis in axes.values() for n in axis.source_dims]

    def element(*i: Expr) -> Expr:
        return guarded(sources, x[tuple(axes[d].nearest(j) if d in axes else j for d, j in enumerate(i))])

    return compute(shape, element, "nearest")


def _weighted_stage(x: Tensor, d: int, axis: Axis, dtype: DType) -> Tensor:
    """`x` interpolated along dimension `d`."""

    def element(*i: Expr) -> Expr:
        terms = [cast(x[(*i[:d], j, *i[d + 1 :])], dtype) * w for j, w in axis.taps(i[d], dtype)]
        value = sum(terms[1:], terms[0])
        if axis.stays and not provably_different(axis.n, axis.m):  # there may be infinities beside a weight of 0
            own = x[(*i[:d], max_(min_(i[d], axis.n - 1), const(0)), *i[d + 1 :])]
            value = select(eq(axis.n, axis.m), cast(own, dtype), value)
        return guarded(axis.source_dims, value)

    return compute((*x.shape[:d], axis.m, *x.shape[d + 1 :]), element, "interpolated")


def _cost(args: Sequence[TensorType], out: Type, a: Resize2DAttrs) -> Cost:
    assert isinstance(out, TensorType)
    taps = {"nearest": 1, "linear": 4, "cubic": 10}[METHODS[a.method]]
    return Cost(product(out.shape) * taps, tensor_bytes((*args, out)))


def _transposed(b: Builder, rank: int, data: Node, a: Resize2DAttrs, dy: Node) -> list[Contribution]:
    """`dy` where elements of the data were read, for a resize in `rank` dimensions."""
    dtype = dtype_of(data)
    own = {k: a[k] for k in a if k not in ("extrapolation_value", "out_dtype")}
    more = {"shape": extents(shape_of(data)), "out_dtype": "" if dtype_of(dy) == dtype else dtype}
    return [b.op(f"image.resize{rank}d_grad")(dy, **own, **more)]


_DOC = """data with its {rank} spatial dimensions resized to `size`.

method: nearest_neighbor, linear or cubic (Keys' kernel with `cubic_alpha`; `cubic_exclude` leaves out taps beyond the
edge, which otherwise repeats). `coordinate_transformation_mode` is ONNX's: half_pixel, pytorch_half_pixel,
half_pixel_symmetric, align_corners, asymmetric, tf_half_pixel_for_nn, or tf_crop_and_resize with `roi` (or `crop`) and
`extrapolation_value`. `rounding_method`, for nearest: round (up at .5), floor, ceil, round_prefer_floor,
round_prefer_ceil; "" is round for align_corners, else floor."""


def _resize(rank: int, attrs: type[Resize2DAttrs], samples: tuple[Sample, ...]) -> Op:
    return Op(
        name=f"image.resize{rank}d",
        args=("data",),
        attrs=attrs,
        text_defaults={"rounding_method": "round"},
        type_rel=partial(_relation, rank),
        reference=quiet(_reference),
        compute=_compute,
        grad=lambda b, call, dy: _transposed(b, rank, call.args[0], call.attrs, dy),
        fusion=Fusion.INJECTIVE,
        cost=_cost,
        samples=samples,
        doc=_DOC.format(rank=rank),
    )


def _case(size: tuple[int, ...], mode: str, method: str, **more: Any) -> dict[str, Any]:
    return {"size": size, "coordinate_transformation_mode": mode, "method": method, **more}


_X = ((1, 2, 3, 4), "float32")

resize1d = _resize(1, Resize1DAttrs, (
    Sample((((2, 2, 5), "float32"),), {"size": (8,)}),
    Sample((((1, 5, 2), "float32"),), {"size": (3,), "layout": "NWC", "method": "cubic"}),
    Sample((((1, 1, 5), "float32"),), _case(
        (4,), "tf_crop_and_resize", "linear", roi=(-0.5, 1.5), extrapolation_value=9.0)),
))  # fmt: skip

resize2d = _resize(2, Resize2DAttrs, (
    Sample((_X,), {"size": (5, 2)}),
    *(Sample((_X,), _case((4, 6), m, "linear")) for m in COORDINATES[1:]),
    *(Sample((_X,), _case((6, 3), "half_pixel", "nearest_neighbor", rounding_method=r), exact=True) for r in ROUNDINGS),
    Sample((_X,), _case((6, 8), "asymmetric", "nearest_neighbor"), exact=True),
    Sample((_X,), _case((1, 3), "align_corners", "nearest_neighbor"), exact=True),
    Sample((_X,), _case((5, 5), "half_pixel", "cubic", cubic_alpha=-0.75)),
    Sample((_X,), _case((5, 3), "half_pixel", "cubic", cubic_exclude=1)),
    Sample((_X,), _case((3, 3), "tf_crop_and_resize", "linear", roi=(-0.25, 0.25, 0.5, 1.5), extrapolation_value=9.0)),
    Sample((_X,), _case((3, 1), "tf_crop_and_resize", "linear", crop=(-1, 1, 2, 3, 4, 2), extrapolation_value=9.0)),
    Sample((_X,), _case((1, 5), "half_pixel", "linear", scale=(0.6, 1.3))),
    Sample((_X,), _case((4, 5), "half_pixel_symmetric", "linear", ratio=(3, 9, 2, 7))),
    Sample((((1, 3, 3, 1), "uint8"),), {"size": (5, 4), "layout": "NHWC"}),
    Sample((((1, 2, 3, 2, 4), "float32"),), {"size": (5, 4), "layout": "NCHW4c"}),
    Sample((((1, 1, 2, 2), "float16"),), {"size": (3, 2), "out_dtype": "float32"}, rtol=1e-3),
))  # fmt: skip

resize3d = _resize(3, Resize3DAttrs, (
    Sample((((1, 1, 2, 3, 2), "float32"),), {"size": (3, 3, 4)}),
    Sample((((1, 1, 2, 2, 2), "float32"),), {"size": (4, 2, 4), "method": "nearest_neighbor"}, exact=True),
    Sample((((1, 1, 4, 3, 5), "float32"),), _case((3, 2, 4), "half_pixel", "cubic", cubic_alpha=-1.0, cubic_exclude=1)),
    Sample((((1, 1, 3, 3, 3), "float32"),), _case(
        (2, 3, 2), "tf_crop_and_resize", "linear", roi=(-0.25, 0.0, 0.25, 1.25, 1.0, 1.5), extrapolation_value=9.0)),
))  # fmt: skip

# ------------------------------------------------------------------------------- upsampling


@dataclass(frozen=True, slots=True)
class UpsamplingAttrs(Attrs):
    """`scale_h`: the factor of the height; `scale_w`: that of the width; `layout`: of data and result. `method`:
    nearest_neighbor, bilinear or bicubic; `align_corners`: the first and last elements stay where they are.
    """

    scale_h: float = 1.0
    scale_w: float = 1.0
    layout: str = "NCHW"
    method: str = "nearest_neighbor"
    align_corners: bool = False


@dataclass(frozen=True, slots=True)
class Upsampling3DAttrs(Attrs):
    """`scale_d`: the factor of the depth; `scale_h`: that of the height; `scale_w`: that of the width; `layout`: of
    data and result. `method`: nearest_neighbor or trilinear; `coordinate_transformation_mode`: as that of
    image.resize3d.
    """

    scale_d: float = 1.0
    scale_h: float = 1.0
    scale_w: float = 1.0
    layout: str = "NCDHW"
    method: str = "nearest_neighbor"
    coordinate_transformation_mode: str = "asymmetric"


def _as_resize(shape: Sequence[Dim], a: UpsamplingAttrs | Upsampling3DAttrs) -> Resize2DAttrs:
    """The resize that an upsampling of data of `shape` is."""
    factors: tuple[float, ...]
    if isinstance(a, Upsampling3DAttrs):
        factors, mode = (a.scale_d, a.scale_h, a.scale_w), a.coordinate_transformation_mode
    else:
        factors, mode = (a.scale_h, a.scale_w), "align_corners" if a.align_corners else "asymmetric"
    size = tuple(scaled_extent(shape[d], f) for d, f in zip(spatial_dims(a.layout), factors, strict=True))
    return Resize2DAttrs(size, layout=a.layout, method=a.method, coordinate_transformation_mode=mode, scale=factors)


def _upsampling_relation(rank: int, rel: Relation, data: Type, a: UpsamplingAttrs | Upsampling3DAttrs) -> Type:
    order = data_order(rel, a.layout, "NC" + spatial_letters(rank), "layout")
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, order.rank, what="data")
    return _relation(rank, rel, ty, _as_resize(ty.shape, a))


def _upsampling(name: str, rank: int, attrs: type, samples: tuple[Sample, ...]) -> Op:
    return Op(
        name=name,
        args=("data",),
        attrs=attrs,
        text_defaults={"coordinate_transformation_mode": "half_pixel"} if rank == 3 else {},
        type_rel=partial(_upsampling_relation, rank),
        reference=lambda x, a: _reference(x, _as_resize([const(n) for n in x.shape], a)),
        compute=lambda x, a, out: _compute(x, _as_resize(x.shape, a), out),
        grad=lambda b, call, dy: _transposed(b, rank, call.args[0], _as_resize(shape_of(call.args[0]), call.attrs), dy),
        fusion=Fusion.INJECTIVE,
        cost=lambda args, out, a: _cost(args, out, _as_resize(args[0].shape, a)),
        samples=samples,
        doc="""data with its spatial extents multiplied by the scales, in asymmetric (or align_corners) coordinates.

The extents are rounded to the nearest integer; nearest_neighbor rounds coordinates down.""",
    )


upsampling = _upsampling("nn.upsampling", 2, UpsamplingAttrs, (
    Sample((_X,), {"scale_h": 2.0, "scale_w": 3.0}, exact=True),
    Sample((_X,), {"scale_h": 1.5, "scale_w": 2.0, "method": "bilinear", "align_corners": True}),
    Sample((((1, 3, 2, 2), "float32"),), {"scale_h": 2.0, "scale_w": 0.5, "method": "bicubic", "layout": "NHWC"}),
))  # fmt: skip

upsampling3d = _upsampling("nn.upsampling3d", 3, Upsampling3DAttrs, (
    Sample((((1, 1, 2, 2, 1), "float32"),), {"scale_d": 2.0, "scale_w": 2.0}, exact=True),
    Sample((((1, 1, 2, 2, 1), "float32"),), {"scale_h": 2.0, "method": "trilinear",
                                            "coordinate_transformation_mode": "half_pixel"}),
))  # fmt: skip
