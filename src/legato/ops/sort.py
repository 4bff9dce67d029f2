"""Sorting along one dimension: sort, argsort, topk.

All are stable (equal elements keep their order) and put NaN after everything else, or first if descending. The compute
is a bottom-up merge sort of the subscripts of each row: runs of 1, 2, 4, … are merged from one plane of a buffer into
the other and back, two passes a round, so the result is always in plane 0. The few first of many are selected instead:
each element in turn is inserted among the best so far, if it belongs there, which hardly any does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from legato.arith.expr import Expr, Var, cdiv, const, land, lnot, lor, lt, max_, min_, mul, select, shl
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ops._gradients import put_back
from legato.ops._indexing import place
from legato.ops._moving import as_dim
from legato.ops._rules import normalize_axis, tensor
from legato.ops._tensors import Array, DtypeName, as_int, known_int, require_choice, result_dtype, wide
from legato.te.tensor import Tensor, compute, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, call, cast
from legato.tir.stmt import Alloc, For, If, Let, Stmt, Store, block

__all__ = ["SortAttrs", "TopKAttrs", "argsort", "sort", "sorted_subscripts", "topk"]

FEW = 64  # up to so many elements are selected, more are taken from all in order


@dataclass(frozen=True, slots=True)
class SortAttrs(Attrs):
    """`axis`: the dimension that is sorted; `is_ascend`: the smallest first; `dtype`: of subscripts (argsort only)."""

    axis: int = -1
    is_ascend: bool = True
    dtype: DtypeName = dt.int32


@dataclass(frozen=True, slots=True)
class TopKAttrs(Attrs):
    """`k`: how many are taken, all for a number below 1; `axis`: the dimension that is sorted; `is_ascend`: the
    smallest first. `ret_type`: both, values or indices; `dtype`: that of the indices.
    """

    k: int | Dim = 1
    axis: int = -1
    is_ascend: bool = False
    ret_type: str = "both"
    dtype: DtypeName = dt.int32


# ------------------------------------------------------------------------------- the sorted subscripts


def _order(x: Array, axis: int, ascending: bool) -> Array:
    """The subscripts that sort `x`; NumPy knows no place for the NaNs of bfloat16."""
    x = wide(x)
    if ascending:
        return np.argsort(x, axis=axis, kind="stable")
    # A descending stable order is an ascending one of the reversed row, read backwards.
    flipped = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(flipped, axis))


def _before(a: Expr, b: Expr, ascending: bool) -> Expr:
    """Whether `a` must come before `b`."""
    if not ascending:
        a, b = b, a
    less = lt(cast(a, dt.int32), cast(b, dt.int32)) if a.dtype.is_bool else lt(a, b)
    return lor(less, land(call("isnan", b), lnot(call("isnan", a)))) if a.dtype.is_float else less


class _Merge:
    """Loop programs that sort the subscripts of one row of `x`; `row` puts a subscript into the row's place."""

    def __init__(self, x: Tensor, axis: int, ascending: bool, row: Callable[[Expr], tuple[Expr, ...]]) -> None:
        self.x, self.n, self.ascending, self.row = x, x.shape[axis], ascending, row

    def program(self, planes: Tensor) -> Stmt:
        """Fills the row of plane 0 with the sorted subscripts; plane 1 is scratch."""
        r, p = Var("r", dt.index, 0), Var("p", dt.index, 0)
        fill = For(r, self.n, Store(planes, (const(0), *self.row(r)), cast(r, planes.dtype)))
        width = shl(const(1), mul(p, const(2)))
        known = known_int(self.n)
        rounds = 32 if known is None else (max(known - 1, 0).bit_length() + 1) // 2
        both = block(self._merge_all(planes, 0, width), self._merge_all(planes, 1, width * 2))
        return block(fill, For(p, const(rounds), If(lt(width, self.n), both)))

    def _merge_all(self, planes: Tensor, source: int, width: Expr) -> Stmt:
        """Merges neighbouring runs of `width` subscripts from plane `source` into the other."""
        s, w = Var("s", dt.index, 0), Var("width", dt.index, 1)
        lo, mid, hi = (Var(name, dt.index, 0) for name in ("lo", "mid", "hi"))
        merge = self._merge(planes, source, lo, mid, hi)
        bounds = ((lo, s * w * 2), (mid, min_(lo + w, self.n)), (hi, min_(mid + w, self.n)))
        for name, value in reversed(bounds):
            merge = Let(name, value, merge)
        return Let(w, width, For(s, cdiv(self.n, w * 2), merge))

    def _merge(self, planes: Tensor, source: int, lo: Expr, mid: Expr, hi: Expr) -> Stmt:
        """The merge of [lo, mid) and [mid, hi) of one plane, in the other."""
        cursor = Buffer("cursor", (const(2),), dt.int64, scope=Scope.LOCAL)
        zero, one = (const(0),), (const(1),)
        k, i, j = Var("k", dt.index, 0), Var("i", dt.index, 0), Var("j", dt.index, 0)
        left, right = (planes[(source, *self.row(t))] for t in (i, j))
        target = (const(1 - source), *self.row(lo + k))
        earlier = _before(self._key(right), self._key(left), self.ascending)
        yes, no = const(True, dt.bool_), const(False, dt.bool_)
        from_left = select(lt(j, hi), select(lt(i, mid), lnot(earlier), no), yes)
        step = If(
            from_left,
            block(Store(planes, target, left), Store(cursor, zero, cast(i + 1, dt.int64))),
            block(Store(planes, target, right), Store(cursor, one, cast(j + 1, dt.int64))),
        )
        body = Let(i, cast(Load(cursor, zero), dt.index), Let(j, cast(Load(cursor, one), dt.index), step))
        start = block(Store(cursor, zero, cast(lo, dt.int64)), Store(cursor, one, cast(mid, dt.int64)))
        return Alloc(cursor, block(start, For(k, hi - lo, body)))

    def _key(self, subscript: Expr) -> Expr:
        return self.x[self.row(cast(subscript, dt.index))]


class _Select:
    """Loop programs that find the subscripts of the first `count` elements of one row of `x`, in order."""

    def __init__(
        self, x: Tensor, axis: int, ascending: bool, row: Callable[[Expr], tuple[Expr, ...]], count: int
    ) -> None:
        self.x, self.n, self.ascending, self.row, self.count = x, x.shape[axis], ascending, row, count
        self.keys = Buffer("keys", (const(count),), x.dtype, scope=Scope.LOCAL)
        self.place = Buffer("place", (const(1),), dt.int64, scope=Scope.LOCAL)

    def program(self, found: Tensor) -> Stmt:
        """Fills the row of `found`; where the row of `x` is shorter, with 0 at the end."""
        r, t = Var("r", dt.index, 0), Var("t", dt.index, 0)
        last = const(self.count - 1)
        none = For(t, const(self.count), Store(found, (const(0), *self.row(t)), const(0, found.dtype)))
        key = self.x[self.row(r)]
        belongs = lor(lt(r, const(self.count)), _before(key, Load(self.keys, (last,)), self.ascending))
        each = For(r, self.n, If(belongs, self._insert(found, r, key, min_(r, last))))
        return block(none, Alloc(self.keys, Alloc(self.place, each)))

    def _insert(self, found: Tensor, r: Var, key: Expr, end: Expr) -> Stmt:
        """Moves the last of the best, those that come after `key`, up by one, and puts it there."""
        t, p = Var("t", dt.index, 0), Var("p", dt.index, 0)
        zero = (const(0),)

        def at(where: Expr) -> tuple[Expr, ...]:
            return (const(0), *self.row(where))

        above = max_(p - 1, const(0))
        move = block(
            Store(self.keys, (p,), Load(self.keys, (above,))),
            Store(found, at(p), found[at(above)]),
            Store(self.place, zero, cast(p - 1, dt.int64)),
        )
        is_after = land(lt(const(0), p), _before(key, Load(self.keys, (above,)), self.ascending))
        here = cast(Load(self.place, zero), dt.index)
        step = For(t, end, Let(p, here, If(is_after, move)))
        q = Var("q", dt.index, 0)
        put = Let(q, here, block(Store(self.keys, (q,), key), Store(found, at(q), cast(r, found.dtype))))
        return block(Store(self.place, zero, cast(end, dt.int64)), step, put)


def sorted_subscripts(x: Tensor, axis: int, ascending: bool, count: int | None = None) -> Tensor:
    """The subscripts that sort `x` along `axis`, or the first `count` of them, in plane 0 of a buffer."""
    extent = known_int(x.shape[axis])
    dtype = dt.int64 if extent is None or extent > dt.int32.max else dt.int32
    outer = [d for d in range(x.rank) if d != axis]
    few = count if count is not None and 0 < count <= FEW else None

    def program(planes: Tensor) -> Stmt:
        at = {d: Var(f"i{d}", dt.index, 0) for d in outer}

        def row(r: Expr) -> tuple[Expr, ...]:
            return tuple(r if d == axis else at[d] for d in range(x.rank))

        stmt = (
            _Select(x, axis, ascending, row, few).program(planes)
            if few is not None
            else _Merge(x, axis, ascending, row).program(planes)
        )
        for d in reversed(outer):
            stmt = For(at[d], x.shape[d], stmt)
        return stmt

    shape = [const(few) if d == axis and few is not None else n for d, n in enumerate(x.shape)]
    return loops([((2 if few is None else 1, *shape), dtype)], (x,), program, "order")[0]


def _picked(x: Tensor, order: Tensor, axis: int, shape: Sequence[Dim]) -> Tensor:
    """The elements of `x` in `order`, as many as `shape` has."""

    def element(*i: Expr) -> Expr:
        return x[(*i[:axis], place(order[(0, *i)], x.shape[axis], "clip"), *i[axis + 1 :])]

    return compute(shape, element, "sorted")


def _cast_stage(order: Tensor, dtype: DType, shape: Sequence[Dim]) -> Tensor:
    return compute(shape, lambda *i: cast(order[(0, *i)], dtype), "subscripts")


# ------------------------------------------------------------------------------- sort and argsort


def _subscript_dtype(a: SortAttrs | TopKAttrs) -> DType:
    return result_dtype(a.dtype, dt.int32)


def _sort_relation(rel: Relation, data: Type, a: SortAttrs) -> Type:
    ty = tensor(rel, data, "data")
    normalize_axis(rel, a.axis, ty.rank)
    return ty


def _argsort_relation(rel: Relation, data: Type, a: SortAttrs) -> Type:
    ty = tensor(rel, data, "data")
    normalize_axis(rel, a.axis, ty.rank)
    return TensorType(ty.shape, _subscript_dtype(a))


def _sort_reference(x: Array, a: SortAttrs) -> Array:
    return np.take_along_axis(x, _order(x, a.axis, a.is_ascend), a.axis)


def _sort_compute(x: Tensor, a: SortAttrs, out: TensorType) -> Tensor:
    axis = a.axis % x.rank
    return _picked(x, sorted_subscripts(x, axis, a.is_ascend), axis, out.shape)


def _argsort_compute(x: Tensor, a: SortAttrs, out: TensorType) -> Tensor:
    return _cast_stage(sorted_subscripts(x, a.axis % x.rank, a.is_ascend), _subscript_dtype(a), out.shape)


def _sort_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    (x,), a = call.args, call.attrs
    return [put_back(b, x, dy, b.argsort(x, axis=a.axis, is_ascend=a.is_ascend), a.axis)]


_ROWS = np.array([[3, 1, 3, 0, 1, 2, 9], [5, 4, 3, 2, 1, 0, -1]], np.int32)
_FLOATS = np.array([np.nan, 1, -np.inf, 0, np.inf, -0.0, np.nan, 0.5], np.float32)
_SORT_SAMPLES = (
    Sample((_ROWS,), exact=True),
    Sample((_ROWS,), {"is_ascend": False, "axis": 1}, exact=True),
    Sample((_FLOATS,), exact=True),
    Sample((_FLOATS,), {"is_ascend": False}, exact=True),
    Sample((((3, 2, 2), "float64"),), {"axis": 0}, exact=True),
    Sample((np.array([True, False, True]),), exact=True),
    Sample((((2, 0), "float32"),), exact=True),
)

sort = Op(
    name="sort",
    args=("data",),
    attrs=SortAttrs,
    type_rel=_sort_relation,
    reference=_sort_reference,
    compute=_sort_compute,
    grad=_sort_gradient,
    fusion=Fusion.OPAQUE,
    samples=_SORT_SAMPLES,
    doc="data in ascending (or descending) order along `axis`; NaN is larger than everything.",
)

argsort = Op(
    name="argsort",
    args=("data",),
    attrs=SortAttrs,
    type_rel=_argsort_relation,
    reference=lambda x, a: _order(x, a.axis, a.is_ascend).astype(_subscript_dtype(a).numpy),
    compute=_argsort_compute,
    fusion=Fusion.OPAQUE,
    samples=_SORT_SAMPLES,
    doc="The subscripts that sort data along `axis`; of equal elements the one with the lower subscript comes first.",
)

# ------------------------------------------------------------------------------- topk


def _count(a: TopKAttrs, n: Dim) -> Dim:
    """How many elements are wanted of `n`: k, or all for a k below 1."""
    return simplify(select(lt(as_dim(a.k), 1), n, as_dim(a.k)))


def _topk_relation(rel: Relation, data: Type, a: TopKAttrs) -> Type:
    ty = tensor(rel, data, "data")
    axis = normalize_axis(rel, a.axis, ty.rank)
    require_choice(rel, "ret_type", a.ret_type, ("both", "values", "indices"))
    k, n = _count(a, ty.shape[axis]), known_int(ty.shape[axis])
    if n is not None and (known_int(k) or 0) > n:
        raise rel.fail(f"k is {k}, but dimension {axis} has {n} elements")
    rel.same(min_(k, ty.shape[axis]), k, f"k elements of dimension {axis}")
    shape = (*ty.shape[:axis], k, *ty.shape[axis + 1 :])
    values, indices = TensorType(shape, ty.dtype), TensorType(shape, _subscript_dtype(a))
    return TupleType((values, indices)) if a.ret_type == "both" else values if a.ret_type == "values" else indices


def _topk_reference(x: Array, a: TopKAttrs) -> Array | tuple[Array, Array]:
    k = as_int(_count(a, const(x.shape[a.axis])))
    order = np.take(_order(x, a.axis, a.is_ascend), np.arange(k), axis=a.axis)
    values, indices = np.take_along_axis(x, order, a.axis), order.astype(_subscript_dtype(a).numpy)
    return (values, indices) if a.ret_type == "both" else values if a.ret_type == "values" else indices


def _topk_compute(x: Tensor, a: TopKAttrs, out: Type) -> Tensor | tuple[Tensor, ...]:
    axis = a.axis % x.rank
    shape = [_count(a, n) if d == axis else n for d, n in enumerate(x.shape)]
    order = sorted_subscripts(x, axis, a.is_ascend, known_int(shape[axis]))
    if a.ret_type == "values":
        return _picked(x, order, axis, shape)
    indices = _cast_stage(order, _subscript_dtype(a), shape)
    return indices if a.ret_type == "indices" else (_picked(x, order, axis, shape), indices)


def _topk_gradient(b: Builder, call: Call, dy: Node) -> list[Node | None]:
    (x,), a = call.args, call.attrs
    if a.ret_type == "both" and _subscript_dtype(a).is_int:
        return [put_back(b, x, b.get(dy, 0), b.get(call, 1), a.axis)]
    if a.ret_type == "indices":
        return [None]
    places = b.topk(x, k=a.k, axis=a.axis, is_ascend=a.is_ascend, ret_type="indices")
    return [put_back(b, x, dy if a.ret_type == "values" else b.get(dy, 0), places, a.axis)]


topk = Op(
    name="topk",
    args=("data",),
    attrs=TopKAttrs,
    type_rel=_topk_relation,
    reference=_topk_reference,
    compute=_topk_compute,
    grad=_topk_gradient,
    fusion=Fusion.OPAQUE,
    samples=(
        Sample((_ROWS,), {"k": 3}, exact=True),
        Sample((_FLOATS,), {"k": 4, "ret_type": "values"}, exact=True),
        Sample((_ROWS,), {"k": 2, "is_ascend": True, "ret_type": "indices", "dtype": dt.int64}, exact=True),
        Sample((((3, 2), "float32"),), {"k": 0, "axis": 0}, exact=True),
        Sample((((3, 4), "float32"),), {"k": 2, "ret_type": "values"}, exact=True),
        Sample((((2, 4), "float32"),), {"k": 3, "is_ascend": True, "dtype": "float32"}, exact=True),
    ),
    doc="""The `k` largest (or with `is_ascend` smallest) elements along `axis`, sorted, and their subscripts.

Of equal elements the one with the lower subscript comes first; NaN is larger than everything.""",
)
