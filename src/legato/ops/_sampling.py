"""Reading images between their elements, at places that are computed: composed of takes and weights.

A `Line` says where the elements of one dim lie and which of them a position reads; an `Image` reads the combinations of
lines. Positions count elements from 0. All is computed in the dtype of positions, sums in that of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._computed import extent_scalar
from legato.ops._gradients import dtype_of, in_shape, shape_of
from legato.ops._rules import product as product_of

__all__ = ["CUBIC", "METHODS", "PADDINGS", "Image", "Line", "Tap"]

METHODS = {"bilinear": "linear", "trilinear": "linear", "linear": "linear", "nearest": "nearest",
           "nearest_neighbor": "nearest", "bicubic": "cubic", "cubic": "cubic"}  # fmt: skip
PADDINGS = ("zeros", "border", "reflection")
CUBIC = -0.75  # the parameter of the cubic polynomials

Tap = tuple[Expr, Expr]  # a position along a dim, which may be outside, and its weight


@dataclass(frozen=True, slots=True)
class Line:
    """A dim: its extent, what stands for places outside, and the dtype of positions."""

    b: Builder
    dim: Dim
    aligned: bool
    padding: str
    dtype: DType

    @property
    def extent(self) -> Expr:
        """The extent as a number."""
        return extent_scalar(self.b, self.dim, self.dtype)

    def number(self, value: float) -> Expr:
        """A number of the dtype of positions."""
        return self.b.constant(value, self.dtype)

    @property
    def last(self) -> Expr:
        """The last position."""
        return self.b.subtract(self.extent, self.number(1))

    @property
    def ends(self) -> tuple[Expr, Expr]:
        """Where the dim begins and ends: the first and last elements, or their outer edges."""
        if self.aligned:
            return self.number(0), self.last
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
            return b.minimum(b.maximum(position, self.number(0)), self.last)
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
        factors = (CUBIC, -5 * CUBIC, 8 * CUBIC, -4 * CUBIC) if outer else (CUBIC + 2, -(CUBIC + 3), 0, 1)
        found = self.number(factors[0])
        for factor in factors[1:]:
            found = self.b.add(self.b.multiply(found, s), self.number(factor))
        return found

    def element(self, position: Expr) -> tuple[Expr, Expr]:
        """The subscript of a whole position, and whether there is such an element; 0 where there is none."""
        b = self.b
        at = self.padded(position)
        inside = self.holds(at)
        return b.cast(b.where(inside, at, self.number(0)), dtype=dt.int64), inside

    def holds(self, position: Expr) -> Expr:
        """Whether a position is between the first and the last element."""
        b = self.b
        return b.logical_and(b.greater_equal(position, self.number(0)), b.less_equal(position, self.last))


class Image:
    """An image [n, channels, …] whose spatial dims, those of `lines`, are one, to be read by one subscript."""

    def __init__(self, b: Builder, x: Expr, lines: Sequence[Line]) -> None:
        self.b, self.lines = b, lines
        self.x = in_shape(b, x, (*shape_of(x)[:2], product_of([line.dim for line in lines])))

    def sum_of(self, taps: Sequence[Sequence[Tap]]) -> Expr:
        """[n, channels, …]: the weighted sum of the elements at all combinations of taps [n, …], one of each dim."""
        elements = [[(*line.element(at), weight) for at, weight in own]
                    for line, own in zip(self.lines, taps, strict=True)]  # fmt: skip
        if all(len(own) == 1 for own in elements):
            return self._read([own[0][:2] for own in elements])
        total: Expr | None = None
        for chosen in product(*elements):
            weight = chosen[0][2]
            for _, _, more in chosen[1:]:
                weight = self.b.multiply(weight, more)
            share = weight if dtype_of(weight) == dtype_of(self.x) else self.b.cast(weight, dtype=dtype_of(self.x))
            part = self.b.multiply(self._read([c[:2] for c in chosen]), self._by_channel(share))
            total = part if total is None else self.b.add(total, part)
        assert total is not None  # there are taps
        return total

    def _read(self, chosen: Sequence[tuple[Expr, Expr]]) -> Expr:
        """[n, channels, …]: the elements at subscripts [n, …] of each dim; 0 where there is none."""
        b = self.b
        place, inside = chosen[0]
        for line, (more, also) in zip(self.lines[1:], chosen[1:], strict=True):
            place = b.add(b.multiply(place, extent_scalar(b, line.dim, dt.int64)), more)
            inside = b.logical_and(inside, also)
        found = b.take(self.x, place, axis=2, batch_dims=1)
        if self.lines[0].padding != "zeros":
            return found
        return b.where(self._by_channel(inside), found, b.constant(0, dtype_of(self.x)))

    def _by_channel(self, x: Expr) -> Expr:
        return self.b.expand_dims(x, axis=1)
