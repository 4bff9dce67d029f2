"""Pooling whose windows are given by the result's extents: global and adaptive maxima and averages.

Window o of O over I elements is [⌊o·I/O⌋, ⌈(o+1)·I/O⌉). Where all windows have one literal size (O is 1, or divides I)
the reduction has exactly that extent; otherwise it covers the largest window and leaves out what is beyond the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from legato.arith.expr import Expr, const, lt, max_, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._families import quiet
from legato.ops._gradients import Contribution, Rule
from legato.ops._pool_windows import Bins, pool_gradient
from legato.ops._pooling import divided, floor_value, mean_dtype, mean_of
from legato.ops._rules import NUMBER, at_least, require_dtype, require_rank, tensor
from legato.ops._tensors import Array, as_int, cast_to, known_int, product, tensor_bytes
from legato.ops._window import DimOrder, data_order, dim_order, spatial_letters, window_rank
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.expr import cast

__all__ = ["AdaptivePoolAttrs", "GlobalPoolAttrs", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
           "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "global_avg_pool2d",
           "global_max_pool2d"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class GlobalPoolAttrs(Attrs):
    """`layout`: of the data; `out_layout`: of the result, "" is the data's."""

    layout: str = "NCHW"
    out_layout: str = ""


@dataclass(frozen=True, slots=True)
class AdaptivePoolAttrs(Attrs):
    """`output_size`: one extent for all dimensions or one for each; () keeps the data's extents. `layout`: of the data;
    `out_layout`: of the result, "" is the data's.
    """

    output_size: int | Dim | tuple[int | Dim, ...] = ()
    layout: str = "NCHW"
    out_layout: str = ""


@dataclass(frozen=True, slots=True)
class AdaptivePool1DAttrs(AdaptivePoolAttrs):
    """As AdaptivePoolAttrs, in one dimension."""

    layout: str = "NCW"


@dataclass(frozen=True, slots=True)
class AdaptivePool3DAttrs(AdaptivePoolAttrs):
    """As AdaptivePoolAttrs, in three dimensions."""

    layout: str = "NCDHW"


Pool = GlobalPoolAttrs | AdaptivePoolAttrs


def adaptive_orders(a: Pool) -> tuple[DimOrder, DimOrder]:
    """Dimension orders of the data and of the result; the relation has checked that they exist."""
    letters = "NC" + spatial_letters(window_rank(a.layout))
    data, out = dim_order(a.layout, letters), dim_order(a.out_layout or a.layout, letters)
    assert data is not None
    assert out is not None
    return data, out


def _sizes(a: Pool, spatial: Sequence[Dim]) -> tuple[Dim, ...]:
    """The result's spatial extents."""
    if isinstance(a, GlobalPoolAttrs):
        return (const(1),) * len(spatial)
    given = a.output_size if isinstance(a.output_size, tuple) else (a.output_size,)
    sizes = tuple(const(s) if isinstance(s, int) else s for s in given) or tuple(spatial)
    return sizes * len(spatial) if len(sizes) == 1 else sizes


def adaptive_bins(a: Pool, spatial: Sequence[Dim]) -> list[Bins]:
    """The windows along each spatial dimension."""
    return [Bins(n, size) for n, size in zip(spatial, _sizes(a, spatial), strict=True)]


def adaptive_relation(rank: int, rel: Relation, data: Type, a: Pool) -> Type | None:
    """The type of the result of pooling in `rank` dimensions."""
    letters = "NC" + spatial_letters(rank)
    order = data_order(rel, a.layout, letters, "layout")
    out_order = data_order(rel, a.out_layout or a.layout, letters, "out_layout")
    data = tensor(rel, data, "data")
    require_rank(rel, data, order.rank, what="data")
    require_dtype(rel, data, NUMBER, "data")
    n, c, *spatial = order.checked_extents(rel, data.shape)
    sizes = _sizes(a, spatial)
    if len(sizes) != rank or any((known_int(s) or 0) < 0 for s in sizes):
        raise rel.fail(f"output_size must be 1 or {rank} extents, got {[str(s) for s in sizes]}")
    for size in sizes:
        at_least(rel, size, 0, "output_size")
    return TensorType(out_order.checked_shape(rel, (n, c, *sizes)), data.dtype)


def _reference(largest: bool, data: Array, a: Pool) -> Array:
    order, out_order = adaptive_orders(a)
    x = order.to_canonical(data)
    dtype = dt.dtype(x.dtype)
    sizes = [as_int(s) for s in _sizes(a, [const(n) for n in x.shape[2:]])]
    y = x if largest else cast_to(x, mean_dtype(dtype))
    counts = np.ones((1,) * len(sizes), np.int64)
    for axis, size in enumerate(sizes):
        y, widths = _bin(y, axis + 2, size, largest)
        counts = counts * widths.reshape([-1 if n == axis else 1 for n in range(len(sizes))])
    y = y if largest else divided(y, np.maximum(counts, 1))
    return np.ascontiguousarray(out_order.from_canonical(cast_to(y, dtype)))


def _bin(x: Array, axis: int, count: int, largest: bool) -> tuple[Array, Array]:
    """`x` reduced along `axis` into `count` windows, and the windows' sizes."""
    extent = x.shape[axis]
    edges = [(o * extent // count, -(-(o + 1) * extent // count)) for o in range(count)]
    moved = np.moveaxis(x, axis, 0)
    out = np.empty((count, *moved.shape[1:]), x.dtype)
    for o, (lo, hi) in enumerate(edges):
        window = moved[lo:hi]
        out[o] = window.max(axis=0, initial=floor_value(dt.dtype(x.dtype))) if largest else window.sum(axis=0)
    return np.moveaxis(out, 0, axis), np.array([hi - lo for lo, hi in edges], np.int64)


def _compute(largest: bool, data: Tensor, a: Pool, out: TensorType) -> Tensor:
    order, out_order = adaptive_orders(a)
    spatial = order.extents(data.shape)[2:]
    bins = adaptive_bins(a, spatial)
    acc = data.dtype if largest else mean_dtype(data.dtype)
    outside = const(floor_value(acc) if largest else 0, acc)

    def term(*index: Expr) -> Expr:
        n, c, *position = out_order.canonical(index[: out.rank])
        source = [b.start(o) + r for b, o, r in zip(bins, position, index[out.rank :], strict=True)]
        value = cast(data[order.actual((n, c, *source))], acc)
        for b, o, i in zip(bins, position, source, strict=True):
            if b.fixed is None:
                value = select(lt(i, b.end(o)), value, outside)
        return value

    pooled = reduce("max" if largest else "sum", out.shape, [b.taps for b in bins], term, "pool")
    if largest:
        return pooled

    def mean(*index: Expr) -> Expr:
        position = out_order.canonical(index)[2:]
        count = product(b.size(o) for b, o in zip(bins, position, strict=True))
        return cast(mean_of(pooled[index], max_(count, const(1))), out.dtype)

    return compute(out.shape, mean, "average")


def _cost(args: Sequence[TensorType], out: Type, a: Pool) -> Cost:
    return Cost(product(args[0].shape), tensor_bytes((*args, out)))


def _global_gradient(largest: bool) -> Rule:
    """The rule of global pooling: that of adaptive pooling to one window."""
    rule = pool_gradient(f"adaptive_{'max' if largest else 'avg'}_pool2d")

    def of_one(b: Builder, call: Call, dy: Node) -> Sequence[Contribution]:
        a = AdaptivePoolAttrs((1, 1), call.attrs.layout, call.attrs.out_layout)
        return rule(b, Call(call.op, call.args, a, ty=call.ty), dy)

    return of_one


_DOC = """{What} over the windows [⌊o·I/O⌋, ⌈(o+1)·I/O⌉) of each of {rank} spatial dimensions: I the data's extent, O
the result's, {size}. {more}"""


def _pool(name: str, rank: int, attrs: type[Attrs], samples: tuple[Sample, ...]) -> Op:
    largest, whole = "max" in name, "global" in name
    more = "NaN in a window gives NaN." if largest else "Integer means round towards zero."
    return Op(
        name=f"nn.{name}_pool{rank}d",
        args=("data",),
        attrs=attrs,
        type_rel=partial(adaptive_relation, rank),
        reference=quiet(partial(_reference, largest)),
        compute=partial(_compute, largest),
        grad=_global_gradient(largest) if whole else pool_gradient(f"{name}_pool{rank}d"),
        fusion=Fusion.REDUCE,
        cost=_cost,
        samples=samples,
        doc=_DOC.format(What="Maximum" if largest else "Average", rank=rank, more=more,
                        size="which is 1" if whole else "given by `output_size`"),
    )  # fmt: skip


_EDGES = np.array([[[[np.nan, 1.0, 2.0], [-np.inf, -np.inf, np.inf]]]], np.float32)
_GLOBAL = (
    Sample((((2, 3, 3, 4), "float32"),)),
    Sample((((2, 3, 4, 2), "float16"),), {"layout": "NHWC"}, rtol=1e-3),
    Sample((((1, 2, 3, 3), "int8"),), exact=True),
    Sample((((2, 2, 3, 2, 4), "float32"),), {"layout": "NCHW4c", "out_layout": "NCHW"}),
    Sample((_EDGES,)),
)
_1D = (Sample((((1, 2, 7), "float32"),), {"output_size": (3,)}), Sample((((1, 5, 2), "float32"),), {"layout": "NWC"}))
_2D = (
    Sample((((1, 2, 5, 6), "float32"),), {"output_size": (3, 3)}),
    Sample((((1, 3, 4, 2), "int32"),), {"output_size": 2, "layout": "NHWC", "out_layout": "NCHW"}, exact=True),
    Sample((((1, 1, 2, 3), "float32"),), {"output_size": (3, 5)}),
    Sample((_EDGES,), {"output_size": (1, 2)}),
)
_3D = (Sample((((1, 1, 3, 4, 3), "float32"),), {"output_size": (2, 2, 1)}),)

global_max_pool2d = _pool("global_max", 2, GlobalPoolAttrs, _GLOBAL)
global_avg_pool2d = _pool("global_avg", 2, GlobalPoolAttrs, _GLOBAL)
adaptive_max_pool1d = _pool("adaptive_max", 1, AdaptivePool1DAttrs, _1D)
adaptive_avg_pool1d = _pool("adaptive_avg", 1, AdaptivePool1DAttrs, _1D)
adaptive_max_pool2d = _pool("adaptive_max", 2, AdaptivePoolAttrs, _2D)
adaptive_avg_pool2d = _pool("adaptive_avg", 2, AdaptivePoolAttrs, _2D)
adaptive_max_pool3d = _pool("adaptive_max", 3, AdaptivePool3DAttrs, _3D)
adaptive_avg_pool3d = _pool("adaptive_avg", 3, AdaptivePool3DAttrs, _3D)
