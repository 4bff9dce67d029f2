"""Intervals that hold every value of an expression."""

from __future__ import annotations

import math
from collections.abc import Mapping

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.arith.interval import Interval
from legato.arith.linear import Sum, Terms, bottom_up
from legato.base import dtype as dt

__all__ = ["Bounds", "bounds"]

Pair = tuple[int | None, int | None]
_UNKNOWN: Pair = (None, None)


def bounds(e: Expr, ranges: Mapping[Var, Interval] | None = None) -> Interval:
    """An interval that holds every value of `e` (of dtype index, or bool as 0 and 1) for variables in `ranges`.

    A variable's own lo and hi count as well. Exact for sums of distinct atoms and monotone functions of one atom.
    """
    return Interval(*Bounds(ranges).of(e))


class Bounds:
    """Intervals under fixed ranges, remembered per node, as (lo, hi) with None for unknown."""

    __slots__ = ("memo", "ranges")

    def __init__(self, ranges: Mapping[Var, Interval] | None = None) -> None:
        self.ranges = ranges or {}
        self.memo: dict[Expr, Pair] = {}

    def of(self, e: Expr) -> Pair:
        """The interval of `e`."""
        found = self.memo.get(e)
        return found if found is not None else bottom_up(e, self.memo, self._visit)

    def of_sum(self, terms: Terms, total: int) -> Pair:
        """The interval of a sum."""
        lo: int | None = total
        hi: int | None = total
        for t, c in terms.items():
            if not c:
                continue
            least, most = self.of(t) if c > 0 else reversed(self.of(t))
            lo = None if lo is None or least is None else lo + c * least
            hi = None if hi is None or most is None else hi + c * most
            if lo is None and hi is None:
                return _UNKNOWN
        return lo, hi

    def _visit(self, e: Expr, parts: Sum | None) -> Pair:
        if parts is not None:
            return self.of_sum(*parts)
        if type(e) is Var:
            return self._var(e)
        if type(e) is Const:
            return _UNKNOWN if isinstance(e.value, float) else (int(e.value), int(e.value))
        if type(e) is Binary and e.dtype is dt.index:
            return _binary(e.op, self.memo[e.a], self.memo[e.b])
        if type(e) is Select and e.dtype is dt.index:
            return _union(self.memo[e.a], self.memo[e.b])
        if e.dtype.is_bool:
            return (0, 1)
        return e.limits() if e.dtype is dt.index else _UNKNOWN

    def _var(self, v: Var) -> Pair:
        given = self.ranges.get(v)
        if given is None:
            return v.lo, v.hi
        lo = given.lo if v.lo is None else v.lo if given.lo is None else max(v.lo, given.lo)
        hi = given.hi if v.hi is None else v.hi if given.hi is None else min(v.hi, given.hi)
        return lo, hi


def _union(a: Pair, b: Pair) -> Pair:
    lo = None if a[0] is None or b[0] is None else min(a[0], b[0])
    hi = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return lo, hi


def _binary(op: Op, a: Pair, b: Pair) -> Pair:
    match op:
        case Op.MIN:
            return None if a[0] is None or b[0] is None else min(a[0], b[0]), _least(a[1], b[1])
        case Op.MAX:
            return _negated(_binary(Op.MIN, _negated(a), _negated(b)))
        case Op.MUL:
            return _product(a, b)
        case Op.FLOORDIV:
            return _quotient(a, b)
        case Op.FLOORMOD:
            return _remainder(a, b)
        case Op.BITAND if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
            return 0, _least(a[1], b[1])
        case _:
            return _UNKNOWN


def _least(x: int | None, y: int | None) -> int | None:
    return y if x is None else x if y is None else min(x, y)


def _negated(a: Pair) -> Pair:
    return None if a[1] is None else -a[1], None if a[0] is None else -a[0]


def _product(a: Pair, b: Pair) -> Pair:
    corners = [_times(x, y) for x in _ends(a) for y in _ends(b)]
    lo, hi = min(corners), max(corners)
    return lo if isinstance(lo, int) else None, hi if isinstance(hi, int) else None


def _ends(a: Pair) -> tuple[float, float]:
    return -math.inf if a[0] is None else a[0], math.inf if a[1] is None else a[1]


def _times(x: float, y: float) -> float:
    """x · y where 0 · ∞ is 0, and integers stay exact."""
    if not x or not y:
        return 0
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    return math.inf if (x > 0) == (y > 0) else -math.inf


def _quotient(a: Pair, b: Pair) -> Pair:
    if b[0] is not None and b[1] is not None and b[0] > b[1]:
        return _UNKNOWN  # no value at all
    if b[1] is not None and b[1] < 0:
        return _quotient(_negated(a), _negated(b))
    if b[0] is None or b[0] < 0:
        return _UNKNOWN
    if b[0] == 0:  # division by 0 gives 0
        return (0, 0) if b[1] == 0 else _union((0, 0), _quotient(a, (1, b[1])))
    least, most = b[0], b[1]
    lo: int | None = None
    hi: int | None = None
    if a[0] is not None:
        lo = a[0] // least if a[0] < 0 else 0 if most is None else a[0] // most
    if a[1] is not None:
        hi = a[1] // least if a[1] >= 0 else -1 if most is None else a[1] // most
    return lo, hi


def _remainder(a: Pair, b: Pair) -> Pair:
    if b[0] is not None and b[1] is not None and b[0] > b[1]:
        return _UNKNOWN  # no value at all
    if b[1] is not None and b[1] < 0:
        return _negated(_remainder(_negated(a), _negated(b)))
    if b[0] is None or b[0] < 0:
        return _UNKNOWN
    if b[0] == 0:
        return (0, 0) if b[1] == 0 else _union((0, 0), _remainder(a, (1, b[1])))
    if a[0] is not None and a[1] is not None:
        if a[0] >= 0 and a[1] < b[0]:
            return a
        if b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
            return a[0] % b[0], a[1] % b[0]
    most = None if b[1] is None else b[1] - 1
    return 0, _least(most, a[1]) if a[0] is not None and a[0] >= 0 else most
