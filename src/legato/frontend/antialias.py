"""Resizing to fewer elements without what is too fine for them: kernels are stretched by the factor.

An element is the sum of those within reach of its place, Σ k(s·(i − x))·data[i] / Σ k(s·(i − x)), where s is the factor
and at most 1. With s = 1 that is interpolation.
"""

from __future__ import annotations

from legato.arith.expr import cdiv, const, max_
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.frontend.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._computed import steps
from legato.ops._resize import Line

__all__ = ["Smoothing"]

_REACH = {"linear": 1, "cubic": 2}


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How one dim becomes `size` elements: by which factor, where they lie, and by which kernel; `exclude`: elements
    beyond the ends do not count, else those at the ends stand for them."""

    b: Emitter
    size: Dim
    factor: tuple[Dim, Dim]
    line: Line
    method: str
    cubic_alpha: float
    exclude: bool

    def of(self, x: Expr, axis: int) -> Expr:
        """`x`, of floats that sums are formed in, resized along `axis`."""
        b, dtype = self.b, self.b.dtype(x)
        reach, n = self._reach(), b.dims_of(x)[axis]
        low, rest = self._places()
        around = b.subtract(steps(b, simplify(reach * 2)), b.extent(simplify(reach - 1), dt.int64))
        places = b.add(b.expand_dims(low, axis=1), around)
        distance = b.subtract(b.cast(around, dtype=dt.float64), b.expand_dims(rest, axis=1))
        weight = self._kernel(b.multiply(b.abs(distance), self._scale()))
        if self.exclude:
            inside = b.logical_and(
                b.greater_equal(places, b.constant(0, dt.int64)), b.less(places, b.extent(n, dt.int64))
            )
            weight = b.where(inside, weight, b.like(0, weight))
        weight = b.divide(weight, b.sum(weight, axis=(1,), keepdims=True))
        behind = b.rank(x) - axis - 1
        share = b.expand_dims(b.to(weight, dtype), axis=2, num_newaxis=behind) if behind else b.to(weight, dtype)
        return b.sum(b.multiply(b.take(x, places, axis=axis, mode="clip"), share), axis=(axis + 1,))

    def _reach(self) -> Dim:
        """How many elements on either side of a place count."""
        over, under = self.factor
        own = _REACH[self.method]
        return simplify(max_(cdiv(under * own, over), const(own)))

    def _scale(self) -> Expr:
        over, under = (self.b.extent(d, dt.float64) for d in self.factor)
        return self.b.minimum(self.b.divide(over, under), self.b.constant(1.0, dt.float64))

    def _places(self) -> tuple[Expr, Expr]:
        """The element at or before the place of each, and how far that is from there."""
        b = self.b
        step, offset, den = (b.extent(d, dt.int64) for d in (self.line.step, self.line.offset, self.line.den))
        number = b.add(b.multiply(steps(b, self.size), step), offset)
        rest = b.divide(b.cast(b.floor_mod(number, den), dtype=dt.float64), b.cast(den, dtype=dt.float64))
        return b.floor_divide(number, den), rest

    def _kernel(self, d: Expr) -> Expr:
        """The weight at a distance: a triangle, or Keys' kernel."""
        b = self.b
        if self.method == "linear":
            return b.maximum(b.subtract(b.like(1, d), d), b.like(0, d))
        a = self.cubic_alpha
        near, far = (self._polynomial(d, f) for f in ((a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)))
        outside = b.where(b.less(d, b.like(2, d)), far, b.like(0, d))
        return b.where(b.less_equal(d, b.like(1, d)), near, outside)

    def _polynomial(self, x: Expr, factors: tuple[float, ...]) -> Expr:
        found: Expr = self.b.like(factors[0], x)
        for factor in factors[1:]:
            found = self.b.add(self.b.multiply(found, x), self.b.like(factor, x))
        return found
