"""unique: the different elements of a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._computed import stacked
from legato.ops._distinct import distinct
from legato.ops._rules import require_rank, tensor
from legato.ops._tensors import Array, wide

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["UniqueAttrs", "unique"]


@dataclass(frozen=True, slots=True)
class UniqueAttrs(Attrs):
    """`sorted`: elements are in order, or else as they come first; `return_counts`: how many there are of each is a
    result, too.
    """

    sorted: bool = True
    return_counts: bool = False


def _relation(rel: Relation, data: Type, a: UniqueAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 1, what="data")
    count = rel.fresh("unique")
    found, every = TensorType((count,), dt.int32), TensorType(ty.shape, dt.int32)
    counts = (found,) if a.return_counts else ()
    return TupleType((TensorType((count,), ty.dtype), found, every, TensorType((const(1),), dt.int32), *counts))


def _reference(data: Array, a: UniqueAttrs) -> tuple[Array, ...]:
    _, first, number, counts = np.unique(wide(data), True, True, True, equal_nan=False)
    if not a.sorted:
        by_place = np.argsort(first)
        first, counts, number = first[by_place], counts[by_place], np.argsort(by_place)[number.ravel()]
    found = (first, number.ravel(), np.array([len(first)]), *([counts] if a.return_counts else ()))
    return data[first], *(v.astype(np.int32) for v in found)


def _expand(b: Builder, data: Expr, a: UniqueAttrs) -> Expr:
    rows = b.expand_dims(data, axis=1)
    first, number, counts = distinct(b, rows, b.argsort(data, axis=0, dtype=dt.int64), a.sorted)
    count = stacked(b, [b.ndarray_size(first, dtype=dt.int64)])
    found = (first, number, count, *([counts] if a.return_counts else ()))
    return b.tuple_((b.take(data, first, axis=0, mode="fast"), *(b.cast(v, dtype=dt.int32) for v in found)))


unique = Op(
    name="unique",
    args=("data",),
    attrs=UniqueAttrs,
    type_rel=_relation,
    reference=_reference,
    expand=_expand,
    samples=(
        Sample((np.array([4, 5, 1, 2, 3, 3, 4, 5], np.int32),), {"sorted": False}, exact=True),
        Sample((np.array([0.5, -1, 0.5, np.nan, -0.0, 0, np.nan], np.float32),), {"return_counts": True}, exact=True),
        Sample((np.zeros(0, np.int64),), exact=True),
    ),
    doc="""(elements, first, which, [n]): the n different elements of a vector, where each is first, and which each is.

With `return_counts` also how many there are of each. NaN differs from NaN.""",
)
