"""Proofs of inequalities over loop variables and dims from what is known of them: extents, guards, constraints.

    known = Assumptions({i: n}, facts=[m - n])       0 <= i < n, so that n >= 1, and m >= n
    known.nonnegative(m - i - 1)                     True: i < m

An expression is multiplied out and its parts are eliminated one after the other: a loop variable by the ends of its
range (Fourier–Motzkin on the one pair of bounds that it has), min, max and select by cases, a quotient by the multiple
that it rounds, a remainder by its range. What is left is a polynomial in dims, each at least its lower bound. Facts are
subtracted, at most two of them. All answers are one-sided: False means "not proven".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import gcd
from typing import Final

from legato.arith.bounds import Bounds, bounds
from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, const
from legato.arith.interval import Interval
from legato.arith.linear import Sum, Terms, build, factors, gather, product
from legato.arith.poly import expand
from legato.arith.simplify import Simplifier, simplify
from legato.arith.substitute import nodes
from legato.base import dtype as dt

__all__ = ["Assumptions", "facts_of", "surely_equal"]

_FACTS_USED: Final = 2  # in one proof: a guard and a constraint
_ROUNDS: Final = 3  # of conclusions from products to factors: from result to operand, say
_STEPS: Final = 150  # eliminations in one proof: proofs have needed 60


def facts_of(condition: Expr, holds: bool = True) -> Iterator[Expr]:
    """Expressions of dtype index that are at least 0 where `condition` holds (or does not hold)."""
    if not isinstance(condition, Binary):
        return
    op, a, b = condition.op, condition.a, condition.b
    if op is Op.EQ and isinstance(b, Const) and b.dtype.is_bool and not b.value:
        yield from facts_of(a, not holds)
    elif (op is Op.AND and holds) or (op is Op.OR and not holds):
        yield from facts_of(a, holds)
        yield from facts_of(b, holds)
    elif a.dtype is not dt.index:
        return
    elif op is Op.LT:
        yield b - a - 1 if holds else a - b
    elif op is Op.LE:
        yield b - a if holds else a - b - 1
    elif (op is Op.EQ) == holds:
        yield from (a - b, b - a)
    else:  # they differ: if one is at most the other, it is less
        gap = bounds(a - b)
        if gap.lo == 0:
            yield a - b - 1
        if gap.hi == 0:
            yield b - a - 1


def surely_equal(a: Expr, b: Expr) -> bool:
    """True only if `a` and `b` are equal for all values of their variables: by cases, where `prove_equal` sees none."""
    known = Assumptions({})
    return known.nonnegative(a - b) and known.nonnegative(b - a)


class Assumptions:
    """What is known: `axes` run from 0 below their extents (so none is empty), and `facts` are at least 0."""

    __slots__ = ("_atoms", "_axes", "_bounds", "_cases", "_facts", "_left", "_simplifier")

    def __init__(self, axes: Mapping[Var, Expr], facts: Iterable[Expr] = ()) -> None:
        self._axes = dict(axes)
        known = [*facts, *(extent - 1 for extent in axes.values())]
        ranges = {v: Interval(0) for v in axes}
        self._simplifier = Simplifier(ranges)
        plain = chain.from_iterable(_parted(self._simplifier(f)) for f in known)
        simple = dict.fromkeys(f for f in map(self._simplifier, plain) if not isinstance(f, Const))
        self._facts = tuple(_with_factors(simple, self._simplifier))
        found = _ranges(self._facts, self._simplifier.bounds)
        for v, (lo, hi) in found.items():
            if isinstance(v, Var):
                ranges[v] = Interval(lo, hi).intersect(ranges.get(v, Interval()))
        for v, extent in axes.items():
            hi = Bounds(ranges).of(extent)[1]
            ranges[v] = ranges[v].intersect(Interval(0, None if hi is None else hi - 1))
        self._simplifier = Simplifier(ranges, self._axes)
        self._bounds = self._simplifier.bounds
        self._bounds.memo |= {e: pair for e, pair in found.items() if not isinstance(e, Var)}
        self._atoms: list[frozenset[Expr]] | None = None  # of each fact, where they are asked for
        self._cases: dict[tuple[Expr, ...], Assumptions] = {}
        self._left = 0

    @property
    def facts(self) -> tuple[Expr, ...]:
        """What is at least 0, in the simplest form."""
        return self._facts

    def given(self, *facts: Expr) -> Assumptions:
        """These assumptions and `facts`."""
        return Assumptions(self._axes, (*self._facts, *facts))

    def nonnegative(self, e: Expr) -> bool:
        """True only if `e` is at least 0 wherever the assumptions hold."""
        if self._is_nonnegative(e):
            return True
        e = self._simplifier(e)
        if any(self._is_nonnegative(self._simplifier(e - fact)) for fact in reversed(self._facts)):
            return True  # a guard says just that; the search would come to the latest one last
        self._left = _STEPS
        return self._proven(e, _FACTS_USED)

    def _is_nonnegative(self, e: Expr) -> bool:
        """By bounds alone."""
        lo = self._bounds.of(e)[0]
        return lo is not None and lo >= 0

    def below(self, e: Expr, end: Expr) -> bool:
        """True only if `e < end` wherever the assumptions hold."""
        return self.nonnegative(end - e - 1)

    # ------------------------------------------------------------------------------------------------------------

    def _proven(self, e: Expr, uses: int) -> bool:
        return self._eliminated(*expand(e), uses) or self._by_facts(e, uses)

    def _by_facts(self, e: Expr, uses: int) -> bool:
        if not uses:
            return False
        if self._atoms is None:
            self._atoms = [frozenset(_atoms(fact)) for fact in self._facts]
        atoms = set(_atoms(e))
        for fact, own in zip(self._facts, self._atoms, strict=True):
            if self._left <= 0:
                return False
            if atoms.isdisjoint(own):
                continue
            for m, s in _scales(e, fact):  # e is an integer: at least 0 where m·e is above -m
                if self._proven(e * m + (m - 1) - fact * s, uses - 1):
                    return True
        return False

    def _eliminated(self, terms: Terms, total: int, uses: int) -> bool:
        """True if the sum is at least 0 by eliminating its parts, one here and the others in turn."""
        self._left -= 1
        lo = self._bounds.of_sum(terms, total)[0]
        if lo is not None and lo >= 0:
            return True
        if self._left <= 0:
            return False
        if not total:
            terms, total = self._without_common_factor(terms)
        part = self._next(terms)
        if part is None or not self._holds_axis(part):
            if self._shifted(terms, total) or (part is None and self._by_facts(build(terms, total), uses)):
                return True
            if part is None:
                return False
        found = _linear(part, terms, total)
        if found is None:
            return False
        slope, rest = found
        rising, falling = self._sign(slope, 1), self._sign(slope, -1)
        low = falling or self._with(part, slope, rest, uses, is_low=True)
        return low and (rising or self._with(part, slope, rest, uses, is_low=False))

    def _without_common_factor(self, terms: Terms) -> Sum:
        """The sum divided by an atom of each of its terms that is at least 0."""
        first, *others = map(factors, terms)
        for x in first:
            if others and all(x in parts for parts in others) and self._sign(x, 1):
                divided, total = Terms(), 0
                for t, c in terms.items():
                    parts = factors(t)
                    parts.remove(x)
                    if parts:
                        divided[product(parts)] = divided.get(product(parts), 0) + c
                    else:
                        total += c
                return divided, total
        return terms, 0

    def _sign(self, e: Expr, sign: int) -> bool:
        lo = self._bounds.of_sum(*expand(e * sign))[0]
        return lo is not None and lo >= 0

    def _next(self, terms: Terms) -> Expr | None:
        """What to eliminate: the youngest loop variable outside of compound atoms, else an atom that no other holds,
        those with loop variables first."""
        found = dict.fromkeys(chain.from_iterable(map(factors, terms)))
        compound = [x for x in found if isinstance(x, Binary | Select)]
        held = [set(nodes(x)) for x in compound]
        axes = [x for x in found if isinstance(x, Var) and x in self._axes and not any(x in h for h in held)]
        if axes:
            return max(axes, key=lambda v: v.uid)
        outer = [x for n, x in enumerate(compound) if not any(x in h for k, h in enumerate(held) if k != n)]
        return next(chain(filter(self._holds_axis, outer), outer), None)

    def _holds_axis(self, e: Expr) -> bool:
        return any(n in self._axes for n in nodes(e) if isinstance(n, Var))

    def _with(self, part: Expr, slope: Expr, rest: Expr, uses: int, is_low: bool) -> bool:
        """True if slope · part + rest is at least 0 at the least (or the largest) value that `part` may have."""

        def at(value: Expr, *facts: Expr) -> bool:
            if not facts:
                return self._eliminated(*expand(self._simplifier(slope * value + rest)), uses)
            known = self._case(facts)
            return known._proven(known._simplifier(slope * value + rest), uses)

        match part:
            case Var():
                lo, hi = self._bounds.of(part)
                if is_low:
                    return at(const(lo or 0))
                return at(self._axes[part] - 1) or (hi is not None and at(const(hi)))
            case Select():
                return at(part.a, *facts_of(part.cond)) and at(part.b, *facts_of(part.cond, holds=False))
            case Binary(op=Op.MIN | Op.MAX):
                both = (part.op is Op.MIN) == is_low
                return (at(part.a) and at(part.b)) if both else (at(part.a) or at(part.b))
            case Binary(op=Op.FLOORDIV, a=a, b=k) if self._positive(k, uses):
                if is_low and self._sign(a, 1) and at(const(0)):
                    return True
                least = (a - k + 1) * slope if is_low else a * slope  # of k times the sum, which is above -k
                return self._proven(self._simplifier(least + rest * k + k - 1), uses)
            case Binary(op=Op.FLOORMOD, a=a, b=m) if self._positive(m, uses):
                if is_low:
                    return at(const(0))
                return at(m - 1) or (self._sign(a, 1) and at(a))
            case _:
                return False

    def _positive(self, e: Expr, uses: int) -> bool:
        return self._sign(e - 1, 1) or (not isinstance(e, Const) and self._proven(self._simplifier(e - 1), uses))

    def _case(self, facts: Sequence[Expr]) -> Assumptions:
        key = tuple(facts)
        known = self._cases.get(key)
        if known is None:
            known = self._cases[key] = self.given(*facts)
        known._left = self._left
        return known

    def _shifted(self, terms: Terms, total: int) -> bool:
        """True if the polynomial is at least 0, written in what its atoms are above their lower (or below their upper)
        bounds, where no coefficient is negative."""
        shifts: dict[Expr, Expr] = {}
        for x in dict.fromkeys(chain.from_iterable(map(factors, terms))):
            lo, hi = self._bounds.of(x)
            if lo:
                shifts[x] = x + lo  # x stands for what is above
            elif lo is None and hi is not None:
                shifts[x] = hi - x
            elif lo is None:
                return False
        moved, offset = _substituted(terms, total, shifts)
        return offset >= 0 and all(c >= 0 for c in moved.values())


def _parted(fact: Expr) -> Iterator[Expr]:
    """`fact`, and what it says of the operands of extrema: of both, a - b and a - c for a - max(b, c), or of one where
    the other cannot be, -b for -min(b, 1)."""
    yield fact
    terms, total = expand(fact)
    for t, c in terms.items():
        if isinstance(t, Binary) and t.op in (Op.MIN, Op.MAX):
            others = build({u: k for u, k in terms.items() if u is not t}, total)
            cases = [others + t.a * c, others + t.b * c]
            if (t.op is Op.MIN) != (c > 0):  # of one at least
                cases = [case for case in map(simplify, cases) if not isinstance(case, Const) or case.value >= 0]
            if (t.op is Op.MIN) == (c > 0) or len(cases) == 1:
                for case in cases:
                    yield from _parted(case)
            return


def _with_factors(facts: Iterable[Expr], simplified: Simplifier) -> list[Expr]:
    """`facts`, and that factors are at least 1 where their product is: of x·y - 1, or x·y - z for a z of at least 1,
    if x and y are at least 0."""
    found = dict.fromkeys(facts)

    def is_least(e: Expr, least: int) -> bool:
        lo = simplified.bounds.of(e)[0]
        known = lo is not None and lo >= least
        return known or any(simplified(e - n) in found for n in (least, least + 1)[: 2 - least])

    for _ in range(_ROUNDS):
        before = len(found)
        for fact in list(found):
            terms, total = gather(fact)
            above = [t for t, c in terms.items() if c > 0]
            below = [t for t, c in terms.items() if c < 0]
            if len(above) != 1 or total > 0 or (below and total) or len(below) > 1 or not (below or total):
                continue
            if any(not is_least(x, 1) for t in below for x in factors(t)):
                continue
            parts = factors(above[0])
            if all(is_least(x, 0) for x in parts):
                found.update((simplified(x - 1), None) for x in parts)
        if len(found) == before:
            break
    return [f for f in found if not isinstance(f, Const)]


def _substituted(terms: Terms, total: int, shifts: Mapping[Expr, Expr]) -> Sum:
    out: Expr = const(total)
    for t, c in terms.items():
        whole: Expr = const(c)
        for x in factors(t):
            whole = whole * shifts.get(x, x)
        out = out + whole
    return expand(out)


def _linear(part: Expr, terms: Terms, total: int) -> tuple[Expr, Expr] | None:
    """(slope, rest) of a sum that is slope · part + rest; None where `part` is not linear in it."""
    slope: Terms = {}
    offset = 0
    rest: Terms = {}
    for t, c in terms.items():
        parts = factors(t)
        if part not in parts:
            if part in nodes(t):
                return None
            rest[t] = c
            continue
        parts.remove(part)
        if any(part in nodes(x) for x in parts):
            return None
        if parts:
            slope[product(parts)] = slope.get(product(parts), 0) + c
        else:
            offset += c
    return build(slope, offset), build(rest, total)


def _atoms(e: Expr) -> Iterator[Expr]:
    for t in expand(e)[0]:
        yield from factors(t)


def _scales(e: Expr, fact: Expr) -> list[tuple[int, Expr]]:
    """By what `e` and `fact` may be multiplied so that a term of their difference goes away: positive numbers, and for
    the fact also dims."""
    mine, other = expand(e)[0], expand(fact)[0]
    found: dict[tuple[int, Expr], None] = {}
    for t, c in other.items():
        for u, k in mine.items():
            if k * c < 0:
                continue  # it would grow
            if t is u:
                g = gcd(k, c)
                found[abs(c) // g, const(abs(k) // g)] = None
                continue
            extra = factors(u)
            try:
                for x in factors(t):
                    extra.remove(x)
            except ValueError:
                continue
            if extra and all(isinstance(x, Var) and x.lo is not None and x.lo >= 0 for x in extra):
                found[1, product(extra) * max(1, k // c)] = None
    return list(found)


def _ranges(facts: Iterable[Expr], bounds: Bounds) -> dict[Expr, tuple[int | None, int | None]]:
    """What facts say of single atoms: v - 3 >= 0, and the factors of a product that is at least 1."""
    found: dict[Expr, tuple[int | None, int | None]] = {}
    for fact in facts:
        terms, total = expand(fact)
        if len(terms) != 1:
            continue
        ((term, c),) = terms.items()
        parts = factors(term)
        if len(parts) == 1:
            lo, hi = found.get(term) or bounds.of(term)
            if c > 0:
                found[term] = _largest(lo, -(total // c)), hi
            else:
                found[term] = lo, total // -c if hi is None else min(hi, total // -c)
        elif c > 0 and total < 0 and all(_is_natural(x, bounds) for x in parts):
            for x in parts:
                lo, hi = found.get(x) or bounds.of(x)
                found[x] = _largest(lo, 1), hi
    return found


def _is_natural(x: Expr, bounds: Bounds) -> bool:
    lo = bounds.of(x)[0]
    return lo is not None and lo >= 0


def _largest(a: int | None, b: int) -> int:
    return b if a is None else max(a, b)
