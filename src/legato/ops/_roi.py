"""Reading regions of images: the bins of each region, and what an element of the result reads, as loop programs.

A reader says what the samples of a bin are: each is a weighted sum of elements of a channel, its taps. The result is
their mean, or that of the candidates (samples, or single taps) which is largest; of equal ones the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, Var, const, eq, ge, gt, land, le, lor, lt, max_, min_, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.types import Dim, TensorType
from legato.ops._moving import as_int
from legato.ops._tensors import Array, accumulator, narrowed
from legato.ops._window import dim_order
from legato.te.tensor import Tensor, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, cast
from legato.tir.stmt import Alloc, For, If, Let, Stmt, Store, block

__all__ = ["MOST", "Align", "Pool", "Reader", "gathered", "scattered", "spread", "taken"]

MOST = 1 << 16  # samples of a bin along a dim

Tap = tuple[Expr, Expr, Expr]  # row, column, weight
Line = Sequence[tuple[Expr, Expr]]  # the same along one dim
Places = tuple[
    Array, Array | None, Array, int
]  # first and second elements, weights of these, how many samples there are


class Reader(Protocol):
    """What bins are made of."""

    @property
    def mode(self) -> str:
        """avg, max, or max_tap, the largest single weighted element."""

    def samples(self, r: Expr, at: Sequence[Expr], visit: Callable[[Expr, Sequence[Tap]], Stmt]) -> Stmt:
        """Visits the samples of a bin of region `r`, which have numbers."""

    def count(self, r: Expr) -> Expr:
        """How many samples a bin has; those that are not visited are 0."""

    def lines(self, roi: Array) -> Sequence[Sequence[Places]]:
        """What each bin of a region reads along the rows, and along the columns."""


# ------------------------------------------------------------------------------- readers


@dataclass(frozen=True, slots=True)
class Align:
    """Samples evenly spread over a bin, each interpolated between four elements; none beyond a pixel outside."""

    rois: Any
    extents: tuple[Dim, Dim]
    pooled: tuple[Dim, Dim]
    scale: float
    ratio: int
    aligned: bool
    mode: str
    dtype: DType

    def samples(self, r: Expr, at: Sequence[Expr], visit: Callable[[Expr, Sequence[Tap]], Stmt]) -> Stmt:
        def row(i: Expr, rows: Line) -> Stmt:
            return self._along(1, r, at[1], lambda j, columns: visit(i * self._count(1, r) + j, _taps(rows, columns)))

        return self._along(0, r, at[0], row)

    def count(self, r: Expr) -> Expr:
        return self._count(0, r) * self._count(1, r)

    def _range(self, d: int, r: Expr) -> tuple[Expr, Expr]:
        """Where the region begins along a dim, and its extent."""
        scale, off = const(self.scale, self.dtype), const(0.5 if self.aligned else 0.0, self.dtype)
        first, last = (cast(self.rois[r, const(k - d)], self.dtype) * scale - off for k in (2, 4))
        size = last - first
        return first, size if self.aligned else _at_least_one(size)

    def _bin(self, d: int, r: Expr) -> Expr:
        return self._range(d, r)[1] / cast(max_(self.pooled[d], const(1)), self.dtype)

    def _count(self, d: int, r: Expr) -> Expr:
        if self.ratio > 0:
            return const(self.ratio)
        return _index(te.ceil(self._bin(d, r)), const(MOST))

    def _along(self, d: int, r: Expr, k: Expr, body: Callable[[Expr, Line], Stmt]) -> Stmt:
        """Loops over the samples of the k-th bin along a dim: those that are near the image."""
        i, low, skipped = (Var(name, dt.index, 0) for name in ("i", "low", "skipped"))
        place, share = Var("place", self.dtype), Var("share", self.dtype)
        zero, one, extent = const(0.0, self.dtype), const(1.0, self.dtype), self.extents[d]
        size = self._bin(d, r)
        count = cast(max_(self._count(d, r), const(1)), self.dtype)
        step = (cast(i + skipped, self.dtype) + const(0.5, self.dtype)) * size / count
        near = land(ge(place, const(-1.0, self.dtype)), le(place, cast(extent, self.dtype)))
        rest = select(ge(low, extent - 1), zero, max_(place, zero) - cast(low, self.dtype))
        line = [(low, one - share), (max_(min_(low + 1, extent - 1), const(0)), share)]
        inner = Let(low, max_(min_(cast(max_(place, zero), dt.index), extent - 1), const(0)),
                    Let(share, rest, body(i + skipped, line)))  # fmt: skip
        begin = self._range(d, r)[0] + cast(k, self.dtype) * size
        before, end = self._near(d, r, begin, size / count)
        return Let(skipped, before, For(i, max_(end - skipped, const(0)), Let(place, begin + step, If(near, inner))))

    def _near(self, d: int, r: Expr, begin: Expr, step: Expr) -> tuple[Expr, Expr]:
        """The samples of a bin that may be near the image: of a region as large as it likes no more than the image
        has elements. One more at each end: the division is rounded."""
        count, one = self._count(d, r), const(1.0, self.dtype)
        if self.ratio > 0:
            return const(0), count
        last = te.floor((cast(self.extents[d], self.dtype) - begin) / step)
        first = te.floor((const(-1.0, self.dtype) - begin) / step)
        return _index(first - one - one, count), _index(last + one + one, count)

    def lines(self, roi: Array) -> Sequence[Sequence[Places]]:
        return [[self._places(d, roi, k) for k in range(as_int(n))] for d, n in enumerate(self.pooled)]

    def _places(self, d: int, roi: Array, k: int) -> Places:
        t = self.dtype.numpy.type
        off, extent, pooled = t(0.5 if self.aligned else 0), as_int(self.extents[d]), as_int(self.pooled[d])
        first, last = (roi[n - d].astype(t) * t(self.scale) - off for n in (2, 4))
        whole = last - first if self.aligned else np.fmax(last - first, t(1))
        size = whole / t(pooled)
        count = self.ratio if self.ratio > 0 else int(np.clip(np.nan_to_num(np.ceil(size)), 0, MOST))
        steps = np.arange(count).astype(self.dtype.numpy)
        place = first + t(k) * size + (steps + t(0.5)) * size / t(max(count, 1))
        place = np.maximum(place[(place >= -1) & (place <= extent)], t(0))
        low = np.clip(place.astype(np.int64), 0, max(extent - 1, 0))
        share = np.where(low >= extent - 1, t(0), place - low.astype(place.dtype))
        return low, np.clip(low + 1, 0, max(extent - 1, 0)), share, count


@dataclass(frozen=True, slots=True)
class Pool:
    """The elements of a bin, whose ends are rounded outwards; regions have whole ends, which belong to them."""

    rois: Any
    extents: tuple[Dim, Dim]
    pooled: tuple[Dim, Dim]
    scale: float
    dtype: DType
    mode: str = "max"

    def samples(self, r: Expr, at: Sequence[Expr], visit: Callable[[Expr, Sequence[Tap]], Stmt]) -> Stmt:
        i, j, h, w = (Var(name, dt.index, 0) for name in ("i", "j", "h", "w"))
        (top, height), (left, width) = (self._ends(d, r, k) for d, k in enumerate(at))
        tap = [(h, w, const(1.0, self.dtype))]
        row = For(j, width, Let(w, _kept(left + j, self.extents[1]), visit(i * self.extents[1] + j, tap)))
        return For(i, height, Let(h, _kept(top + i, self.extents[0]), row))

    def count(self, r: Expr) -> Expr:
        return const(0)  # all are visited

    def _ends(self, d: int, r: Expr, k: Expr) -> tuple[Expr, Expr]:
        """Where the k-th bin begins along a dim, and how many elements it has."""
        first, last = (self._whole(cast(self.rois[r, const(n - d)], self.dtype)) for n in (2, 4))
        size = _at_least_one(last - first + const(1.0, self.dtype))
        part = size / cast(max_(self.pooled[d], const(1)), self.dtype)
        begin, end = (_index(f(cast(n, self.dtype) * part) + first, self.extents[d])
                      for f, n in ((te.floor, k), (te.ceil, k + 1)))  # fmt: skip
        return begin, max_(end - begin, const(0))

    def _whole(self, x: Expr) -> Expr:
        """Scaled and rounded, halves away from zero."""
        x, half = x * const(self.scale, self.dtype), const(0.5, self.dtype)
        return select(ge(x, const(0.0, self.dtype)), te.floor(x + half), te.ceil(x - half))

    def lines(self, roi: Array) -> Sequence[Sequence[Places]]:
        return [[self._places(d, roi, k) for k in range(as_int(n))] for d, n in enumerate(self.pooled)]

    def _places(self, d: int, roi: Array, k: int) -> Places:
        t, extent = self.dtype.numpy.type, as_int(self.extents[d])
        scaled = [roi[n - d].astype(t) * t(self.scale) for n in (2, 4)]
        first, last = (np.floor(x + t(0.5)) if x >= 0 else np.ceil(x - t(0.5)) for x in scaled)
        part = np.fmax(last - first + t(1), t(1)) / t(as_int(self.pooled[d]))
        ends = np.floor(t(k) * part) + first, np.ceil(t(k + 1) * part) + first
        begin, end = (int(np.clip(np.nan_to_num(e), 0, extent)) for e in ends)
        low = np.arange(begin, max(end, begin))
        return low, None, np.zeros(len(low), self.dtype.numpy), len(low)


def _taps(rows: Line, columns: Line) -> list[Tap]:
    return [(h, w, a * b) for h, a in rows for w, b in columns]


def _kept(i: Expr, extent: Dim) -> Expr:
    return max_(min_(i, extent - 1), const(0))


def _at_least_one(x: Expr) -> Expr:
    """1 for a float below it, and for NaN."""
    one = const(1.0, x.dtype)
    return select(ge(x, one), x, one)


def _index(x: Expr, limit: Dim) -> Expr:
    """A float as a number from 0 to `limit`, which any is brought to: an infinite one has no number, NaN is 0."""
    dtype = dt.dtype(x.dtype)
    zero = const(0.0, dtype)
    return cast(select(ge(x, zero), min_(x, cast(limit, dtype)), zero), dt.index)


# ------------------------------------------------------------------------------- kernels


class _Bins:
    """The loops over the bins of all regions, whose channels are `data`'s."""

    def __init__(self, reader: Reader, data: Tensor, rois: Tensor, layout: str, dtype: DType) -> None:
        order = dim_order(layout, "NCHW")
        assert order is not None  # the type relation has looked
        self.reader, self.data, self.rois, self.order, self.dtype = reader, data, rois, order, dtype
        self.best = Buffer("best", (const(1),), dtype, scope=Scope.LOCAL)
        self.chosen = Buffer("chosen", (const(1),), dt.int64, scope=Scope.LOCAL)
        self.seen = Buffer("seen", (const(1),), dt.int64, scope=Scope.LOCAL)

    def image(self, r: Expr) -> Expr:
        """The image that a region is of."""
        images = self.order.extents(self.data.shape)[0]
        return _kept(_index(self.rois[r, 0], images), images)

    def element(self, x: Tensor, r: Expr, c: Expr, taps: Sequence[Tap]) -> Expr:
        """A weighted sum of elements of an image."""
        terms = [cast(x[self.order.actual((self.image(r), c, h, w))], self.dtype) * weight for h, w, weight in taps]
        return sum(terms[1:], terms[0])

    def candidates(self, n: Expr, taps: Sequence[Tap]) -> list[tuple[Expr, Sequence[Tap]]]:
        """What is compared, with its number."""
        if self.reader.mode == "max_tap":
            return [(n * len(taps) + t, [tap]) for t, tap in enumerate(taps)]
        return [(n, taps)]

    def some(self, body: Stmt) -> Stmt:
        """`body`, if images have elements."""
        n, _, height, width = self.order.extents(self.data.shape)
        return If(land(gt(n, 0), land(gt(height, 0), gt(width, 0))), body)

    def search(self, r: Expr, c: Expr, at: Sequence[Expr]) -> Stmt:
        """`best` and `chosen` are the largest candidate and its number; -1: there is none."""
        first, none = (const(0),), const(0.0, self.dtype)

        def visit(n: Expr, taps: Sequence[Tap]) -> Stmt:
            compared = [self._compared(self.element(self.data, r, c, own), k) for k, own in self.candidates(n, taps)]
            return block(*compared, Store(self.seen, first, Load(self.seen, first) + const(1, dt.int64)))

        nothing = block(Store(self.best, first, none), Store(self.chosen, first, const(-1, dt.int64)))
        is_zero = land(
            lt(Load(self.seen, first), cast(self.reader.count(r), dt.int64)), lt(Load(self.best, first), none)
        )
        start = block(nothing, Store(self.seen, first, const(0, dt.int64)))
        return block(start, self.reader.samples(r, at, visit), If(is_zero, nothing))

    def _compared(self, value: Expr, number: Expr) -> Stmt:
        first, v = (const(0),), Var("v", self.dtype)
        is_better = te.lor(lt(Load(self.chosen, first), const(0, dt.int64)), gt(v, Load(self.best, first)))
        put = block(Store(self.best, first, v), Store(self.chosen, first, cast(number, dt.int64)))
        return Let(v, value, If(is_better, put))

    def with_chosen(self, r: Expr, at: Sequence[Expr], body: Callable[[Sequence[Tap]], Stmt]) -> Stmt:
        """`body` for the taps of the candidate that was chosen."""
        number = Load(self.chosen, (const(0),))

        def visit(n: Expr, taps: Sequence[Tap]) -> Stmt:
            found = self.candidates(n, taps)
            return block(*(If(eq(number, cast(k, dt.int64)), body(own)) for k, own in found))

        return self.reader.samples(r, at, visit)

    def scratch(self, body: Stmt) -> Stmt:
        """`body` with room for the best candidate."""
        return Alloc(self.best, Alloc(self.chosen, Alloc(self.seen, body)))


def _indices(names: str) -> list[Var]:
    return [Var(name, dt.index, 0) for name in names]


def _nest(variables: Sequence[Var], extents: Sequence[Dim], body: Stmt) -> Stmt:
    for v, extent in zip(reversed(variables), reversed(extents), strict=True):
        body = For(v, extent, body)
    return body


def gathered(reader: Reader, data: Tensor, rois: Tensor, values: Tensor, layout: str, out: TensorType) -> Tensor:
    """Of each bin the mean of `values`, or those of the candidate that is the largest of `data`."""
    bins = _Bins(reader, data, rois, layout, accumulator(out.dtype))
    if reader.mode == "avg" or values is data:
        inputs = (data, rois) if values is data else (data, rois, values)
        found = loops([(out.shape, bins.dtype)], inputs, lambda y: _beside(bins, values, y), "regions")[0]
        return narrowed(found, out.dtype)
    r, c, p, q = _indices("rcpq")
    first, none = (const(0),), const(0.0, bins.dtype)

    def add(taps: Sequence[Tap]) -> Stmt:
        return Store(bins.best, first, Load(bins.best, first) + bins.element(values, r, c, taps))

    def program(y: Tensor) -> Stmt:
        chosen = bins.with_chosen(r, (p, q), add)
        read = bins.some(block(bins.search(r, c, (p, q)), Store(bins.best, first, none), chosen))
        put = Store(y, bins.order.actual((r, c, p, q)), Load(bins.best, first))
        each = block(Store(bins.best, first, none), read, put)
        return _nest((r, c, p, q), bins.order.extents(out.shape), bins.scratch(each))

    return narrowed(loops([(out.shape, bins.dtype)], (data, rois, values), program, "regions")[0], out.dtype)


def _beside(bins: _Bins, values: Tensor, y: Tensor) -> Stmt:
    """`y` holds the means, or the largest: the channels side by side, so that what a sample reads is found once."""
    r, p, q = _indices("rpq")
    regions, channels, rows, columns = bins.order.extents(y.shape)
    zero, none, count = (const(0),), const(0.0, bins.dtype), bins.reader.count(r)
    seen = Load(bins.seen, zero)

    def each(body: Callable[[Expr, tuple[Expr, ...]], Stmt]) -> Stmt:
        c = Var("c", dt.index, 0)
        return For(c, channels, body(c, bins.order.actual((r, c, p, q))))

    def larger(at: tuple[Expr, ...], value: Expr, nth: int) -> Stmt:
        v, old = Var("v", bins.dtype), y[at]
        is_better = gt(v, old) if nth else lor(eq(seen, const(0, dt.int64)), gt(v, old))
        return Let(v, value, Store(y, at, select(is_better, v, old)))

    def visit(n: Expr, taps: Sequence[Tap]) -> Stmt:
        if bins.reader.mode == "avg":
            return each(lambda c, at: Store(y, at, y[at] + bins.element(values, r, c, taps)))
        own = [candidate for _, candidate in bins.candidates(n, taps)]
        compared = each(lambda c, at: block(*(larger(at, bins.element(values, r, c, k), m) for m, k in enumerate(own))))
        return block(compared, Store(bins.seen, zero, seen + const(1, dt.int64)))

    start = block(each(lambda c, at: Store(y, at, none)), Store(bins.seen, zero, const(0, dt.int64)))
    read = bins.some(bins.reader.samples(r, (p, q), visit))
    if bins.reader.mode == "avg":
        end = each(lambda c, at: Store(y, at, y[at] / cast(max_(count, const(1)), bins.dtype)))
    else:  # samples outside are 0
        zeros = each(lambda c, at: If(lt(y[at], none), Store(y, at, none)))
        end = If(lt(seen, cast(count, dt.int64)), zeros)
    return _nest((r, p, q), (regions, rows, columns), Alloc(bins.seen, block(start, read, end)))


def scattered(reader: Reader, dy: Tensor, data: Tensor, rois: Tensor, layout: str, out: TensorType) -> Tensor:
    """`dy` where `gathered` reads, channel by channel."""
    bins = _Bins(reader, data, rois, layout, accumulator(out.dtype))
    n, c, h, w = _indices("nchw")
    r, p, q = _indices("rpq")
    images, channels, height, width = bins.order.extents(out.shape)
    regions, _, rows, columns = bins.order.extents(dy.shape)

    def program(y: Tensor) -> Stmt:
        def add(taps: Sequence[Tap]) -> Stmt:
            value = cast(dy[bins.order.actual((r, c, p, q))], bins.dtype)
            if reader.mode == "avg":
                value = value / cast(max_(reader.count(r), const(1)), bins.dtype)
            at = [bins.order.actual((bins.image(r), c, i, j)) for i, j, _ in taps]
            return block(*(Store(y, i, y[i] + value * weight) for i, (_, _, weight) in zip(at, taps, strict=True)))

        if reader.mode == "avg":
            body = reader.samples(r, (p, q), lambda n, taps: add(taps))
        else:
            body = bins.scratch(block(bins.search(r, c, (p, q)), bins.with_chosen(r, (p, q), add)))
        zeros = _nest(
            (n, h, w), (images, height, width), Store(y, bins.order.actual((n, c, h, w)), const(0.0, bins.dtype))
        )
        return For(c, channels, block(zeros, bins.some(_nest((r, p, q), (regions, rows, columns), body))))

    return narrowed(loops([(out.shape, bins.dtype)], (dy, data, rois), program, "spread")[0], out.dtype)


# ------------------------------------------------------------------------------- NumPy


def _candidates(reader: Reader, data: Array, lines: Sequence[Places]) -> tuple[Array, list[Any], int]:
    """The samples of a bin (channel, number), what says where they read, and how many there are."""
    (top, bottom, y, rows), (left, right, x, columns) = lines
    along = [(top, 1 - y), *([] if bottom is None else [(bottom, y)])]
    across = [(left, 1 - x), *([] if right is None else [(right, x)])]
    places = [(np.repeat(i, len(left)), np.tile(j, len(top)), np.outer(a, b).ravel())
              for i, a in along for j, b in across]  # fmt: skip
    terms = [data[:, i, j] * weight for i, j, weight in places]
    if reader.mode == "max_tap":
        return np.stack(terms, -1).reshape(len(data), terms[0].shape[1] * len(terms)), places, rows * columns
    return sum(terms[1:], terms[0]), places, rows * columns


def _each(reader: Reader, rois: Array) -> Iterator[tuple[int, int, int, Sequence[Places]]]:
    """The bins of all regions, with what they read."""
    for r, roi in enumerate(rois):
        rows, columns = reader.lines(roi)
        for p, q in np.ndindex(len(rows), len(columns)):
            yield r, p, q, (rows[p], columns[q])


def _image(data: Array, roi: Array) -> int:
    return int(np.clip(np.nan_to_num(roi[0]), 0, len(data) - 1))


def taken(reader: Reader, data: Array, rois: Array, values: Array, pooled: Sequence[int]) -> Array:
    """`gathered`, of canonical arrays."""
    found = np.zeros((len(rois), data.shape[1], *pooled), values.dtype)
    is_empty = not data.shape[0] or 0 in data.shape[2:]
    for r, p, q, lines in () if is_empty else _each(reader, rois):
        n = _image(data, rois[r])
        own, _, count = _candidates(reader, values[n], lines)
        if reader.mode == "avg":
            found[r, :, p, q] = own.sum(-1) / own.dtype.type(max(count, 1))
        else:
            best = _chosen(_candidates(reader, data[n], lines)[0], reader, count)
            found[r, :, p, q] = np.where(best < 0, 0, own[np.arange(len(own)), best] if own.shape[1] else 0)
    return found


def spread(reader: Reader, dy: Array, data: Array, rois: Array) -> Array:
    """`scattered`, of canonical arrays."""
    found = np.zeros(data.shape, dy.dtype)
    for r, p, q, lines in _each(reader, rois) if found.size else ():
        n, every = _image(data, rois[r]), np.arange(data.shape[1])
        own, places, count = _candidates(reader, data[n], lines)
        value = dy[r, :, p, q]
        for t, (i, j, weight) in enumerate(places):
            if reader.mode == "avg":
                share = value[:, None] * weight / dy.dtype.type(max(count, 1))
                np.add.at(found[n], (every[:, None], i, j), share)
            elif own.shape[1]:
                best = _chosen(own, reader, count)
                at, tap = np.divmod(best, len(places)) if reader.mode == "max_tap" else (best, np.full(len(best), t))
                np.add.at(found[n], (every, i[at], j[at]), np.where((best >= 0) & (tap == t), value * weight[at], 0))
    return found


def _chosen(x: Array, reader: Reader, count: int) -> Array:
    """The first largest candidate of each row, -1 where that is none: there are none, or all are below 0 and some
    samples are outside. NaN is larger than nothing, and nothing than a NaN that comes first."""
    if not x.shape[1]:
        return np.full(len(x), -1)
    found = np.where(np.isnan(x), -np.inf, x)
    found[:, 0] = np.where(np.isnan(x[:, 0]), np.inf, found[:, 0])
    best = np.argmax(found, axis=1)
    is_whole = x.shape[1] == count * (4 if reader.mode == "max_tap" else 1)
    return best if is_whole else np.where(found.max(1) < 0, -1, best)
