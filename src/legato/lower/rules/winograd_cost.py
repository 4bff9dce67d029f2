"""Which algorithm computes a window's contraction in the least time, by nominal figures of the target."""

from __future__ import annotations

import math
from collections.abc import Iterable

from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.precision import Precision
from legato.base.target import Target
from legato.lower.algorithms.cook_toom import F1, F2, F4, TAPS, Schemes
from legato.lower.algorithms.winograd import Window
from legato.lower.rules.nest import PIECES, extent_of
from legato.lower.rules.tile_shape import MANY_ROWS, TileShape, interleaved_shapes, pick_shape, rows_for
from legato.te.tensor import Axis

__all__ = ["PAD", "WinogradPlan", "choose"]

# With F1 along one dimension there are fewer weights to read, and more to multiply.
_SMALL, _LARGE = ((F2, F2), (F1, F2), (F2, F1)), ((F4, F4), (F1, F4), (F4, F1))
SCHEMES = {
    Precision.EXACT: (),
    Precision.DEFAULT: _SMALL,
    Precision.FAST: _SMALL + _LARGE,
    Precision.BFLOAT16: _SMALL + _LARGE,
}
PAD = 16  # elements behind each row of a block's buffers: strides of 4 KB would meet in one set of the cache
PLACES = 28  # what a symbolic extent is taken to be (a symbolic batch: 1)
IMAGES = (
    4  # what a symbolic batch is where algorithms are compared: alone, an image takes a little longer than it could
)
MOST_TILES, WORTHWHILE = 56, 16  # in a block: more do not help; with fewer the weights are read too often
PER_INPUT = 4  # float operations' time that one element takes in a transform, per input of the transform along one axis
FEWEST_PIECES = 4  # channel blocks by blocks of tiles: evenly for one, two and four threads
APART = 0.4  # of the shorter of arithmetic and reading that does not pass during the longer
LAUNCH = 3000  # nanoseconds that another kernel costs
GAIN = 0.9  # of the direct sum's time that an algorithm may take: the figures are nominal


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """The algorithm, the register tile of its products and the tiles of a block. `is_whole`: transforms and products
    in one kernel. `many`, where nobody knows how many tiles there are: with so many all in one kernel, and how many in
    a block then."""

    window: Window
    schemes: Schemes
    shape: TileShape
    tiles: int
    is_whole: bool
    many: tuple[int, int] | None = None


def choose(window: Window, target: Target, precision: Precision) -> WinogradPlan | None:
    """The plan for `window`; None where the sum as it stands takes as little time."""
    shape = _shape(window, target)
    if window.dtype is not dt.float32 or shape.lanes < target.lanes(window.dtype):
        return None  # float64 is asked for its precision; channels that do not fill a vector do better as they stand
    least, best = GAIN * _direct(window, target), None
    for schemes in SCHEMES[precision]:
        time = _time(window, schemes, target)
        if time < least:
            least, best = time, schemes
    return None if best is None else _plan(window, best, shape, target)


def _shape(window: Window, target: Target) -> TileShape:
    """The register tile of the products, in float32."""
    channel, reduced = window.channel.extent, extent_of(window.reduced.extent) or 1
    shapes = interleaved_shapes(channel, MANY_ROWS, dt.float32, target)
    return next((s for s in shapes if reduced % s.terms == 0), pick_shape(channel, None, [], target))


def _streamed(window: Window, schemes: Schemes, shape: TileShape, target: Target) -> TileShape:
    """The register tile where transformed weights do not stay in a core's own cache: all tiles at once, if there are
    registers for that, or else many, so that what memory gives is read as seldom as possible."""
    c, o = _sizes(window)
    if shape.terms > 1 or target.vector_registers < 32 or 4 * _points(schemes) * c * o <= target.l2_bytes:
        return shape
    axes = (*window.batch, *(axis for axis, _ in window.slides))
    if all(extent_of(a.extent) is not None for a in axes):
        tiles, blocks = _tiles(window, schemes), -(-o // shape.lanes)
        for vectors in (4, 3, 2, 1):
            if tiles <= rows_for(vectors, target) and blocks % vectors == 0:
                return TileShape(tiles, vectors, shape.lanes)
    return pick_shape(window.channel.extent, Axis(Var("t", lo=0), const(MANY_ROWS)), [], target)


def _points(schemes: Schemes) -> int:
    """Products that a tile takes, of each of which the sum over channels is a contraction of its own."""
    return math.prod(s.inputs for s in schemes)


def _sizes(window: Window) -> tuple[int, int]:
    """Input and output channels."""
    return extent_of(window.reduced.extent) or 1, extent_of(window.channel.extent) or 1


def _product(extents: Iterable[Expr], unknown: int) -> int:
    return math.prod(extent_of(e) or unknown for e in extents)


def _direct(window: Window, target: Target) -> float:
    """Nanoseconds that the sum as it stands takes."""
    c, o = _sizes(window)
    places = _product((a.extent for a in window.batch), IMAGES) * _product((a.extent for a, _ in window.slides), PLACES)
    return _contraction(places, TAPS * TAPS, c, o, window.data.dtype, target)


def _contraction(rows: int, repeats: int, c: int, o: int, dtype: DType, target: Target) -> float:
    """Nanoseconds of `repeats` products of rows × c by c × o, whose weights of `dtype` come from memory."""
    weights = repeats * c * o
    less, more = sorted((2 * rows * weights / target.rate(dtype), dtype.bytes * weights / target.memory_gbs))
    return more + APART * less


def _tiles(window: Window, schemes: Schemes, images: int = 1) -> int:
    """Tiles, symbolic extents taken at their nominal sizes, a symbolic batch at `images`."""
    places = zip(window.slides, schemes, strict=True)
    down, across = (-(-(extent_of(a.extent) or PLACES) // s.outputs) for (a, _), s in places)
    return _product((a.extent for a in window.batch), images) * down * across


def _time(window: Window, schemes: Schemes, target: Target) -> float:
    """Nanoseconds that the schemes take."""
    c, o = _sizes(window)
    tiles, products = _tiles(window, schemes, IMAGES), _points(schemes)
    transforms = tiles * products * (c + o) * PER_INPUT * max(s.inputs for s in schemes) / target.gflops
    return _contraction(tiles, products, c, o, window.dtype, target) + transforms + LAUNCH


def _plan(window: Window, schemes: Schemes, shape: TileShape, target: Target) -> WinogradPlan:
    """Blocks of tiles whose buffers stay in a core's own cache, and enough of them for the threads.

    Everything in one kernel where a core's own cache keeps the transformed weights, which each block reads, or where
    there are many tiles. Else the data of all tiles stays in the caches between two kernels, and channel blocks are
    shared as well.
    """
    shape = _streamed(window, schemes, shape, target)
    c, o = _sizes(window)
    tiles, room, point = _tiles(window, schemes), target.l2_bytes // 2, 4 * _points(schemes)
    products = point * (shape.width + PAD)
    channel_blocks = -(-o // shape.width)
    fit = max(1, min(MOST_TILES, room // products))
    blocks = max(-(-tiles // fit), -(-FEWEST_PIECES // channel_blocks))
    size = max(1, -(-tiles // blocks))
    most = min(MOST_TILES, room // (products + point * (c + PAD)))
    if most and (point * c * o <= target.l2_bytes or tiles >= PIECES * most):
        wholes = max(-(-tiles // most), min(PIECES, blocks * channel_blocks))
        each = -(-tiles // (-(-wholes // 4) * 4))  # evenly for one, two and four threads
        if each >= min(WORTHWHILE, size):
            return WinogradPlan(window, schemes, shape, each, True)
    if all(extent_of(a.extent) is not None for a in (*window.batch, *(axis for axis, _ in window.slides))):
        return WinogradPlan(window, schemes, shape, size, False)
    if channel_blocks >= FEWEST_PIECES:
        size *= max(1, fit // size)  # several images, if there are, read the weights once; one alone is shared as well
    return WinogradPlan(window, schemes, shape, size, False, (PIECES * most, most) if most >= WORTHWHILE else None)
