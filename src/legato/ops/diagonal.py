"""Parts of matrices by their diagonals: trilu, matrix_set_diag. Dims are (batch…, rows, columns).

Both are made of other operators (`expand`). Diagonal k holds the elements whose column is their row + k.
"""

from __future__ import annotations

import numpy as np

from legato.arith.expr import const, max_, min_
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Type
from legato.ops._families import Array
from legato.ops._gradients import dtype_of, extent_of, in_shape, shape_of
from legato.ops._rules import INT, at_least, known_dim, require_dtype, require_rank, same_dtype, tensor

__all__ = ["MatrixSetDiagAttrs", "TriluAttrs", "matrix_set_diag", "trilu"]

_FAR = 1 << 40  # a diagonal that no matrix has


@dataclass(frozen=True, slots=True)
class TriluAttrs(Attrs):
    """`upper`: whether what is on and above the diagonal stays, else what is on and below."""

    upper: bool = True


@dataclass(frozen=True, slots=True)
class MatrixSetDiagAttrs(Attrs):
    """`k1`, `k2`: the first and last diagonal; `super_diag_right_align`, `sub_diag_right_align`: whether diagonals that
    are shorter than the longest stand at the end of their rows, on and above the main one, and below it.
    """

    k1: int = 0
    k2: int = 0
    super_diag_right_align: bool = True
    sub_diag_right_align: bool = False


def _rows_columns(b: Builder, x: Expr) -> tuple[Expr, Expr]:
    """Numbers of the rows, (rows, 1), and of the columns, (columns,)."""
    rows, columns = (b.arange(start=0, stop=d, step=1, dtype=dt.int64) for d in shape_of(x)[-2:])
    return b.expand_dims(rows, axis=1), columns


# ------------------------------------------------------------------------------- trilu


def _trilu_relation(rel: Relation, data: Type, k: Type, a: TriluAttrs) -> Type:
    x, at = tensor(rel, data, "data"), tensor(rel, k, "k")
    if x.rank < 2:
        raise rel.fail(f"the data has rank {x.rank}, wanted a matrix or more")
    require_dtype(rel, at, INT, "k")
    require_rank(rel, at, 0, what="k")
    return x


def _trilu_reference(data: Array, k: Array, a: TriluAttrs) -> Array:
    at = min(max(int(k), -_FAR), _FAR)
    offset = np.arange(data.shape[-1]) - np.arange(data.shape[-2])[:, None]
    return np.asarray(np.where(offset >= at if a.upper else offset <= at, data, np.zeros((), data.dtype)))


def _trilu_expand(b: Builder, data: Expr, k: Expr, a: TriluAttrs) -> Expr:
    rows, columns = _rows_columns(b, data)
    at = b.minimum(b.maximum(b.cast(k, dtype=dt.int64), b.constant(-_FAR, dt.int64)), b.constant(_FAR, dt.int64))
    first = b.add(rows, at)
    kept = b.greater_equal(columns, first) if a.upper else b.less_equal(columns, first)
    dtype = dtype_of(data)
    return b.where(kept, data, b.constant("" if dtype.is_string else 0, dtype))


trilu = Op(
    name="trilu",
    args=("data", "k"),
    attrs=TriluAttrs,
    type_rel=_trilu_relation,
    reference=_trilu_reference,
    expand=_trilu_expand,
    storage=True,
    samples=(
        Sample((((3, 4), "float32"), np.array(0, np.int32)), exact=True),
        Sample((((2, 4, 3), "float32"), np.array(-1, np.int64)), {"upper": False}, exact=True),
        Sample((((3, 3), "int8"), np.array(2**63 - 1, np.int64)), exact=True),
        Sample((((2, 2), "bool"), np.array(1, np.int32)), exact=True),
        Sample((((0, 3), "float32"), np.array(0, np.int32)), exact=True),
    ),
    doc="The part of matrices on and above (`upper`), or on and below, diagonal k; elsewhere 0, or the empty string.",
)

# ------------------------------------------------------------------------------- matrix_set_diag


def _diag_relation(rel: Relation, data: Type, diagonal: Type, a: MatrixSetDiagAttrs) -> Type:
    x, d = tensor(rel, data, "data"), tensor(rel, diagonal, "diagonal")
    same_dtype(rel, x, d)
    if x.rank < 2 or a.k1 > a.k2:
        raise rel.fail(f"diagonals {a.k1} to {a.k2} of data of rank {x.rank}, wanted k1 <= k2, and a matrix or more")
    several = a.k1 != a.k2
    require_rank(rel, d, x.rank - 1 + several, what="diagonal")
    for n in range(x.rank - 2):
        rel.same(x.shape[n], d.shape[n], f"batch dim {n}")
    rows, columns = map(known_dim, x.shape[-2:])
    at_least(rel, rows, max(0, -a.k1), "the rows that the first diagonal needs")
    at_least(rel, columns, max(0, a.k2), "the columns that the last diagonal needs")
    if several:
        rel.same(d.shape[-2], const(a.k2 - a.k1 + 1), "how many diagonals there are")
    longest = simplify(min_(rows + min(a.k2, 0), columns - max(a.k1, 0)))
    rel.same(d.shape[-1], simplify(max_(longest, const(0))), "the length of the longest diagonal")
    return x


def _diag_reference(data: Array, diagonal: Array, a: MatrixSetDiagAttrs) -> Array:
    out, (rows, columns) = data.copy(), data.shape[-2:]
    for k in range(a.k1, a.k2 + 1):
        row = diagonal if a.k1 == a.k2 else diagonal[..., a.k2 - k, :]
        first, count = (max(-k, 0), max(k, 0)), min(rows + min(k, 0), columns - max(k, 0))
        is_right = a.k1 != a.k2 and (a.super_diag_right_align if k >= 0 else a.sub_diag_right_align)
        start = diagonal.shape[-1] - count if is_right else 0
        i = np.arange(max(count, 0))
        out[..., first[0] + i, first[1] + i] = row[..., start + i]
    return out


def _diag_expand(b: Builder, data: Expr, diagonal: Expr, a: MatrixSetDiagAttrs) -> Expr:
    rows, columns = _rows_columns(b, data)
    k = b.subtract(columns, rows)
    zero = b.constant(0, dt.int64)
    inside = b.logical_and(b.greater_equal(k, a.k1), b.less_equal(k, a.k2))
    place = b.minimum(rows, columns)
    if a.k1 == a.k2:
        return b.where(inside, b.take(diagonal, place, axis=-1), data)
    longest = extent_of(b, diagonal, -1)
    below, above = b.minimum(k, zero), b.maximum(k, zero)
    own = b.minimum(b.add(extent_of(b, data, -2), below), b.subtract(extent_of(b, data, -1), above))
    gap = b.subtract(longest, own)
    is_right = b.where(b.greater_equal(k, zero), *(b.constant(f, dt.bool_) for f in _sides(a)))
    number = b.subtract(b.constant(a.k2, dt.int64), k)
    place = b.add(b.add(b.multiply(number, longest), place), b.where(is_right, gap, zero))
    shape = shape_of(diagonal)
    flat = in_shape(b, diagonal, (*shape[:-2], simplify(shape[-2] * shape[-1])))
    return b.where(inside, b.take(flat, place, axis=-1), data)


def _sides(a: MatrixSetDiagAttrs) -> tuple[bool, bool]:
    return a.super_diag_right_align, a.sub_diag_right_align


matrix_set_diag = Op(
    name="matrix_set_diag",
    args=("data", "diagonal"),
    attrs=MatrixSetDiagAttrs,
    type_rel=_diag_relation,
    reference=_diag_reference,
    expand=_diag_expand,
    storage=True,
    samples=(
        Sample((((3, 4), "float32"), ((3,), "float32")), exact=True),
        Sample((((2, 4, 3), "float32"), ((2, 3), "float32")), {"k1": -1, "k2": -1}, exact=True),
        Sample((((4, 5), "float32"), ((4, 4), "float32")), {"k1": -1, "k2": 2}, exact=True),
        Sample((((2, 4, 3), "int8"), ((2, 3, 3), "int8")),
               {"k1": -2, "k2": 0, "super_diag_right_align": False, "sub_diag_right_align": True}, exact=True),
        Sample((((3, 3), "bool"), ((2, 2), "bool")), {"k1": 1, "k2": 2, "super_diag_right_align": False}, exact=True),
    ),
    doc="""`data` with diagonals k1 to k2 replaced.

`diagonal` is (batch…, length) where they are one, else (batch…, k2 − k1 + 1, length), that of k2 first. The length is
that of the longest.""",
)  # fmt: skip
