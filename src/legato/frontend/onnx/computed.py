"""Numbers of shapes that only the data decides, brought into the form in which they are dims: none is below 0.

What ONNX means by a number below 0 (the rest, from the end, cut off) is computed by the program itself, on tensors of
int64, before `Emitter.dims` reads the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Const, const, eq, ge, land, lor, select
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.ratio import reduced
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._rules import sides_of_least

__all__ = ["copied_for_zeros", "new_shape", "range_of", "signed_dims", "slice_bounds", "slice_places"]


def _int(b: Emitter, value: int) -> Expr:
    return b.constant(value, dt.int64)


def _stacked(b: Emitter, parts: Sequence[Expr]) -> Expr:
    return b.concatenate(tuple(b.reshape(p, newshape=(1,)) for p in parts), axis=0)


def signed_dims(b: Emitter, x: Expr, what: str) -> tuple[Dim, ...]:
    """The elements of an integer tensor, which may be below 0, as `Emitter.dims` has them."""
    known = b.known_dims(x)
    if known is not None:
        return known
    wide, zero = b.to(x, dt.int64), _int(b, 0)
    above = b.dims(b.maximum(wide, zero), what)
    below = b.dims(b.maximum(b.negative(wide), zero), what)
    return tuple(simplify(p - q) for p, q in zip(above, below, strict=True))


def new_shape(b: Emitter, x: Expr, shape: Expr, allowzero: bool) -> Expr:
    """The shape (int64) that `shape` says `x` is to have: an extent of its own for 0, unless `allowzero`, and what is
    left for -1. Other numbers below 0 stay."""
    if b.rank(shape) != 1 or not isinstance(count := b.dims_of(shape)[0], Const):
        raise UnsupportedError(f"the new shape is {shape.ty}: its rank must be known")
    wanted, rank = b.to(shape, dt.int64), b.rank(x)
    own = [b.extent(d, dt.int64) for d in b.dims_of(x)[: int(count.value)]]
    own += [_int(b, 0)] * (int(count.value) - len(own))
    if not allowzero and rank and own:
        wanted = b.where(b.equal(wanted, _int(b, 0)), _stacked(b, own), wanted)
    is_rest = b.equal(wanted, _int(b, -1))
    others = b.prod(b.where(is_rest, _int(b, 1), wanted), axis=(0,))
    rest = b.floor_divide(b.extent(simplify(b.product(b.dims_of(x))), dt.int64), others)
    return b.where(is_rest, rest, wanted)


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
    """Whether `a` is 0 wherever `b` is, as its factors show."""
    return isinstance(reduced(a, b)[1], Const)


def slice_bounds(b: Emitter, start: Expr, end: Expr, extent: Dim, step: int) -> tuple[Dim, Dim]:
    """Where a slice of a dimension begins and ends, in 0..extent, for `start` and `end` of rank 0. Where it goes
    backwards (a step below 0), both are counted from the last element on."""
    n, zero, one = b.extent(extent, dt.int64), _int(b, 0), _int(b, 1)
    first, last = (_counted(b, p, n) for p in (start, end))
    if step < 0:  # it begins at an element; element -1 is behind the end
        least, most = _int(b, -1), b.subtract(n, one)
        first = b.subtract(most, b.maximum(b.minimum(first, most), zero))
        last = b.subtract(most, b.maximum(b.minimum(last, most), least))
    bounds = [b.maximum(b.minimum(p, n), zero) for p in (first, last)]
    begin, stop = b.dims(_stacked(b, bounds), "bounds of a slice")
    return begin, stop


def _counted(b: Emitter, p: Expr, n: Expr) -> Expr:
    """A position among `n`, which below 0 counts from the end."""
    p = b.to(p, dt.int64)
    return b.where(b.less(p, _int(b, 0)), b.add(p, n), p)


def slice_places(b: Emitter, start: Expr, end: Expr, step: Expr, extent: Dim) -> Expr:
    """The positions that a slice takes of a dimension, for a step, too, that is a tensor of rank 0 and not 0."""
    n, zero, one, step = b.extent(extent, dt.int64), _int(b, 0), _int(b, 1), b.to(step, dt.int64)
    b.require(*sides_of_least(b.dim(b.subtract(b.abs(step), one), "steps"), const(0)), "Slice: a step is not 0")
    first, last = (_counted(b, p, n) for p in (start, end))
    forwards = [b.minimum(b.maximum(p, zero), n) for p in (first, last)]
    most = b.subtract(n, one)
    backwards = [b.minimum(b.maximum(p, least), most) for p, least in ((first, zero), (last, _int(b, -1)))]
    is_forward = b.greater(step, zero)
    begin, stop = (b.where(is_forward, f, k) for f, k in zip(forwards, backwards, strict=True))
    (count,) = b.dims(_quotient_up(b, b.subtract(stop, begin), step), "elements of a slice")
    return b.add(begin, b.multiply(b.arange(start=const(0), stop=count, step=1, dtype=dt.int64), step))


def _quotient_up(b: Emitter, x: Expr, by: Expr) -> Expr:
    """x / by, rounded up, of integers; 0 where that is below 0."""
    return b.maximum(b.negative(b.floor_divide(b.negative(x), by)), _int(b, 0))


def range_of(b: Emitter, start: Expr, limit: Expr, delta: Expr) -> Expr:
    """start, start + delta, … up to but without limit, in the dtype of `start`."""
    dtype = b.dtype(start)
    if dtype.is_float:
        wide = [b.cast(v, dtype=dt.float64) for v in (start, limit, delta)]
        steps = b.ceil(b.divide(b.subtract(wide[1], wide[0]), wide[2]))
        count = b.cast(b.maximum(steps, b.constant(np.float64(0))), dtype=dt.int64)
    else:
        first, last, by = (b.to(v, dt.int64) for v in (start, limit, delta))
        count = _quotient_up(b, b.subtract(last, first), by)
    (n,) = b.dims(count, "numbers of Range")
    places = b.arange(start=const(0), stop=n, step=1, dtype=dtype if dtype.is_int else dt.int64)
    return b.add(start, b.multiply(b.to(places, dtype), delta))
