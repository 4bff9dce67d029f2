"""Places in sorted rows: searchsorted."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Var, const, le, lt
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.attr_record import Attrs
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import Array
from legato.ops._gradients import no_gradient
from legato.ops._rules import NUMBER, require_dtype, same_dtype, tensor
from legato.ops._tensors import known_int
from legato.te.tensor import Tensor, loops
from legato.tir.expr import cast
from legato.tir.stmt import For, If, Let, Stmt, Store, block

__all__ = ["SearchSortedAttrs", "searchsorted"]

_BITS = 40  # of the extent of a row, where it is not known


@dataclass(frozen=True, slots=True)
class SearchSortedAttrs(Attrs):
    """`right`: whether the place is behind equal elements, else before them; `dtype`: of the places."""

    right: bool = False
    dtype: DType = dt.int32


def _relation(rel: Relation, sorted_sequence: Type, values: Type, a: SearchSortedAttrs) -> Type:
    rows, x = tensor(rel, sorted_sequence, "sorted_sequence"), tensor(rel, values, "values")
    require_dtype(rel, rows, NUMBER, "sorted_sequence")
    same_dtype(rel, rows, x)
    if a.dtype not in (dt.int32, dt.int64):
        raise rel.fail(f"the attribute dtype is {a.dtype}, wanted int32 or int64")
    if not rows.rank:
        raise rel.fail("sorted_sequence is a scalar, wanted rows")
    if rows.rank > 1 and rows.rank != x.rank:
        raise rel.fail(f"sorted_sequence has rank {rows.rank}, values {x.rank}, wanted one rank, or a single row")
    for n in range(rows.rank - 1):
        rel.same(rows.shape[n], x.shape[n], f"dim {n}, that of the rows")
    return TensorType(x.shape, a.dtype)


def _reference(sorted_sequence: Array, values: Array, a: SearchSortedAttrs) -> Array:
    """Steps of powers of two, from the largest on, while what lies before them is smaller."""
    n = sorted_sequence.shape[-1]
    found = np.zeros(values.shape, np.int64)
    lead = tuple(np.indices(values.shape, sparse=True)[: sorted_sequence.ndim - 1])
    for bit in reversed(range(n.bit_length())):
        ahead = found + (1 << bit)
        read = sorted_sequence[(*lead, np.minimum(ahead, n) - 1)]
        found = np.where((ahead <= n) & (read <= values if a.right else read < values), ahead, found)
    return found.astype(a.dtype.numpy)


def _compute(rows: Tensor, values: Tensor, a: SearchSortedAttrs, out: TensorType) -> Tensor:
    n = rows.shape[-1]
    known = known_int(n)
    bits = min(a.dtype.bits - 1, _BITS if known is None else known.bit_length())

    def program(found: Tensor) -> Stmt:
        at = tuple(Var(f"i{d}", dt.index, 0) for d in range(values.rank))
        steps: list[Stmt] = [Store(found, at, const(0, a.dtype))]
        for bit in reversed(range(bits)):
            wide = Var("place", dt.index, 0)
            ahead = wide + (1 << bit)
            read = rows[(*at[: rows.rank - 1], ahead - 1)]
            test = le(read, values[at]) if a.right else lt(read, values[at])
            go = If(le(ahead, n), If(test, Store(found, at, cast(ahead, a.dtype))))
            steps.append(Let(wide, cast(found[at], dt.index), go))
        body: Stmt = block(*steps)
        for v, extent in zip(reversed(at), reversed(values.shape), strict=True):
            body = For(v, extent, body)
        return body

    return loops([(out.shape, out.dtype)], (rows, values), program, "places")[0]


_ROW = np.array([1, 2, 2, 5, 9], np.float32)

searchsorted = Op(
    name="searchsorted",
    args=("sorted_sequence", "values"),
    attrs=SearchSortedAttrs,
    type_rel=_relation,
    reference=_reference,
    compute=_compute,
    grad=no_gradient,
    samples=(
        Sample((_ROW, np.array([[0, 2, 3], [9, 10, 1]], np.float32)), exact=True),
        Sample((_ROW, np.array([0, 2, 9, np.inf], np.float32)), {"right": True, "dtype": "int64"}, exact=True),
        Sample((np.array([[1, 3], [2, 2]], np.int32), np.array([[2, 3, 4], [2, 1, 3]], np.int32)), exact=True),
        Sample((np.zeros(0, np.float32), ((3,), "float32")), exact=True),
        Sample((_ROW, np.array(4, np.float32)), exact=True),
    ),
    doc="""How many elements of a row are smaller than a value (`right`: not larger): where it would be inserted.

All values are of one row, or there is a row, along the last axis, for each of the leading places. A row that is not
sorted has some place.""",
)
