"""Fractions and the floats that stand for them."""

from __future__ import annotations

import struct
from fractions import Fraction

__all__ = ["is_float32", "nearest_float", "simplest"]


def is_float32(x: float) -> bool:
    """Whether float32 has the (finite) number `x`."""
    try:
        return bool(struct.unpack("<f", struct.pack("<f", x))[0] == x)
    except OverflowError:
        return False


def nearest_float(x: Fraction, bits: int) -> Fraction:
    """`x` rounded to `bits` significant bits, a tie to the even one: what a float of that precision makes of it."""
    if not x:
        return x
    size = abs(x.numerator).bit_length() - x.denominator.bit_length()
    if abs(x) < Fraction(2) ** size:
        size -= 1
    unit = Fraction(2) ** (size - bits + 1)  # what the last of `bits` bits is worth
    return round(x / unit) * unit


def simplest(x: float) -> Fraction:
    """The fraction with the smallest denominator that, as a float, is `x`: 3/5 for 0.6, in float32 or float64."""
    exact = Fraction(abs(x))
    if exact.denominator == 1:
        return Fraction(x)
    size = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < Fraction(2) ** size:
        size -= 1
    # A little less than half of the way to the next float: what lies nearer to a tie may be rounded twice.
    half = Fraction(2) ** (size - (24 if is_float32(x) else 53)) * (1 - Fraction(1, 1 << 20))
    below = half / 2 if exact == Fraction(2) ** size else half  # floats are nearer to each other below a power of two
    found = _simplest_between(exact - below, exact + half)
    return found if x > 0 else -found


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in [low, high], 0 < low, by continued fractions."""
    digits: list[int] = []
    while low.denominator != 1 and low.__floor__() == high.__floor__() != high:
        digits.append(low.__floor__())
        low, high = 1 / (high - digits[-1]), 1 / (low - digits[-1])
    found = Fraction(low.__ceil__())
    for digit in reversed(digits):
        found = digit + 1 / found
    return found
