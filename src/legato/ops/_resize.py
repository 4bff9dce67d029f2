"""Interpolation along one dimension, in exact arithmetic.

The source coordinate of output o is a rational number (step·o + offset)/den with integers computed from the extents
(or from a given scale), so every rounding and every neighbour is exact; only weights are floats. `Line` works on index
expressions and on integer arrays alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Binary, Expr, Op, const, floordiv, floormod, ge, gt, land, le, lor, lt, max_, min_, select
from legato.arith.fraction import simplest
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.types import Dim
from legato.ops._tensors import Array, as_int, known_int
from legato.tir.expr import cast

__all__ = ["COORDINATES", "METHODS", "ROUNDINGS", "Axis", "Crop", "Factor", "Line", "Method", "crop", "factor", "line",
           "scaled_extent"]  # fmt: skip

METHODS = {
    "nearest_neighbor": "nearest", "nearest": "nearest", "linear": "linear", "bilinear": "linear",
    "trilinear": "linear", "cubic": "cubic", "bicubic": "cubic", "tricubic": "cubic",
}  # fmt: skip
ROUNDINGS = ("", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric",
               "tf_half_pixel_for_nn", "tf_crop_and_resize")  # fmt: skip


Factor = tuple[Dim, Dim]  # a quotient, both above 0
Crop = tuple[Dim, Dim, Dim]  # where a range begins and ends, in denominators of the third, which is above 0


def factor(scale: float) -> Factor:
    """The quotient that a float stands for."""
    ratio = simplest(scale)
    return const(ratio.numerator), const(ratio.denominator)


def crop(start: float, end: float) -> Crop:
    """The range that floats stand for."""
    first, last = simplest(start), simplest(end)
    den = math.lcm(first.denominator, last.denominator)
    return const(int(first * den)), const(int(last * den)), const(den)


@dataclass(frozen=True, slots=True)
class Line:
    """The source coordinate (step·o + offset)/den of output o; den > 0."""

    step: Dim
    offset: Dim
    den: Dim

    def at(self, o: Expr) -> Expr:
        """The numerator for output `o`."""
        return o * self.step + self.offset

    def numbers(self, count: int) -> tuple[Array, int]:
        """The numerators of outputs 0 … count − 1, and the denominator."""
        return np.arange(count, dtype=np.int64) * as_int(self.step) + as_int(self.offset), as_int(self.den)


def scaled_extent(n: Dim, scale: float) -> Dim:
    """n·scale, rounded to the nearest (halves up)."""
    ratio = simplest(scale)
    if ratio.denominator == 1:
        return n * ratio.numerator
    return floordiv(n * (2 * ratio.numerator) + ratio.denominator, const(2 * ratio.denominator))


_WHOLE: Crop = (const(0), const(1), const(1))


def _reduced(step: Dim, offset: Dim, den: Dim) -> Line:
    known = [known_int(d) for d in (step, offset, den)]
    divisor = 1 if None in known else math.gcd(*(k or 0 for k in known))
    return Line(*(const((k or 0) // divisor) for k in known)) if divisor > 1 else Line(step, offset, den)


def line(mode: str, n: Dim, m: Dim, scale: Factor | None = None, roi: Crop = _WHOLE) -> Line:
    """Where `m` outputs lie over `n` elements in coordinate transformation `mode` (ONNX's definitions).

    `scale` is m/n unless given. `roi` is the range that tf_crop_and_resize covers.
    """
    if mode == "align_corners":
        if scale is None:
            return _reduced(n - 1, const(0), max_(m - 1, const(1)))
        # The last of n·scale outputs, a number that need not be whole, lies on the last element.
        return _reduced((n - 1) * scale[1], const(0), max_(n * scale[0] - scale[1], const(1)))
    if mode == "tf_crop_and_resize":
        return _crop(n, m, roi)
    # One output is `step/unit` elements apart: n/m, or the inverse of the scale.
    step, unit = (n, m) if scale is None else (scale[1], scale[0])
    if mode == "asymmetric":
        return _reduced(step, const(0), unit)
    if mode == "tf_half_pixel_for_nn":
        return _reduced(step * 2, step, unit * 2)
    offset = step - unit
    if mode == "half_pixel_symmetric":
        offset = offset + n * unit - m * step
    if mode == "pytorch_half_pixel":
        one = le(m, 1)
        return _reduced(select(one, const(0), step * 2), select(one, const(0), offset), unit * 2)
    return _reduced(step * 2, offset, unit * 2)


def _crop(n: Dim, m: Dim, roi: Crop) -> Line:
    first, last, den = roi
    one = le(m, 1)
    step = (n - 1) * (last - first)
    offset = select(one, (n - 1) * (first + last), (n - 1) * (m - 1) * first)
    return _reduced(step, offset, select(one, den * 2, (m - 1) * den))


@dataclass(frozen=True, slots=True)
class Method:
    """How elements around a coordinate are combined."""

    kind: str = "linear"
    rounding: str = "round"
    alpha: float = -0.5
    exclude: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension to be resized from `n` to `m` elements. Of as many it is as it was, if it `stays` so."""

    n: Dim
    m: Dim
    line: Line
    method: Method
    stays: bool = False

    @property
    def source_dims(self) -> tuple[Dim, ...]:
        """The extents that must not be 0 where an output is computed."""
        multiple = isinstance(self.m, Binary) and self.m.op is Op.MUL and self.n in (self.m.a, self.m.b)
        return () if multiple or self.m is self.n else (self.n,)

    # ------------------------------------------------------------------ nearest

    def _rounded(self) -> tuple[int, int, int]:
        """(p, q, r): the nearest element is (p·num + q·den − r) // (p·den)."""
        match self.method.rounding:
            case "floor":
                return 1, 0, 0
            case "ceil":
                return 1, 1, 1
            case "round_prefer_floor":
                return 2, 1, 1
            case _:
                return 2, 1, 0

    def nearest(self, o: Expr) -> Expr:
        """The element that output `o` copies."""
        p, q, r = self._rounded()
        den = self.line.den
        index = floordiv(self.line.at(o) * p + (den * q - r), den * p)
        return index if self._stays_inside() else max_(min_(index, self.n - 1), const(0))

    def _stays_inside(self) -> bool:
        """Whether rounding never leaves the data: extents are known and the ends are inside, or m is n·scale."""
        n, m = known_int(self.n), known_int(self.m)
        step, offset = known_int(self.line.step), known_int(self.line.offset)
        if n is not None and m is not None and step is not None and offset is not None:
            found = self._nearest_all(m)
            return bool(m == 0 or (found.min() >= 0 and found.max() < n))
        return self.method.rounding == "floor" and step == 1 and offset == 0 and self.m is self.n * self.line.den

    def _nearest_all(self, m: int) -> Array:
        p, q, r = self._rounded()
        number, den = self.line.numbers(m)
        return np.asarray((number * p + (den * q - r)) // (den * p))

    def nearest_all(self) -> Array:
        """As `nearest`, of all outputs."""
        return np.clip(self._nearest_all(as_int(self.m)), 0, max(as_int(self.n) - 1, 0))

    # ------------------------------------------------------------------ weighted

    def taps(self, o: Expr, dtype: DType) -> list[tuple[Expr, Expr]]:
        """(element, weight) pairs whose weighted sum is output `o`."""
        number, den = self.line.at(o), self.line.den
        low, rest = floordiv(number, den), cast(floormod(number, den), dtype) / cast(den, dtype)
        places = [low + k for k in self._offsets()]
        weights: list[Expr] = self._weights(rest)
        if self.method.kind == "cubic" and self.method.exclude:
            inside = [land(ge(i, 0), lt(i, self.n)) for i in places]
            weights = [select(c, w, const(0, dtype)) for c, w in zip(inside, weights, strict=True)]
            total = sum(weights[1:], weights[0])
            weights = [w / total for w in weights]
        return [(max_(min_(i, self.n - 1), const(0)), w) for i, w in zip(places, weights, strict=True)]

    def taps_all(self, dtype: DType) -> list[tuple[Array, Array]]:
        """As `taps`, of all outputs."""
        number, den = self.line.numbers(as_int(self.m))
        n = as_int(self.n)
        rest = (number % den).astype(dtype.numpy) / dtype.numpy.type(den)
        places = [number // den + k for k in self._offsets()]
        weights: list[Array] = self._weights(rest)
        if self.method.kind == "cubic" and self.method.exclude:
            weights = [np.where((i >= 0) & (i < n), w, 0).astype(w.dtype) for i, w in zip(places, weights, strict=True)]
            total = sum(weights[1:], weights[0])
            weights = [w / total for w in weights]
        return [(np.clip(i, 0, max(n - 1, 0)), w) for i, w in zip(places, weights, strict=True)]

    def _offsets(self) -> Sequence[int]:
        return range(2) if self.method.kind == "linear" else range(-1, 3)

    def _weights(self, f: Any) -> list[Any]:
        """The weights of the elements around fraction `f` (an expression or an array); Keys' kernel for cubic."""
        if self.method.kind == "linear":
            return [1 - f if isinstance(f, np.ndarray) else te.literal(1, f) - f, f]
        a, g = self.method.alpha, 1 - f if isinstance(f, np.ndarray) else te.literal(1, f) - f
        return [_far(f, a), _near(f, a), _near(g, a), _far(g, a)]

    # ------------------------------------------------------------------ outside

    def outside(self, o: Expr) -> Expr:
        """Whether the coordinate of output `o` is outside the data."""
        number = self.line.at(o)
        return lor(lt(number, 0), gt(number, (self.n - 1) * self.line.den))

    def outside_all(self) -> Array:
        """As `outside`, of all outputs."""
        number, den = self.line.numbers(as_int(self.m))
        return np.asarray((number < 0) | (number > (as_int(self.n) - 1) * den))


def _near(x: Any, a: float) -> Any:
    """Keys' kernel at distance `x` ≤ 1."""
    return (x * (a + 2) - (a + 3)) * x * x + 1


def _far(x: Any, a: float) -> Any:
    """Keys' kernel at distance 1 + `x`."""
    y = x + 1
    return ((y * a - 5 * a) * y + 8 * a) * y - 4 * a
