"""Counts: integers, or polynomials over dims and whatever else is known only when a program runs.

Products of loop extents are multiplied out as they arise, so that what is the same is seen to be the same, and a
kernel's formula stays as short as `28901376*batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce

from legato.arith.expr import Const, Expr, Var, const, max_, min_, select
from legato.arith.linear import factors, gather, is_sum
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes

__all__ = [
    "Count",
    "Poly",
    "as_count",
    "as_expr",
    "at_least_zero",
    "indicator",
    "plus",
    "quotient",
    "ratio",
    "size_of",
    "smaller",
    "times",
]

Monomial = tuple[Expr, ...]  # atoms in the order of their names; repeated for powers


class Poly:
    """A sum of products of atoms (expressions of dtype index that are no sums or products) with coefficients."""

    __slots__ = ("terms",)
    terms: Mapping[Monomial, int]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and other.terms == self.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __str__(self) -> str:
        return str(as_expr(self))

    __repr__ = __str__


Count = int | Poly


@lru_cache(maxsize=4096)
def _text(atom: Expr) -> str:
    """What atoms are ordered by."""
    return str(atom)


def _terms(a: Count) -> Mapping[Monomial, int]:
    return a.terms if isinstance(a, Poly) else {(): a} if a else {}


def _count(terms: Mapping[Monomial, int]) -> Count:
    left = {m: c for m, c in terms.items() if c}
    return Poly(left) if any(left) else left.get((), 0)


def as_count(e: Expr) -> Count:
    """An expression of dtype index as a count: its sums and products become those of the polynomial."""
    if isinstance(e, Const):
        return int(e.value)
    terms, total = gather(e)
    found: dict[Monomial, int] = {(): total}
    for term, c in terms.items():
        parts = factors(term)
        if len(parts) > 1 and any(is_sum(part) for part in parts):
            product = times(c, reduce(times, map(as_count, parts)))
            for monomial, k in _terms(product).items():
                found[monomial] = found.get(monomial, 0) + k
        else:
            monomial = tuple(sorted(parts, key=_text))
            found[monomial] = found.get(monomial, 0) + c
    return _count(found)


def as_expr(a: Count) -> Expr:
    """The count as an expression of dtype index, terms in the order of their text."""
    if isinstance(a, int):
        return const(a)
    total: Expr = const(0)
    for monomial, c in sorted(a.terms.items(), key=lambda term: [_text(e) for e in term[0]], reverse=True):
        product: Expr = const(c)
        for atom in monomial:
            product = atom * product
        total = total + product
    return total


def plus(a: Count, b: Count) -> Count:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    terms = dict(_terms(a))
    for m, c in _terms(b).items():
        terms[m] = terms.get(m, 0) + c
    return _count(terms)


def times(a: Count, b: Count) -> Count:
    """a · b."""
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int):
        if isinstance(a, int):
            return a * b
        if b == 1:
            return a
        return Poly({m: c * b for m, c in a.terms.items()}) if b else 0
    terms: dict[Monomial, int] = {}
    for m, c in _terms(a).items():
        for n, k in _terms(b).items():
            both = m + n if not (m and n) else tuple(sorted(m + n, key=_text))
            terms[both] = terms.get(both, 0) + c * k
    return _count(terms)


def quotient(a: Count, divisor: int) -> Count:
    """a // divisor."""
    if isinstance(a, int):
        return a // divisor
    if all(c % divisor == 0 for c in a.terms.values()):
        return Poly({m: c // divisor for m, c in a.terms.items()})
    return as_count(as_expr(a) // divisor)


def ratio(a: Count, b: Count) -> Count | None:
    """a / b, where `b` is one product that divides every term of `a`; None otherwise."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    divisors = list(_terms(b).items())
    if len(divisors) != 1:
        return None
    monomial, coefficient = divisors[0]
    found: dict[Monomial, int] = {}
    for m, c in _terms(a).items():
        left = list(m)
        for atom in monomial:
            if atom not in left:
                return None
            left.remove(atom)
        if c % coefficient:
            return None
        found[tuple(left)] = c // coefficient
    return _count(found)


def _is_positive(a: Count) -> bool:
    """True if `a` is at least 0 because no term of it is negative: atoms are counts themselves."""
    return all(c >= 0 for c in _terms(a).values()) and all(_least(e) for m in _terms(a) for e in m)


def _least(atom: Expr) -> bool:
    return all(v.lo is not None and v.lo >= 0 for v in nodes(atom) if isinstance(v, Var))


def smaller(a: Count, b: Count) -> Count:
    """The smaller of two counts."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    difference = plus(a, times(-1, b))
    if _is_positive(difference):
        return b
    if _is_positive(times(-1, difference)):
        return a
    return as_count(min_(as_expr(a), as_expr(b)))


def at_least_zero(e: Expr) -> Count:
    """`e`, or 0 where that is negative."""
    return as_count(max_(simplify(e), const(0)))


def indicator(cond: Expr) -> Count:
    """1 where `cond` (bool, of dims alone) holds, else 0."""
    chosen = select(simplify(cond), const(1), const(0))
    return int(chosen.value) if isinstance(chosen, Const) else Poly({(chosen,): 1})


def size_of(shape: Iterable[Expr]) -> Count:
    """The elements of a tensor."""
    total: Count = 1
    for extent in shape:
        total = times(total, as_count(extent))
    return total
