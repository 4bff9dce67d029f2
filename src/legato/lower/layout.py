"""The order of an output's dimensions in memory, from the loop structure that computes it.

A contraction wants the axes that only its constant operand follows (output channels) innermost: images are NHWC inside;
and those that number products of matrices outermost.
Fewer channels than fill a vector stay where they are if memory runs along another axis. Everything else keeps the order
of the largest tensor that it reads.

Vectors of an image's channels begin at multiples of their size: one that lies across two cache lines takes two
accesses. Its places lie no round number of bytes apart, nor do rows of a matrix: those that a kernel uses together
would meet in few sets of the first cache, which hold a handful of lines each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from legato.arith.expr import Const, Expr, const
from legato.arith.substitute import substitute
from legato.lower.access import follows
from legato.lower.rules.nest import is_unit
from legato.te.inline import loads
from legato.te.tensor import Axis, Tensor
from legato.tir.buffer import Layout
from legato.tir.expr import Load

__all__ = ["aligned", "choose_order"]

GROWTH = 8  # at most one element in so many is added behind each place of an image, for vectors to begin well
SPREAD = 16  # and one in so many for places to lie in different sets
ROUND = 8  # places that lie a multiple of so many vectors apart meet in an eighth of the sets, or less
ROUND_ROWS = 64  # rows of a matrix that lie a multiple of so many vectors apart meet in a single one


def choose_order(axes: Sequence[Axis], body: Expr, constants: Collection[Tensor], reduced: bool, lanes: int) -> Layout:
    """The layout of a tensor over `axes` whose elements are `body` (all stages but inputs inlined).

    `lanes` is the number of elements in a vector.
    """
    body = substitute(body, {a.var: const(0) for a in axes if is_unit(a.extent)})  # no dimension is walked along them
    reads = loads(body)
    data = [r for r in reads if r.buffer not in constants]
    fixed = [r for r in reads if r.buffer in constants]
    main = max(data, key=_size, default=None)
    if main is None or len(axes) < 2:
        return Layout.row_major(len(axes))
    place = _places(main, axes)
    if reduced:
        channel = {n for r in fixed for n in follows(r, axes)} - {n for r in data for n in follows(r, axes)}
        few = all(_is_below(axes[n].extent, lanes) for n in channel)
        moves = 0 if few and _runs_along(main, axes) else 1
        batch = _batch([follows(r, axes) for r in reads])
        place = {n: (moves if n in channel else -1 if n in batch else 0, *p) for n, p in place.items()}
    else:
        place = {n: (0, *p) for n, p in place.items()}
    return Layout(tuple(sorted(place, key=lambda n: place[n])))


def aligned(layout: Layout, shape: Sequence[Expr], lanes: int) -> Layout:
    """`layout`, with padding behind each place of an image whose channels are no whole number of vectors, or a round
    one, and behind each row of a matrix of a round one, if it is little; the layout as it is where that does not apply,
    or where it has padding of its own."""
    if layout.pad or not layout.order:
        return layout
    *outer, channel = layout.order
    extent = shape[channel]
    walked = sum(not is_unit(shape[d]) for d in outer)
    if not walked or not isinstance(extent, Const) or layout.halo_of(channel) != (0, 0):
        return layout
    size = int(extent.value)
    missing = -size % lanes if walked > 1 else 0
    if GROWTH * missing > size:
        return layout
    is_round = (size + missing) % ((ROUND if walked > 1 else ROUND_ROWS) * lanes) == 0
    if is_round and SPREAD * (missing + lanes) <= size:
        missing += lanes
    return replace(layout, pad=tuple(missing if d == channel else 0 for d in range(len(shape)))) if missing else layout


def _batch(walked: Sequence[Collection[int]]) -> set[int]:
    """The axes that number the products of two matrices, of which each has axes of its own: along such an axis nothing
    is used twice."""
    if len(walked) != 2:
        return set()
    left, right = map(set, walked)
    return left & right if left - right and right - left else set()


def _places(main: Load, axes: Sequence[Axis]) -> dict[int, tuple[int, ...]]:
    """A sort key per axis: where the dimension that it follows in `main` lies in memory, or its own position."""
    order = main.buffer.layout.order
    along = follows(main, axes)
    has_other = any(n not in along and not is_unit(a.extent) for n, a in enumerate(axes))
    if _is_split(along, order) or (has_other and list(order) == sorted(order)):
        return {n: (n,) for n in range(len(axes))}
    last = -1
    places: dict[int, tuple[int, ...]] = {}
    for n in range(len(axes)):
        last = order.index(along[n]) if n in along else last
        places[n] = (last, n)
    return places


def _is_split(along: Mapping[int, int], order: Sequence[int]) -> bool:
    """True if axes share a dimension of what is read, other than neighbours that are the height and the width of its
    tokens, whose channels are innermost in memory: the heads of attention, say."""
    for d in set(along.values()):
        shared = [n for n in along if along[n] == d]
        if len(shared) > 1 and (d == order[-1] or shared[-1] - shared[0] >= len(shared)):
            return True
    return False


def _runs_along(main: Load, axes: Sequence[Axis]) -> bool:
    """True if an axis walks along what is innermost in the memory of `main`."""
    order = main.buffer.layout.order
    return bool(order) and order[-1] in follows(main, axes).values()


def _is_below(extent: Expr, limit: int) -> bool:
    return isinstance(extent, Const) and int(extent.value) < limit


def _size(load: Load) -> int:
    """The number of elements of what is read, symbolic dims counted as large."""
    total = 1
    for d in load.buffer.shape:
        total *= int(d.value) if isinstance(d, Const) else 1 << 10
    return total
