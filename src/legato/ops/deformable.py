"""Deformable convolution: a tap of a window reads the image at its own place plus an offset that is data.

Composed of takes and one matrix product. Sums of 16-bit floats are formed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._computed import extent_scalar, steps
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, in_shape, shape_of, widened
from legato.ops._rules import FLOAT, divides, require_dtype, require_rank, same_dtype, tensor
from legato.ops._sampling import Image, Line
from legato.ops._tensors import Array, DtypeName, cast_to, require_choice, result_dtype, wide
from legato.ops._window import check_positive, pads, spread
from legato.ops.conv import Conv2DAttrs, conv2d

__all__ = ["DeformableConv2DAttrs", "deformable_conv2d", "modulated_deformable_conv2d"]


@dataclass(frozen=True, slots=True)
class DeformableConv2DAttrs(Attrs):
    """As Conv2DAttrs; `deformable_groups`: groups of channels, each of which has offsets of its own; `partial`: places
    less than an element outside of the image are interpolated with zeros, as PyTorch and ONNX do, else they are 0."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    deformable_groups: int = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: DtypeName = ""
    partial: bool = False


_KERNELS = {"NCHW": "OIHW", "NHWC": "HWIO"}  # the layout of the kernel by that of the data


def _relation(rel: Relation, data: Type, offset: Type, weight: Type, a: DeformableConv2DAttrs) -> Type | None:
    return _checked(rel, data, offset, None, weight, a)


def _modulated_relation(
    rel: Relation, data: Type, offset: Type, mask: Type, weight: Type, a: DeformableConv2DAttrs
) -> Type | None:
    return _checked(rel, data, offset, mask, weight, a)


def _checked(
    rel: Relation, data: Type, offset: Type, mask: Type | None, weight: Type, a: DeformableConv2DAttrs
) -> Type | None:
    require_choice(rel, "data_layout", a.data_layout, _KERNELS)
    require_choice(rel, "kernel_layout", a.kernel_layout, (_KERNELS[a.data_layout],))
    require_choice(rel, "out_layout", a.out_layout or a.data_layout, (a.data_layout,))
    check_positive(rel, "deformable_groups", (a.deformable_groups,), 1)
    own = {k: a[k] for k in a if k not in ("deformable_groups", "partial")}
    result = conv2d.type_rel(rel, data, weight, Conv2DAttrs(**own))
    if not isinstance(result, TensorType) or not isinstance(weight, TensorType):
        return None
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    n, channels, *_ = _canonical(ty.shape, a)
    divides(rel, channels, a.deformable_groups, f"channels, in {a.deformable_groups} groups with offsets of their own")
    taps = simplify(weight.shape[a.kernel_layout.index("H")] * weight.shape[a.kernel_layout.index("W")])
    for found, each, what in ((offset, 2, "offsets"), (mask, 1, "mask")):
        if found is None:
            continue
        own_ty = tensor(rel, found, what)
        require_rank(rel, own_ty, 4, what=what)
        same_dtype(rel, ty, own_ty)
        wanted = (n, simplify(taps * (a.deformable_groups * each)), *_canonical(result.shape, a)[2:])
        for k, (d, e) in enumerate(zip(_canonical(own_ty.shape, a), wanted, strict=True)):
            rel.same(d, e, f"{what}, dim {k}")
    return result


def _canonical(shape: tuple[Any, ...], a: DeformableConv2DAttrs) -> tuple[Any, ...]:
    """A shape as (n, channels, rows, columns)."""
    return tuple(shape[a.data_layout.index(letter)] for letter in "NCHW")


# ------------------------------------------------------------------------------- composition


def _expand(b: Builder, data: Expr, offset: Expr, weight: Expr, a: DeformableConv2DAttrs) -> Expr:
    return _convolved(b, data, offset, None, weight, a)


def _modulated_expand(b: Builder, data: Expr, offset: Expr, mask: Expr, weight: Expr, a: DeformableConv2DAttrs) -> Expr:
    return _convolved(b, data, offset, mask, weight, a)


def _convolved(b: Builder, data: Expr, offset: Expr, mask: Expr | None, weight: Expr, a: DeformableConv2DAttrs) -> Expr:
    result = result_dtype(a.out_dtype, dtype_of(data))
    x, moved = (_ordered(b, widened(b, v), a) for v in (data, offset))
    w = widened(b, weight)
    w = b.transpose(w, axes=(3, 2, 0, 1)) if a.kernel_layout == "HWIO" else w
    outputs, inner, rows, columns = shape_of(w)
    n, _, height, width = shape_of(moved)
    share = None if mask is None else _ordered(b, widened(b, mask), a)
    read = _read(b, x, moved, share, (rows, columns), a)
    taps, count = simplify(inner * rows * columns), simplify(height * width)
    read = in_shape(b, read, (n, const(a.groups), taps, count))
    w = in_shape(b, w, (const(a.groups), simplify(outputs // a.groups), taps))
    y = in_shape(b, b.matmul(w, read), (n, outputs, height, width))
    y = b.transpose(y, axes=(0, 2, 3, 1)) if a.data_layout == "NHWC" else y
    return y if dtype_of(y) == result else b.cast(y, dtype=result)


def _ordered(b: Builder, x: Expr, a: DeformableConv2DAttrs) -> Expr:
    return b.transpose(x, axes=(0, 3, 1, 2)) if a.data_layout == "NHWC" else x


def _read(
    b: Builder, x: Expr, offset: Expr, mask: Expr | None, kernel: tuple[Dim, Dim], a: DeformableConv2DAttrs
) -> Expr:
    """[n · groups, channels of a group, …kernel, …places]: what each tap of each window reads."""
    n, channels, *image = shape_of(x)
    parts, outs = simplify(n * a.deformable_groups), shape_of(offset)[2:]
    moved = in_shape(b, offset, (parts, *kernel, const(2), *outs))
    image_lines = [Line(b, d, False, "zeros", dtype_of(x)) for d in image]
    strides, dilation, before = spread(a.strides, 2), spread(a.dilation, 2), [p for p, _ in pads(a.padding, 2)]
    taps, kept = [], None
    for d, line in enumerate(image_lines):
        tap = b.multiply(steps(b, kernel[d], dtype_of(x)), line.number(dilation[d]))
        place = b.subtract(b.multiply(steps(b, outs[d], dtype_of(x)), line.number(strides[d])), line.number(before[d]))
        own = b.add(b.expand_dims(tap, axis=1, num_newaxis=3 - d), _behind(b, place, 1 - d))
        at = b.add(b.take(moved, b.constant(d, dt.int64), axis=3), own)
        taps.append(line.taps(at, "linear"))
        there = b.logical_and(b.greater_equal(at, line.number(0)), b.less(at, extent_scalar(b, image[d], dtype_of(x))))
        kept = there if kept is None else b.logical_and(kept, there)
    groups = in_shape(b, x, (parts, simplify(channels // a.deformable_groups), *image))
    found = Image(b, groups, image_lines).sum_of(taps)
    if not a.partial and kept is not None:
        found = b.where(b.expand_dims(kept, axis=1), found, b.constant(0, dtype_of(x)))
    if mask is None:
        return found
    return b.multiply(found, b.expand_dims(in_shape(b, mask, (parts, *kernel, *outs)), axis=1))


def _behind(b: Builder, x: Expr, count: int) -> Expr:
    """`x` with dims of 1 behind."""
    return b.expand_dims(x, axis=1, num_newaxis=count) if count else x


# ------------------------------------------------------------------------------- NumPy


def _reference(data: Array, offset: Array, weight: Array, a: DeformableConv2DAttrs) -> Array:
    return _modulated_reference(data, offset, None, weight, a)


def _modulated_reference(
    data: Array, offset: Array, mask: Array | None, weight: Array, a: DeformableConv2DAttrs
) -> Array:
    order = (0, 3, 1, 2) if a.data_layout == "NHWC" else (0, 1, 2, 3)
    x, moved = (wide(v).transpose(order) for v in (data, offset))
    w = wide(weight).transpose((3, 2, 0, 1) if a.kernel_layout == "HWIO" else (0, 1, 2, 3))
    (n, channels, height, width), (outputs, _, rows, columns) = x.shape, w.shape
    high, across = moved.shape[2:]
    parts = n * a.deformable_groups
    moved = moved.reshape(parts, rows, columns, 2, high, across)
    groups = x.reshape(parts, channels // a.deformable_groups, height, width)
    read = _interpolated(groups, *_positions(moved, a), a.partial)
    if mask is not None:
        read = read * wide(mask).transpose(order).reshape(parts, 1, rows, columns, high, across)
    taps = w.shape[1] * rows * columns
    y = w.reshape(a.groups, outputs // a.groups, taps) @ read.reshape(n, a.groups, taps, high * across)
    y = y.reshape(n, outputs, high, across).transpose(np.argsort(order))
    return cast_to(np.ascontiguousarray(y), result_dtype(a.out_dtype, dt.dtype(data.dtype)))


def _positions(moved: Array, a: DeformableConv2DAttrs) -> tuple[Array, Array]:
    """The rows and columns that taps read at, [parts, …kernel, …places]."""
    found = []
    for d in range(2):
        shape = [-1 if k == d else 1 for k in range(4)], [-1 if k == d + 2 else 1 for k in range(4)]
        tap = np.arange(moved.shape[1 + d]) * spread(a.dilation, 2)[d]
        place = np.arange(moved.shape[4 + d]) * spread(a.strides, 2)[d] - pads(a.padding, 2)[d][0]
        found.append(moved[:, :, :, d] + (tap.reshape(shape[0]) + place.reshape(shape[1])).astype(moved.dtype))
    return found[0], found[1]


def _interpolated(x: Array, y: Array, z: Array, partial: bool) -> Array:
    part = np.arange(len(x)).reshape(-1, 1, 1, 1, 1, 1)
    channel = np.arange(x.shape[1]).reshape(-1, 1, 1, 1, 1)
    found = np.zeros((len(x), x.shape[1], *y.shape[1:]), x.dtype)
    for i, a in ((np.floor(y), 1 - (y - np.floor(y))), (np.floor(y) + 1, y - np.floor(y))):
        for j, b in ((np.floor(z), 1 - (z - np.floor(z))), (np.floor(z) + 1, z - np.floor(z))):
            inside = (i >= 0) & (i < x.shape[2]) & (j >= 0) & (j < x.shape[3])
            at = tuple(np.where(inside, v, 0).astype(np.int64)[:, None] for v in (i, j))
            if x.size:
                found += np.where(inside[:, None], x[(part, channel, *at)], 0) * (a * b)[:, None]
    kept = partial | (y >= 0) & (y < x.shape[2]) & (z >= 0) & (z < x.shape[3])
    return np.where(kept[:, None], found, 0).astype(x.dtype)


_OFFSETS = np.random.default_rng(3).uniform(-1.5, 1.5, (2, 16, 3, 3)).astype(np.float32)
_NARROW = _OFFSETS[:1, :8, :2, :2]

deformable_conv2d = Op(
    name="nn.deformable_conv2d",
    args=("data", "offset", "weight"),
    attrs=DeformableConv2DAttrs,
    type_rel=_relation,
    reference=quiet(_reference),
    expand=_expand,
    samples=(
        Sample((((1, 2, 3, 3), "float32"), _NARROW, ((3, 2, 2, 2), "float32"))),
        Sample((((2, 4, 4, 5), "float32"), _OFFSETS, ((4, 2, 2, 2), "float32")),
               {"deformable_groups": 2, "groups": 2, "strides": (1, 2), "padding": (0, 1), "partial": True}),
        Sample((((1, 6, 3, 2), "float32"), np.moveaxis(_NARROW, 1, 3), ((2, 2, 2, 3), "float32")),
               {"data_layout": "NHWC", "kernel_layout": "HWIO", "strides": (3, 1), "dilation": (2, 1),
                "padding": (0, 0)}),
        Sample((((1, 2, 3, 3), "float16"), _NARROW.astype(np.float16), ((3, 2, 2, 2), "float16")),
               {"out_dtype": "float32", "channels": 3, "kernel_size": (2, 2), "out_layout": "NCHW"}),
    ),
    doc="""Convolution in which each tap of each window reads the image where `offset` moves it to, interpolated.

offset [n, groups · taps · 2, rows, columns] has (down, right) of each tap at each place of the window.""",
)  # fmt: skip

modulated_deformable_conv2d = Op(
    name="nn.modulated_deformable_conv2d",
    args=("data", "offset", "mask", "weight"),
    attrs=DeformableConv2DAttrs,
    type_rel=_modulated_relation,
    reference=quiet(_modulated_reference),
    expand=_modulated_expand,
    samples=tuple(
        Sample((x, offset, mask, w), attrs)
        for (x, offset, w), attrs, mask in (
            (deformable_conv2d.samples[0].args, {"partial": True}, ((1, 4, 2, 2), "float32")),
            (deformable_conv2d.samples[1].args, deformable_conv2d.samples[1].attrs, ((2, 8, 3, 3), "float32")),
        )
    ),
    doc="""nn.deformable_conv2d, with what each tap reads multiplied by `mask`, [n, groups · taps, rows, columns].""",
)
