"""Proofs about index expressions. All answers are one-sided: False means "not proven", never "disproven"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.arith.bounds import Bounds
from legato.arith.expr import Const, Expr, Var
from legato.arith.interval import Interval
from legato.arith.linear import Sum, add_scaled, content
from legato.arith.poly import expand
from legato.arith.simplify import simplify

__all__ = ["provably_different", "prove", "prove_all_equal", "prove_equal"]


def prove(cond: Expr, ranges: Mapping[Var, Interval] | None = None, limits: Mapping[Var, Expr] | None = None) -> bool:
    """True only if `cond` holds for all variables within `ranges`, `limits` (exclusive) and their own bounds."""
    e = simplify(cond, ranges, limits)
    return isinstance(e, Const) and bool(e.value)


def prove_equal(a: Expr, b: Expr, ranges: Mapping[Var, Interval] | None = None) -> bool:
    """True only if `a` and `b` (of dtype index) are always equal."""
    if a is b:
        return True
    a, b = simplify(a, ranges), simplify(b, ranges)
    return a is b or _difference(a, b) == ({}, 0)


def prove_all_equal(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """True only if `a` and `b` are as many, and always equal one by one."""
    return len(a) == len(b) and all(map(prove_equal, a, b))


def provably_different(a: Expr, b: Expr, ranges: Mapping[Var, Interval] | None = None) -> bool:
    """True only if `a` and `b` (of dtype index) are never equal."""
    a, b = simplify(a, ranges), simplify(b, ranges)
    terms, total = _difference(a, b)
    if not terms:
        return total != 0
    lo, hi = Bounds(ranges).of_sum(terms, total)
    return total % content(terms) != 0 or (lo is not None and lo > 0) or (hi is not None and hi < 0)


def _difference(a: Expr, b: Expr) -> Sum:
    """a - b multiplied out, without zero terms."""
    terms, total = expand(a)
    other, offset = expand(b)
    add_scaled(terms, other, -1)
    return {t: c for t, c in terms.items() if c}, total - offset
