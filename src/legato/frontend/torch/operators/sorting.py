"""Order: sort, topk, searchsorted, bucketize. Equal elements keep their order."""

from __future__ import annotations

from legato.arith.expr import ge
from legato.arith.prove import prove
from legato.base.dtype import int32, int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Size, Value
from legato.frontend.torch.signature import aten
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
        raise UnsupportedError(
            f"values of rank {b.rank(wanted)} in rows of rank {b.rank(own)}",
            hint="give values a row for each of the sorted rows",
        )
    return b.searchsorted(own, wanted, right=right, dtype=dtype)
