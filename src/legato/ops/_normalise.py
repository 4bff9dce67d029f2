"""What normalisations share: groups of elements with common statistics, and parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import legato.te.math as te
from legato.arith.expr import Expr, const, floordiv
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.op import Relation
from legato.ir.types import Dim, TensorType, Type
from legato.ops._tensors import Array, accumulator, known_int, product
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.expr import cast

__all__ = ["Groups", "centred_squares", "channel_groups", "compute_dtype", "count_as", "inverse_root", "mean",
           "numpy_dtype", "over_axes", "parameter", "sum_over", "vector_shape"]  # fmt: skip

Indices = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Groups:
    """A partition of a tensor's elements: `shape` numbers the groups, `extents` the elements of each.

    at: subscripts of element r of group g; of: the group of the element at some subscripts.
    """

    shape: tuple[Dim, ...]
    extents: tuple[Dim, ...]
    at: Callable[[Sequence[Expr], Sequence[Expr]], Indices]
    of: Callable[[Sequence[Expr]], Indices]


def over_axes(shape: Sequence[Dim], axes: Sequence[int]) -> Groups:
    """One group for each position outside `axes`."""
    outer = [d for d in range(len(shape)) if d not in axes]

    def at(g: Sequence[Expr], r: Sequence[Expr]) -> Indices:
        place = dict(zip(outer, g, strict=True)) | dict(zip(axes, r, strict=True))
        return tuple(place[d] for d in range(len(shape)))

    groups, extents = tuple(shape[d] for d in outer), tuple(shape[d] for d in axes)
    return Groups(groups, extents, at, lambda i: tuple(i[d] for d in outer))


def channel_groups(shape: Sequence[Dim], axis: int, count: int) -> Groups:
    """(first dimension, `count` runs of channels): the channels lie along `axis`, all other dimensions are within."""
    size = floordiv(shape[axis], const(count))
    inner = [d for d in range(1, len(shape)) if d != axis]

    def at(g: Sequence[Expr], r: Sequence[Expr]) -> Indices:
        place = {0: g[0], axis: g[1] * size + r[0], **dict(zip(inner, r[1:], strict=True))}
        return tuple(place[d] for d in range(len(shape)))

    def of(i: Sequence[Expr]) -> Indices:
        return i[0], floordiv(i[axis], size) if count > 1 else const(0)

    extents = (size, *(shape[d] for d in inner))
    return Groups((shape[0], const(count)), extents, at, of)


def count_as(groups: Groups, dtype: DType) -> Expr:
    """The number of elements of a group, as a float."""
    total = product(groups.extents)
    known = known_int(total)
    return cast(total, dtype) if known is None else const(float(known), dtype)


def sum_over(groups: Groups, f: Callable[[Indices], Expr], name: str) -> Tensor:
    """Per group, the sum of `f(subscripts)`."""
    rank = len(groups.shape)
    return reduce("sum", groups.shape, groups.extents, lambda *i: f(groups.at(i[:rank], i[rank:])), name)


def mean(x: Tensor, groups: Groups, dtype: DType) -> Tensor:
    """The mean of each group."""
    total, n = sum_over(groups, lambda i: cast(x[i], dtype), "sum"), count_as(groups, dtype)
    return compute(groups.shape, lambda *g: total[g] / n, "mean")


def centred_squares(x: Tensor, means: Tensor, groups: Groups) -> Tensor:
    """Per group, Σ (x − mean)²."""
    rank = len(groups.shape)

    def square(*i: Expr) -> Expr:
        d = cast(x[groups.at(i[:rank], i[rank:])], means.dtype) - means[i[:rank]]
        return d * d

    return reduce("sum", groups.shape, groups.extents, square, "squares")


def inverse_root(squares: Tensor, groups: Groups, epsilon: float) -> Tensor:
    """1/√(squares/n + epsilon) of each group."""
    n = count_as(groups, squares.dtype)
    return compute(groups.shape, lambda *g: te.rsqrt(squares[g] / n + epsilon), "rstd")


def compute_dtype(*dtypes: DType) -> DType:
    """The dtype in which to compute: the widest of the arguments, at least float32."""
    return max((accumulator(d) for d in dtypes), key=lambda d: d.bits)


def parameter(rel: Relation, ty: Type, shape: Sequence[Dim], data: TensorType, what: str) -> None:
    """Gives a parameter its type: `shape`, and the data's dtype unless it has another float dtype."""
    dtype = ty.dtype if isinstance(ty, TensorType) and ty.dtype.is_float else data.dtype
    rel.unify(ty, TensorType(tuple(shape), dtype), what)


def vector_shape(x: Array, axis: int) -> tuple[int, ...]:
    """The shape in which a vector broadcasts along dimension `axis` of `x`."""
    return tuple(-1 if d == axis % x.ndim else 1 for d in range(x.ndim))


def numpy_dtype(*arrays: Array) -> DType:
    """`compute_dtype` of arrays."""
    return compute_dtype(*(dt.dtype(x.dtype) for x in arrays))
