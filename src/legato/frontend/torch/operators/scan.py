"""Running sums, products and extremes along an axis.

Running sums and products are operators of Legato's. The others are made by doubling: of what spans s elements up to
each, what spans 2s is the span s elements before, combined with its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from legato.arith.expr import const
from legato.base.dtype import DType, int64, uint8
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._operands import widened
from legato.frontend.torch.operators.special import log_of_one_and
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("cumsum")
def cumsum(b: Emitter, self: Expr, dim: Size, *, dtype: DType | None = None) -> Expr:
    return _running(b, b.cumsum, self, dim, dtype)


@aten("cumprod")
def cumprod(b: Emitter, self: Expr, dim: Size, *, dtype: DType | None = None) -> Expr:
    return _running(b, b.cumprod, self, dim, dtype)


def _running(b: Emitter, f: Callable[..., Expr], x: Expr, dim: Size, dtype: DType | None) -> Expr:
    """Along an axis; integers are int64."""
    if dtype is not None and dtype.is_bool:
        raise UnsupportedError(
            "running sums and products as truth values", hint="give dtype=torch.int64, and compare with 0"
        )
    x = b.to(x, dtype or (b.dtype(x) if b.dtype(x).is_float else int64))
    axis = b.axis_of(dim, b.rank(x))
    return f(x, axis=axis) if b.rank(x) else x


State = tuple[Expr, ...]


@aten("cummax")
def cummax(b: Emitter, self: Expr, dim: Size) -> tuple[Expr, Expr]:
    return _extremes(b, b.greater_equal, self, dim, is_max=True)


@aten("cummin")
def cummin(b: Emitter, self: Expr, dim: Size) -> tuple[Expr, Expr]:
    return _extremes(b, b.less_equal, self, dim, is_max=False)


def _extremes(b: Emitter, wins: Callable[..., Expr], x: Expr, dim: Size, is_max: bool) -> tuple[Expr, Expr]:
    """The extremes so far and where they are: of equal ones the last, and NaN from the first on."""
    dtype, rank = b.dtype(x), b.rank(x)
    if not rank:
        return x, b.zeros_of((), int64)
    x = b.to(x, uint8) if dtype.is_bool else x
    axis, own = b.axis_of(dim, rank), b.dtype(x)
    worst = (-math.inf if is_max else math.inf) if own.is_float else (own.min if is_max else own.max)
    places = _places(b, x, axis)

    def combined(before: State, here: State) -> State:
        stays = wins(here[0], before[0])
        if own.is_float:
            stays = b.logical_or(b.isnan(here[0]), b.logical_and(b.logical_not(b.isnan(before[0])), stays))
        return b.where(stays, here[0], before[0]), b.where(stays, here[1], before[1])

    values, found = _doubled(b, combined, (x, places), (worst, 0), axis)
    return b.to(values, dtype), found


@aten("logcumsumexp")
def logcumsumexp(b: Emitter, self: Expr, dim: Size) -> Expr:
    rank = b.rank(self)

    def combined(before: State, here: State) -> State:
        most, off = b.maximum(before[0], here[0]), b.negative(b.abs(b.subtract(before[0], here[0])))
        return (b.where(b.isfinite(most), b.add(most, log_of_one_and(b, b.exp(off))), most),)

    def run(x: Expr) -> Expr:
        return _doubled(b, combined, (x,), (-math.inf,), b.axis_of(dim, rank))[0] if rank else x

    return widened(b, run, self)


def _places(b: Emitter, x: Expr, axis: int) -> Expr:
    """The index of each element along an axis."""
    dims = b.dims_of(x)
    row = b.arange(start=0, stop=dims[axis], step=1, dtype=int64)
    column = b.expand_dims(row, axis=1, num_newaxis=len(dims) - axis - 1) if axis < len(dims) - 1 else row
    return b.broadcast_to(column, shape=dims)


def _doubled(
    b: Emitter, combine: Callable[[State, State], State], state: State, fills: tuple[float, ...], axis: int
) -> State:
    """`combine` of all up to each element; nothing is before the first but `fills`, which leave what they meet."""
    extent = b.known(b.dims_of(state[0])[axis], "an extent along which extremes or logarithms run")
    span = 1
    while span < extent:
        before = tuple(_delayed(b, x, span, fill, axis, extent) for x, fill in zip(state, fills, strict=True))
        state = combine(before, state)
        span *= 2
    return state


def _delayed(b: Emitter, x: Expr, steps: int, fill: float, axis: int, extent: int) -> Expr:
    """`x` so many steps later, `fill` before it."""
    dims = list(b.dims_of(x))
    dims[axis] = const(steps)
    first = b.strided_slice(x, begin=(0,), end=(extent - steps,), strides=(1,), axes=(axis,))
    return b.concatenate([b.zeros_of(dims, b.dtype(x), fill), first], axis=axis)
