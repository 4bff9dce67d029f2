"""Numbers of shapes that only the data decides, as dims: what ONNX means by them, by the arithmetic that all share."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Binary, Const, Op, const, eq, ge, land, lor, select
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.ratio import reduced
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._computed import counted, new_shape, range_count, signed, slice_bounds, slice_places, stacked
from legato.ops._rules import sides_of_least

__all__ = ["bounds_of_slice", "copied_for_zeros", "places_of_slice", "range_of", "reshaped_dims", "signed_dims"]


def _int(b: Emitter, value: int) -> Expr:
    return b.constant(value, dt.int64)


def signed_dims(b: Emitter, x: Expr, what: str) -> tuple[Dim, ...]:
    """The elements of an integer tensor, which may be below 0, as `Emitter.dims` has them."""
    known = b.known_dims(x)
    if known is not None:
        return known
    above, below = (b.dims(part, what) for part in signed(b, x))
    return tuple(simplify(p - q) for p, q in zip(above, below, strict=True))


def reshaped_dims(b: Emitter, x: Expr, shape: Expr, allowzero: bool) -> tuple[Dim, ...]:
    """The extents that `shape`, which only the data decides, says `x` is to have."""
    if b.rank(shape) != 1 or not isinstance(b.dims_of(shape)[0], Const):
        hint = b.way_out(b.product(b.dims_of(shape)), 1)
        raise UnsupportedError(f"the new shape is {shape.ty}: its rank must be known", hint=hint)
    own = stacked(b, [b.extent(d, dt.int64) for d in b.dims_of(x)])
    return b.dims(new_shape(b, own, shape, allowzero), "extents of the new shape")


def copied_for_zeros(b: Emitter, x: Expr, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The new shape of `x`: where an extent of `shape`, a formula, is 0 in a call, that of `x` at its place is meant.

    Most often that one is 0, too. Where an extent of 0 leaves no element of `x` it stays what it is, so that formulas
    are short: calls in which the other would do as well are refused.
    """
    dims, found = b.dims_of(x), list(shape)
    kept: list[int] = []
    for n, (own, d) in enumerate(zip(dims, shape, strict=False)):
        if isinstance(d, Const) or prove(ge(d, 1)) or _is_multiple(own, d):
            continue
        if _is_multiple(b.product(dims), d):
            kept.append(n)
        else:
            found[n] = simplify(select(eq(d, 0), own, d))
    copied = [select(eq(d, 0), dims[n], d) if n in kept else d for n, d in enumerate(found)]
    for n in kept:
        own, others = dims[n], _is_empty([d for m, d in enumerate(copied) if m != n])
        sides: tuple[Dim, Dim] = (simplify(select(land(eq(found[n], 0), others), own, const(0))), const(0))
        if isinstance(others, Const) and others.value and isinstance(own, Const):
            sides = sides_of_least(found[n], const(1))
        b.require(*sides, f"Reshape: dim {n} of the new shape, of which 0 means {own}")
    return tuple(found)


def _is_empty(shape: Sequence[Dim]) -> Dim:
    """Whether the dims leave no elements; with -1 among them, whatever the others say."""
    if any(isinstance(d, Const) and d.value == -1 for d in shape):
        return const(True, dt.bool_)
    empty: Dim = const(False, dt.bool_)
    for d in shape:
        if not prove(ge(d, 1)):
            empty = lor(empty, eq(d, 0))
    return empty


def _is_multiple(a: Dim, b: Dim) -> bool:
    """Whether `a` is 0 wherever `b` is, as its factors show; x·y // y is 0 where x·y is."""
    if isinstance(b, Binary) and b.op is Op.FLOORDIV and reduced(b.a, b.b)[1] is const(1):
        b = b.a
    return isinstance(reduced(a, b)[1], Const)


def bounds_of_slice(b: Emitter, start: Expr, end: Expr, extent: Dim, step: int) -> tuple[Dim, Dim]:
    """Where a slice of a dimension begins and ends, in 0..extent, for `start` and `end` of rank 0. Where it goes
    backwards (a step below 0), both are counted from the last element on."""
    n, zero, one = b.extent(extent, dt.int64), _int(b, 0), _int(b, 1)
    if step < 0:  # it begins at an element; element -1 is behind the end
        least, most = _int(b, -1), b.subtract(n, one)
        first, last = (counted(b, p, n) for p in (start, end))
        first = b.subtract(most, b.maximum(b.minimum(first, most), zero))
        last = b.subtract(most, b.maximum(b.minimum(last, most), least))
        bounds = [b.maximum(b.minimum(p, n), zero) for p in (first, last)]
    else:
        bounds = [*slice_bounds(b, start, end, n)]
    begin, stop = b.dims(stacked(b, bounds), "bounds of a slice")
    return begin, stop


def places_of_slice(b: Emitter, start: Expr, end: Expr, step: Expr, extent: Dim) -> Expr:
    """The positions that a slice takes of a dimension, for a step, too, that is a tensor of rank 0 and not 0."""
    step = b.to(step, dt.int64)
    off = b.dim(b.subtract(b.abs(step), _int(b, 1)), "steps")
    b.require(*sides_of_least(off, const(0)), "Slice: a step is not 0")
    begin, count = slice_places(b, start, end, step, b.extent(extent, dt.int64), least=0)
    n = b.dim(count, "elements of a slice")
    return b.add(begin, b.multiply(b.arange(start=const(0), stop=n, step=1, dtype=dt.int64), step))


def range_of(b: Emitter, start: Expr, limit: Expr, delta: Expr) -> Expr:
    """start, start + delta, … up to but without limit, in the dtype of `start`."""
    dtype = b.dtype(start)
    n = b.dim(range_count(b, start, limit, delta), "numbers of Range")
    places = b.arange(start=const(0), stop=n, step=1, dtype=dtype if dtype.is_int else dt.int64)
    return b.add(start, b.multiply(b.to(places, dtype), delta))
