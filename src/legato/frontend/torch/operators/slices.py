"""Parts of tensors by position: select, slice, split, unbind, diagonal, unfold; tensors with such a part replaced."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from legato.arith.expr import Const, cdiv, const, ge, lt, max_, min_, select
from legato.arith.prove import prove, prove_equal
from legato.arith.simplify import simplify
from legato.base.dtype import int64
from legato.base.errors import ImportModelError
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.signature import aten
from legato.frontend.torch.symbols import number
from legato.ir.expr import Expr
from legato.ir.types import Dim

_END = 2**63 - 1  # as PyTorch writes it


@aten("select.int", "select_copy.int")
def select_int(b: Emitter, self: Expr, dim: int, index: Size) -> Expr:
    axis = b.axis_of(dim, b.rank(self))
    at = _position(b, index, b.dims_of(self)[axis])
    one = b.strided_slice(self, begin=(at,), end=(1,), strides=(1,), axes=(axis,), slice_mode="size")
    return b.squeeze(one, axis=(axis,))


def _position(b: Emitter, index: Size, extent: Dim) -> int | Dim:
    """A place along an extent, which below 0 counts from the end. Whether a symbolic one is there, calls check."""
    if isinstance(index, int):
        if index < 0 and isinstance(extent, Const):
            return index + int(extent.value)
        return index
    found = index if prove(ge(index, 0)) else simplify(select(lt(index, 0), index + extent, index))
    b.require_least(found, const(0), f"the place {index}")
    return found


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_tensor(
    b: Emitter, self: Expr, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1
) -> Expr:
    axis = b.axis_of(dim, b.rank(self))
    return _cut(b, self, axis, 0 if start is None else start, _END if end is None else end, b.literal(step, "a step"))


def _cut(b: Emitter, x: Expr, axis: int, start: Size, end: Size, step: int = 1) -> Expr:
    """The elements from `start` up to `end` of an axis; `x` itself where these are all."""
    extent = number(b.dims_of(x)[axis])
    is_whole = end == _END or end is extent or (isinstance(end, int) and isinstance(extent, int) and end >= extent)
    if isinstance(start, int) and start == 0 and step == 1 and is_whole:
        return x
    return b.strided_slice(x, begin=(start,), end=(end,), strides=(step,), axes=(axis,))


@aten("narrow_copy")
def narrow(b: Emitter, self: Expr, dim: int, start: Size, length: Size) -> Expr:
    axis = b.axis_of(dim, b.rank(self))
    at = _position(b, start, b.dims_of(self)[axis])
    part = b.strided_slice(self, begin=(at,), end=(length,), strides=(1,), axes=(axis,), slice_mode="size")
    b.require(b.dims_of(part)[axis], b.size(length), "the length of a part")
    return part


# ------------------------------------------------------------------ parts


@aten("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split(b: Emitter, self: Expr, split_size: Size, dim: int = 0) -> tuple[Expr, ...]:
    """Parts of one size, the last of which has what is left; their number is that of the trace."""
    axis = b.axis_of(dim, b.rank(self))
    extent, size = b.dims_of(self)[axis], b.size(split_size)
    count = (
        len(b.traced) if isinstance(b.traced, list | tuple) else b.known(_count(extent, size), "the number of parts")
    )
    last = simplify(extent - size * (count - 1))
    b.require_least(last, const(int(count > 1)), "the last part")
    b.require_least(simplify(size - last), const(0), f"what the last of {count} parts leaves of its size")
    return _parts(b, self, axis, (*[size] * (count - 1), last))


def _count(extent: Dim, size: Dim) -> Dim:
    return simplify(max_(cdiv(extent, max_(size, const(1))), const(1)))


@aten("split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
def split_with_sizes(b: Emitter, self: Expr, split_sizes: tuple[Size, ...], dim: int = 0) -> tuple[Expr, ...]:
    return _parts(b, self, b.axis_of(dim, b.rank(self)), b.sizes_of(split_sizes))


def _parts(b: Emitter, x: Expr, axis: int, sizes: Sequence[Dim]) -> tuple[Expr, ...]:
    """Parts of the given sizes, which must add up to the extent."""
    ends = [simplify(d) for d in accumulate(sizes)]
    b.require(b.dims_of(x)[axis], ends[-1], "the sum of the sizes of parts")
    if len(ends) == 1:
        return (x,)
    cuts = tuple(number(d) for d in ends[:-1])
    whole = b.split(x, indices_or_sections=cuts, axis=axis)
    return tuple(b.get(whole, n) for n in range(len(ends)))


@aten("unbind.int", "unbind_copy.int")
def unbind(b: Emitter, self: Expr, dim: int = 0) -> tuple[Expr, ...]:
    axis = b.axis_of(dim, b.rank(self))
    traced = b.traced
    count = len(traced) if isinstance(traced, list | tuple) else b.known(b.dims_of(self)[axis], "the number of parts")
    parts = _parts(b, self, axis, [const(1)] * count) if count else ()
    return tuple(b.squeeze(p, axis=(axis,)) for p in parts)


# ------------------------------------------------------------------ diagonals and windows


@aten("diagonal", "diagonal_copy")
def diagonal(b: Emitter, self: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    order = _matrices(b, self, dim1, dim2)
    x = b.permuted(self, order)
    *outer, rows, columns = b.dims_of(x)
    x = b.in_shape(x, (*outer, rows * columns))
    count = _diagonal_length(rows, columns, offset)
    first = const(offset) if offset >= 0 else const(-offset) * columns
    at = b.add(b.multiply(b.steps(0, count), b.extent(columns + 1, int64)), b.extent(simplify(first), int64))
    return b.take(x, at, axis=len(outer))


def _diagonal_length(rows: Dim, columns: Dim, offset: int) -> Dim:
    down, right = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    return simplify(max_(min_(down, right), const(0)))


def _matrices(b: Emitter, x: Expr, dim1: int, dim2: int) -> list[int]:
    """The order of axes that puts two of them last."""
    rank = b.rank(x)
    first, second = b.axis(dim1, rank), b.axis(dim2, rank)
    if first == second:
        raise ImportModelError(f"a diagonal of one axis, {dim1}")
    return [*(n for n in range(rank) if n not in (first, second)), first, second]


def _undone(order: Sequence[int]) -> list[int]:
    return [order.index(n) for n in range(len(order))]


@aten("diagonal_scatter")
def diagonal_scatter(b: Emitter, self: Expr, src: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    order = _matrices(b, self, dim1, dim2)
    x, values = b.permuted(self, order), b.to(src, b.dtype(self))
    rows, columns = b.dims_of(x)[-2:]
    if prove_equal(_diagonal_length(rows, columns, offset), const(0)):
        return self
    row, column = b.expand_dims(b.steps(0, rows), axis=1), b.steps(0, columns)
    is_there = b.equal(b.add(row, b.index(offset)), column)
    spread = b.take(values, b.steps(0, rows) if offset >= 0 else b.steps(0, columns), axis=b.rank(src) - 1)
    spread = b.expand_dims(spread, axis=b.rank(src) - (0 if offset >= 0 else 1))
    return b.permuted(b.where(is_there, spread, x), _undone(order))


@aten("unfold", "unfold_copy")
def unfold(b: Emitter, self: Expr, dimension: int, size: int, step: int) -> Expr:
    """Windows along an axis, their elements along a new last one."""
    rank, x = b.rank(self), b.vector(self)
    axis = b.axis_of(dimension, rank)
    count = simplify((b.dims_of(x)[axis] - size) // step + 1)
    first = b.expand_dims(b.multiply(b.steps(0, count), b.index(step)), axis=1)
    found = b.take(x, b.add(first, b.steps(0, size)), axis=axis)
    if not rank:
        return b.in_shape(found, (const(size),))
    others = [n for n in range(rank + 1) if n != axis + 1]
    return b.permuted(found, [*others, axis + 1])


# ------------------------------------------------------------------ parts replaced


@aten("select_scatter")
def select_scatter(b: Emitter, self: Expr, src: Expr, dim: int, index: Size) -> Expr:
    axis = b.axis_of(dim, b.rank(self))
    extent = b.dims_of(self)[axis]
    at = b.size(_position(b, index, extent))
    if isinstance(at, Const) and at.value < 0:
        at = simplify(extent + at)
    return _replaced(b, self, b.expand_dims(src, axis=axis), axis, at, simplify(at + 1), 1)


@aten("slice_scatter")
def slice_scatter(
    b: Emitter,
    self: Expr,
    src: Expr,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Expr:
    axis = b.axis_of(dim, b.rank(self))
    extent = b.dims_of(self)[axis]
    first, last = (_bound(d, extent) for d in (0 if start is None else start, _END if end is None else end))
    return _replaced(b, self, src, axis, first, last, b.literal(step, "a step"))


def _bound(at: Size, extent: Dim) -> Dim:
    """Where a slice begins or ends: counted from the end below 0, and clamped."""
    if isinstance(at, int) and at >= _END:
        return extent
    d = const(at) if isinstance(at, int) else at
    counted = d if prove(ge(d, 0)) else select(lt(d, 0), d + extent, d)
    return simplify(min_(max_(counted, const(0)), extent))


def _replaced(b: Emitter, x: Expr, src: Expr, axis: int, first: Dim, last: Dim, step: int) -> Expr:
    """`x` with every `step`-th place of an axis, from `first` up to `last`, taken from `src`."""
    shape, values = b.dims_of(x), b.to(src, b.dtype(x))
    length = simplify(max_(cdiv(last - first, step), const(0)))
    if prove_equal(length, const(0)):
        return x
    values = b.broadcast(values, tuple(length if n == axis else d for n, d in enumerate(shape)))
    if prove_equal(length, shape[axis]):
        return b.broadcast(values, shape)
    if step == 1 and all(isinstance(d, Const) for d in (first, last, shape[axis])):
        parts = [_cut(b, x, axis, 0, number(first)), values, _cut(b, x, axis, number(last), _END)]
        return b.concatenate(*(p for p in parts if number(b.dims_of(p)[axis]) != 0), axis=axis)
    offset = b.subtract(b.steps(0, shape[axis]), b.extent(first, int64))
    inside = b.logical_and(b.greater_equal(offset, b.index(0)), b.less(offset, b.extent(simplify(last - first), int64)))
    if step != 1:
        inside = b.logical_and(inside, b.equal(b.floor_mod(offset, b.index(step)), b.index(0)))
    found = b.take(values, b.floor_divide(offset, b.index(step)), axis=axis)
    column = tuple(d if n == axis else const(1) for n, d in enumerate(shape))
    return b.where(b.in_shape(inside, column), found, x)
