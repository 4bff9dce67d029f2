"""Tensors in another layout: dims in another order, axes cut into blocks or joined again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Expr, const, land, lt, select
from legato.arith.prove import prove_equal
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.layout import Layout, divided, layout
from legato.ir.op import Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._gradients import Contribution, extents, shape_of
from legato.ops._rules import require_rank, tensor
from legato.ops._tensors import Array
from legato.te.tensor import Tensor, compute

__all__ = ["LayoutTransformAttrs", "layout_transform"]


@dataclass(frozen=True, slots=True)
class LayoutTransformAttrs(Attrs):
    """`src_layout`: the layout of the data; `dst_layout`: that of the result, of the same axes."""

    src_layout: str
    dst_layout: str


def _layouts(a: LayoutTransformAttrs) -> tuple[Layout, Layout]:
    return layout(a.src_layout), layout(a.dst_layout)


def _relation(rel: Relation, data: Type, a: LayoutTransformAttrs) -> Type:
    try:
        source, target = _layouts(a)
    except TypeCheckError as error:
        raise rel.fail(error.message, hint=error.hint) from None
    if set(source.letters) != set(target.letters):
        raise rel.fail(f"layouts {source} and {target} have different letters")
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, len(source.dims), what=f"data of layout {source}")
    for n, (letter, size) in enumerate(source.dims):
        if size:
            rel.same(ty.shape[n], const(size), f"block {size}{letter.lower()} of {source}")
    return TensorType(target.shape(source.extents(ty.shape)), ty.dtype)


def _reference(data: Array, a: LayoutTransformAttrs) -> Array:
    source, target = _layouts(a)
    letters = source.letters
    return np.array(target.of_axes(source.axes_of(data, letters), letters), order="C")


def _compute(data: Tensor, a: LayoutTransformAttrs, out: TensorType) -> Tensor:
    source, target = _layouts(a)
    extents = source.extents(data.shape)
    filled = [letter for letter in source.letters if divided(extents[letter], target.block(letter)) is None]

    def element(*index: Expr) -> Expr:
        values = target.values(index)
        value = data[source.index(values)]
        if not filled:
            return value
        return select(_inside(values, extents, filled), value, const(0, data.dtype))

    return compute(out.shape, element, "layout_transform")


def _inside(values: dict[str, Expr], extents: dict[str, Dim], letters: Sequence[str]) -> Expr:
    inside: Expr = const(True, dt.bool_)
    for letter in letters:
        inside = land(inside, lt(values[letter], extents[letter]))
    return inside


def _grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """`dy` in the layout of the data, without what filled up blocks."""
    a, shape = call.attrs, shape_of(call.args[0])
    found = b.layout_transform(dy, src_layout=a.dst_layout, dst_layout=a.src_layout)
    if all(map(prove_equal, shape_of(found), shape)):
        return [found]
    return [b.strided_slice(found, begin=(0,) * len(shape), end=extents(shape))]


layout_transform = Op(
    name="layout_transform",
    args=("data",),
    attrs=LayoutTransformAttrs,
    type_rel=_relation,
    reference=_reference,
    compute=_compute,
    grad=_grad,
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    samples=(
        Sample((((2, 3, 4, 5), "float32"),), {"src_layout": "NCHW", "dst_layout": "NHWC"}, exact=True),
        Sample((((1, 6, 2, 3), "int8"),), {"src_layout": "NCHW", "dst_layout": "NCHW2c"}, exact=True),
        Sample((((1, 2, 3, 4), "float32"),), {"src_layout": "NHWC", "dst_layout": "NCHW3c"}, exact=True),
        Sample((((2, 3, 2, 1, 4), "float32"),), {"src_layout": "NCHW4c", "dst_layout": "NHWC"}, exact=True),
        Sample((((2, 2, 1, 2, 6), "float16"),), {"src_layout": "NCHW6c", "dst_layout": "NCHW4c"}, exact=True),
        Sample((((4, 8, 1, 2), "float32"),), {"src_layout": "OIHW", "dst_layout": "HWIO4i2o2i"}, exact=True),
        Sample((((3, 0), "float32"),), {"src_layout": "NC", "dst_layout": "CN2n"}, exact=True),
    ),
    doc="""data, whose dims are in `src_layout`, in `dst_layout`.

Layouts name the axis of each dim by a letter (NCHW, NHWC, OIHW); an axis may be cut into blocks: in NCHW16c, channel c
is element c % 16 of block c // 16. Blocks that the data does not fill are filled with zeros; that of NCHW16c in NCHW
has all elements of all blocks.""",
)
