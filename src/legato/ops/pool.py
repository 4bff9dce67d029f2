"""Maximum and average over sliding windows in one, two and three dimensions.

A maximum sees −∞ (the smallest value of an integer dtype) outside the data and is NaN where a window holds a NaN.
An average counts the elements inside the data, or with `count_include_pad` those inside data and padding; integer
averages round towards zero. With `ceil_mode` a last window may overhang if it starts inside the data or the padding
before it (the rule of PyTorch and ONNX).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from functools import reduce as reduce_pairs

import numpy as np

from legato.arith.expr import Expr, const, max_
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._families import quiet
from legato.ops._pool_windows import Sliding, pool_gradient
from legato.ops._pooling import divided, floor_value, mean_dtype, mean_of
from legato.ops._rules import NUMBER, require_dtype, require_rank, tensor
from legato.ops._tensors import Array, cast_to, product, tensor_bytes
from legato.ops._window import (
    DimOrder,
    Window,
    check_positive,
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

__all__ = ["AvgPoolAttrs", "MaxPoolAttrs", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d",
           "max_pool3d"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class MaxPoolAttrs(Attrs):
    """`pool_size`: the extents of a window; `strides`: the distances of windows; `dilation`: those of the elements in a
    window. `padding`: one number, one per dimension, or all befores then all afters; `ceil_mode`: a last window that is
    not full counts. `layout`: of the data; `out_layout`: of the result, "" is the data's.
    """

    pool_size: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    layout: str = "NCHW"
    out_layout: str = ""
    ceil_mode: bool = False


@dataclass(frozen=True, slots=True)
class MaxPool1DAttrs(MaxPoolAttrs):
    """As MaxPoolAttrs, in one dimension."""

    strides: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    layout: str = "NCW"


@dataclass(frozen=True, slots=True)
class MaxPool3DAttrs(MaxPoolAttrs):
    """As MaxPoolAttrs, in three dimensions."""

    strides: tuple[int, ...] = (1, 1, 1)
    dilation: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    layout: str = "NCDHW"


@dataclass(frozen=True, slots=True)
class AvgPoolAttrs(MaxPoolAttrs):
    """As MaxPoolAttrs; `count_include_pad`: padding counts as elements of value 0."""

    count_include_pad: bool = False


@dataclass(frozen=True, slots=True)
class AvgPool1DAttrs(MaxPool1DAttrs):
    """As AvgPoolAttrs, in one dimension."""

    count_include_pad: bool = False


@dataclass(frozen=True, slots=True)
class AvgPool3DAttrs(MaxPool3DAttrs):
    """As AvgPoolAttrs, in three dimensions."""

    count_include_pad: bool = False


def pool_orders(a: MaxPoolAttrs) -> tuple[DimOrder, DimOrder]:
    """Dimension orders of the data and of the result; the relation has checked that they exist."""
    letters = "NC" + spatial_letters(window_rank(a.layout))
    data, out = dim_order(a.layout, letters), dim_order(a.out_layout or a.layout, letters)
    assert data is not None
    assert out is not None
    return data, out


def pool_windows(a: MaxPoolAttrs, spatial: Sequence[Dim]) -> list[Window]:
    """How windows slide along each spatial dimension."""
    rank = len(spatial)
    steps = zip(spread(a.strides, rank), spread(a.dilation, rank), pads(a.padding, rank), strict=True)
    each = zip(spatial, dims(spread(a.pool_size, rank)), steps, strict=True)
    return [Window(n, k, stride, dilation, *sides, a.ceil_mode) for n, k, (stride, dilation, sides) in each]


def sliding(a: MaxPoolAttrs, spatial: Sequence[Dim]) -> list[Sliding]:
    """The windows along each spatial dimension."""
    include_pad = isinstance(a, AvgPoolAttrs | AvgPool1DAttrs | AvgPool3DAttrs) and a.count_include_pad
    return [Sliding(w, w.count, include_pad) for w in pool_windows(a, spatial)]


def pool_relation(rank: int, rel: Relation, data: Type, a: MaxPoolAttrs) -> Type | None:
    """The type of the result of pooling in `rank` dimensions."""
    letters = spatial_letters(rank)
    order = data_order(rel, a.layout, "NC" + letters, "layout")
    out_order = data_order(rel, a.out_layout or a.layout, "NC" + letters, "out_layout")
    check_positive(rel, "pool_size", spread(a.pool_size, rank), rank)
    check_sliding(rel, rank, a.strides, a.dilation, a.padding)
    data = tensor(rel, data, "data")
    require_rank(rel, data, order.rank, what="data")
    require_dtype(rel, data, NUMBER, "data")
    n, c, *spatial = order.checked_extents(rel, data.shape)
    along = pool_windows(a, spatial)
    require_room(rel, along, letters, "window")
    return TensorType(out_order.checked_shape(rel, (n, c, *(w.count for w in along))), data.dtype)


# ------------------------------------------------------------------------------- maximum


def _max_reference(data: Array, a: MaxPoolAttrs) -> Array:
    order, out_order = pool_orders(a)
    x = order.to_canonical(data)
    views = taps(x, pool_windows(a, dims(x.shape[2:])), floor_value(dt.dtype(x.dtype)))
    largest = reduce_pairs(np.maximum, (view for _, view in views))
    return np.array(out_order.from_canonical(largest), order="C")  # a copy even where one tap is the data itself


def _pooled(
    data: Tensor, a: MaxPoolAttrs, out: TensorType, combiner: str, outside: Expr, f: Callable[[Expr], Expr]
) -> Tensor:
    """The reduction of `f` of the elements over each window."""
    order, out_order = pool_orders(a)
    spatial = order.extents(data.shape)[2:]
    along = pool_windows(a, spatial)
    padded = pad_stage(data, order.at[2:], along, outside)

    def term(*index: Expr) -> Expr:
        n, c, *position = out_order.canonical(index[: out.rank])
        source = [w.index(p, k) for w, p, k in zip(along, position, index[out.rank :], strict=True)]
        return f(padded[order.actual((n, c, *source))])

    return reduce(combiner, out.shape, [w.kernel for w in along], term, "pool")


def _max_compute(data: Tensor, a: MaxPoolAttrs, out: TensorType) -> Tensor:
    return _pooled(data, a, out, "max", const(floor_value(data.dtype), data.dtype), lambda x: x)


# ------------------------------------------------------------------------------- average


def _avg_reference(data: Array, a: AvgPoolAttrs) -> Array:
    order, out_order = pool_orders(a)
    x = order.to_canonical(data)
    dtype = dt.dtype(x.dtype)
    along = pool_windows(a, dims(x.shape[2:]))
    total = reduce_pairs(np.add, (view for _, view in taps(cast_to(x, mean_dtype(dtype)), along, 0)))
    sizes = (w.sizes(n) for w, n in zip(sliding(a, dims(x.shape[2:])), total.shape[2:], strict=True))
    count = reduce_pairs(np.multiply.outer, sizes)
    return np.ascontiguousarray(out_order.from_canonical(cast_to(divided(total, np.maximum(count, 1)), dtype)))


def _avg_compute(data: Tensor, a: AvgPoolAttrs, out: TensorType) -> Tensor:
    order, out_order = pool_orders(a)
    along = sliding(a, order.extents(data.shape)[2:])
    acc = mean_dtype(data.dtype)
    total = _pooled(data, a, out, "sum", const(0, data.dtype), lambda x: cast(x, acc))

    def element(*index: Expr) -> Expr:
        count = product(w.size(p) for w, p in zip(along, out_order.canonical(index)[2:], strict=True))
        return cast(mean_of(total[index], max_(count, const(1))), out.dtype)

    return compute(out.shape, element, "average")


# ------------------------------------------------------------------------------- records


def _cost(args: Sequence[TensorType], out: Type, a: MaxPoolAttrs) -> Cost:
    assert isinstance(out, TensorType)
    taps = product(spread(a.pool_size, out.rank - 2))
    return Cost(product(out.shape) * taps, tensor_bytes((*args, out)))


_DOC = """{What} over sliding windows of `pool_size`, in {dims}.

Result extents are (extent + padding − (pool_size − 1)·dilation − 1) // strides + 1; `ceil_mode` rounds up instead.
{more}"""
_MAX = "Outside the data is −∞ (the smallest integer); NaN in a window gives NaN."
_AVG = """The sum is divided by the number of elements inside the data (`count_include_pad`: inside data and padding); a
window without any gives 0. Integer averages round towards zero; sums of 16-bit floats are formed in float32."""


def _pool(name: str, rank: int, attrs: type[MaxPoolAttrs], samples: tuple[Sample, ...]) -> Op:
    largest = name == "max"
    what, more = ("Maximum", _MAX) if largest else ("Average", _AVG)
    return Op(
        name=f"nn.{name}_pool{rank}d",
        args=("data",),
        attrs=attrs,
        type_rel=partial(pool_relation, rank),
        reference=quiet(_max_reference if largest else _avg_reference),
        compute=_max_compute if largest else _avg_compute,
        grad=pool_gradient(f"{name}_pool{rank}d"),
        fusion=Fusion.REDUCE,
        narrow=Narrow.MOVES if largest else Narrow.NEVER,
        cost=_cost,
        samples=samples,
        doc=_DOC.format(What=what, dims=f"{rank} dimensions" if rank > 1 else "one dimension", more=more),
    )


_EDGES = np.array([[[[np.nan, 1.0, 2.0], [-np.inf, -np.inf, np.inf], [0.0, -0.0, 3.0]]]], np.float32)
_1D = (
    Sample((((2, 2, 8), "float32"),), {"pool_size": (3,), "strides": (2,), "padding": (1,), "ceil_mode": True}),
    Sample((((1, 6, 2), "float32"),), {"pool_size": (2,), "layout": "NWC", "dilation": (2,)}),
)
_2D = (
    Sample((((1, 2, 5, 6), "float32"),), {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0, 1, 1)}),
    Sample((((1, 4, 4, 2), "float32"),), {"pool_size": (2, 2), "strides": (3, 3), "layout": "NHWC", "ceil_mode": True}),
    Sample((((1, 2, 5, 5), "int32"),), {"pool_size": (2, 2), "padding": (1, 1), "dilation": (2, 1)}, exact=True),
    Sample((_EDGES,), {"pool_size": (2, 2), "padding": (1, 1)}),
    Sample((((1, 2, 4, 5, 3), "float32"),), {"pool_size": (2, 2), "padding": (0, 1), "layout": "NCHW3c"}),
    Sample((((1, 1, 4, 4), "float16"),), {"pool_size": (3, 3), "out_layout": "NHWC"}, rtol=1e-3),
)
_3D = (
    Sample((((1, 2, 3, 4, 3), "float32"),), {"pool_size": (2, 2, 2), "padding": (1, 0, 1), "strides": (1, 2, 2)}),
    Sample((((1, 1, 4, 3, 5), "float32"),), {"pool_size": (2, 2, 3), "strides": (3, 2, 3), "ceil_mode": True}),
)
_PAD_COUNTS = (
    Sample((((1, 1, 5, 5), "float32"),),
           {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "count_include_pad": True}),
    Sample((((1, 1, 6, 4), "float32"),), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "ceil_mode": True,
                                          "count_include_pad": True}),
)  # fmt: skip

max_pool1d = _pool("max", 1, MaxPool1DAttrs, _1D)
max_pool2d = _pool("max", 2, MaxPoolAttrs, _2D)
max_pool3d = _pool("max", 3, MaxPool3DAttrs, _3D)
avg_pool1d = _pool("avg", 1, AvgPool1DAttrs, _1D)
avg_pool2d = _pool("avg", 2, AvgPoolAttrs, (*_2D, *_PAD_COUNTS))
avg_pool3d = _pool("avg", 3, AvgPool3DAttrs, _3D)
