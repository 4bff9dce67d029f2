"""Writing at places that data gives: index_put, index_add, scatter and its reductions, masked_fill, masked_scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from legato.arith.expr import const
from legato.base.dtype import DType, bool_, int64, uint8
from legato.base.errors import UnsupportedError
from legato.frontend.torch.dtypes import to_torch
from legato.frontend.torch.emitter import Emitter, Number
from legato.frontend.torch.operators._places import adjacent, places
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

_REDUCTIONS = {
    "add": "add", "sum": "add", "mean": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min",
}  # fmt: skip
_OF_BOOLS = {"update": "update", "add": "max", "max": "max", "mul": "min", "min": "min"}


@aten("index_put", "_unsafe_index_put")
def index_put(b: Emitter, self: Expr, indices: tuple[Expr | None, ...], values: Expr, accumulate: bool = False) -> Expr:
    masks = [i for i in indices if i is not None]
    if not accumulate and len(masks) == 1 and b.dtype(masks[0]) == bool_ and _is_row(b, self, indices, values):
        return _put_masked(b, self, indices, masks[0], values)
    at = places(b, self, indices)
    axes = list(at)
    if not axes:
        all_of_it = b.broadcast(b.to(values, b.dtype(self)), b.dims_of(self))
        return b.add(self, all_of_it) if accumulate else all_of_it
    others = [n for n in range(b.rank(self)) if n not in at]
    order = [*axes, *others]
    first, subscripts = b.permuted(self, order), _broadcast(b, [at[n] for n in axes])
    new, rest = b.rank(subscripts[0]), [b.dims_of(self)[n] for n in others]
    before = axes[0] if adjacent(axes) else 0
    shape = [*rest[:before], *b.dims_of(subscripts[0]), *rest[before:]]
    whole = b.broadcast(b.to(values, b.dtype(self)), shape)
    given = b.permuted(whole, [*range(before, before + new), *range(before), *range(before + new, len(shape))])
    stacked = b.stack(*subscripts, axis=0) if len(axes) > 1 else b.expand_dims(subscripts[0], axis=0)
    written = _combined(b, "scatter_nd", first, stacked, given, "add" if accumulate else "update")
    return b.permuted(written, [order.index(n) for n in range(len(order))])


def _is_row(b: Emitter, x: Expr, indices: tuple[Expr | None, ...], values: Expr) -> bool:
    """Whether the same values go to all places that a mask names."""
    axis = next(n for n, i in enumerate(indices) if i is not None)
    mask = indices[axis]
    assert mask is not None
    return b.rank(values) <= b.rank(x) - axis - b.rank(mask) and b.rank(mask) > 0


def _put_masked(b: Emitter, x: Expr, indices: tuple[Expr | None, ...], mask: Expr, values: Expr) -> Expr:
    axis = next(n for n, i in enumerate(indices) if i is not None)
    for n, d in enumerate(b.dims_of(mask)):
        b.require(d, b.dims_of(x)[axis + n], f"dim {n} of a mask")
    behind = b.rank(x) - axis - b.rank(mask)
    kept = b.in_shape(mask, b.dims_of(mask) + (const(1),) * behind)
    return b.broadcast(b.where(kept, b.to(values, b.dtype(x)), x), b.dims_of(x))


def _broadcast(b: Emitter, parts: list[Expr]) -> list[Expr]:
    """Subscripts (int64) of one shape."""
    wide = [b.to(p, int64) for p in parts]
    if len(wide) == 1 or len({b.dims_of(p) for p in wide}) == 1:
        return wide
    whole = wide[0]
    for part in wide[1:]:
        whole = b.add(whole, b.zeros_like(part))
    return [b.add(part, b.zeros_like(whole)) for part in wide]


def _combined(b: Emitter, name: str, x: Expr, at: Expr, updates: Expr, reduction: str, **attrs: Any) -> Expr:
    """A scatter; truth values are combined as the numbers 0 and 1."""
    attrs |= {"mode" if name == "scatter_nd" else "reduction": reduction}
    if b.dtype(x) != bool_ or reduction == "update":
        return b.call(name, x, at, updates, **attrs)
    attrs |= {"mode" if name == "scatter_nd" else "reduction": _OF_BOOLS[reduction]}
    return b.to(b.call(name, b.to(x, uint8), at, b.to(updates, uint8), **attrs), bool_)


# ------------------------------------------------------------------ along one axis


@aten("index_add")
def index_add(b: Emitter, self: Expr, dim: int, index: Expr, source: Expr, *, alpha: Number = 1) -> Expr:
    if alpha != 1:
        factor = b.operand(alpha, b.dtype(source))
        source = b.logical_and(source, factor) if b.dtype(source) == bool_ else b.multiply(source, factor)
    return _along(b, self, dim, index, source, "add")


@aten("index_copy")
def index_copy(b: Emitter, self: Expr, dim: int, index: Expr, source: Expr) -> Expr:
    return _along(b, self, dim, index, source, "update")


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(b: Emitter, self: Expr, dim: int, index: Expr, value: Expr | Number) -> Expr:
    axis = b.axis_of(dim, b.rank(self))
    count = b.dims_of(b.vector(index))[0]
    shape = [count if n == axis else d for n, d in enumerate(b.dims_of(b.vector(self)))]
    source = b.broadcast(b.operand(value, b.dtype(self)), shape)
    return _along(b, self, dim, index, source, "update")


@aten("index_reduce")
def index_reduce(
    b: Emitter, self: Expr, dim: int, index: Expr, source: Expr, reduce: str, *, include_self: bool = True
) -> Expr:
    x, at, given, axis = _spread(b, self, dim, index, source)
    return b.in_shape(_reduced(b, x, at, given, axis, reduce, include_self), b.dims_of(self))


def _along(b: Emitter, x: Expr, dim: int, index: Expr, source: Expr, reduction: str) -> Expr:
    """`x` with whole parts of an axis written at subscripts."""
    return _put(b, x, _spread(b, x, dim, index, source), reduction)


def _spread(b: Emitter, x: Expr, dim: int, index: Expr, source: Expr) -> tuple[Expr, Expr, Expr, int]:
    """What a scatter of elements takes for one of whole parts: data, subscripts, updates, and the axis."""
    axis, whole, given = b.axis_of(dim, b.rank(x)), b.vector(x), b.to(source, b.dtype(x))
    given = given if b.rank(given) else b.in_shape(given, (const(1),) * b.rank(whole))
    dims = b.dims_of(given)
    column = [dims[n] if n == axis else const(1) for n in range(len(dims))]
    return whole, b.broadcast(b.in_shape(b.vector(index), column), dims), given, axis


# ------------------------------------------------------------------ element by element


@aten("scatter.src")
def scatter(b: Emitter, self: Expr, dim: int, index: Expr, src: Expr) -> Expr:
    return _scattered(b, self, dim, index, src, "update")


@aten("scatter.value")
def scatter_value(b: Emitter, self: Expr, dim: int, index: Expr, value: Number) -> Expr:
    return _scattered(b, self, dim, index, _everywhere(b, self, index, value), "update")


@aten("scatter.reduce")
def scatter_of(b: Emitter, self: Expr, dim: int, index: Expr, src: Expr, *, reduce: str) -> Expr:
    return _scattered(b, self, dim, index, src, _reduction(reduce))


@aten("scatter.value_reduce")
def scatter_value_of(b: Emitter, self: Expr, dim: int, index: Expr, value: Number, *, reduce: str) -> Expr:
    return _scattered(b, self, dim, index, _everywhere(b, self, index, value), _reduction(reduce))


def _everywhere(b: Emitter, x: Expr, index: Expr, value: Number) -> Expr:
    return b.broadcast(b.operand(value, b.dtype(x)), b.dims_of(index))


def _reduction(name: str) -> str:
    if name not in _REDUCTIONS:
        raise UnsupportedError(f"the reduction {name!r}", hint=f"one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


@aten("scatter_add")
def scatter_add(b: Emitter, self: Expr, dim: int, index: Expr, src: Expr) -> Expr:
    return _scattered(b, self, dim, index, src, "add")


@aten("scatter_reduce.two")
def scatter_reduce(
    b: Emitter, self: Expr, dim: int, index: Expr, src: Expr, reduce: str, *, include_self: bool = True
) -> Expr:
    x, at, given, axis = _elements(b, self, dim, index, src)
    return b.in_shape(_reduced(b, x, at, given, axis, reduce, include_self), b.dims_of(self))


def _scattered(b: Emitter, x: Expr, dim: int, index: Expr, src: Expr, reduction: str) -> Expr:
    return _put(b, x, _elements(b, x, dim, index, src), reduction)


def _put(b: Emitter, x: Expr, parts: tuple[Expr, Expr, Expr, int], reduction: str) -> Expr:
    """`x` with elements written: `parts` are data, subscripts, updates, and the axis."""
    whole, at, given, axis = parts
    return b.in_shape(_combined(b, "scatter_elements", whole, at, given, reduction, axis=axis), b.dims_of(x))


def _elements(b: Emitter, x: Expr, dim: int, index: Expr, src: Expr) -> tuple[Expr, Expr, Expr, int]:
    """Data, subscripts, as much of the source as there are subscripts, and the axis."""
    whole, at, given = b.vector(x), b.vector(index), b.vector(src)
    dims, axis = b.dims_of(at), b.axis_of(dim, b.rank(x))
    if b.rank(at) != b.rank(whole):  # only where there are no subscripts
        dims = (const(0),) * b.rank(whole)
        return whole, b.zeros_of(dims, int64), b.zeros_of(dims, b.dtype(whole)), axis
    if b.dims_of(given) != dims:
        count = len(dims)
        given = b.strided_slice(given, begin=(0,) * count, end=dims, strides=(1,) * count, axes=tuple(range(count)))
    return whole, at, b.to(given, b.dtype(whole)), axis


def _reduced(b: Emitter, x: Expr, at: Expr, given: Expr, axis: int, reduce: str, include_self: bool) -> Expr:
    """A scatter that sums, multiplies, averages or takes the extreme; unless `include_self`, without what was there."""
    dtype, reduction = b.dtype(x), _reduction(reduce)
    wide, updates = (b.wide(v) if reduction in ("add", "mul") else v for v in (x, given))
    start = wide
    if not include_self:
        identity = b.broadcast(b.constant(_identity(b.dtype(wide), reduction)), b.dims_of(updates))
        start = b.scatter_elements(wide, at, identity, axis=axis)
    found = _combined(b, "scatter_elements", start, at, updates, reduction, axis=axis)
    if reduce == "mean":
        found = _mean(b, found, at, axis, include_self)
    return b.to(found, dtype)


def _mean(b: Emitter, sums: Expr, at: Expr, axis: int, include_self: bool) -> Expr:
    one = b.number(1, int64)
    counts = b.broadcast(one if include_self else b.index(0), b.dims_of(sums))
    counts = b.scatter_elements(counts, at, b.broadcast(one, b.dims_of(at)), axis=axis, reduction="add")
    counts = b.maximum(counts, one)
    dtype = b.dtype(sums)
    if dtype.is_float:
        return b.divide(sums, b.to(counts, dtype))
    return b.to(b.floor_divide(b.to(sums, int64), counts), dtype)


def _identity(dtype: DType, reduction: str) -> Any:
    """What a reduction leaves as it is."""
    kind = dtype.numpy
    if reduction in ("add", "mul") or dtype == bool_:
        return np.array(int(reduction in ("mul", "min"))).astype(kind)
    if dtype.is_float:
        return np.array(np.inf if reduction == "min" else -np.inf).astype(kind)
    limits = torch.iinfo(to_torch(dtype))
    return np.array(limits.max if reduction == "min" else limits.min, kind)


@aten("put")
def put(b: Emitter, self: Expr, index: Expr, source: Expr, accumulate: bool = False) -> Expr:
    at = b.expand_dims(b.flat(index), axis=0)
    reduction = "add" if accumulate else "update"
    found = _combined(b, "scatter_nd", b.flat(self), at, b.flat(b.to(source, b.dtype(self))), reduction)
    return b.in_shape(found, b.dims_of(self))


# ------------------------------------------------------------------ masks


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(b: Emitter, self: Expr, mask: Expr, value: Expr | Number) -> Expr:
    return b.where(b.to(mask, bool_), b.operand(value, b.dtype(self)), self)


@aten("masked_scatter")
def masked_scatter(b: Emitter, self: Expr, mask: Expr, source: Expr) -> Expr:
    """The elements of `source` in order where the mask holds; it has as many, or more."""
    shape = b.dims_of(b.logical_or(mask, b.zeros_of(b.dims_of(self), bool_)))
    kept = b.broadcast(mask, shape)
    which = b.subtract(b.cumsum(b.to(b.flat(kept), int64), axis=0), b.index(1))
    found = b.take(b.flat(b.to(source, b.dtype(self))), which, axis=0)
    return b.where(kept, b.in_shape(found, shape), self)
