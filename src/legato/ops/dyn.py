"""Operators whose shapes the program computes: `dyn.reshape(data, newshape)` and its like, see `_dynamic`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from legato.arith.expr import Const, eq, ge, select
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._computed import as_dims, counted, new_shape, require, signed, wide
from legato.ops._dynamic import Dynamic, Numbers, fresh_dims, known_count, one
from legato.ops._rules import normalize_axis, tensor
from legato.ops._tensors import DtypeName
from legato.ops.create import full as full_
from legato.ops.create import ones as ones_
from legato.ops.create import zeros as zeros_
from legato.ops.one_hot import one_hot as one_hot_
from legato.ops.pad import PadAttrs
from legato.ops.pad import pad as pad_
from legato.ops.reshape import ReshapeAttrs
from legato.ops.reshape import expand_dims as expand_dims_
from legato.ops.reshape import reshape as reshape_
from legato.ops.reshape import squeeze as squeeze_
from legato.ops.sort import TopKAttrs
from legato.ops.sort import topk as topk_
from legato.ops.transpose import broadcast_to as broadcast_to_
from legato.ops.transpose import repeat as repeat_
from legato.ops.transpose import tile as tile_

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = [
    "DynExpandDimsAttrs", "DynInitAttrs", "DynOneHotAttrs", "DynPadAttrs", "DynRepeatAttrs", "DynReshapeAttrs",
    "DynTopKAttrs",
]  # fmt: skip

Types = dict[str, Any]
Args = dict[str, Expr]


def _int64(*values: Any) -> Any:
    return np.array(values, np.int64)


# ------------------------------------------------------------------ extents


@dataclass(frozen=True, slots=True)
class DynInitAttrs(Attrs):
    """The dtype of the result."""

    dtype: DType | None = None


def _tile_shape(rel: Relation, types: Types, own: Any) -> Type:
    ty = tensor(rel, types["data"], "data")
    reps = known_count(rel, types["reps"], "reps")
    kept = ty.shape[: max(ty.rank - reps, 0)]
    return TensorType((*kept, *fresh_dims(rel, "tiled", max(ty.rank, reps) - len(kept))), ty.dtype)


def _broadcast_shape(rel: Relation, types: Types, own: Any) -> Type:
    ty, count = tensor(rel, types["data"], "data"), known_count(rel, types["shape"], "shape")
    if count < ty.rank:
        raise rel.fail(f"a shape of rank {count} for data of rank {ty.rank}")
    return TensorType(fresh_dims(rel, "shape", count), ty.dtype)


broadcast_to = Dynamic(broadcast_to_, ("data", "shape"), shape=_broadcast_shape).record(
    "dyn.broadcast_to",
    samples=(
        Sample((((3, 1), "float32"), _int64(2, 3, 4)), exact=True),
        Sample((((), "int64"), np.array([2, 0], np.int32)), exact=True),
    ),
    doc="Repeats dims of extent 1, and in front, until the shape is reached.",
)
full = Dynamic(full_, ("fill_value", "shape"), DynInitAttrs).record(
    "dyn.full",
    samples=(Sample((((), "float32"), _int64(2, 3)), exact=True), Sample((((), "int8"), _int64()), exact=True)),
    doc="A scalar in every place of a shape.",
)
zeros = Dynamic(zeros_, ("shape",), DynInitAttrs).record(
    "dyn.zeros",
    samples=(Sample((_int64(2, 0),), exact=True), Sample((_int64(3),), {"dtype": "bool"}, exact=True)),
    doc="A tensor of zeros; float32 unless `dtype` says otherwise.",
)
ones = Dynamic(ones_, ("shape",), DynInitAttrs).record(
    "dyn.ones",
    samples=(Sample((_int64(2, 3),), exact=True), Sample((_int64(3),), {"dtype": "int64"}, exact=True)),
    doc="A tensor of ones; float32 unless `dtype` says otherwise.",
)
tile = Dynamic(tile_, ("data", "reps"), shape=_tile_shape).record(
    "dyn.tile",
    samples=(
        Sample((((2, 3), "float32"), _int64(2, 1)), exact=True),
        Sample((((2, 1, 3), "int32"), _int64(0)), exact=True),
        Sample((((3,), "float32"), _int64(2, 2)), exact=True),
    ),
    doc="Repeats the whole tensor along each dim.",
)

# ------------------------------------------------------------------ one extent


@dataclass(frozen=True, slots=True)
class DynRepeatAttrs(Attrs):
    """Along which axis each element is repeated."""

    axis: int


@dataclass(frozen=True, slots=True)
class DynTopKAttrs(Attrs):
    """`axis`: the dimension that is sorted; `is_ascend`: the smallest first. `ret_type`: both, values or indices;
    `dtype`: of the indices.
    """

    axis: int = -1
    is_ascend: bool = False
    ret_type: str = "both"
    dtype: DtypeName = dt.int32


@dataclass(frozen=True, slots=True)
class DynOneHotAttrs(Attrs):
    """`axis`: where the new dimension is inserted; `dtype`: that of the result ("": that of the values)."""

    axis: int = -1
    dtype: DtypeName = ""


def _repeat_shape(rel: Relation, types: Types, own: DynRepeatAttrs) -> Type:
    ty = tensor(rel, types["data"], "data")
    axis = normalize_axis(rel, own.axis, ty.rank)
    if known_count(rel, types["repeats"], "repeats") != 1:
        raise rel.fail("repeats is not one number")
    return TensorType((*ty.shape[:axis], rel.fresh("repeated"), *ty.shape[axis + 1 :]), ty.dtype)


def _topk_shape(rel: Relation, types: Types, own: DynTopKAttrs) -> Type | None:
    """As for all elements, with a new dim for their number."""
    ty = tensor(rel, types["data"], "data")
    if known_count(rel, types["k"], "k") != 1:
        raise rel.fail("k is not one number")
    axis = normalize_axis(rel, own.axis, ty.rank)
    some = TensorType((*ty.shape[:axis], rel.fresh("k"), *ty.shape[axis + 1 :]), ty.dtype)
    return topk_.type_rel(rel, some, TopKAttrs(0, **own))


def _topk(b: Builder, args: Args, own: DynTopKAttrs) -> Expr:
    """All for a number below 1, as for 0."""
    (k,) = as_dims(b, b.maximum(wide(b, args["k"]), b.constant(0, dt.int64)), "k")
    return b.topk(args["data"], k=k, **own)


repeat = Dynamic(
    repeat_,
    ("data", "repeats"),
    DynRepeatAttrs,
    numbers=lambda n, own: {"repeats": one(n["repeats"], "repeats")},
    shape=_repeat_shape,
).record(
    "dyn.repeat",
    samples=(Sample((((2, 3), "float32"), np.array(2, np.int64)), {"axis": 1}, exact=True),),
    doc="Repeats each element along an axis.",
)
topk = Dynamic(
    topk_, ("data", "k"), DynTopKAttrs, numbers=lambda n, own: {"k": one(n["k"], "k")}, shape=_topk_shape, expand=_topk
).record(
    "dyn.topk",
    samples=(
        Sample((((4, 5), "float32"), np.array(3, np.int64)), exact=True),
        Sample((((4, 5), "float32"), np.array(2, np.int32)), {"axis": 0, "ret_type": "values"}, exact=True),
    ),
    doc="""The `k` largest (or with `is_ascend` smallest) elements along `axis`, sorted, and their subscripts.

All for a k below 1.""",
)
one_hot = Dynamic(
    one_hot_,
    ("indices", "on_value", "off_value", "depth"),
    DynOneHotAttrs,
    numbers=lambda n, own: {"depth": one(n["depth"], "depth")},
).record(
    "dyn.one_hot",
    samples=(
        Sample(
            (
                np.array([0, 2, -1, 7], np.int32),
                np.array(5, np.float32),
                np.array(-1, np.float32),
                np.array(3, np.int64),
            ),
            exact=True,
        ),
    ),
    doc="`on_value` where the position along the new dimension `axis` equals the index, `off_value` elsewhere.",
)

# ------------------------------------------------------------------ reshape


@dataclass(frozen=True, slots=True)
class DynReshapeAttrs(Attrs):
    """`allowzero`: 0 in the new shape is an extent, beside which there is no -1; else it stands for the input's dim at
    this place."""

    allowzero: bool = False


def _codes(given: Numbers, own: Any) -> dict[str, Any]:
    low = [n for n in given["newshape"] if isinstance(n, int) and n < -1]
    if low:
        raise TypeCheckError(f"a dim is {low[0]}, wanted an extent, 0 or -1")
    if own.allowzero and {0, -1} <= {*given["newshape"]}:
        raise TypeCheckError("-1 stands beside 0, which is an extent with allowzero: what is left is not known")
    return {"newshape": given["newshape"]}


def _reshaped(rel: Relation, types: Types, own: DynReshapeAttrs) -> Type | None:
    ty = tensor(rel, types["data"], "data")
    count = known_count(rel, types["newshape"], "newshape")
    known = _resolved(ty.shape, rel.value(1), own.allowzero)
    if known is None:
        return TensorType(fresh_dims(rel, "newshape", count), ty.dtype)
    return reshape_.type_rel(rel, ty, ReshapeAttrs(known, own.allowzero))


def _resolved(own: tuple[Dim, ...], value: tuple[Dim, ...] | None, allowzero: bool) -> tuple[Any, ...] | None:
    """A new shape of dims, with the dims of the input where they may be 0; None where that cannot be told."""
    if value is None or not all(isinstance(d, Const) or prove(ge(d, 0)) for d in value):
        return None
    said = [allowzero or isinstance(d, Const) or n >= len(own) or prove(ge(d, 1)) for n, d in enumerate(value)]
    pairs = enumerate(zip(value, said, strict=True))
    dims = [d if is_said else simplify(select(eq(d, 0), own[n], d)) for n, (d, is_said) in pairs]
    return tuple(int(d.value) if isinstance(d, Const) else d for d in dims)


def _reshape(b: Builder, args: Args, own: DynReshapeAttrs) -> Expr:
    x = args["data"]
    flat = b.reshape(args["newshape"], newshape=(-1,))
    codes = new_shape(b, b.shape_of(x, dtype=dt.int64), flat, own.allowzero)
    return b.reshape(x, newshape=as_dims(b, codes, "newshape"), allowzero=True)


reshape = Dynamic(
    reshape_, ("data", "newshape"), DynReshapeAttrs, numbers=_codes, shape=_reshaped, expand=_reshape, extents=False
).record(
    "dyn.reshape",
    samples=(
        Sample((((2, 3, 4), "float32"), _int64(6, 4)), exact=True),
        Sample((((2, 3, 4), "float32"), _int64(0, -1)), exact=True),
        Sample((((0, 3), "float32"), np.array([3, 0], np.int32)), {"allowzero": True}, exact=True),
    ),
    doc="""The same elements in row-major order, in another shape.

0 stands for the input's dim at this place, -1 for what is left.""",
)

# ------------------------------------------------------------------ axes


@dataclass(frozen=True, slots=True)
class DynExpandDimsAttrs(Attrs):
    """How many dims are inserted."""

    num_newaxis: int = 1


def _expanded_shape(rel: Relation, types: Types, own: DynExpandDimsAttrs) -> Type:
    ty = tensor(rel, types["data"], "data")
    if known_count(rel, types["axis"], "axis") != 1 or own.num_newaxis < 0:
        raise rel.fail(f"wanted one axis, and num_newaxis of 0 or more, got {own.num_newaxis}")
    return TensorType(fresh_dims(rel, "expanded", ty.rank + own.num_newaxis), ty.dtype)


def _expand_dims(b: Builder, args: Args, own: DynExpandDimsAttrs) -> Expr:
    x, count = args["data"], own.num_newaxis
    assert isinstance(x.ty, TensorType)
    rank = x.ty.rank
    at = counted(b, b.reshape(args["axis"], newshape=()), b.constant(rank + 1, dt.int64))
    zero, last = (b.constant(n, dt.int64) for n in (0, rank))
    require(b, b.logical_and(b.less_equal(zero, at), b.less_equal(at, last)), "axis")
    own_dims, ones = b.shape_of(x, dtype=dt.int64), b.constant(np.ones(count, np.int64))
    places = b.constant(np.arange(rank + count))
    after = b.where(b.less(places, b.add(at, b.constant(count, dt.int64))), b.constant(1, dt.int64),
                    b.concatenate((ones, own_dims), axis=0))  # fmt: skip
    shape = b.where(b.less(places, at), b.concatenate((own_dims, ones), axis=0), after)
    return b.reshape(x, newshape=as_dims(b, shape, "expanded"), allowzero=True)


def _squeezed_shape(rel: Relation, types: Types, own: Any) -> Type:
    ty = tensor(rel, types["data"], "data")
    count = known_count(rel, types["axis"], "axis")
    if count > ty.rank:
        raise rel.fail(f"{count} axes of a tensor of rank {ty.rank}")
    return TensorType(fresh_dims(rel, "squeezed", ty.rank - count), ty.dtype)


def _squeeze(b: Builder, args: Args, own: Any) -> Expr:
    """Each axis is hit once, and has extent 1; the others keep their order."""
    x, axes = args["data"], args["axis"]
    assert isinstance(x.ty, TensorType)
    assert isinstance(axes.ty, TensorType)
    rank, one_ = x.ty.rank, b.constant(1, dt.int64)
    at = counted(b, b.reshape(axes, newshape=(-1, 1)), b.constant(rank, dt.int64))
    is_hit = b.equal(at, b.constant(np.arange(rank)))
    hits = b.sum(b.cast(is_hit, dtype=dt.int64), axis=(0,))
    dims = b.shape_of(x, dtype=dt.int64)
    is_kept = b.equal(hits, b.constant(0, dt.int64))
    are_ones = b.all(b.logical_or(is_kept, b.logical_and(b.equal(hits, one_), b.equal(dims, one_))), axis=(0,))
    require(b, b.logical_and(are_ones, b.all(b.any(is_hit, axis=(1,)), axis=(0,))), "axis")
    order = b.cumsum(b.cast(is_kept, dtype=dt.int64), axis=0)
    left = rank - axes.ty.static_shape()[0] if axes.ty.rank else rank - 1
    is_nth = b.logical_and(is_kept, b.equal(order, b.constant(np.arange(1, left + 1)[:, None])))
    shape = b.sum(b.where(is_nth, dims, b.constant(0, dt.int64)), axis=(1,))
    return b.reshape(x, newshape=as_dims(b, shape, "squeezed"), allowzero=True)


expand_dims = Dynamic(
    expand_dims_,
    ("data", "axis"),
    DynExpandDimsAttrs,
    numbers=lambda n, own: {"axis": one(n["axis"], "axis")},
    shape=_expanded_shape,
    expand=_expand_dims,
    extents=False,
).record(
    "dyn.expand_dims",
    samples=(
        Sample((((2, 3), "float32"), np.array(1, np.int64)), exact=True),
        Sample((((2, 3), "float32"), np.array(-1, np.int32)), {"num_newaxis": 2}, exact=True),
    ),
    doc="Inserts dims of extent 1.",
)
squeeze = Dynamic(squeeze_, ("data", "axis"), shape=_squeezed_shape, expand=_squeeze, extents=False).record(
    "dyn.squeeze",
    samples=(
        Sample((((1, 3, 1), "float32"), _int64(-1)), exact=True),
        Sample((((1, 3, 1), "float32"), _int64(2, 0)), exact=True),
    ),
    doc="Drops dims of extent 1.",
)

# ------------------------------------------------------------------ padding


@dataclass(frozen=True, slots=True)
class DynPadAttrs(Attrs):
    """`pad_mode`: constant, edge, or reflect."""

    pad_mode: str = "constant"


def _pairs(given: Numbers, own: Any) -> dict[str, Any]:
    flat = given["pad_width"]
    if len(flat) % 2:
        raise TypeCheckError(f"pad_width has {len(flat)} numbers, wanted two for each dim")
    return {"pad_width": tuple(zip(flat[::2], flat[1::2], strict=True))}


def _padded_shape(rel: Relation, types: Types, own: DynPadAttrs) -> Type:
    ty = tensor(rel, types["data"], "data")
    count = known_count(rel, types["pad_width"], "pad_width", 2)
    if count != 2 * ty.rank:
        raise rel.fail(f"pad_width has {count} numbers for rank {ty.rank}, wanted two for each dim")
    pad_.type_rel(rel, ty, types["pad_value"], PadAttrs(((0, 0),) * ty.rank, own.pad_mode))
    return TensorType(fresh_dims(rel, "padded", ty.rank), ty.dtype)


def _pad(b: Builder, args: Args, own: DynPadAttrs) -> Expr:
    """Widths below 0, which cut off, are differences of dims."""
    parts = zip(signed(b, args["pad_width"]), ("pads", "cuts"), strict=True)
    above, below = (as_dims(b, part, name) for part, name in parts)
    width = [simplify(p - q) for p, q in zip(above, below, strict=True)]
    pairs = tuple(zip(width[::2], width[1::2], strict=True))
    return b.nn.pad(args["data"], args["pad_value"], pad_width=pairs, **own)


pad = Dynamic(
    pad_, ("data", "pad_width", "pad_value"), DynPadAttrs, numbers=_pairs, shape=_padded_shape, expand=_pad,
    extents=False,
    rank=2,
).record(
    "dyn.nn.pad",
    samples=(
        Sample((((2, 3), "float32"), _int64([1, 2], [0, 1]), ((), "float32")), exact=True),
        Sample((((2, 3), "float32"), _int64([0, 0], [-1, 2]), ((), "float32")), {"pad_mode": "edge"}, exact=True),
    ),
    doc="Adds elements around a tensor: `pad_value`, the nearest element (edge), or the mirrored tensor (reflect).",
)  # fmt: skip
