"""Blocks of pixels to channels and back: nn.depth_to_space and nn.space_to_depth."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Expr, const, floordiv, floormod
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._gradients import Contribution, in_shape, shape_of
from legato.ops._rules import divides, require_rank, tensor
from legato.ops._tensors import Array, known_int, require_choice
from legato.ops._window import DimOrder, check_positive, data_order, dim_order
from legato.te.tensor import Tensor, compute

__all__ = ["DepthToSpaceAttrs", "SpaceToDepthAttrs", "depth_to_space", "space_to_depth"]


@dataclass(frozen=True, slots=True)
class DepthToSpaceAttrs(Attrs):
    """`block_size`: the side of a block; `layout`: of data and result. `mode`: how channels are numbered, DCR (block
    position first) or CRD (channel first; Relay called it CDR).
    """

    block_size: int
    layout: str = "NCHW"
    mode: str = "DCR"


@dataclass(frozen=True, slots=True)
class SpaceToDepthAttrs(Attrs):
    """`block_size`: the side of a block; `layout`: of data and result."""

    block_size: int
    layout: str = "NCHW"


def _order(layout: str) -> DimOrder:
    order = dim_order(layout, "NCHW")
    assert order is not None
    return order


def _shape(rel: Relation, data: Type, block: int, layout: str) -> tuple[DimOrder, TensorType, tuple[Dim, ...]]:
    """The checked data type and its canonical shape."""
    order = data_order(rel, layout, "NCHW", "layout")
    check_positive(rel, "block_size", (block,), 1)
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, order.rank, what="data")
    return order, ty, order.checked_extents(rel, ty.shape)


def _divided(rel: Relation, d: Dim, by: int, what: str) -> Dim:
    known = known_int(d)
    if known is not None and known % by:
        raise rel.fail(f"{what} {known} is not divisible by {by}")
    return divides(rel, d, by, f"{what}, divided by {by}")


def _to_space_relation(rel: Relation, data: Type, a: DepthToSpaceAttrs) -> Type:
    b = a.block_size
    order, ty, (n, c, h, w) = _shape(rel, data, b, a.layout)
    require_choice(rel, "mode", a.mode, ("DCR", "CRD", "CDR"))
    return TensorType(order.checked_shape(rel, (n, _divided(rel, c, b * b, "channels"), h * b, w * b)), ty.dtype)


def _to_space_reference(data: Array, a: DepthToSpaceAttrs) -> Array:
    order, b = _order(a.layout), a.block_size
    x = order.to_canonical(data)
    n, c, h, w = x.shape
    if a.mode == "DCR":
        y = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return np.ascontiguousarray(order.from_canonical(y.reshape(n, c // (b * b), h * b, w * b)))


def _to_space_compute(data: Tensor, a: DepthToSpaceAttrs, out: TensorType) -> Tensor:
    order, b = _order(a.layout), a.block_size
    channels = order.extents(out.shape)[1]

    def element(*i: Expr) -> Expr:
        n, c, y, x = order.canonical(i)
        position = floormod(y, const(b)) * b + floormod(x, const(b))
        source = position * channels + c if a.mode == "DCR" else c * (b * b) + position
        return data[order.actual((n, source, floordiv(y, const(b)), floordiv(x, const(b))))]

    return compute(out.shape, element, "depth_to_space")


def _to_depth_relation(rel: Relation, data: Type, a: SpaceToDepthAttrs) -> Type:
    b = a.block_size
    order, ty, (n, c, h, w) = _shape(rel, data, b, a.layout)
    shape = (n, c * (b * b), _divided(rel, h, b, "height"), _divided(rel, w, b, "width"))
    return TensorType(order.checked_shape(rel, shape), ty.dtype)


def _to_depth_reference(data: Array, a: SpaceToDepthAttrs) -> Array:
    order, b = _order(a.layout), a.block_size
    x = order.to_canonical(data)
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(order.from_canonical(y.reshape(n, c * b * b, h // b, w // b)))


def _to_depth_compute(data: Tensor, a: SpaceToDepthAttrs, out: TensorType) -> Tensor:
    order, b = _order(a.layout), a.block_size
    channels = order.extents(data.shape)[1]

    def element(*i: Expr) -> Expr:
        n, c, y, x = order.canonical(i)
        position = floordiv(c, channels)
        row, column = floordiv(position, const(b)), floormod(position, const(b))
        return data[order.actual((n, floormod(c, channels), y * b + row, x * b + column))]

    return compute(out.shape, element, "space_to_depth")


def _to_space_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    a: DepthToSpaceAttrs = call.attrs
    if a.mode == "DCR":
        return [b.nn.space_to_depth(dy, block_size=a.block_size, layout=a.layout)]
    side, plain = const(a.block_size), a.layout == "NCHW"
    x = dy if plain else b.layout_transform(dy, src_layout=a.layout, dst_layout="NCHW")
    n, c, height, width = shape_of(x)
    h, w = floordiv(height, side), floordiv(width, side)
    parts = b.transpose(in_shape(b, x, (n, c, h, side, w, side)), axes=(0, 1, 3, 5, 2, 4))
    found = in_shape(b, parts, (n, c * side * side, h, w))
    return [found if plain else b.layout_transform(found, src_layout="NCHW", dst_layout=a.layout)]


def _to_depth_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    return [b.nn.depth_to_space(dy, block_size=call.attrs.block_size, layout=call.attrs.layout)]


depth_to_space = Op(
    name="nn.depth_to_space",
    args=("data",),
    attrs=DepthToSpaceAttrs,
    type_rel=_to_space_relation,
    reference=_to_space_reference,
    compute=_to_space_compute,
    grad=_to_space_grad,
    fusion=Fusion.INJECTIVE,
    storage=True,
    samples=(
        Sample((((1, 8, 2, 3), "float32"),), {"block_size": 2}, exact=True),
        Sample((((2, 2, 1, 8), "int8"),), {"block_size": 2, "mode": "CRD", "layout": "NHWC"}, exact=True),
        Sample((((1, 4, 1, 2, 2), "int8"),), {"block_size": 2, "layout": "NCHW2c"}, exact=True),
        Sample((((2, 8, 1, 3), "float32"),), {"block_size": 2, "mode": "CDR"}, exact=True),
        Sample((((1, 4, 1, 2, 2), "float32"),), {"block_size": 2, "mode": "CRD", "layout": "NCHW2c"}, exact=True),
    ),
    doc="""Each pixel's channels become a block of pixels with a block_size²-th of the channels.

Pixel (y, x) of a block is channel (y·b + x)·C + c of the data in mode DCR, c·b² + y·b + x in mode CRD.""",
)

space_to_depth = Op(
    name="nn.space_to_depth",
    args=("data",),
    attrs=SpaceToDepthAttrs,
    type_rel=_to_depth_relation,
    reference=_to_depth_reference,
    compute=_to_depth_compute,
    grad=_to_depth_grad,
    fusion=Fusion.INJECTIVE,
    storage=True,
    samples=(
        Sample((((1, 2, 4, 6), "float32"),), {"block_size": 2}, exact=True),
        Sample((((1, 3, 3, 2), "int8"),), {"block_size": 3, "layout": "NHWC"}, exact=True),
        Sample((((1, 2, 4, 2, 2), "float32"),), {"block_size": 2, "layout": "NCHW2c"}, exact=True),
    ),
    doc="Each block of pixels becomes one pixel with block_size² times the channels: depth_to_space (DCR) backwards.",
)
