"""Operators that take a shape or dtype from another tensor, which they do not read.

    slice_like(x: (5, 6), y: (2, 4))      =>      strided_slice(x, begin=(0, 0), end=(2, 4))

Each is another operator, whose attributes the type of that tensor gives (`expand`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.attrs import make_attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._dynamic import evaluated
from legato.ops._families import Array
from legato.ops._rules import at_least, known_dim, normalize_axes, product, tensor
from legato.ops.collapse import collapse_sum_to
from legato.ops.reshape import reshape
from legato.ops.select import cast
from legato.ops.slice import strided_slice
from legato.ops.transpose import broadcast_to

__all__ = ["ReshapeLikeAttrs", "SliceLikeAttrs", "broadcast_to_like", "cast_like", "collapse_sum_like",
           "reshape_like", "slice_like"]  # fmt: skip

Found = Callable[[TensorType, TensorType, Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ReshapeLikeAttrs(Attrs):
    """`lhs_begin`, `lhs_end`: which dims of data are replaced; `rhs_begin`, `rhs_end`: by which of shape_like. None is
    the end; a negative number counts from there.
    """

    lhs_begin: int = 0
    lhs_end: int | None = None
    rhs_begin: int = 0
    rhs_end: int | None = None


@dataclass(frozen=True, slots=True)
class SliceLikeAttrs(Attrs):
    """`axes`: along which the data is cut; None, or none of them: all."""

    axes: tuple[int, ...] | None = None


def _like(
    name: str,
    of: Op,
    like: str,
    found: Found,
    *,
    doc: str,
    samples: tuple[Sample, ...],
    attrs: type | None = None,
    check: Callable[[Relation, TensorType, TensorType, Any], None] = lambda rel, data, other, a: None,
) -> Op:
    """`of` with the attributes that `found` reads off two types."""

    def relation(rel: Relation, data: Type, other: Type, a: Any = None) -> Type | None:
        x, y = tensor(rel, data, "data"), tensor(rel, other, like)
        for d in (*x.shape, *y.shape):
            known_dim(d)
        check(rel, x, y, a)
        return of.type_rel(rel, x, make_attrs(of, found(x, y, a)))

    def run(data: Array, other: Array, a: Any = None) -> Array:
        types = [TensorType(dims(v.shape), dt.dtype(v.dtype)) for v in (data, other)]
        value: Array = evaluated(of, [data], make_attrs(of, found(types[0], types[1], a)))
        return value

    def expand(b: Builder, data: Expr, other: Expr, a: Any = None) -> Expr:
        assert isinstance(data.ty, TensorType)
        assert isinstance(other.ty, TensorType)
        return b.op(of.name)(data, **found(data.ty, other.ty, a))

    return Op(
        name=name,
        args=("data", like),
        attrs=attrs,
        type_rel=relation,
        reference=run,
        expand=expand,
        storage=of.storage,
        samples=samples,
        doc=doc,
    )


def _shape(x: TensorType, like: TensorType, a: Any) -> dict[str, Any]:
    return {"shape": like.shape}


broadcast_to_like = _like(
    "broadcast_to_like",
    broadcast_to,
    "broadcast_type",
    _shape,
    samples=(
        Sample((((3, 1), "float32"), ((2, 3, 4), "float32")), exact=True),
        Sample((((), "int8"), ((0, 2), "float32")), exact=True),
    ),
    doc="`data` in the shape of `broadcast_type`.",
)

collapse_sum_like = _like(
    "collapse_sum_like",
    collapse_sum_to,
    "collapse_type",
    _shape,
    samples=(
        Sample((((2, 3, 4), "float32"), ((3, 1), "float32"))),
        Sample((((2, 3), "float32"), ((), "int32"))),
    ),
    doc="The sums of `data` over what broadcasting from the shape of `collapse_type` would have repeated.",
)

cast_like = _like(
    "cast_like",
    cast,
    "dtype_like",
    lambda x, like, a: {"dtype": like.dtype},
    samples=(
        Sample((((2, 3), "float32"), ((4,), "int32")), exact=True),
        Sample((((2,), "int64"), ((), "float64")), exact=True),
    ),
    doc="`data` with elements of the dtype of `dtype_like`.",
)

# ------------------------------------------------------------------ parts of shapes


def _part(begin: int, end: int | None, rank: int) -> tuple[int, int]:
    """Where a part of a shape of `rank` dims begins and ends."""
    first = begin + rank if begin < 0 else begin
    last = rank if end is None else end + rank if end < 0 else end
    return first, last


def _reshaped(x: TensorType, like: TensorType, a: ReshapeLikeAttrs) -> dict[str, Any]:
    first, last = _part(a.lhs_begin, a.lhs_end, x.rank)
    begin, end = _part(a.rhs_begin, a.rhs_end, like.rank)
    new: tuple[Dim, ...] = (*x.shape[:first], *like.shape[begin:end], *x.shape[last:])
    return {"newshape": new, "allowzero": True}


def _check_parts(rel: Relation, x: TensorType, like: TensorType, a: ReshapeLikeAttrs) -> None:
    for what, begin, end, rank in (("lhs", a.lhs_begin, a.lhs_end, x.rank), ("rhs", a.rhs_begin, a.rhs_end, like.rank)):
        first, last = _part(begin, end, rank)
        if not 0 <= first <= last <= rank:
            raise rel.fail(f"{what}_begin {begin} and {what}_end {end} are no part of a shape of {rank} dims")
    old, new = (
        product(ty.shape[slice(*_part(begin, end, ty.rank))])
        for ty, begin, end in ((x, a.lhs_begin, a.lhs_end), (like, a.rhs_begin, a.rhs_end))
    )
    rel.same(old, new, "how many elements the replaced dims have")


reshape_like = _like(
    "reshape_like",
    reshape,
    "shape_like",
    _reshaped,
    attrs=ReshapeLikeAttrs,
    check=_check_parts,
    samples=(
        Sample((((2, 6), "float32"), ((3, 4), "int8")), exact=True),
        Sample((((2, 6, 5), "float32"), ((7, 3, 2, 9), "int8")),
               {"lhs_begin": 1, "lhs_end": 2, "rhs_begin": -3, "rhs_end": -1}, exact=True),
        Sample((((0, 6), "float32"), ((3, 0, 2), "int8")), exact=True),
    ),
    doc="`data` with its dims from lhs_begin to lhs_end replaced by those of `shape_like` from rhs_begin to rhs_end.",
)  # fmt: skip


def _axes(rank: int, a: SliceLikeAttrs) -> tuple[int, ...]:
    return tuple(n % rank for n in a.axes) if a.axes else tuple(range(rank))


def _cut(x: TensorType, like: TensorType, a: SliceLikeAttrs) -> dict[str, Any]:
    axes = _axes(x.rank, a)
    return {"begin": (0,) * len(axes), "end": tuple(like.shape[n] for n in axes), "axes": axes}


def _check_cut(rel: Relation, x: TensorType, like: TensorType, a: SliceLikeAttrs) -> None:
    for n in normalize_axes(rel, a.axes or None, x.rank, "axes"):
        if n >= like.rank:
            raise rel.fail(f"shape_like has {like.rank} dims, wanted one for axis {n}")
        at_least(rel, x.shape[n], like.shape[n], f"what is cut from axis {n}")


slice_like = _like(
    "slice_like",
    strided_slice,
    "shape_like",
    _cut,
    attrs=SliceLikeAttrs,
    check=_check_cut,
    samples=(
        Sample((((5, 6), "float32"), ((2, 4), "int8")), exact=True),
        Sample((((5, 6, 3), "float32"), ((2, 9, 1), "int8")), {"axes": (0, -1)}, exact=True),
        Sample((((3, 2), "int64"), ((0, 2, 7), "int8")), {"axes": (0,)}, exact=True),
    ),
    doc="The beginning of `data` along `axes`, as long as `shape_like` is there, which must not be longer.",
)
