"""Least and greatest values of index expressions, as expressions: which part of a tensor a loop touches."""

from __future__ import annotations

from collections.abc import Mapping

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, const, floordiv, max_, min_
from legato.arith.linear import Sum, bottom_up, build, factors, product
from legato.arith.prove import prove_equal
from legato.arith.simplify import Simplifier
from legato.base import dtype as dt

__all__ = ["interval_of"]

Ends = tuple[Expr, Expr]


def interval_of(e: Expr, ends: Mapping[Var, Ends]) -> Ends | None:
    """(least, greatest) of `e` (of dtype index) where each variable of `ends` runs from its lo to its hi, included.

    Exact where `e` is monotone in each of its atoms: sums, multiples, floor division by literals, min and max.
    Otherwise still correct, if wider than need be; None where nothing is known (a Load of a varying index).
    """
    simplify = Simplifier()
    e = simplify(e)
    found = _Ends(ends, simplify).of(e)
    return None if found is None else (simplify(found[0]), simplify(found[1]))


class _Ends:
    """The ends of every node, remembered; None where they are unknown."""

    def __init__(self, ends: Mapping[Var, Ends], simplify: Simplifier) -> None:
        self.ends = ends
        self.simplify = simplify
        self.memo: dict[Expr, Ends | None] = {}

    def of(self, e: Expr) -> Ends | None:
        """The ends of `e`."""
        return bottom_up(e, self.memo, self._visit)

    def _visit(self, e: Expr, parts: Sum | None) -> Ends | None:
        if parts is not None:
            return self._sum(*parts)
        if isinstance(e, Var):
            return self.ends.get(e, (e, e))
        kids = [self.memo[k] for k in e.children()]
        if all(k is not None and k[0] is k[1] for k in kids) and all(
            k is not None and k[0] is c for k, c in zip(kids, e.children(), strict=True)
        ):
            return e, e  # mentions none of the variables
        if isinstance(e, Select) and e.dtype == dt.index:
            return _union(self.memo[e.a], self.memo[e.b])
        if isinstance(e, Binary) and e.dtype == dt.index:
            return self._binary(e)
        return self._by_limits(e)

    def _sum(self, terms: Mapping[Expr, int], total: int) -> Ends | None:
        lo: Expr = const(total)
        hi: Expr = const(total)
        for t, c in terms.items():
            found = self.memo[t]
            if found is None:
                return None
            least, greatest = found if c > 0 else found[::-1]
            lo, hi = lo + least * c, hi + greatest * c
        if all((f := self.memo[t]) is not None and f[0] is f[1] is t for t in terms):
            whole = build(terms, total)
            return whole, whole
        return lo, hi

    def _binary(self, e: Binary) -> Ends | None:
        a, b = self.memo[e.a], self.memo[e.b]
        if e.op in (Op.MIN, Op.MAX):
            pick = min_ if e.op is Op.MIN else max_
            if a is None or b is None:
                return None
            return pick(a[0], b[0]), pick(a[1], b[1])
        if e.op is Op.MUL:
            return self._product(e)
        if isinstance(e.b, Const) and int(e.b.value) > 0:
            if e.op is Op.FLOORDIV:
                return None if a is None else (floordiv(a[0], e.b), floordiv(a[1], e.b))
            if e.op is Op.FLOORMOD:
                return self._remainder(a, e.b)
        return self._by_limits(e)

    def _product(self, e: Binary) -> Ends | None:
        """A product with one varying factor, the others being naturals that do not vary."""
        parts = factors(e)
        varying = [p for p in parts if (f := self.memo.get(p, (p, p))) is None or f[0] is not p]
        fixed = [p for p in parts if p not in varying]
        ends = self.memo[varying[0]] if len(varying) == 1 and fixed else None
        if ends is None or not all(self.simplify.positive(p + 1) for p in fixed):
            return self._by_limits(e)
        scale = product(fixed)
        return ends[0] * scale, ends[1] * scale

    def _remainder(self, a: Ends | None, k: Const) -> Ends:
        if a is not None and prove_equal(floordiv(a[0], k), floordiv(a[1], k)):
            return a[0] % k, a[1] % k
        return const(0), k - 1

    def _by_limits(self, e: Expr) -> Ends | None:
        lo, hi = self.simplify.bounds.of(e)
        return None if lo is None or hi is None else (const(lo), const(hi))


def _union(a: Ends | None, b: Ends | None) -> Ends | None:
    return None if a is None or b is None else (min_(a[0], b[0]), max_(a[1], b[1]))
