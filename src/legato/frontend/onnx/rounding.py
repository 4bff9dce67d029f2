"""Extents through float32, exactly: what its rounding makes of quotients of integers, as formulas of integers.

A product p/q of an extent and a factor is no float32 in general. It is rounded before it is rounded down, so that the
largest integer below it may be one too small: floor(50 * 0.02) is 1 in float32, though its 0.02 is less than 1/50. The
next integer I is reached from p/q where I - p/q is at most half of the distance between floats there, which is 2^(e-23)
for 2^e <= I - 1 < 2^(e+1). So within each such octave, and with what is left of q * 2^(e-24) when rounded down,

    floor(float32(p / q)) = (p + q * 2^(e-24)) // q

Extents are at most 2^20 here, and results less than 2^23.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from legato.arith.bounds import bounds
from legato.arith.expr import cdiv, const, ge, select
from legato.arith.fraction import simplest
from legato.arith.simplify import simplify
from legato.ir.types import Dim

__all__ = ["EXTENT", "Floats", "ceiled", "floored"]

EXTENT = 1 << 20  # the largest extent that goes through floats
_LARGEST = 23  # results are below 2 to this power
_WIDEST = 1 << 40  # factors of more than this would overflow


Floats = Literal["float32", "float64"]


def floored(n: Dim, p: int, q: int, floats: Floats = "float32", is_extent: bool = True) -> Dim | None:
    """floor(floats(n * p / q)) for n, p >= 0 and q > 0 as a dim; None where 64 bits do not hold the formula.

    is_extent: `n` is at most `EXTENT`.
    """
    return _rounded(n, p, q, floats, is_extent, False)


def ceiled(n: Dim, p: int, q: int, floats: Floats = "float32", is_extent: bool = True) -> Dim | None:
    """ceil(floats(n * p / q)), as `floored`."""
    return _rounded(n, p, q, floats, is_extent, True)


def _rounded(n: Dim, p: int, q: int, floats: Floats, is_extent: bool, up: bool) -> Dim | None:
    simple = simplest(float(np.dtype(floats).type(p / q)))
    if is_extent and _is_same(p, q, simple.numerator, simple.denominator, floats, up):
        return _quotient(n * simple.numerator, simple.denominator, 0, up)
    if max(p, q) > _WIDEST or floats != "float32":
        return None
    plain = _quotient(n * p, q, 0, up)
    below = plain - 1 if up else plain  # the integer from whose size the distance of floats follows
    last = bounds(below).hi
    found = plain
    for e in range(-1, _LARGEST):
        least, slack = 1 << e if e >= 0 else 0, (q << (e + 1)) >> 25
        if slack and not (up and e < 0) and (last is None or least <= last):
            found = select(ge(below, least), _quotient(n * p, q, slack, up), found)
    return simplify(found)


def _quotient(p: Dim, q: int, slack: int, up: bool) -> Dim:
    """p / q, or what is nearer to the next integer by slack / q, rounded down or up."""
    return simplify(cdiv(p - slack, q) if up else (p + slack) // const(q))


@lru_cache(maxsize=256)
def _is_same(p: int, q: int, a: int, b: int, floats: Floats, up: bool) -> bool:
    """Whether, in `floats`, a/b may stand for p/q with every extent."""
    if a > _WIDEST or b > _WIDEST:
        return False
    n = np.arange(min(EXTENT, (q << _LARGEST) // max(p, 1)) + 1, dtype=np.int64)
    # Either factor is a float itself. The product, or quotient, is exact in float64, or rounded once more without harm.
    exact = n * float(Fraction(p, q)) if q & (q - 1) == 0 else n / float(Fraction(q, p))
    rounded = exact.astype(floats)
    got = np.ceil(rounded) if up else np.floor(rounded)
    return bool(np.all(got.astype(np.int64) == (-(-n * a // b) if up else n * a // b)))
