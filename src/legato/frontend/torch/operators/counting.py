"""What differs, and how often it is there: unique, unique_consecutive, bincount, histc."""

from __future__ import annotations

from legato.arith.expr import const
from legato.base.dtype import float32, float64, int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Float, Number, Size
from legato.frontend.torch.signature import aten
from legato.frontend.torch.symbols import number
from legato.ir.expr import Expr
from legato.ops._distinct import distinct, positions, rows_at

_COLUMNS = 64  # elements that parts are compared by, a sort for each


@aten("_unique2")
def unique2(
    b: Emitter, self: Expr, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Expr, Expr, Expr]:
    """The elements are always in order, whether `sorted` asks for that or not."""
    found = b.let("unique", b.unique(b.flat(self), sorted=True, return_counts=True))
    values, _, which, _, counts = (b.get(found, n) for n in range(5))
    inverse = b.in_shape(b.to(which, int64), b.dims_of(self)) if return_inverse else _nothing(b)
    return values, inverse, b.to(counts, int64) if return_counts else _nothing(b)


@aten("_unique")
def unique(b: Emitter, self: Expr, sorted: bool = True, return_inverse: bool = False) -> tuple[Expr, Expr]:
    values, inverse, _ = unique2(b, self, sorted, return_inverse)
    return values, inverse


def _nothing(b: Emitter) -> Expr:
    """What PyTorch gives for a result that was not asked for."""
    return b.zeros_of((const(0),), int64)


@aten("unique_dim")
def unique_dim(
    b: Emitter,
    self: Expr,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Expr, Expr, Expr]:
    """The different parts along an axis, in order; the other results are there unasked."""
    axis = b.axis_of(dim, b.rank(self))
    rows = _rows(b, self, axis)
    count = b.known(b.dims_of(rows)[1], "the number of elements of a part")
    if count > _COLUMNS:
        raise UnsupportedError(f"parts of {count} elements, at most {_COLUMNS} are compared")
    order = b.steps(0, b.dims_of(rows)[0])
    for column in reversed(range(count)):  # by the last element first: each sort keeps the order of the one before
        keys = rows_at(b, b.take(rows, b.index(column), axis=1), order)
        order = rows_at(b, order, b.argsort(keys, axis=0, dtype=int64))
    first, which, counts = distinct(b, rows, order, True)
    return b.take(self, first, axis=axis), which, counts


@aten("unique_consecutive")
def unique_consecutive(
    b: Emitter, self: Expr, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Expr, Expr, Expr]:
    """The first of each run of equal elements; or of equal parts along an axis, with all results unasked."""
    if dim is not None and b.traced is not None and b.traced[0].dim() != max(b.rank(self), 1):
        raise UnsupportedError(
            f"dim={dim}, for which PyTorch's trace has a wrong shape", hint="count it from the front"
        )
    axis = 0 if dim is None else b.axis_of(dim, b.rank(self))
    x = b.flat(self) if dim is None else b.vector(self)
    rows = _rows(b, x, axis)
    extent, place = b.dims_of(rows)[0], b.steps(0, b.dims_of(rows)[0])
    before = b.take(rows, b.maximum(b.subtract(place, b.index(1)), b.index(0)), axis=0)
    is_new = b.logical_or(b.equal(place, b.index(0)), b.any(b.not_equal(rows, before), axis=(1,)))
    first = positions(b, is_new)
    which = b.subtract(b.cumsum(b.to(is_new, int64), axis=0), b.index(1))
    inverse = which if dim is not None else b.in_shape(which, b.dims_of(self))
    ends = b.concatenate(first, b.in_shape(b.extent(extent, int64), (const(1),)), axis=0)
    end = number(b.dims_of(first)[0] + 1)
    last = b.strided_slice(ends, begin=(1,), end=(end,), strides=(1,), axes=(0,))
    counts = b.subtract(last, first) if return_counts or dim is not None else _nothing(b)
    inverse = inverse if return_inverse or dim is not None else _nothing(b)
    return b.take(x, first, axis=axis), inverse, counts


def _rows(b: Emitter, x: Expr, axis: int) -> Expr:
    """The parts along an axis as rows of a matrix."""
    order = [axis, *(n for n in range(b.rank(x)) if n != axis)]
    extent, *rest = (b.dims_of(x)[n] for n in order)
    return b.in_shape(b.permuted(x, order), (extent, b.product(rest)))


# ------------------------------------------------------------------ counts


@aten("bincount")
def bincount(b: Emitter, self: Expr, weights: Expr | None = None, minlength: Size = 0) -> Expr:
    """How many elements are 0, 1, …; or the sums of their weights."""
    x = b.to(self, int64)
    least = b.operand(minlength, int64)
    most = b.max(b.concatenate(x, b.in_shape(b.index(-1), (const(1),)), axis=0), axis=(0,))
    count = b.computed_dim(b.maximum(b.add(most, b.index(1)), least), "bins")
    if weights is None:
        given: Expr = b.broadcast(b.index(1), b.dims_of(x))
    else:
        given = weights if b.dtype(weights) == float32 else b.to(weights, float64)
    return b.scatter_elements(b.zeros_of((count,), b.dtype(given)), x, given, axis=0, reduction="add")


@aten("histc")
def histc(b: Emitter, self: Expr, bins: int = 100, min: Number = 0, max: Number = 0) -> Expr:
    """How many elements lie in each of `bins` equal parts of [min, max], or of the range of the elements."""
    dtype, x = b.dtype(self), b.wide(b.flat(self))
    if isinstance(min, Float) or isinstance(max, Float):
        raise UnsupportedError("bounds that are not known", hint="make them static")
    if not dtype.is_float:
        raise UnsupportedError(f"a histogram of {dtype}", hint="give floats")
    first, last = (b.operand(v, b.dtype(x)) for v in (min, max))
    if min == max and number(b.dims_of(x)[0]) != 0:
        low, high = b.min(x, axis=(0,)), b.max(x, axis=(0,))
        one, is_flat = b.number(1, b.dtype(x)), b.equal(low, high)
        first, last = b.where(is_flat, b.subtract(low, one), low), b.where(is_flat, b.add(high, one), high)
    offset = b.multiply(b.subtract(x, first), b.number(bins, b.dtype(x)))
    at = b.to(b.divide(offset, b.subtract(last, first)), int64)
    at = b.minimum(at, b.index(bins - 1))
    inside = b.logical_and(b.greater_equal(x, first), b.less_equal(x, last))
    at = b.where(inside, at, b.index(bins))  # no part
    ones = b.broadcast(b.number(1, b.dtype(x)), b.dims_of(x))
    counts = b.scatter_elements(b.zeros_of((const(bins),), b.dtype(x)), at, ones, axis=0, reduction="add")
    return b.to(counts, dtype)
