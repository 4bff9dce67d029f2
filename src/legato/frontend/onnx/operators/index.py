"""Reading and writing at places that data gives; sorting and scanning."""

from __future__ import annotations

from legato.arith.expr import Const, const, expr, ge
from legato.arith.prove import prove
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.axes import over_axes
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim, TensorType

_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def gather(b: Emitter, data: Expr, indices: Expr, *, axis: int = 0) -> Expr:
    return b.take(data, indices, axis=b.axis(axis, b.rank(data)), mode="fast")


def gather_elements(b: Emitter, data: Expr, indices: Expr, *, axis: int = 0) -> Expr:
    return b.gather(data, indices, axis=b.axis(axis, b.rank(data)))


def gather_nd(b: Emitter, data: Expr, indices: Expr, *, batch_dims: int = 0) -> Expr:
    return b.gather_nd(data, _subscripts_first(b, indices), batch_dims=batch_dims)


def _subscripts_first(b: Emitter, indices: Expr) -> Expr:
    """Relay has the subscripts of an element along the first dim, ONNX along the last."""
    rank = b.rank(indices)
    if rank == 0:
        raise ImportModelError("indices have rank 0")
    b.known(b.dims_of(indices)[-1], "the number of subscripts, on which the rank of the result depends,")
    return indices if rank == 1 else b.transpose(indices, axes=(rank - 1, *range(rank - 1)))


def scatter(b: Emitter, data: Expr, indices: Expr, updates: Expr, *, axis: int = 0) -> Expr:
    return scatter_elements(b, data, indices, updates, axis=axis)


def scatter_elements(
    b: Emitter, data: Expr, indices: Expr, updates: Expr, *, axis: int = 0, reduction: str = "none"
) -> Expr:
    return b.scatter_elements(data, indices, updates, axis=b.axis(axis, b.rank(data)), reduction=_reduction(reduction))


def scatter_nd(b: Emitter, data: Expr, indices: Expr, updates: Expr, *, reduction: str = "none") -> Expr:
    return b.scatter_nd(data, _subscripts_first(b, indices), updates, mode=_reduction(reduction))


def _reduction(name: str) -> str:
    if name not in _REDUCTIONS:
        raise ImportModelError(f"reduction is {name!r}, wanted one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


def one_hot(b: Emitter, indices: Expr, depth: Expr, values: Expr, *, axis: int = -1) -> Expr:
    """`values` is (off, on); an index below 0 counts from the end."""
    extent = b.dim(depth, "the depth")
    places = indices if b.dtype(indices).is_int and b.dtype(indices).is_signed else b.to(indices, dt.int64)
    zero = b.like(0, places)
    wrapped = b.where(b.less(places, zero), b.add(places, b.extent(extent, b.dtype(places))), places)
    if b.dtype(values).is_string:
        one, zero = b.constant(1, dt.int64), b.constant(0, dt.int64)
        which = b.one_hot(wrapped, one, zero, depth=extent, axis=b.axis(axis, b.rank(indices) + 1), dtype=dt.int64)
        return b.take(values, which, axis=0)
    off, on = (b.take(values, b.constant(n, "int64"), axis=0) for n in (0, 1))
    return b.one_hot(wrapped, on, off, depth=extent, axis=b.axis(axis, b.rank(indices) + 1), dtype=b.dtype(values))


def top_k(b: Emitter, x: Expr, *, axis: int = -1, k: int) -> Expr:
    return _top_k(b, x, k, axis, True)


def top_k_10(b: Emitter, x: Expr, k: Expr, *, axis: int = -1, largest: bool = True, sorted: bool = True) -> Expr:
    """The elements are always in order: `sorted` asks for no less."""
    found = b.dim(k, "k")
    return _top_k(b, x, int(found.value) if isinstance(found, Const) else found, axis, largest)


def _top_k(b: Emitter, x: Expr, k: int | Dim, axis: int, largest: bool) -> Expr:
    along = b.axis(axis, b.rank(x))
    if isinstance(k, int) and k < 0:
        raise ImportModelError(f"k is {k}, wanted a number of elements")
    none = not prove(ge(expr(k), 1))  # it may be: Relay's topk takes all then
    made = b.topk(x, k=0 if none else k, axis=along, ret_type="both", is_ascend=not largest, dtype="int64")
    if not none:
        return made
    shape = tuple(expr(k) if n == along else d for n, d in enumerate(b.dims_of(x)))
    parts = [b.strided_slice(b.get(made, n), begin=(0,), end=(k,), strides=(1,), axes=(along,)) for n in range(2)]
    return b.tuple_([b.match_cast(part, TensorType(shape, b.dtype(part))) for part in parts])  # no more than there are


def cum_sum(b: Emitter, x: Expr, axis: Expr, *, exclusive: bool = False, reverse: bool = False) -> Expr:
    return _scan(b, x, axis, "cumsum", exclusive, reverse)


def cum_prod(b: Emitter, x: Expr, axis: Expr, *, exclusive: bool = False, reverse: bool = False) -> Expr:
    return _scan(b, x, axis, "cumprod", exclusive, reverse)


def _scan(b: Emitter, x: Expr, axis: Expr, name: str, exclusive: bool, reverse: bool) -> Expr:
    def scanned(x: Expr, axes: tuple[int, ...]) -> Expr:
        if len(axes) != 1:
            raise ImportModelError(f"the axis has {len(axes)} elements, wanted one")
        along = b.axis(axes[0], b.rank(x))
        y = b.reverse(x, axis=along) if reverse else x
        y = b.call(name, y, axis=along, exclusive=exclusive)
        return b.reverse(y, axis=along) if reverse else y

    return over_axes(b, x, axis, scanned)


def reverse_sequence(b: Emitter, x: Expr, lengths: Expr, *, batch_axis: int = 1, time_axis: int = 0) -> Expr:
    """The first elements of each row in reverse, as many as its length says; the others stay."""
    if b.rank(x) < 2 or sorted((batch_axis, time_axis)) != [0, 1]:
        raise ImportModelError(f"batch_axis {batch_axis} and time_axis {time_axis} of an input of rank {b.rank(x)}, "
                               "wanted 0 and 1, or 1 and 0, of rank 2 or more")  # fmt: skip
    own = b.counted(lengths, b.dims_of(x)[batch_axis], "lengths")
    return b.reverse_sequence(x, own, seq_axis=time_axis, batch_axis=batch_axis)


def tensor_scatter(
    b: Emitter, cache: Expr, update: Expr, write_indices: Expr | None = None, *, axis: int = -2, mode: str = "linear"
) -> Expr:
    """`cache` with `update` written along an axis, of each row from a position of its own on; "circular" goes on at the
    start, else what is behind the end is dropped."""
    if mode not in ("linear", "circular"):
        raise ImportModelError(f"mode is {mode!r}, wanted linear or circular")
    along, rank = b.axis(axis, b.rank(cache)), b.rank(cache)
    if along == 0 or b.rank(update) != rank:
        raise ImportModelError(f"an update {update.ty} of a cache {cache.ty} along axis {along}, wanted one of its "
                               "rank, and an axis behind the batch")  # fmt: skip
    dims = b.dims_of(cache)
    extent, count = dims[along], b.dims_of(update)[along]
    for n, (own, other) in enumerate(zip(dims, b.dims_of(update), strict=True)):
        if n != along:
            b.require(other, own, f"dim {n} of an update")
    place = b.expand_dims(b.arange(start=const(0), stop=extent, step=1, dtype=dt.int64), axis=0)
    if write_indices is not None:
        first = b.to(b.counted(write_indices, dims[0], "positions"), dt.int64)
        place = b.subtract(place, b.expand_dims(first, axis=1))
    if mode == "circular":
        b.require_least(extent, count, "the extent of a circular cache")
        place = b.floor_mod(place, b.extent(extent, dt.int64))
    place = b.broadcast(place, (dims[0], extent))
    inside = b.logical_and(b.greater_equal(place, b.constant(0, dt.int64)), b.less(place, b.extent(count, dt.int64)))
    shape = [d if n in (0, along) else const(1) for n, d in enumerate(dims)]
    found = b.take(update, place, axis=along, batch_dims=1)
    return b.where(b.reshape(inside, newshape=tuple(shape), allowzero=True), found, cache)
