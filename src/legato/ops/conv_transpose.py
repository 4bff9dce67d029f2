"""Transposed convolution in one, two and three dimensions.

out[i·s + k·d − before] += x[i] · w[k], summed over input channels. As stages: `spread` puts the data s apart with zeros
between and around, then an ordinary convolution with the kernel reversed:
out[y] = Σ_{r, c} spread[c, y + r·d] · w[c, o, K−1−r]. (That the s phases are
computed apart, without the multiplications by zero, is a rule of lowering over such stages.) Weights that may be
infinite are not multiplied by zeros: each product is formed where there is data, and 0 elsewhere.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from legato.arith.expr import Expr, const, eq, floordiv, floormod, ge, land, lt, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._conv_gradients import conv_transpose_gradient
from legato.ops._families import quiet
from legato.ops._rules import at_least, divides, tensor
from legato.ops._tensors import (
    Array,
    DtypeName,
    Index,
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
    check_positive,
    check_sliding,
    data_order,
    dim_order,
    pad_stage,
    pads,
    spatial_letters,
    spread,
    window_rank,
)
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.expr import cast

__all__ = ["Conv1DTransposeAttrs", "Conv2DTransposeAttrs", "Conv3DTransposeAttrs", "conv1d_transpose",
           "conv2d_transpose", "conv3d_transpose"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conv2DTransposeAttrs(Attrs):
    """As Conv2DAttrs of the convolution whose transpose it is; `channels`: those of the result. `output_padding`: by
    how much the result is larger behind. `kernel_layout`: I is the input channel and O the output channel within a
    group.

    `finite_weight`: the weight holds no infinity and no NaN, so it may be multiplied by zeros where there is no data.
    """

    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    output_padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "IOHW"
    out_layout: str = ""
    out_dtype: DtypeName = ""
    finite_weight: bool = False


@dataclass(frozen=True, slots=True)
class Conv1DTransposeAttrs(Conv2DTransposeAttrs):
    """As Conv2DTransposeAttrs, in one dimension."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    output_padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    data_layout: str = "NCW"
    kernel_layout: str = "IOW"


@dataclass(frozen=True, slots=True)
class Conv3DTransposeAttrs(Conv2DTransposeAttrs):
    """As Conv2DTransposeAttrs, in three dimensions."""

    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    output_padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "IODHW"


@dataclass(frozen=True, slots=True)
class _Spread:
    """One dimension: input i and tap k meet at output `i·stride + k·dilation − before`."""

    extent: Dim
    kernel: Dim
    stride: int
    dilation: int
    before: int
    after: int
    extra: int

    @property
    def reach(self) -> Dim:
        """Distance from the first to the last tap of the kernel."""
        return (self.kernel - 1) * self.dilation

    @property
    def out(self) -> Dim:
        """Extent of the result."""
        return (self.extent - 1) * self.stride + self.reach + (1 + self.extra - self.before - self.after)

    @property
    def window(self) -> Window | None:
        """The data with zeros around it, one for each stride by which taps reach beyond its ends; None where the kernel
        has no known extent."""
        reach = known_int(self.reach)
        if reach is None:
            return None
        front, back = -((self.before - reach) // self.stride), (reach + self.extra - self.after) // self.stride
        return Window(self.extent, const(1), before=max(0, front), after=max(0, back))

    def source(self, j: Expr, front: int | None) -> tuple[Expr, Expr]:
        """The data index behind element `j` of the spread data, and whether there is one; in data with `front` zeros
        before it, or (None) in the data itself."""
        t = j - (self.reach - self.before)
        place, there = floordiv(t, const(self.stride)), eq(floormod(t, const(self.stride)), 0)
        if front is not None:
            return place + front, there
        return place, land(there, land(ge(t, 0), lt(place, self.extent)))


def _orders(a: Conv2DTransposeAttrs) -> tuple[DimOrder, DimOrder, DimOrder]:
    letters = spatial_letters(window_rank(a.data_layout))
    data, kernel = dim_order(a.data_layout, "NC" + letters), dim_order(a.kernel_layout, "IO" + letters)
    out = dim_order(a.out_layout or a.data_layout, "NC" + letters)
    assert data is not None
    assert kernel is not None
    assert out is not None
    return data, kernel, out


def _spreads(a: Conv2DTransposeAttrs, spatial: Sequence[Dim], kernel: Sequence[Dim]) -> list[_Spread]:
    rank = len(spatial)
    steps = zip(spread(a.strides, rank), spread(a.dilation, rank), strict=True)
    sides = zip(pads(a.padding, rank), spread(a.output_padding, rank), strict=True)
    each = zip(spatial, kernel, steps, sides, strict=True)
    return [_Spread(n, k, *step, *pad, extra) for n, k, step, (pad, extra) in each]


def _relation(rank: int, rel: Relation, data: Type, weight: Type, a: Conv2DTransposeAttrs) -> Type | None:
    letters = spatial_letters(rank)
    order = data_order(rel, a.data_layout, "NC" + letters, "data_layout")
    kernel_order = data_order(rel, a.kernel_layout, "IO" + letters, "kernel_layout")
    out_order = data_order(rel, a.out_layout or a.data_layout, "NC" + letters, "out_layout")
    check_sliding(rel, rank, a.strides, a.dilation, a.padding, a.groups, a.kernel_size)
    check_positive(rel, "output_padding", spread(a.output_padding, rank), rank, least=0)
    data = tensor(rel, data, "data")
    if data.rank != order.rank:
        raise rel.fail(f"the data of a {rank}-d transposed convolution has rank {order.rank}, got rank {data.rank}")
    n, c, *spatial = order.checked_extents(rel, data.shape)
    typed = _weight_type(rel, data, c, weight, kernel_order, a)
    if typed is None:
        return None
    _, per_group, *kernel = kernel_order.extents(typed.shape)
    along = _spreads(a, spatial, kernel)
    for s, letter in zip(along, letters, strict=True):
        if (known_int(s.out) or 0) < 0:
            raise rel.fail(f"padding {s.before} + {s.after} leaves nothing of dimension {letter}")
        at_least(rel, s.out, 0, f"dimension {letter} of the result")
    shape = out_order.checked_shape(rel, (n, per_group * a.groups, *(s.out for s in along)))
    return TensorType(shape, result_dtype(a.out_dtype, data.dtype))


def _weight_type(
    rel: Relation, data: TensorType, c: Dim, weight: Type, order: DimOrder, a: Conv2DTransposeAttrs
) -> TensorType | None:
    """The weight's type, from what is known of it and from the attributes."""
    rank = len(order.letters) - 2
    known = order.extents(weight.shape) if isinstance(weight, TensorType) and weight.rank == order.rank else None
    if known is None and (a.channels is None or a.kernel_size is None):
        return None
    for what, number in (("input", known_int(c)), ("output", a.channels)):
        if number is not None and number % a.groups:
            raise rel.fail(f"{number} {what} channels are not divisible by {a.groups} groups")
    divides(rel, c, a.groups, f"input channels, in {a.groups} groups")
    per_group = known[1] if a.channels is None and known else const((a.channels or 0) // a.groups)
    kernel = known[2:] if a.kernel_size is None and known else dims(spread(a.kernel_size or (), rank))
    dtype = weight.dtype if isinstance(weight, TensorType) else data.dtype
    if dtype != data.dtype and not a.out_dtype:
        raise rel.fail(f"data is {data.dtype} but weight is {dtype}", hint="name the result with out_dtype")
    typed = rel.unify(weight, TensorType(order.checked_shape(rel, (c, per_group, *kernel)), dtype), "weight")
    return typed if isinstance(typed, TensorType) else None


def _reference(data: Array, weight: Array, a: Conv2DTransposeAttrs) -> Array:
    order, kernel_order, out_order = _orders(a)
    dtype = result_dtype(a.out_dtype, dt.dtype(data.dtype))
    x = cast_to(order.to_canonical(data), accumulator(dtype))
    w = cast_to(kernel_order.to_canonical(weight), accumulator(dtype))
    along = _spreads(a, dims(x.shape[2:]), dims(w.shape[2:]))
    return np.ascontiguousarray(out_order.from_canonical(cast_to(_scatter(x, w, along, a.groups), dtype)))


def _scatter(x: Array, w: Array, along: Sequence[_Spread], groups: int) -> Array:
    """Canonical transposed convolution: one matrix product, then each tap's share is added at its place."""
    (n, c), spatial, taps = x.shape[:2], x.shape[2:], w.shape[2:]
    left = w.reshape(groups, c // groups, w.shape[1] * math.prod(taps))
    shares = left.transpose(0, 2, 1) @ x.reshape(n, groups, c // groups, math.prod(spatial))
    shares = shares.reshape(n, groups * w.shape[1], *taps, *spatial)
    full = [max(as_int((s.extent - 1) * s.stride + s.reach + 1), s.before + as_int(s.out)) for s in along]
    out = np.zeros((n, groups * w.shape[1], *full), shares.dtype)
    for tap in itertools.product(*map(range, taps)):
        at: Index = (..., *(slice(k * s.dilation, k * s.dilation + max((m - 1) * s.stride + 1, 0), s.stride)
                            for k, s, m in zip(tap, along, spatial, strict=True)))  # fmt: skip
        share: Index = (slice(None), slice(None), *tap)
        out[at] += shares[share]
    kept: Index = (..., *(slice(s.before, s.before + as_int(s.out)) for s in along))
    return out[kept]


def _compute(data: Tensor, weight: Tensor, a: Conv2DTransposeAttrs, out: TensorType) -> Tensor:
    order, kernel_order, out_order = _orders(a)
    _, c, *spatial = order.extents(data.shape)
    _, per_group, *kernel = kernel_order.extents(weight.shape)
    along = _spreads(a, spatial, kernel)
    is_finite = a.finite_weight or not weight.dtype.is_float
    apart = _spread_stage(data, order, along)
    total, inner = accumulator(out.dtype), floordiv(c, const(a.groups))

    def term(*index: Expr) -> Expr:
        n, channel, *position = out_order.canonical(index[: out.rank])
        taps, r = index[out.rank : -1], index[-1]
        group = floordiv(channel, per_group) if a.groups > 1 else const(0)
        source = [p + k * s.dilation for s, p, k in zip(along, position, taps, strict=True)]
        mirrored = [s.kernel - 1 - k for s, k in zip(along, taps, strict=True)]
        w = cast(weight[kernel_order.actual((group * inner + r, channel - group * per_group, *mirrored))], total)
        if is_finite:
            return cast(apart[order.actual((n, group * inner + r, *source))], total) * w
        sources, there = zip(*(s.source(j, None) for s, j in zip(along, source, strict=True)), strict=True)
        x = data[order.actual((n, group * inner + r, *sources))]
        return select(functools.reduce(land, there), cast(x, total) * w, const(0, total))

    return narrowed(reduce("sum", out.shape, [*kernel, inner], term, "conv_transpose"), out.dtype)


def _spread_stage(data: Tensor, order: DimOrder, along: Sequence[_Spread]) -> Tensor:
    """The data with zeros between and around its elements, wide enough for every tap."""
    n, c, *_ = order.extents(data.shape)
    zero, windows = const(0, data.dtype), [w for w in (s.window for s in along) if w is not None]
    is_known = len(windows) == len(along)
    padded = pad_stage(data, order.at[2:], windows, zero) if is_known else data
    fronts = [w.before for w in windows] if is_known else [None] * len(along)

    def element(*index: Expr) -> Expr:
        batch, channel, *position = order.canonical(index)
        each = zip(along, position, fronts, strict=True)
        sources, there = zip(*(s.source(j, front) for s, j, front in each), strict=True)
        inside = functools.reduce(land, there)
        return select(inside, padded[order.actual((batch, channel, *sources))], zero)

    return compute(order.shape((n, c, *(s.out + s.reach for s in along))), element, "spread")


def _cost(args: Sequence[TensorType], out: Type, a: Conv2DTransposeAttrs) -> Cost:
    order, kernel_order, _ = _orders(a)
    per_input = product(kernel_order.extents(args[1].shape)[1:])
    return contraction_cost(product(order.extents(args[0].shape)) * per_input, args, out)


_DOC = """Transposed convolution over {what}: the gradient of a convolution with respect to its data.

data: ({data}); weight: (C, O/groups, kernel…) in `kernel_layout`; result: (N, O, outputs…), outputs =
(extent − 1)·stride + (kernel − 1)·dilation + 1 − padding + output_padding. An un-annotated weight gets its type from
`channels` and `kernel_size`. Sums are formed in `out_dtype` (default: the data's; float32 for 16-bit floats)."""


def _transposed(rank: int, attrs: type[Conv2DTransposeAttrs], samples: tuple[Sample, ...]) -> Op:
    letters = spatial_letters(rank)
    return Op(
        name=f"nn.conv{rank}d_transpose",
        args=("data", "weight"),
        attrs=attrs,
        type_rel=partial(_relation, rank),
        reference=quiet(_reference),
        compute=_compute,
        grad=conv_transpose_gradient,
        fusion=Fusion.CONTRACTION,
        cost=_cost,
        samples=samples,
        doc=_DOC.format(what=", ".join(letters), data=", ".join("NC" + letters)),
    )


conv1d_transpose = _transposed(
    1,
    Conv1DTransposeAttrs,
    (
        Sample((((1, 3, 4), "float32"), ((3, 2, 3), "float32")), {"strides": (2,), "padding": (1,)}),
        Sample((((1, 3, 2), "float32"), ((3, 1, 2), "float32")), {"output_padding": (3,), "strides": (4,)}),
        Sample((((1, 3, 0), "float32"), ((3, 2, 2), "float32")), {"strides": (2,)}),
    ),
)

conv2d_transpose = _transposed(
    2,
    Conv2DTransposeAttrs,
    (
        Sample((((1, 2, 3, 3), "float32"), ((2, 3, 2, 2), "float32")), {"strides": (2, 2)}),
        Sample((((1, 4, 3, 2), "float32"), ((4, 1, 3, 2), "float32")),
               {"strides": (2, 1), "padding": (1, 0, 2, 1), "output_padding": (1, 0), "dilation": (1, 2), "groups": 2}),
        Sample((((1, 3, 3, 2), "float32"), ((3, 3, 4, 2), "float32")),
               {"data_layout": "NHWC", "kernel_layout": "HWOI", "channels": 4, "kernel_size": (3, 3)}),
        Sample((((1, 2, 2, 2), "float32"), ((2, 1, 1, 1), "float32")), {"padding": (1, 0), "strides": (3, 3)}),
        Sample((((1, 2, 2, 2, 2), "float32"), ((1, 2, 2, 2, 4, 2), "float32")),
               {"strides": (2, 2), "data_layout": "NCHW2c", "kernel_layout": "IOHW4i2o"}),
    ),
)  # fmt: skip

conv3d_transpose = _transposed(
    3,
    Conv3DTransposeAttrs,
    (Sample((((1, 2, 2, 2, 2), "float32"), ((2, 2, 2, 1, 2), "float32")), {"strides": (1, 2, 2)}),),
)
