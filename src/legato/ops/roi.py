"""Regions of images: vision.roi_align, vision.roi_pool, and what reads or writes where these read.

A region is (image, left, top, right, bottom), in elements of the image once multiplied by `spatial_scale`. 16-bit
floats are computed in float32, and rounded once. Regions are taken for constants by gradients, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._families import quiet
from legato.ops._gradients import Contribution
from legato.ops._moving import as_dim, as_int
from legato.ops._roi import MOST, Align, Pool, Reader, gathered, scattered, spread, taken
from legato.ops._rules import FLOAT, at_least, require_dtype, require_rank, same_dtype, same_shape, tensor
from legato.ops._tensors import Array, accumulator, require_choice, wide
from legato.ops._window import data_order, dim_order
from legato.te.tensor import Tensor

__all__ = ["ROIAlignAttrs", "ROIPoolAttrs", "roi_align", "roi_pool"]

_LAYOUTS = ("NCHW", "NHWC")
_MODES = ("avg", "max", "max_tap")


@dataclass(frozen=True, slots=True)
class ROIAlignAttrs(Attrs):
    """`pooled_size`: bins along rows and columns; `spatial_scale`: elements of the data to one of the coordinates of
    regions; `layout`: NCHW or NHWC; `sample_ratio`: samples of a bin along each, below 1 as many as it
    has elements; `mode`: avg, max, or max_tap, the largest weighted element of all samples; `aligned`: regions are half
    an element further up and left, and as small as they are, else no smaller than an element."""

    pooled_size: tuple[int | Dim, int | Dim]
    spatial_scale: float
    sample_ratio: int = -1
    layout: str = "NCHW"
    mode: str = "avg"
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class ROIPoolAttrs(Attrs):
    """`pooled_size`: bins along rows and columns; `spatial_scale`: elements of the data to one of the coordinates of
    regions; `layout`: NCHW or NHWC."""

    pooled_size: tuple[int | Dim, int | Dim]
    spatial_scale: float
    layout: str = "NCHW"


def _reader(a: Any, data: Any, rois: Any) -> Reader:
    """What the bins of regions of images (tensors or arrays) are made of."""
    order = dim_order(a.layout, "NCHW")
    assert order is not None  # the type relation has looked
    extents = tuple(as_dim(data.shape[d]) for d in order.at[2:])
    dtype = accumulator(dt.dtype(data.dtype))
    pooled = as_dim(a.pooled_size[0]), as_dim(a.pooled_size[1])
    if isinstance(a, ROIPoolAttrs):
        return Pool(rois, (extents[0], extents[1]), pooled, a.spatial_scale, dtype)
    return Align(rois, (extents[0], extents[1]), pooled, a.spatial_scale, a.sample_ratio, a.aligned, a.mode, dtype)


def _checked(rel: Relation, data: Type, rois: Type, a: Any) -> tuple[TensorType, TensorType]:
    """The types of the images and of the result."""
    require_choice(rel, "layout", a.layout, _LAYOUTS)
    if isinstance(a, ROIAlignAttrs):
        require_choice(rel, "mode", a.mode, _MODES)
        if a.sample_ratio > MOST:
            raise rel.fail(f"sample_ratio is {a.sample_ratio}, wanted at most {MOST}")
    order = data_order(rel, a.layout, "NCHW", "layout")
    ty, regions = tensor(rel, data, "data"), tensor(rel, rois, "regions")
    require_rank(rel, ty, 4, what="data")
    require_rank(rel, regions, 2, what="regions")
    require_dtype(rel, ty, FLOAT, "data")
    same_dtype(rel, ty, regions)
    rel.same(regions.shape[1], const(5), "numbers of a region")
    if len(a.pooled_size) != 2:
        raise rel.fail(f"pooled_size has {len(a.pooled_size)} numbers, wanted 2")
    rows, columns = (as_dim(n) for n in a.pooled_size)
    for size in (rows, columns):
        at_least(rel, size, 1, "pooled_size")
    channels = order.extents(ty.shape)[1]
    return ty, TensorType(order.shape((regions.shape[0], channels, rows, columns)), ty.dtype)


def _relation(rel: Relation, data: Type, rois: Type, a: Any) -> Type:
    return _checked(rel, data, rois, a)[1]


def _take_relation(rel: Relation, values: Type, data: Type, rois: Type, a: Any) -> Type:
    ty, result = _checked(rel, data, rois, a)
    own = tensor(rel, values, "values")
    same_dtype(rel, ty, own)
    same_shape(rel, own.shape, ty.shape, "values and data")
    return result


def _grad_relation(rel: Relation, dy: Type, data: Type, rois: Type, a: Any) -> Type:
    ty, result = _checked(rel, data, rois, a)
    own = tensor(rel, dy, "dy")
    same_dtype(rel, ty, own)
    same_shape(rel, own.shape, result.shape, "dy and the bins")
    return ty


def _canonical(x: Array, layout: str) -> Array:
    order = dim_order(layout, "NCHW")
    assert order is not None
    return order.to_canonical(wide(x))


def _back(x: Array, layout: str, like: Array) -> Array:
    order = dim_order(layout, "NCHW")
    assert order is not None
    return np.ascontiguousarray(order.from_canonical(x)).astype(like.dtype)


def _take_reference(values: Array, data: Array, rois: Array, a: Any) -> Array:
    pooled = [as_int(as_dim(n)) for n in a.pooled_size]
    own, compared = (_canonical(x, a.layout) for x in (values, data))
    return _back(taken(_reader(a, data, rois), compared, wide(rois), own, pooled), a.layout, values)


def _grad_reference(dy: Array, data: Array, rois: Array, a: Any) -> Array:
    given, compared = (_canonical(x, a.layout) for x in (dy, data))
    return _back(spread(_reader(a, data, rois), given, compared, wide(rois)), a.layout, dy)


def _take_compute(values: Tensor, data: Tensor, rois: Tensor, a: Any, out: TensorType) -> Tensor:
    return gathered(_reader(a, data, rois), data, rois, values, a.layout, out)


def _grad_compute(dy: Tensor, data: Tensor, rois: Tensor, a: Any, out: TensorType) -> Tensor:
    return scattered(_reader(a, data, rois), dy, data, rois, a.layout, out)


def _grad(name: str) -> Callable[[Builder, Call, Expr], list[Contribution]]:
    """Of what reads at places: what writes there, and the other way round."""

    def rule(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
        data, rois = call.args[-2:]
        found = b.op(name)(dy, data, rois, **call.attrs)
        return [found, None] if len(call.args) == 2 else [found, None, None]

    return rule


def _records(name: str, attrs: type, samples: tuple[Sample, ...], doc: str) -> tuple[Op, Op, Op]:
    """The operator; of `values`, what it chooses in the data; and the transpose of that."""
    forward = Op(
        name=name,
        args=("data", "rois"),
        attrs=attrs,
        type_rel=_relation,
        reference=quiet(lambda data, rois, a: _take_reference(data, data, rois, a)),
        compute=lambda data, rois, a, out: _take_compute(data, data, rois, a, out),
        grad=_grad(f"{name}_grad"),
        samples=samples,
        doc=doc,
    )
    take = Op(
        name=f"{name}_take",
        args=("values", "data", "rois"),
        attrs=attrs,
        type_rel=_take_relation,
        reference=quiet(_take_reference),
        compute=_take_compute,
        grad=_grad(f"{name}_grad"),
        samples=tuple(Sample((s.args[0], *s.args), s.attrs, s.rtol, s.exact) for s in samples),
        doc=f"What {name} of data gives, read from `values` where it reads the data.",
    )
    grad = Op(
        name=f"{name}_grad",
        args=("dy", "data", "rois"),
        attrs=attrs,
        type_rel=_grad_relation,
        reference=quiet(_grad_reference),
        compute=_grad_compute,
        grad=_grad(f"{name}_take"),
        samples=tuple(_transposed(s) for s in samples),
        doc=f"The transpose of {name}_take: dy added up in zeros like data where that reads, with its weights.",
    )
    return forward, take, grad


def _transposed(sample: Sample) -> Sample:
    (shape, dtype), rois = sample.args
    rows, columns = sample.attrs["pooled_size"]
    is_last = sample.attrs.get("layout") == "NHWC"
    bins = (len(rois), rows, columns, shape[3]) if is_last else (len(rois), shape[1], rows, columns)
    return Sample(((bins, dtype), (shape, dtype), rois), sample.attrs, rtol=sample.rtol)


_ROIS = np.array([[0, 0, 0, 3, 4], [1, 0.5, 1.25, 5.5, 4.75], [1, 2, 3, 1, 2], [0, -3, -2, 9, 1]], np.float32)
_WILD = np.array(
    [[5, 2, 2, 2, 2], [np.nan, 0, 0, 3, 4], [0, np.nan, 0, 3, 4], [0, -np.inf, 0, 3, 4], [0, 1, 0, 1e30, 2]], np.float32
)
_HUGE = np.array(
    [
        [0, -1e4, -2e4, 1e4, 3e4],
        [1, -3e5, 1, 4e5, 3],
        [1, 2, -70, 3, 9],
        [0, -1e30, -1e30, 1e30, 1e30],
        [0, 5e8, 0, 5e8, 3],
    ],
    np.float32,
)
_IMAGE = ((2, 2, 5, 6), "float32")


def _bins(rows: int, columns: int, scale: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"pooled_size": (rows, columns), "spatial_scale": scale, **more}


roi_align, roi_align_take, roi_align_grad = _records(
    "vision.roi_align",
    ROIAlignAttrs,
    (
        Sample((_IMAGE, _ROIS), _bins(2, 3)),
        Sample((_IMAGE, _ROIS), _bins(3, 2, 0.75, sample_ratio=2, aligned=True)),
        Sample((_IMAGE, _ROIS), _bins(2, 2, sample_ratio=2, mode="max")),
        Sample((_IMAGE, _ROIS), _bins(2, 2, mode="max_tap", aligned=True)),
        Sample((((2, 5, 6, 2), "float32"), _ROIS), _bins(2, 1, sample_ratio=1, layout="NHWC")),
        Sample((((1, 2, 4, 5), "float16"), _ROIS.astype(np.float16)), _bins(1, 2)),
        Sample((((1, 1, 4, 5), "float32"), _WILD), _bins(1, 2, sample_ratio=2)),
        Sample((((1, 2, 0, 5), "float32"), _ROIS), _bins(1, 2, sample_ratio=2)),
        Sample((_IMAGE, _HUGE), _bins(3, 2)),
        Sample((_IMAGE, _HUGE), _bins(1, 1, mode="max", aligned=True)),
        Sample((((1, 1, 4, 5), "float32"), _WILD), _bins(1, 2, aligned=True)),
        Sample((_IMAGE, _ROIS[:0]), _bins(1, 2)),
    ),
    """Regions of images, each divided into rows × columns bins: of each bin the mean (or maximum) of samples that are
spread evenly over it, interpolated between four elements.

A sample further than an element outside of the image is 0. A bin has at most 65536 samples along each dim; without a
`sample_ratio` only those near the image take time, however large a region is. A region (image, left, top, right,
bottom) of an image that there is not is one of the nearest.""",
)

roi_pool, roi_pool_take, roi_pool_grad = _records(
    "vision.roi_pool",
    ROIPoolAttrs,
    (
        Sample((_IMAGE, _ROIS), _bins(2, 3), exact=True),
        Sample((_IMAGE, _ROIS), _bins(3, 2, 0.75), exact=True),
        Sample((((2, 5, 6, 2), "float32"), _ROIS), _bins(2, 1, layout="NHWC"), exact=True),
        Sample((((1, 2, 4, 5), "float16"), _ROIS.astype(np.float16)), _bins(1, 2), exact=True),
        Sample((((1, 1, 4, 5), "float32"), _WILD), _bins(1, 2), exact=True),
        Sample((((1, 2, 0, 5), "float32"), _ROIS), _bins(1, 2), exact=True),
        Sample((_IMAGE, _ROIS[:0]), _bins(1, 2), exact=True),
    ),
    """Regions of images, each divided into rows × columns bins: the largest element of each bin, 0 of one without any.

The ends of a region (image, left, top, right, bottom) are rounded, halves away from zero, and belong to it; those of
bins are rounded outwards.""",
)
