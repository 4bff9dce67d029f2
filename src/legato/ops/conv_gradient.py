"""The gradient of a convolution with respect to its weight, in one, two and three dimensions.

dw[o, i, ky, kx] = Σ_{n, y, x} dy[n, o, y, x] · pad[n, g·C/G + i, y·s + ky·d, …]: a convolution over the batch, in which
strides and dilation change places. That with respect to the data is a transposed convolution, and the three of them are
the gradients of each other: all come from Σ dy · conv(x, w), which is linear in x, w and dy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from legato.arith.expr import Expr, const, floordiv
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._conv_gradients import data_gradient, of_convolution
from legato.ops._families import quiet
from legato.ops._gradients import Contribution
from legato.ops._rules import at_least, divides, tensor
from legato.ops._tensors import (
    Array,
    DtypeName,
    accumulator,
    as_int,
    cast_to,
    contraction_cost,
    known_int,
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
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.expr import cast

__all__ = ["Conv1DBackwardWeightAttrs", "Conv2DBackwardWeightAttrs", "Conv3DBackwardWeightAttrs",
           "conv1d_backward_weight", "conv2d_backward_weight", "conv3d_backward_weight"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conv2DBackwardWeightAttrs(Attrs):
    """As Conv2DAttrs of the convolution; `grad_layout`: its `out_layout`; `kernel_size`: must be given; `out_dtype`:
    that of the gradient ("": that of its data).
    """

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int | Dim, ...] | None = None
    grad_layout: str = "NCHW"
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_dtype: DtypeName = ""


@dataclass(frozen=True, slots=True)
class Conv1DBackwardWeightAttrs(Conv2DBackwardWeightAttrs):
    """As Conv2DBackwardWeightAttrs, in one dimension."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1,)
    grad_layout: str = "NCW"
    data_layout: str = "NCW"
    kernel_layout: str = "OIW"


@dataclass(frozen=True, slots=True)
class Conv3DBackwardWeightAttrs(Conv2DBackwardWeightAttrs):
    """As Conv2DBackwardWeightAttrs, in three dimensions."""

    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    grad_layout: str = "NCDHW"
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"


def _orders(a: Conv2DBackwardWeightAttrs) -> tuple[DimOrder, DimOrder, DimOrder]:
    """Dimension orders of grad, data and kernel; the relation has checked that they exist."""
    letters = spatial_letters(window_rank(a.data_layout))
    grad, data = dim_order(a.grad_layout, "NC" + letters), dim_order(a.data_layout, "NC" + letters)
    kernel = dim_order(a.kernel_layout, "OI" + letters)
    assert grad is not None
    assert data is not None
    assert kernel is not None
    return grad, data, kernel


def _windows(a: Conv2DBackwardWeightAttrs, spatial: Sequence[Dim], kernel: Sequence[Dim]) -> list[Window]:
    rank = len(spatial)
    steps = zip(spread(a.strides, rank), spread(a.dilation, rank), pads(a.padding, rank), strict=True)
    each = zip(spatial, kernel, steps, strict=True)
    return [Window(n, k, stride, dilation, *sides) for n, k, (stride, dilation, sides) in each]


def _relation(rank: int, rel: Relation, grad: Type, data: Type, a: Conv2DBackwardWeightAttrs) -> Type:
    letters = spatial_letters(rank)
    grad_order = data_order(rel, a.grad_layout, "NC" + letters, "grad_layout")
    order = data_order(rel, a.data_layout, "NC" + letters, "data_layout")
    kernel_order = data_order(rel, a.kernel_layout, "OI" + letters, "kernel_layout")
    if a.kernel_size is None:
        raise rel.fail("kernel_size is not given", hint="the shapes of grad and data do not say it")
    kernel = dims(a.kernel_size * rank if len(a.kernel_size) == 1 else a.kernel_size)
    check_sliding(rel, rank, a.strides, a.dilation, a.padding, a.groups)
    if len(kernel) != rank:
        raise rel.fail(f"kernel_size must be 1 or {rank} extents, got {[str(k) for k in kernel]}")
    grad, data = tensor(rel, grad, "grad"), tensor(rel, data, "data")
    for what, ty, layout in (("grad", grad, grad_order), ("data", data, order)):
        if ty.rank != layout.rank:
            raise rel.fail(f"{what} of layout {layout.layout} has rank {layout.rank}, got rank {ty.rank}")
    n, o, *outs = grad_order.checked_extents(rel, grad.shape)
    batch, c, *spatial = order.checked_extents(rel, data.shape)
    rel.same(n, batch, "the batch of grad and data")
    if a.channels is not None:
        o = rel.same(o, const(a.channels), "output channels")
    for what, extent in (("input", c), ("output", o)):
        divides(rel, extent, a.groups, f"{what} channels, in {a.groups} groups")
    along = _windows(a, spatial, kernel)
    require_room(rel, along, letters, "kernel")
    for w, out, letter in zip(along, outs, letters, strict=True):
        at_least(rel, w.count - out, 0, f"no more windows along {letter} than fit into the data")
    shape = kernel_order.checked_shape(rel, (o, floordiv(c, const(a.groups)), *kernel))
    return TensorType(shape, result_dtype(a.out_dtype, data.dtype))


def _reference(grad: Array, data: Array, a: Conv2DBackwardWeightAttrs) -> Array:
    grad_order, order, kernel_order = _orders(a)
    dtype = result_dtype(a.out_dtype, dt.dtype(data.dtype))
    dy = cast_to(grad_order.to_canonical(grad), accumulator(dtype))
    x = cast_to(order.to_canonical(data), accumulator(dtype))
    assert a.kernel_size is not None
    rank = x.ndim - 2
    kernel = [as_int(k) for k in (a.kernel_size * rank if len(a.kernel_size) == 1 else a.kernel_size)]
    along = _windows(a, dims(x.shape[2:]), dims(kernel))
    outs, o, c = dy.shape[2:], dy.shape[1], x.shape[1]
    rows = _by_group(dy, a.groups)
    dw = np.empty((o, c // a.groups, *kernel), dy.dtype)
    for offset, view in taps(x, along, 0):
        kept = view[(slice(None), slice(None), *(slice(m) for m in outs))]
        tap = rows @ _by_group(kept, a.groups).swapaxes(-1, -2)
        dw[(slice(None), slice(None), *offset)] = tap.reshape(o, c // a.groups)
    return np.ascontiguousarray(kernel_order.from_canonical(cast_to(dw, dtype)))


def _by_group(x: Array, groups: int) -> Array:
    """Canonical data as (groups, channels of one, batch and space)."""
    moved = np.moveaxis(x, 0, 1)
    inner = int(np.prod(moved.shape[1:]))
    return moved.reshape(groups, x.shape[1] // groups, inner)


def _compute(grad: Tensor, data: Tensor, a: Conv2DBackwardWeightAttrs, out: TensorType) -> Tensor:
    """Summed with the output channels innermost: `grad` is brought into their order once, for all taps, and an element
    of the data meets a vector of them. The sums are turned into the weight's order by a stage of its own."""
    grad_order, order, kernel_order = _orders(a)
    n, o, *outs = grad_order.extents(grad.shape)
    _, inner, *kernel = kernel_order.extents(out.shape)
    along = _windows(a, order.extents(data.shape)[2:], kernel)
    padded = pad_stage(data, order.at[2:], along, const(0, data.dtype))
    total, rank = accumulator(out.dtype), len(along)
    groups = 1 if known_int(inner) == 1 else a.groups  # channels of their own make no groups: they fill vectors
    per_group, of_each = floordiv(o, const(groups)), floordiv(o, const(a.groups))

    def term(*index: Expr) -> Expr:
        group, *offset, c, within = index[: rank + 3]
        image, *position = index[rank + 3 :]
        channel = group * per_group + within
        first = floordiv(channel, of_each) if groups < a.groups else group * inner
        source = [w.index(p, k) for w, p, k in zip(along, position, offset, strict=True)]
        dy = cast(grad[grad_order.actual((image, channel, *position))], total)
        return dy * cast(padded[order.actual((image, first + c, *source))], total)

    summed = reduce("sum", (const(groups), *kernel, inner, per_group), (n, *outs), term, "weight_gradient")

    def element(*index: Expr) -> Expr:
        channel, c, *offset = kernel_order.canonical(index)
        group, within = (const(0), channel) if groups == 1 else (channel // per_group, channel % per_group)
        return cast(summed[(group, *offset, c, within)], out.dtype)

    return compute(out.shape, element, "turned")


def _cost(args: Sequence[TensorType], out: Type, a: Conv2DBackwardWeightAttrs) -> Cost:
    grad_order, _, kernel_order = _orders(a)
    assert isinstance(out, TensorType)
    per_output = product(kernel_order.extents(out.shape)[1:])
    return contraction_cost(product(grad_order.extents(args[0].shape)) * per_output, args, out)


def _gradient(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """`dy` is a weight: the convolution of the data with it, and the transposed one of grad."""
    grad, data = call.args
    a = call.attrs
    assert isinstance(a, Conv2DBackwardWeightAttrs)
    return [of_convolution(b, a, data, dy, grad), data_gradient(b, a, grad, dy, data)]


_DOC = """The gradient of nn.conv{rank}d with respect to its weight.

grad: that of its result, in `grad_layout`; data: its data; the attributes are those of the convolution. The result has
the weight's shape (O, C/groups, kernel_size…) in `kernel_layout`. `grad` may have fewer windows than fit into the data.
Sums are formed in `out_dtype` (default: the data's; float32 for 16-bit floats)."""


def _backward_weight(rank: int, attrs: type[Conv2DBackwardWeightAttrs], samples: tuple[Sample, ...]) -> Op:
    return Op(
        name=f"nn.conv{rank}d_backward_weight",
        args=("grad", "data"),
        attrs=attrs,
        type_rel=partial(_relation, rank),
        reference=quiet(_reference),
        compute=_compute,
        grad=_gradient,
        fusion=Fusion.CONTRACTION,
        cost=_cost,
        samples=samples,
        doc=_DOC.format(rank=rank),
    )


conv1d_backward_weight = _backward_weight(
    1,
    Conv1DBackwardWeightAttrs,
    (
        Sample((((2, 4, 6), "float32"), ((2, 3, 8), "float32")), {"kernel_size": (3,)}),
        Sample((((1, 4, 3), "float32"), ((1, 9, 4), "float32")),
               {"kernel_size": (2,), "strides": (2,), "padding": (1, 2), "dilation": (2,), "groups": 2,
                "data_layout": "NWC", "kernel_layout": "WIO"}),
    ),
)  # fmt: skip

conv2d_backward_weight = _backward_weight(
    2,
    Conv2DBackwardWeightAttrs,
    (
        Sample((((2, 4, 5, 6), "float32"), ((2, 3, 5, 6), "float32")), {"kernel_size": (3, 3), "padding": (1, 1)}),
        Sample((((2, 6, 3, 6), "float32"), ((2, 4, 5, 6), "float32")),
               {"kernel_size": (3, 2), "strides": (2, 1), "padding": (1, 0, 2, 2), "groups": 2, "dilation": (1, 2)}),
        Sample((((1, 3, 4, 4), "float32"), ((1, 3, 4, 4), "float32")),
               {"kernel_size": (3, 3), "padding": (1, 1), "groups": 3}),
        Sample((((1, 2, 2, 4), "float32"), ((1, 2, 3, 4, 2), "float32")),
               {"kernel_size": (2, 2), "data_layout": "NCHW2c", "grad_layout": "NHWC", "kernel_layout": "OIHW2i4o"}),
        Sample((((2, 2, 2, 2), "float16"), ((2, 2, 3, 3), "float16")), {"kernel_size": (2, 2)}, rtol=2e-3),
        Sample((((2, 2, 2, 2), "float32"), ((2, 2, 3, 3), "float32")), {"kernel_size": (1, 1), "strides": (2, 2)}),
        Sample((((0, 2, 2, 2), "float32"), ((0, 2, 3, 3), "float32")), {"kernel_size": (2, 2)}),
    ),
)  # fmt: skip

conv3d_backward_weight = _backward_weight(
    3,
    Conv3DBackwardWeightAttrs,
    (
        Sample((((1, 2, 4, 2, 5), "float32"), ((1, 2, 3, 3, 4), "float32")),
               {"kernel_size": (2, 2, 2), "padding": (1, 0, 1)}),
        Sample((((1, 4, 2, 1, 2), "float32"), ((1, 2, 3, 3, 3), "float32")),
               {"kernel_size": (2, 2, 2), "groups": 2, "strides": (1, 2, 1)}),
    ),
)  # fmt: skip
