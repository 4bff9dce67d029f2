"""Convolution in one, two and three dimensions.

The data is padded in a stage of its own (left out where there is no padding) and then reduced once, the channel
innermost: out[n, o, y, x] = Σ_{ky, kx, c} pad[n, g·C/G + c, y·s + ky·d, …] · w[o, c, ky, …], where g = o // (O/G) is
the group of output channel o. Depthwise convolution (one channel per group) has no reduction over channels.
Sums of 16-bit floats are formed in float32. Any permutation of the dimensions is accepted as a layout, and channels
may be in blocks (NCHW16c, OIHW4i16o); nn.contrib_conv2d_NCHWc is nn.conv2d by the name that Relay had for these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from legato.arith.expr import Expr, const, floordiv
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._conv_gradients import conv_gradient
from legato.ops._families import quiet
from legato.ops._rules import divides, tensor
from legato.ops._tensors import (
    Array,
    DtypeName,
    accumulator,
    as_int,
    cast_to,
    contraction_cost,
    known_int,
    narrowed,
    product,
    result_dtype,
)
from legato.ops._window import (
    DimOrder,
    Window,
    check_sliding,
    data_order,
    dim_order,
    pad_stage,
    pads,
    require_room,
    spatial_letters,
    spread,
    taps,
    window_rank,
)
from legato.te.tensor import Tensor, reduce
from legato.tir.expr import cast

__all__ = ["BlockedConv2DAttrs", "Conv1DAttrs", "Conv2DAttrs", "Conv3DAttrs", "contrib_conv2d_NCHWc",
           "contrib_depthwise_conv2d_NCHWc", "conv1d", "conv2d", "conv3d", "has_idle_taps"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conv2DAttrs(Attrs):
    """`strides`: the distances of windows; `padding`: one number, one per dimension, or all befores then all afters.
    `dilation`: the distances of the elements in a window; `groups`: how many parts channels are cut into, each
    convolved alone. `channels`: those of the result; `kernel_size`: the extents of a window; both are needed only where
    the weight's type is to be inferred. `data_layout`: of the data; `kernel_layout`: of the weight; `out_layout`: of
    the result, "" is the data's. `out_dtype`: that of the result ("": the data's). `finite_weight`: the weight holds no
    infinity and no NaN, so taps that meet padding alone need not be multiplied.
    """

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: DtypeName = ""
    finite_weight: bool = False


@dataclass(frozen=True, slots=True)
class Conv1DAttrs(Conv2DAttrs):
    """As Conv2DAttrs, in one dimension."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1,)
    data_layout: str = "NCW"
    kernel_layout: str = "OIW"


@dataclass(frozen=True, slots=True)
class Conv3DAttrs(Conv2DAttrs):
    """As Conv2DAttrs, in three dimensions."""

    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"


@dataclass(frozen=True, slots=True)
class BlockedConv2DAttrs(Conv2DAttrs):
    """As Conv2DAttrs, of data in blocks of channels."""

    data_layout: str = "NCHW8c"


def _orders(a: Conv2DAttrs) -> tuple[DimOrder, DimOrder, DimOrder]:
    """Dimension orders of data, kernel and output; the relation has checked that they exist."""
    letters = spatial_letters(window_rank(a.data_layout))
    data, kernel = dim_order(a.data_layout, "NC" + letters), dim_order(a.kernel_layout, "OI" + letters)
    out = dim_order(a.out_layout or a.data_layout, "NC" + letters)
    assert data is not None
    assert kernel is not None
    assert out is not None
    return data, kernel, out


def _windows(a: Conv2DAttrs, spatial: Sequence[Dim], kernel: Sequence[Dim]) -> list[Window]:
    rank = len(spatial)
    return [
        Window(extent, k, stride, dilation, before, after)
        for extent, k, stride, dilation, (before, after) in zip(
            spatial, kernel, spread(a.strides, rank), spread(a.dilation, rank), pads(a.padding, rank), strict=True
        )
    ]


def _relation(rank: int, rel: Relation, data: Type, weight: Type, a: Conv2DAttrs) -> Type | None:
    letters = spatial_letters(rank)
    order = data_order(rel, a.data_layout, "NC" + letters, "data_layout")
    kernel_order = data_order(rel, a.kernel_layout, "OI" + letters, "kernel_layout")
    out_order = data_order(rel, a.out_layout or a.data_layout, "NC" + letters, "out_layout")
    check_sliding(rel, rank, a.strides, a.dilation, a.padding, a.groups, a.kernel_size)
    data = tensor(rel, data, "data")
    if data.rank != order.rank:
        raise rel.fail(f"the data of a {rank}-d convolution has rank {order.rank}, got rank {data.rank}")
    n, c, *spatial = order.checked_extents(rel, data.shape)
    typed = _weight_type(rel, data, c, weight, kernel_order, a)
    if typed is None:
        return None
    o, _, *kernel = kernel_order.extents(typed.shape)
    channels = known_int(o)
    if channels is not None and channels % a.groups:
        raise rel.fail(f"{channels} output channels are not divisible by {a.groups} groups")
    divides(rel, o, a.groups, f"output channels, in {a.groups} groups")
    along = _windows(a, spatial, kernel)
    require_room(rel, along, letters, "kernel")
    shape = out_order.checked_shape(rel, (n, o, *(w.count for w in along)))
    return TensorType(shape, result_dtype(a.out_dtype, data.dtype))


def _weight_type(
    rel: Relation, data: TensorType, c: Dim, weight: Type, order: DimOrder, a: Conv2DAttrs
) -> TensorType | None:
    """The weight's type, from what is known of it and from the attributes."""
    rank = len(order.letters) - 2
    known = order.extents(weight.shape) if isinstance(weight, TensorType) and weight.rank == order.rank else None
    if known is None and (a.channels is None or a.kernel_size is None):
        return None
    out = known[0] if a.channels is None and known else dims((a.channels or 0,))[0]
    kernel = known[2:] if a.kernel_size is None and known else dims(spread(a.kernel_size or (), rank))
    channels = known_int(c)
    if channels is not None and channels % a.groups:
        raise rel.fail(f"{channels} input channels are not divisible by {a.groups} groups")
    inner = floordiv(c, const(a.groups))
    if known and channels is None and a.groups > 1:
        inner = known[1]
        rel.same(c, inner * a.groups, "input channels")
    dtype = weight.dtype if isinstance(weight, TensorType) else data.dtype
    if dtype != data.dtype and not a.out_dtype:
        raise rel.fail(f"data is {data.dtype} but weight is {dtype}", hint="name the result with out_dtype")
    typed = rel.unify(weight, TensorType(order.checked_shape(rel, (out, inner, *kernel)), dtype), "weight")
    return typed if isinstance(typed, TensorType) else None


def _reference(data: Array, weight: Array, a: Conv2DAttrs) -> Array:
    order, kernel_order, out_order = _orders(a)
    dtype = result_dtype(a.out_dtype, dt.dtype(data.dtype))
    x = cast_to(order.to_canonical(data), accumulator(dtype))
    w = cast_to(kernel_order.to_canonical(weight), accumulator(dtype))
    along = _windows(a, dims(x.shape[2:]), dims(w.shape[2:]))
    return np.ascontiguousarray(out_order.from_canonical(cast_to(_correlate(x, w, along, a.groups), dtype)))


def _correlate(x: Array, w: Array, along: Sequence[Window], groups: int) -> Array:
    """Canonical convolution as one matrix product per image and group (im2col)."""
    (n, c), outs = x.shape[:2], [as_int(v.count) for v in along]
    if groups == c and w.shape[0] == c:
        return _depthwise(x, w, along, outs)
    columns = np.empty((n, c, *w.shape[2:], *outs), x.dtype)
    for offset, view in taps(x, along, 0):
        columns[(slice(None), slice(None), *offset)] = view
    inner = w.shape[1] * math.prod(w.shape[2:])
    columns = columns.reshape(n, groups, inner, math.prod(outs))
    result = w.reshape(groups, w.shape[0] // groups, inner) @ columns
    return np.asarray(result).reshape(n, w.shape[0], *outs)


def _depthwise(x: Array, w: Array, along: Sequence[Window], outs: Sequence[int]) -> Array:
    """One channel per group: the sum over the kernel of shifted, scaled images."""
    total = np.zeros((*x.shape[:2], *outs), x.dtype)
    for offset, view in taps(x, along, 0):
        factor = w[(slice(None), 0, *offset)]
        total += view * factor.reshape(-1, *(1,) * len(along))
    return total


def has_idle_taps(data: TensorType, weight: TensorType, a: Conv2DAttrs) -> bool:
    """Whether taps are known to meet nothing but padding."""
    order, kernel_order, _ = _orders(a)
    windows = _windows(a, order.extents(data.shape)[2:], kernel_order.extents(weight.shape)[2:])
    return any(w.without_idle()[0] is not w for w in windows)


def _compute(data: Tensor, weight: Tensor, a: Conv2DAttrs, out: TensorType) -> Tensor:
    order, kernel_order, out_order = _orders(a)
    _, c, *spatial = order.extents(data.shape)
    o, inner, *kernel = kernel_order.extents(weight.shape)
    is_finite = a.finite_weight or not weight.dtype.is_float
    windows = _windows(a, spatial, kernel)
    along, idle = zip(*(w.without_idle() if is_finite else (w, 0) for w in windows), strict=True)
    padded = pad_stage(data, order.at[2:], along, const(0, data.dtype))
    rank, total = len(along), accumulator(out.dtype)
    depthwise = a.groups > 1 and known_int(inner) == 1
    first = _first_channel(c, o, inner, a.groups)

    def term(*index: Expr) -> Expr:
        n, channel, *position = out_order.canonical(index[: out.rank])
        offset, rest = index[out.rank : out.rank + rank], index[out.rank + rank :]
        r = const(0) if depthwise else rest[0]
        source = [w.index(p, k) for w, p, k in zip(along, position, offset, strict=True)]
        x = padded[order.actual((n, first(channel) + r, *source))]
        at = (k + skipped for k, skipped in zip(offset, idle, strict=True))
        return cast(x, total) * cast(weight[kernel_order.actual((channel, r, *at))], total)

    kernel = [w.kernel for w in along]
    extents = kernel if depthwise else [*kernel, inner]
    return narrowed(reduce("sum", out.shape, extents, term, "conv"), out.dtype)


def _first_channel(c: Dim, o: Dim, inner: Dim, groups: int) -> Callable[[Expr], Expr]:
    """The first input channel that output channel `o` reads: 0 without groups, `o` itself for plain depthwise."""
    if groups == 1:
        return lambda channel: const(0)
    if c is o and known_int(inner) == 1:
        return lambda channel: channel
    return lambda channel: floordiv(channel, floordiv(o, const(groups))) * inner


def _cost(args: Sequence[TensorType], out: Type, a: Conv2DAttrs) -> Cost:
    kernel_order = _orders(a)[1]
    assert isinstance(out, TensorType)
    per_output = product(kernel_order.extents(args[1].shape)[1:])
    return contraction_cost(product(out.shape) * per_output, args, out)


_DOC = """Convolution (cross-correlation) over {what}.

data: ({data}); weight: ({weight}), C/groups input channels per group; result: (N, O, outputs…) in `out_layout`,
outputs = (extent + padding − (kernel − 1)·dilation − 1) // stride + 1. An un-annotated weight gets its type from
`channels` and `kernel_size`. The sum is formed in `out_dtype` (default: the data's; float32 for 16-bit floats)."""


def _convolution(rank: int, attrs: type[Conv2DAttrs], samples: tuple[Sample, ...], name: str = "") -> Op:
    letters = spatial_letters(rank)
    return Op(
        name=f"nn.{name or f'conv{rank}d'}",
        args=("data", "weight"),
        attrs=attrs,
        type_rel=partial(_relation, rank),
        reference=quiet(_reference),
        compute=_compute,
        grad=conv_gradient,
        fusion=Fusion.CONTRACTION,
        narrow=lambda a: Narrow.CONTRACTS if a.groups == 1 else Narrow.NEVER,  # few terms a group: nothing to gain
        cost=_cost,
        samples=samples,
        doc=_DOC.format(what=", ".join(letters), data=", ".join("NC" + letters), weight=", ".join("OI" + letters)),
    )


conv1d = _convolution(
    1,
    Conv1DAttrs,
    (
        Sample((((2, 3, 8), "float32"), ((4, 3, 3), "float32"))),
        Sample((((1, 4, 9), "float32"), ((4, 2, 2), "float32")),
               {"strides": (2,), "padding": (1, 2), "dilation": (2,), "groups": 2}),
        Sample((((1, 5, 2), "float32"), ((3, 2, 3), "float32")), {"data_layout": "NWC", "kernel_layout": "WIO"}),
    ),
)  # fmt: skip

conv2d = _convolution(
    2,
    Conv2DAttrs,
    (
        Sample((((1, 3, 5, 6), "float32"), ((4, 3, 3, 3), "float32")), {"padding": (1, 1)}),
        Sample((((2, 4, 5, 5), "float32"), ((6, 2, 3, 2), "float32")),
               {"strides": (2, 1), "padding": (1, 0, 2, 1), "groups": 2, "dilation": (1, 2)}),
        Sample((((1, 3, 4, 4), "float32"), ((3, 1, 3, 3), "float32")), {"padding": (1, 1), "groups": 3}),
        Sample((((1, 2, 4, 4), "float32"), ((4, 1, 2, 2), "float32")), {"groups": 2}),
        Sample((((1, 4, 4, 3), "float32"), ((2, 2, 3, 4), "float32")),
               {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_layout": "NCHW", "channels": 4,
                "kernel_size": (2, 2)}),
        Sample((((1, 2, 3, 4, 2), "float32"), ((3, 4, 2, 2), "float32")),
               {"data_layout": "NCHW2c", "out_layout": "NHWC"}),
        Sample((((1, 4, 3, 3), "int8"), ((2, 4, 1, 1), "int8")), {"out_dtype": "int32"}, exact=True),
        Sample((((1, 2, 3, 3), "float16"), ((2, 2, 2, 2), "float16")), rtol=2e-3),
        Sample((np.array([[[[np.inf, 1.0], [np.nan, -1.0]]]], np.float32), ((1, 1, 1, 1), "float32")),
               {"padding": (1, 1)}),
    ),
)  # fmt: skip

conv3d = _convolution(
    3,
    Conv3DAttrs,
    (
        Sample((((1, 2, 3, 3, 4), "float32"), ((2, 2, 2, 2, 2), "float32")), {"padding": (1, 0, 1)}),
        Sample((((1, 2, 3, 3, 3), "float32"), ((2, 1, 2, 2, 2), "float32")), {"groups": 2, "strides": (1, 2, 1)}),
    ),
)

contrib_conv2d_NCHWc = _convolution(
    2,
    BlockedConv2DAttrs,
    (
        Sample((((1, 2, 5, 4, 4), "float32"), ((2, 4, 3, 3, 2, 3), "float32")),
               {"data_layout": "NCHW4c", "kernel_layout": "OIHW2i3o", "out_layout": "NCHW3c", "padding": (1, 1)}),
        Sample((((1, 1, 4, 4, 8), "float32"), ((2, 1, 1, 1, 4, 4), "float32")),
               {"kernel_layout": "OIHW4i4o", "out_layout": "NCHW4c", "groups": 2, "strides": (2, 2)}),
    ),
    "contrib_conv2d_NCHWc",
)  # fmt: skip

contrib_depthwise_conv2d_NCHWc = _convolution(
    2,
    BlockedConv2DAttrs,
    (
        Sample((((1, 1, 4, 3, 8), "float32"), ((1, 1, 3, 3, 1, 8), "float32")),
               {"kernel_layout": "OIHW1i8o", "padding": (1, 1), "groups": 8}),
    ),
    "contrib_depthwise_conv2d_NCHWc",
)  # fmt: skip
