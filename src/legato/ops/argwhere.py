"""Where a tensor is not zero: a row for each such element, or as many rows as it may have and their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Expr, Var, const, lt, ne
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.attr_record import Attrs
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._rules import product, require_dtype, tensor
from legato.ops._tensors import Array
from legato.te.tensor import Tensor, loops
from legato.tir.expr import cast
from legato.tir.stmt import For, If, Let, Stmt, Store, block

__all__ = ["ArgWhereAttrs", "argwhere", "argwhere_padded"]


@dataclass(frozen=True, slots=True)
class ArgWhereAttrs(Attrs):
    """`dtype`: of the subscripts."""

    dtype: DType = dt.int32


def _checked(rel: Relation, data: Type, a: ArgWhereAttrs) -> TensorType:
    require_dtype(rel, TensorType((), a.dtype), lambda d: d.is_int, "the attribute dtype")
    return tensor(rel, data, "condition")


def _padded_relation(rel: Relation, data: Type, a: ArgWhereAttrs) -> Type:
    ty = _checked(rel, data, a)
    rows = TensorType((product(ty.shape), const(ty.rank)), a.dtype)
    return TupleType((rows, TensorType((const(1),), dt.int64)))


def _relation(rel: Relation, data: Type, a: ArgWhereAttrs) -> Type:
    ty = _checked(rel, data, a)
    return TensorType((rel.fresh("found"), const(ty.rank)), a.dtype)


def _reference(data: Array, a: ArgWhereAttrs) -> Array:
    return np.argwhere(data != 0).astype(a.dtype.numpy)


def _padded_reference(data: Array, a: ArgWhereAttrs) -> tuple[Array, Array]:
    found = _reference(data, a)
    rows = np.zeros((data.size, data.ndim), found.dtype)
    rows[: len(found)] = found
    return rows, np.array([len(found)], np.int64)


def _compute(data: Tensor, a: ArgWhereAttrs, out: TupleType) -> tuple[Tensor, ...]:
    first = (const(0),)

    def program(rows: Tensor, count: Tensor) -> Stmt:
        at = [Var(f"i{d}", dt.index, 0) for d in range(data.rank)]
        n = Var("n", dt.index, 0)
        row = [Store(rows, (n, const(d)), cast(i, a.dtype)) for d, i in enumerate(at)]
        add = If(lt(n, rows.shape[0]), block(*row, Store(count, first, cast(n + 1, dt.int64))))  # there is always room
        body: Stmt = If(_is_set(data[tuple(at)]), Let(n, cast(count[first], dt.index), add))
        for v, extent in zip(reversed(at), reversed(data.shape), strict=True):
            body = For(v, extent, body)
        return block(_zeros(rows), Store(count, first, const(0, dt.int64)), body)

    shapes: Sequence[TensorType] = [t for t in out.fields if isinstance(t, TensorType)]
    return loops([(t.shape, t.dtype) for t in shapes], (data,), program, "where")


def _is_set(x: Expr) -> Expr:
    return x if x.dtype.is_bool else ne(x, const(0, x.dtype))


def _zeros(t: Tensor) -> Stmt:
    i, k = Var("i", dt.index, 0), Var("k", dt.index, 0)
    return For(i, t.shape[0], For(k, t.shape[1], Store(t, (i, k), const(0, t.dtype))))


_SAMPLES = (
    Sample((np.array([[0.0, 1.5, -0.0], [np.nan, 0.0, -2.0]], np.float32),), exact=True),
    Sample((np.array([True, False, True]),), {"dtype": "int64"}, exact=True),
    Sample((np.zeros((2, 0, 3), np.int8),), exact=True),
    Sample((np.array(3, np.int64),), exact=True),
)

argwhere_padded = Op(
    name="argwhere_padded",
    args=("condition",),
    attrs=ArgWhereAttrs,
    type_rel=_padded_relation,
    reference=_padded_reference,
    compute=_compute,
    samples=_SAMPLES,
    doc="""(rows, [n]): the subscripts of the n elements that are not zero, in row-major order, then rows of zeros.

There are as many rows as the tensor has elements. NaN is not zero.""",
)

argwhere = Op(
    name="argwhere",
    args=("condition",),
    attrs=ArgWhereAttrs,
    type_rel=_relation,
    reference=_reference,
    padded=argwhere_padded,
    samples=_SAMPLES,
    doc="The subscripts of the elements that are not zero, a row for each, in row-major order. NaN is not zero.",
)
