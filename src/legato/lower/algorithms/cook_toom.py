"""The matrices of Winograd's minimal filtering algorithms F(m × m, 3 × 3), by Cook and Toom's construction.

m outputs of a correlation with 3 weights, y = Aᵀ((G g) ∘ (B d)), take m + 2 products in place of 3·m. The products are
values of polynomials at m + 1 points and at infinity: row j of G evaluates the weights at point a_j (divided by
Π(a_j − a_l), l ≠ j), row j of B has the coefficients of Π(x − a_l), l ≠ j, and column j of Aᵀ the powers of a_j.
Applied along both dimensions of an image, (m + 2)² products give m² outputs; along one, with F1, the sum as it stands,
along the other, 3·(m + 2) give m (Winograd, "Arithmetic complexity of computations", 1980; Lavin and Gray, "Fast
algorithms for convolutional neural networks", 2016).

Points come in pairs ±a, so that sums of even and of odd terms serve two rows each. For m = 4 the points 0, ±3/4, ±3/2
have half the error of the usual 0, ±1, ±2: their powers spread less. (Scaling a row of B by a power of two and dividing
the row of G by it rounds nothing differently, so rows are left as they come.)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from legato.arith.expr import Expr, const
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.tir.expr import Call

__all__ = ["F1", "F2", "F4", "TAPS", "Matrix", "Scheme", "Schemes", "combined", "gathered", "scheme"]

Matrix = tuple[tuple[Fraction, ...], ...]
TAPS = 3  # weights along each dimension of a window


@dataclass(frozen=True, slots=True)
class Scheme:
    """F(outputs, 3) along a dimension: `data` (Bᵀ), `weights` (G) and `result` (Aᵀ)."""

    outputs: int
    data: Matrix
    weights: Matrix
    result: Matrix

    @property
    def inputs(self) -> int:
        """Inputs, and products, along the dimension."""
        return self.outputs + TAPS - 1


Schemes = tuple[Scheme, Scheme]  # along the rows and along the columns of a window


def scheme(outputs: int, points: Sequence[Fraction | int]) -> Scheme:
    """F(outputs, 3) for `outputs` + 1 distinct finite points, and infinity."""
    at = [Fraction(p) for p in points]
    powers = [[*(a**i for a in at), Fraction(int(i == outputs - 1))] for i in range(outputs)]
    weights: list[list[Fraction]] = []
    data: list[list[Fraction]] = []
    for j, a in enumerate(at):
        others = [b for n, b in enumerate(at) if n != j]
        scale = Fraction(1)
        for b in others:
            scale *= a - b
        weights.append([a**k / scale for k in range(TAPS)])
        data.append([*_with_roots(others), Fraction(0)])
    weights.append([Fraction(0)] * (TAPS - 1) + [Fraction(1)])
    data.append(_with_roots(at))
    return Scheme(outputs, _matrix(data), _matrix(weights), _matrix(powers))


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of Π(x − root), that of x⁰ first."""
    coefficients = [Fraction(1)]
    for root in roots:
        raised = [Fraction(0), *coefficients]
        for n, c in enumerate(coefficients):
            raised[n] -= root * c
        coefficients = raised
    return coefficients


def _matrix(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


_ALONE: Final = _matrix([[Fraction(int(i == j)) for j in range(TAPS)] for i in range(TAPS)])
F1 = Scheme(1, _ALONE, _ALONE, _matrix([[Fraction(1)] * TAPS]))  # the sum as it stands
F2 = scheme(2, (0, 1, -1))
F4 = scheme(4, (0, Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)))


def combined(row: Sequence[Fraction], xs: Sequence[Expr], target: Target) -> Expr:
    """Σ row[i] · xs[i] for a row of `data`: products are rounded together with the sum where the target has FMA.

    The sum of the even terms and that of the odd ones are formed first, the last term of each taken as positive: rows
    that belong to a pair of points share both.
    """
    terms = list(zip(row, xs, strict=True))
    even, odd = (_Sum.of([(c, x) for c, x in terms[n::2] if c], target) for n in (0, 1))
    if even is None or odd is None:
        alone = even or odd
        assert alone is not None
        assert alone.positive, "the leading coefficient of a polynomial with given roots is 1"
        return alone.value
    assert even.positive, "of four or more roots in pairs, and 0, the highest even power has the coefficient 1"
    return even.value + odd.value if odd.positive else even.value - odd.value


def gathered(row: Sequence[Fraction], xs: Sequence[Expr], target: Target) -> Expr:
    """Σ row[i] · xs[i] for a row of `result`: the products of a pair of points are added or subtracted first, which
    serves every row; of F1, two of the three terms."""
    total: Expr | None = None
    for n in range(1, len(xs) - 1, 2):
        a, b = xs[n], xs[n + 1]
        assert abs(row[n]) == abs(row[n + 1]), "points other than 0 and infinity come in pairs"
        total = _plus(total, row[n], a + b if row[n] == row[n + 1] else a - b, target)
    assert total is not None
    for n in (0,) if len(xs) % 2 else (0, len(xs) - 1):
        total = _plus(total, row[n], xs[n], target) if row[n] else total
    return total


@dataclass(frozen=True, slots=True)
class _Sum:
    """value, or −value if not `positive`."""

    value: Expr
    positive: bool

    @staticmethod
    def of(terms: Sequence[tuple[Fraction, Expr]], target: Target) -> _Sum | None:
        """The sum of products, begun at the last; None of no terms."""
        total: Expr | None = None
        positive = bool(terms) and terms[-1][0] > 0
        for c, x in reversed(terms):
            total = _plus(total, c if positive else -c, x, target)
        return None if total is None else _Sum(total, positive)


def _plus(total: Expr | None, c: Fraction, x: Expr, target: Target) -> Expr:
    """total + c·x."""
    if total is None:
        return x if c == 1 else const(float(c), x.dtype) * x
    if abs(c) == 1:
        return total + x if c > 0 else total - x
    factor = const(float(c), x.dtype)
    return Call("fma", (factor, x, total), x.dtype) if target.fma else total + factor * x
