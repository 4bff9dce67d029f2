"""Reading images between their elements, at places that a grid gives; and such grids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from legato.arith.expr import Const, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75  # the parameter of the cubic polynomials
_MOST_CUBIC = 3  # spatial dims: 64 elements are read for each

Tap = tuple[Expr, Expr]  # a position along a dim, which may be outside, and its weight


def grid_sample(
    b: Emitter,
    x: Expr,
    grid: Expr,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Expr:
    """x [n, channels, …] at the places grid [n, …, rank], from -1 to 1, of which the first is along the last dim."""
    if mode not in _MODES or padding_mode not in _PADDINGS:
        raise ImportModelError(f"mode is {mode!r} and padding_mode {padding_mode!r}, wanted one of "
                               f"{', '.join(_MODES)}, and of {', '.join(_PADDINGS)}")  # fmt: skip
    how, spatial = _MODES[mode], b.rank(x) - 2
    if spatial < 1 or b.rank(grid) != spatial + 2 or not b.dtype(grid).is_float:
        raise ImportModelError(f"places {grid.ty} in an image {x.ty}")
    if how != "nearest" and not b.dtype(x).is_float:
        raise UnsupportedError(f"{how} interpolation of {b.dtype(x)}")
    if spatial > _MOST_CUBIC:
        raise UnsupportedError(f"an image of {spatial} spatial dims: {_MOST_CUBIC} are the most")
    b.require(b.dims_of(grid)[-1], const(spatial), "coordinates of a place")
    places = b.wide(grid)
    lines = [_Line(b, d, bool(align_corners), padding_mode, b.like(0, places)) for d in b.dims_of(x)[2:]]
    taps = []
    for n, line in enumerate(lines):
        own = b.take(places, b.constant(spatial - 1 - n, dt.int64), axis=spatial + 1)
        taps.append(line.taps(line.position(own, how), how))
    return b.to(_Image(b, b.wide(x), lines).sum_of(taps), b.dtype(x))


@dataclass(frozen=True, slots=True)
class _Line:
    """A spatial dim: its extent, and where its elements lie. `zero` has the dtype of coordinates."""

    b: Emitter
    dim: Dim
    aligned: bool
    padding: str
    zero: Expr

    @property
    def extent(self) -> Expr:
        return self.b.extent(self.dim, self.b.dtype(self.zero))

    def number(self, value: float) -> Expr:
        return self.b.like(value, self.zero)

    @property
    def last(self) -> Expr:
        """The last position."""
        return self.b.subtract(self.extent, self.number(1))

    @property
    def ends(self) -> tuple[Expr, Expr]:
        """Where the dim begins and ends: the first and last elements, or their outer edges."""
        if self.aligned:
            return self.zero, self.last
        return self.number(-0.5), self.b.subtract(self.extent, self.number(0.5))

    def position(self, place: Expr, how: str) -> Expr:
        """The position that a coordinate from -1 to 1 means; one outside is brought in."""
        b, half = self.b, self.number(0.5)
        shifted = b.add(place, self.number(1))
        if self.aligned:
            found = b.multiply(b.multiply(shifted, half), self.last)
        else:
            found = b.multiply(b.subtract(b.multiply(shifted, self.extent), self.number(1)), half)
        found = b.round(found) if how == "nearest" else found
        # The elements that a cubic polynomial reads are each brought in, not what it reads them for: ONNX Runtime and
        # PyTorch do so, the reference of the onnx package does not.
        return found if how == "cubic" and self.padding == "border" else self.padded(found)

    def padded(self, position: Expr) -> Expr:
        """A position; for one outside that which stands for it."""
        b, (begin, end) = self.b, self.ends
        if self.padding == "zeros":
            return position
        outside = b.logical_or(b.less(position, begin), b.greater(position, end))
        return b.where(outside, self._within(position), position)

    def _within(self, position: Expr) -> Expr:
        b, (begin, end) = self.b, self.ends
        if self.padding == "border":
            return b.minimum(b.maximum(position, self.zero), self.last)
        length = b.subtract(end, begin)
        twice = b.maximum(b.add(length, length), self.number(1))  # of one element, aligned: 0, which divides nothing
        passed = b.floor_mod(b.subtract(position, begin), twice)
        back = b.minimum(passed, b.subtract(twice, passed))
        return b.minimum(b.maximum(b.add(begin, back), begin), end)

    def taps(self, position: Expr, how: str) -> list[Tap]:
        """The elements that a position reads, with their weights."""
        b, one = self.b, self.number(1)
        if how == "nearest":
            return [(position, one)]
        first = b.floor(position)
        t = b.subtract(position, first)
        if how == "linear":
            return [(first, b.subtract(one, t)), (b.add(first, one), t)]
        steps = [b.add(t, one), t, b.subtract(one, t), b.subtract(self.number(2), t)]
        return [(b.add(first, self.number(k - 1)), self._cubic(s, outer=k in (0, 3))) for k, s in enumerate(steps)]

    def _cubic(self, s: Expr, *, outer: bool) -> Expr:
        """The weight of an element at the distance `s`, from 1 to 2 if `outer`, else up to 1."""
        a = _CUBIC
        factors = (a, -5 * a, 8 * a, -4 * a) if outer else (a + 2, -(a + 3), 0, 1)
        found = self.number(factors[0])
        for factor in factors[1:]:
            found = self.b.add(self.b.multiply(found, s), self.number(factor))
        return found

    def element(self, position: Expr) -> tuple[Expr, Expr]:
        """The subscript of a whole position, and whether there is such an element; 0 where there is none."""
        b = self.b
        at = self.padded(position)
        inside = b.logical_and(b.greater_equal(at, self.zero), b.less_equal(at, self.last))
        return b.cast(b.where(inside, at, self.zero), dtype=dt.int64), inside


class _Image:
    """An image whose spatial dims are one, to be read by one subscript."""

    def __init__(self, b: Emitter, x: Expr, lines: Sequence[_Line]) -> None:
        self.b, self.lines = b, lines
        self.x = b.reshape(x, newshape=(*b.dims_of(x)[:2], b.product([line.dim for line in lines])), allowzero=True)

    def sum_of(self, taps: Sequence[Sequence[Tap]]) -> Expr:
        """The weighted sum of the elements at all combinations of taps, one of each dim."""
        elements = [[(*line.element(at), weight) for at, weight in own]
                    for line, own in zip(self.lines, taps, strict=True)]  # fmt: skip
        if all(len(own) == 1 for own in elements):
            return self._read([own[0][:2] for own in elements])
        total: Expr | None = None
        for chosen in product(*elements):
            weight = chosen[0][2]
            for _, _, more in chosen[1:]:
                weight = self.b.multiply(weight, more)
            share = self._by_channel(self.b.to(weight, self.b.dtype(self.x)))
            part = self.b.multiply(self._read([c[:2] for c in chosen]), share)
            total = part if total is None else self.b.add(total, part)
        assert total is not None  # there are taps
        return total

    def _read(self, chosen: Sequence[tuple[Expr, Expr]]) -> Expr:
        """[n, channels, …]: the elements at subscripts [n, …] of each dim; 0 where there is none."""
        b = self.b
        place, inside = chosen[0]
        for line, (more, also) in zip(self.lines[1:], chosen[1:], strict=True):
            place = b.add(b.multiply(place, b.extent(line.dim, dt.int64)), more)
            inside = b.logical_and(inside, also)
        found = b.take(self.x, place, axis=2, batch_dims=1)
        return b.where(self._by_channel(inside), found, b.like(0, found)) if self.lines[0].padding == "zeros" else found

    def _by_channel(self, x: Expr) -> Expr:
        return self.b.expand_dims(x, axis=1)


def affine_grid(b: Emitter, theta: Expr, size: Expr, *, align_corners: int = 0) -> Expr:
    """[n, …, rank]: the places of an image of `size` [n, channels, …] from -1 to 1, transformed by theta [n, rank,
    rank + 1]. Aligned, the only place along a dim of 1 is 0: PyTorch's answer, as the standard has none."""
    if b.rank(size) != 1 or b.rank(theta) != 3:
        raise ImportModelError(f"transforms {theta.ty} of a grid of a size {size.ty}")
    rank = b.dims_of(theta)[1]
    spatial = b.known(rank if isinstance(rank, Const) else b.dims_of(size)[0] - 2, "the number of spatial dims")
    theta = b.agreed(theta, (None, spatial, spatial + 1), "the transforms")
    size = b.agreed(size, (spatial + 2,), "the size")
    batch, _, *extents = b.dims(size, "the size")
    b.require(b.dims_of(theta)[0], batch, "transforms")
    wide = b.wide(theta)
    columns = [b.broadcast(_coordinates(b, d, bool(align_corners), wide, spatial - 1 - n), extents)
               for n, d in reversed(list(enumerate(extents)))]  # fmt: skip
    columns.append(b.full(b.like(1, wide), shape=tuple(extents)))
    rows = b.reshape(b.stack(*columns, axis=spatial), newshape=(b.product(extents), spatial + 1), allowzero=True)
    found = b.matmul(rows, b.transpose(wide, axes=(0, 2, 1)))
    return b.to(b.reshape(found, newshape=(batch, *extents, spatial), allowzero=True), b.dtype(theta))


def _coordinates(b: Emitter, d: Dim, aligned: bool, like: Expr, behind: int) -> Expr:
    """Where the elements of a dim are between -1 and 1, with `behind` dims of 1 behind."""
    one, dtype = b.like(1, like), b.dtype(like)
    twice = b.multiply(b.cast(b.arange(start=const(0), stop=d, step=1, dtype=dt.int64), dtype=dtype), b.like(2, like))
    if aligned:
        last = b.subtract(b.extent(d, dtype), one)
        found = b.divide(b.subtract(twice, last), b.maximum(last, one))  # 0 where there is one element
    else:
        found = b.subtract(b.divide(b.add(twice, one), b.extent(d, dtype)), one)
    return b.expand_dims(found, axis=1, num_newaxis=behind) if behind else found
