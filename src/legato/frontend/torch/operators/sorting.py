"""Order and counts: sort, topk, searchsorted, bucketize, unique, bincount. Equal elements keep their order."""

from __future__ import annotations

from legato.arith.expr import const, ge
from legato.arith.prove import prove
from legato.base.dtype import float32, float64, int32, int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Size, Value
from legato.frontend.torch.signature import aten
from legato.frontend.torch.symbols import number
from legato.ir.expr import Expr
from legato.ir.types import TensorType


@aten("sort", "sort.stable")
def sort(
    b: Emitter, self: Expr, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Expr, Expr]:
    axis, x = b.axis_of(dim, b.rank(self)), b.vector(self)
    order = b.argsort(x, axis=axis, is_ascend=not descending, dtype=int64)
    values = b.sort(x, axis=axis, is_ascend=not descending)
    return b.in_shape(values, b.dims_of(self)), b.in_shape(order, b.dims_of(self))


@aten("topk")
def topk(
    b: Emitter, self: Expr, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Expr, Expr]:
    """In order, whether that is asked for or not."""
    axis, x = b.axis_of(dim, b.rank(self)), b.vector(self)
    none = not prove(ge(b.size(k), 1))  # it may be: Relay's topk takes all then
    made = b.topk(x, k=0 if none else k, axis=axis, ret_type="both", is_ascend=not largest, dtype="int64")
    parts = [b.get(made, n) for n in range(2)]
    if none:
        shape = tuple(b.size(k) if n == axis else d for n, d in enumerate(b.dims_of(x)))
        parts = [b.strided_slice(p, begin=(0,), end=(k,), strides=(1,), axes=(axis,)) for p in parts]
        parts = [b.match_cast(p, TensorType(shape, b.dtype(p))) for p in parts]  # no more than there are
    if not b.rank(self):
        parts = [b.in_shape(p, ()) for p in parts]
    return parts[0], parts[1]


# ------------------------------------------------------------------ places in what is sorted


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    b: Emitter,
    sorted_sequence: Expr,
    self: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Expr | None = None,
) -> Expr:
    if sorter is not None:
        sorted_sequence = b.gather(sorted_sequence, sorter, axis=b.rank(sorted_sequence) - 1)
    return _places(b, sorted_sequence, self, out_int32, right or side == "right")


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(b: Emitter, self: Value, boundaries: Expr, *, out_int32: bool = False, right: bool = False) -> Expr:
    return _places(b, boundaries, self, out_int32, right)


def _places(b: Emitter, rows: Expr, values: Value, narrow: bool, right: bool) -> Expr:
    dtype = int32 if narrow else int64
    own, wanted = b.promoted(rows, values)
    if b.dtype(own).is_bool:
        own, wanted = b.to(own, int32), b.to(wanted, int32)
    if b.rank(own) > 1 and b.rank(wanted) != b.rank(own):
        raise UnsupportedError(f"values of rank {b.rank(wanted)} in rows of rank {b.rank(own)}")
    return b.searchsorted(own, wanted, right=right, dtype=dtype)


# ------------------------------------------------------------------ what differs


@aten("_unique2")
def unique2(
    b: Emitter, self: Expr, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Expr, Expr, Expr]:
    """The elements are always in order, whether `sorted` asks for that or not."""
    x = b.flat(self)
    found = b.let("unique", b.unique(x, sorted=True, return_counts=True))
    values, _, which, _, counts = (b.get(found, n) for n in range(5))
    inverse = b.in_shape(b.to(which, int64), b.dims_of(self)) if return_inverse else _nothing(b)
    return values, inverse, b.to(counts, int64) if return_counts else _nothing(b)


@aten("_unique")
def unique(b: Emitter, self: Expr, sorted: bool = True, return_inverse: bool = False) -> tuple[Expr, Expr]:
    values, inverse, _ = unique2(b, self, sorted, return_inverse)
    return values, inverse


def _nothing(b: Emitter) -> Expr:
    """What PyTorch gives for a result that was not asked for."""
    return b.zeros_of((const(0),), int64)


@aten("unique_consecutive")
def unique_consecutive(
    b: Emitter, self: Expr, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Expr, Expr, Expr]:
    """The first of each run of equal elements."""
    if dim is not None and b.rank(self) > 1:
        raise UnsupportedError(f"runs of equal parts along dim={dim}", hint="flatten them")
    x = b.flat(self)
    extent = b.dims_of(x)[0]
    place = b.steps(0, extent)
    before = b.take(x, b.maximum(b.subtract(place, b.index(1)), b.index(0)), axis=0)
    is_new = b.logical_or(b.equal(place, b.index(0)), b.not_equal(x, before))
    first = b.squeeze(b.let("found", b.argwhere(is_new, dtype=int64)), axis=(1,))
    values = b.take(x, first, axis=0)
    which = b.subtract(b.cumsum(b.to(is_new, int64), axis=0), b.index(1))
    inverse = b.in_shape(which, b.dims_of(self)) if return_inverse else _nothing(b)
    if not return_counts:
        return values, inverse, _nothing(b)
    ends = b.concatenate(first, b.in_shape(b.extent(extent, int64), (const(1),)), axis=0)
    count = b.dims_of(first)[0]
    last = b.strided_slice(ends, begin=(1,), end=(number(count + 1),), strides=(1,), axes=(0,))
    return values, inverse, b.subtract(last, first)


# ------------------------------------------------------------------ counts


@aten("bincount")
def bincount(b: Emitter, self: Expr, weights: Expr | None = None, minlength: Size = 0) -> Expr:
    """How many elements are 0, 1, …; or the sums of their weights."""
    x = b.to(self, int64)
    least = b.operand(minlength, int64)
    most = b.max(b.concatenate(x, b.in_shape(b.index(-1), (const(1),)), axis=0), axis=(0,))
    count = b.computed_dim(b.maximum(b.add(most, b.index(1)), least), "bins")
    if weights is None:
        given = b.broadcast(b.index(1), b.dims_of(x))
    else:
        given = weights if b.dtype(weights) == float32 else b.to(weights, float64)
    return b.scatter_elements(b.zeros_of((count,), b.dtype(given)), x, given, axis=0, reduction="add")
