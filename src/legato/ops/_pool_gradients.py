"""Gradients of pooling: how what windows give flows back to their elements, for windows of any kind.

Each element looks at the windows that hold it, so that all are independent of each other. Of a maximum, a first stage
finds the tap that each window chooses: the first of its largest elements in the data, or its first NaN.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

import legato.te.math as te
from legato.arith.expr import Const, Expr, Var, const, floordiv, floormod, ge, gt, land, lor, lt, max_, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.types import Dim, dims
from legato.ops._pool_windows import Along
from legato.ops._pooling import floor_value, mean_dtype, mean_of
from legato.ops._tensors import Array, as_int, cast_to, narrowed, product
from legato.ops._window import DimOrder
from legato.te.tensor import Tensor, compute, loops, reduce
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, cast
from legato.tir.stmt import Alloc, For, If, Stmt, Store, block

__all__ = ["PoolWindows"]

Indices = Sequence[Expr]


@dataclass(frozen=True, slots=True)
class PoolWindows:
    """The windows of a pooling operator: the orders of its data and result, and the windows along each dimension."""

    order: DimOrder
    out_order: DimOrder
    along: tuple[Along, ...]

    # ------------------------------------------------------------------ kernels

    def _elements(self, index: Indices, offset: Indices) -> tuple[tuple[Expr, ...], Expr]:
        """The subscripts of a window's tap in the data, and whether it is there."""
        n, c, *position = self.out_order.canonical(index)
        found = [w.element(o, k) for w, o, k in zip(self.along, position, offset, strict=True)]
        return self.order.actual((n, c, *(i for i, _ in found))), _all(inside for _, inside in found)

    def _windows(self, index: Indices, number: Indices) -> tuple[tuple[Expr, ...], Expr, Expr]:
        """The subscripts of a window that holds an element, which tap of it that is, and whether there is such."""
        n, c, *position = self.order.canonical(index)
        found = [w.window(i, r) for w, i, r in zip(self.along, position, number, strict=True)]
        tap = self._tap([k for _, k, _ in found])
        return self.out_order.actual((n, c, *(o for o, _, _ in found))), tap, _all(inside for *_, inside in found)

    def _tap(self, offset: Indices) -> Expr:
        """The number of a tap, counted row by row."""
        number: Expr = const(0)
        for w, k in zip(self.along, offset, strict=True):
            number = number * w.taps + k
        return number

    def chosen(self, data: Tensor, shape: Sequence[Expr]) -> Tensor:
        """The number of the tap that each window chooses, or their number where it has none in the data."""
        extents, rank = [w.taps for w in self.along], len(shape)
        floor, nowhere = const(floor_value(data.dtype), data.dtype), cast(product(extents), dt.int32)

        def element(*index: Expr) -> Expr:
            at, inside = self._elements(index[:rank], index[rank:])
            return _if(inside, data[at], floor)

        largest = reduce("max", shape, extents, element, "largest")

        def position(*index: Expr) -> Expr:
            at, inside = self._elements(index[:rank], index[rank:])
            value = data[at]
            here = te.lor(te.eq(value, largest[index[:rank]]), te.isnan(value))
            return _if(inside, select(here, cast(self._tap(index[rank:]), dt.int32), nowhere), nowhere)

        return reduce("min", shape, extents, position, "chosen", nowhere)

    def to_largest(self, grad: Tensor, data: Tensor) -> Tensor:
        """Of each element, the sum of `grad` over the windows that choose it: they are visited channel by channel."""
        sums = mean_dtype(grad.dtype)
        (found,) = loops([(data.shape, sums)], (grad, data), lambda out: _Scatter(self, grad, data, out).program())
        return narrowed(found, grad.dtype)

    def to_all(self, grad: Tensor, shape: Sequence[Dim]) -> Tensor:
        """Of each element of data of a shape, the sum of its shares of `grad` over the windows that hold it."""
        total, rank = mean_dtype(grad.dtype), len(shape)

        def share(*index: Expr) -> Expr:
            at, _, inside = self._windows(index[:rank], index[rank:])
            size = product(w.size(o) for w, o in zip(self.along, self.out_order.canonical(at)[2:], strict=True))
            return _if(inside, mean_of(cast(grad[at], total), max_(size, const(1))), const(0, total))

        return self._gathered(share, shape, grad.dtype)

    def _gathered(self, share: Callable[..., Expr], shape: Sequence[Dim], dtype: DType) -> Tensor:
        return narrowed(reduce("sum", shape, [w.holders for w in self.along], share, "gathered"), dtype)

    def of_largest(self, values: Tensor, data: Tensor, shape: Sequence[Expr]) -> Tensor:
        """Of each window, the element of `values` at the place that it chooses; 0 if it has none in the data."""
        chosen, zero = self.chosen(data, shape), const(0, values.dtype)

        def element(*index: Expr) -> Expr:
            rest: Expr = chosen[index]
            offset: list[Expr] = []
            for w in reversed(self.along):
                taps = cast(w.taps, dt.int32)
                offset.insert(0, cast(rest % taps, dt.index))
                rest = rest // taps
            at, inside = self._elements(index, offset)
            return select(land(inside, te.eq(rest, const(0, dt.int32))), values[at], zero)

        return compute(shape, element, "taken")

    # ------------------------------------------------------------------ references

    def _places(self, shape: Sequence[int], outs: Sequence[int]) -> Array:
        """For each window (rows) and tap (columns) the place in the data of one channel, -1 where there is none."""
        place: Array = np.zeros((1, 1), np.int64)
        for w, extent, count in zip(self.along, shape, outs, strict=True):
            table = w.table(count)
            there = (place[:, None, :, None] >= 0) & (table[None, :, None, :] >= 0)
            joined = np.where(there, place[:, None, :, None] * extent + table[None, :, None, :], -1)
            place = joined.reshape(joined.shape[0] * joined.shape[1], joined.shape[2] * joined.shape[3])
        return place

    def _chosen_places(self, data: Array, outs: Sequence[int]) -> tuple[Array, Array]:
        """The data, canonical, with space as one dimension, and for each of its windows the place that it chooses, -1
        where it has none in the data."""
        x = self.order.to_canonical(data)
        places = self._places(x.shape[2:], outs)
        flat = np.concatenate([_flat(x), np.full((*x.shape[:2], 1), -np.inf, x.dtype)], axis=2)
        values, there = flat[:, :, places], places >= 0
        largest = values.max(axis=3, keepdims=True, initial=-np.inf)
        here = there & ((values == largest) | np.isnan(values))
        first = here.argmax(axis=3) if places.shape[1] else np.zeros(here.shape[:3], np.int64)
        chosen = places[np.arange(len(places)), first] if places.size else np.full(first.shape, -1)
        return x, np.where(here.any(axis=3), chosen, -1)

    def reference_to_largest(self, grad: Array, data: Array) -> Array:
        """The definition of `to_largest`."""
        dy = self.out_order.to_canonical(grad)
        x, places = self._chosen_places(data, dy.shape[2:])
        shares = cast_to(_flat(dy), mean_dtype(dt.dtype(grad.dtype)))
        return self._scattered(np.zeros(x.shape, shares.dtype), places, shares, dt.dtype(data.dtype))

    def reference_to_all(self, grad: Array, shape: Sequence[int]) -> Array:
        """The definition of `to_all`; `shape` is the data's."""
        dy = self.out_order.to_canonical(grad)
        extents = [as_int(n) for n in self.order.extents(dims(shape))]
        sizes = (w.sizes(n) for w, n in zip(self.along, dy.shape[2:], strict=True))
        count = functools.reduce(np.multiply.outer, sizes)
        total = cast_to(dy, mean_dtype(dt.dtype(grad.dtype))) / np.maximum(count, 1).astype(grad.dtype)
        places = self._places(extents[2:], dy.shape[2:])
        shares = np.repeat(_flat(total), places.shape[1], axis=2)
        everywhere = np.broadcast_to(places.reshape(-1), shares.shape)
        return self._scattered(np.zeros(extents, shares.dtype), everywhere, shares, dt.dtype(grad.dtype))

    def _scattered(self, zeros: Array, places: Array, shares: Array, dtype: DType) -> Array:
        """`zeros`, canonical, with shares of each channel added at places of it, in the data's order."""
        flat = _flat(zeros)
        for n, c in itertools.product(*map(range, zeros.shape[:2])):
            there = places[n, c] >= 0
            np.add.at(flat[n, c], places[n, c][there], shares[n, c][there])
        return np.ascontiguousarray(self.order.from_canonical(cast_to(flat.reshape(zeros.shape), dtype)))

    def reference_of_largest(self, values: Array, data: Array, outs: Sequence[int]) -> Array:
        """The definition of `of_largest`, with result of canonical extents `outs` in space."""
        x, places = self._chosen_places(data, outs)
        v = self.order.to_canonical(values)
        flat = np.concatenate([_flat(v), np.zeros((*v.shape[:2], 1), v.dtype)], axis=2)
        taken = np.take_along_axis(flat, np.where(places < 0, flat.shape[2] - 1, places), axis=2)
        return np.ascontiguousarray(self.out_order.from_canonical(taken.reshape(*x.shape[:2], *outs)))


class _Scatter:
    """The loop program that gives what each window has to the element that it chooses."""

    def __init__(self, windows: PoolWindows, grad: Tensor, data: Tensor, out: Tensor) -> None:
        self.windows, self.grad, self.data, self.out = windows, grad, data, out
        self.channel = windows.order.extents(data.shape)[:2]
        self.best = Buffer("best", (const(1),), data.dtype, scope=Scope.LOCAL)
        self.at = Buffer("at", (const(len(windows.along)),), dt.index, scope=Scope.LOCAL)

    def program(self) -> Stmt:
        """For each channel of each image: zeros, then its windows in order."""
        batch, channels = self.channel
        p = Var("p", dt.index, 0)
        place = (floordiv(p, channels), floormod(p, channels))
        spatial = self.windows.order.extents(self.data.shape)[2:]
        outs = self.windows.out_order.extents(self.grad.shape)[2:]
        zeros = _nest(spatial, "i", lambda i: Store(self.out, self._in_data(place, i), const(0, self.out.dtype)))
        return For(p, batch * channels, block(zeros, _nest(outs, "o", lambda o: self._window(place, o))))

    def _in_data(self, place: Indices, position: Indices) -> tuple[Expr, ...]:
        return self.windows.order.actual((*place, *position))

    def _window(self, place: Indices, o: Indices) -> Stmt:
        """The window's choice is found, and has its share added."""
        zero, at = const(0), [Load(self.at, (const(d),)) for d in range(len(o))]
        start = [Store(self.best, (zero,), const(floor_value(self.data.dtype), self.data.dtype)),
                 Store(self.at, (zero,), const(-1))]  # fmt: skip
        here = self._in_data(place, at)
        share = cast(self.grad[self.windows.out_order.actual((*place, *o))], self.out.dtype)
        add = If(ge(at[0], 0), Store(self.out, here, self.out[here] + share))
        return Alloc(self.best, Alloc(self.at, block(*start, self._taps(place, o, ()), add)))

    def _taps(self, place: Indices, o: Indices, position: tuple[Expr, ...]) -> Stmt:
        """Loops over the taps along the dimensions from `position` on."""
        d = len(position)
        if d == len(o):
            return self._compared(self.data[self._in_data(place, position)], position)
        k, along = Var(f"k{d}", dt.index, 0), self.windows.along[d]
        i, inside = along.element(o[d], k)
        more = self._taps(place, o, (*position, i))
        return For(k, along.taps, more if isinstance(inside, Const) else If(inside, more))

    def _compared(self, value: Expr, position: Indices) -> Stmt:
        """The element is chosen if it is the first, or larger than what is, or the first NaN."""
        zero = const(0)
        best = Load(self.best, (zero,))
        is_larger = lor(gt(value, best), land(te.isnan(value), te.lnot(te.isnan(best))))
        chosen = [Store(self.at, (const(d),), i) for d, i in enumerate(position)]
        is_chosen = lor(lt(Load(self.at, (zero,)), 0), is_larger)
        return If(is_chosen, block(Store(self.best, (zero,), value), *chosen))


def _nest(extents: Sequence[Dim], name: str, body: Callable[[Indices], Stmt]) -> Stmt:
    """Loops over `extents` around `body(subscripts)`."""
    variables = [Var(f"{name}{d}", dt.index, 0) for d in range(len(extents))]
    stmt = body(variables)
    for v, extent in zip(reversed(variables), reversed(extents), strict=True):
        stmt = For(v, extent, stmt)
    return stmt


def _flat(x: Array) -> Array:
    """A canonical array with space as one dimension."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _all(conditions: Iterable[Expr]) -> Expr:
    return functools.reduce(land, conditions)


def _if(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    """`value` where the condition holds, which may be known to."""
    return value if isinstance(condition, Const) and condition.value else select(condition, value, otherwise)
