"""Rules of floor division and remainder on index expressions.

With k > 0 a literal and a sum a = k·W + P (W: the terms that k divides, P: the others):

    a // k = W + P // k                              a % k = P % k
    (g·X + r) // k = (X + r//g) // (k/g)             where g divides k and r stays inside one period of g
    (g·X + r) % k = g·((X + r//g) % (k/g)) + r % g
    (x // m) // k = x // (m·k)                       (x % m) // k = (x // k) % (m/k)     where k divides m
    (x % m) % k = x % k                              where k divides m
    k·(x // k) + x % k = x                           x - k·(x // k) = x % k
    k·(x // k % m) + x % k = x % (k·m)
    x + (-x) % k = k·((x + k - 1) // k)              x padded to a multiple of k

A negative literal is turned around: a // -k = -a // k, a % -k = -(-a % k). A symbolic divisor n is treated like a
literal where it provably is not 0 (then products with the factor n are what it divides).
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from legato.arith.expr import Binary, Const, Expr, Op, const
from legato.arith.linear import Sum, Terms, add_scaled, build, factors, gather, product
from legato.arith.poly import expand

if TYPE_CHECKING:
    from legato.arith.simplify import Simplifier

__all__ = ["floordiv", "floormod", "join", "without"]


def floordiv(s: Simplifier, a: Expr, b: Expr) -> Expr:
    """a // b for simplified operands."""
    terms, total = gather(a)
    if type(b) is not Const:
        return _by_symbol(s, Op.FLOORDIV, a, b)
    k = int(b.value)
    if k < 0:
        return build(*_quotient(s, _scaled(terms, -1), -total, -k))
    return build(*_quotient(s, terms, total, k)) if k else const(0)


def floormod(s: Simplifier, a: Expr, b: Expr) -> Expr:
    """a % b for simplified operands."""
    terms, total = gather(a)
    if type(b) is not Const:
        return _by_symbol(s, Op.FLOORMOD, a, b)
    k = int(b.value)
    if k < 0:
        terms, total = _remainder(s, _scaled(terms, -1), -total, -k)
        return build(_scaled(terms, -1), -total)
    return build(*_remainder(s, terms, total, k)) if k else const(0)


def _scaled(terms: Terms, c: int) -> Terms:
    return {t: c * k for t, k in terms.items()}


def _plus(a: Sum, b: Sum, c: int = 1) -> Sum:
    """a + c·b."""
    terms = dict(a[0])
    add_scaled(terms, b[0], c)
    return terms, a[1] + c * b[1]


def _periods(s: Simplifier, terms: Terms, total: int, k: int) -> int | None:
    """The value of sum // k if bounds show that it is only one."""
    lo, hi = s.bounds.of_sum(terms, total)
    return lo // k if lo is not None and hi is not None and lo // k == hi // k else None


def _group(s: Simplifier, terms: Terms, total: int, k: int) -> tuple[int, Terms, Terms, int] | None:
    """(g, X, r, (r + total) // g) with terms = g·X + r as in the module's second rule, for the largest such g < k."""
    for g in sorted({gcd(c, k) for c in terms.values()}, reverse=True):
        if 1 < g < k:
            rest = {t: c for t, c in terms.items() if c % g}
            period = _periods(s, rest, total, g)
            if period is not None:
                return g, {t: c // g for t, c in terms.items() if not c % g}, rest, period
    return None


def _quotient(s: Simplifier, terms: Terms, total: int, k: int) -> Sum:
    """The sum // k."""
    if k == 1:
        return terms, total
    whole = {t: c // k for t, c in terms.items() if not c % k}
    part = {t: c for t, c in terms.items() if c % k}
    carry, total = divmod(total, k)
    if not part:
        return whole, carry
    period = _periods(s, part, total, k)
    if period is not None:
        return whole, carry + period
    group = _group(s, part, total, k)
    if group is not None:
        g, x, _, period = group
        return _plus((whole, carry), _quotient(s, x, period, k // g))
    return _plus((whole, carry), _atom_quotient(s, part, total, k))


def _atom_quotient(s: Simplifier, terms: Terms, total: int, k: int) -> Sum:
    """The sum // k where no term is divisible: through a division or remainder that is the only term, or as an atom."""
    if len(terms) == 1:
        [(t, c)] = terms.items()
        x, m = _divided(t, Op.FLOORDIV)
        if c == 1 and m:
            inner, offset = gather(x)
            return _quotient(s, inner, offset + total * m, m * k)
        x, m = _divided(t, Op.FLOORMOD)
        if c == 1 and m and total == 0 and m % k == 0:
            return _remainder(s, *_quotient(s, *gather(x), k), m // k)
    return {Binary(Op.FLOORDIV, build(terms, total), const(k)): 1}, 0


def _divided(t: Expr, op: Op) -> tuple[Expr, int]:
    """(x, m) if `t` is x `op` m with a literal m > 0, else m = 0."""
    if type(t) is Binary and t.op is op and type(t.b) is Const and int(t.b.value) > 0:
        return t.a, int(t.b.value)
    return t, 0


def _remainder(s: Simplifier, terms: Terms, total: int, k: int) -> Sum:
    """The sum % k."""
    if k == 1:
        return {}, 0
    part, total = _unwrapped(terms, total, k)
    total %= k
    for candidate in (part, {t: _centred(c, k) for t, c in part.items()}):
        period = _periods(s, candidate, total, k)
        if period is not None:
            return candidate, total - period * k
    part = {t: _centred(c, k) for t, c in part.items()}
    group = _group(s, part, total, k)
    if group is not None:
        g, x, rest, period = group
        return _plus((rest, total - g * period), _remainder(s, x, period, k // g), g)
    return {Binary(Op.FLOORMOD, build(part, total), const(k)): 1}, 0


def _unwrapped(terms: Terms, total: int, k: int) -> Sum:
    """The terms that k does not divide, with x % m replaced by x where that changes nothing modulo k."""
    part = {t: c for t, c in terms.items() if c % k}
    while True:
        found = next((t for t, c in part.items() if (m := _divided(t, Op.FLOORMOD)[1]) and c * m % k == 0), None)
        if found is None:
            return part, total
        c = part.pop(found)
        inner, offset = gather(_divided(found, Op.FLOORMOD)[0])
        add_scaled(part, inner, c)
        part = {t: c for t, c in part.items() if c % k}
        total += c * offset


def _centred(c: int, k: int) -> int:
    """The smallest integer that is congruent to c modulo k (the positive one of two)."""
    c %= k
    return c if 2 * c <= k else c - k


def join(s: Simplifier, terms: Terms) -> int:
    """Joins quotients with their remainders in `terms`, in place; returns what is to be added to the constant."""
    while _join_digits(terms):
        pass
    offset = _join_padding(s, terms)
    for t in list(terms):
        x, k = _divided(t, Op.FLOORDIV)
        c = terms.get(t, 0)
        if not k or not c or c % k:
            continue
        found = _matching_remainder(terms, x, k, c // k)
        inner, extra = gather(x)
        if found is not None:  # c·(x//k) + (c/k)·(y%k) = (c/k)·(x - k·((x-y)/k)), and y = x + k·z
            del terms[t], terms[found]
            add_scaled(terms, inner, c // k)
            offset += extra * (c // k)
        elif len(inner) == 1 and extra == 0 and _is_subtracted(terms, inner, c, k):
            [(atom, a)] = inner.items()
            del terms[t]
            terms[atom] += c // k * a
            remainder = Binary(Op.FLOORMOD, x, const(k))
            terms[remainder] = terms.get(remainder, 0) - c // k
    return offset


def _join_digits(terms: Terms) -> bool:
    """Joins a remainder of a quotient with the remainder below it, if there are such, in place."""
    for t, c in terms.items():
        quotient, m = _divided(t, Op.FLOORMOD)
        x, k = _divided(quotient, Op.FLOORDIV)
        found = _matching_remainder(terms, x, k, c // k) if m and k and c % k == 0 else None
        if found is not None:
            del terms[t], terms[found]
            both = Binary(Op.FLOORMOD, x, const(k * m))
            add_scaled(terms, {both: 1}, c // k)
            return True
    return False


def _join_padding(s: Simplifier, terms: Terms) -> int:
    """Joins x and (-x) % k, the padding of x, in place; returns what is to be added to the constant."""
    offset = 0
    for t in list(terms):
        y, k = _divided(t, Op.FLOORMOD)
        c = terms.get(t, 0)
        if not k or not c:
            continue
        inner, total = gather(y)
        x = {u: terms.get(u, 0) // c for u in inner}
        if next(iter(x.values())) < 0 or not all(
            x[u] and x[u] * c == terms[u] and (x[u] + a) % k == 0 for u, a in inner.items()
        ):
            continue
        for u in (t, *inner):
            del terms[u]
        padded, more = _quotient(s, x, k - 1 - total, k)  # of x - total
        add_scaled(terms, padded, c * k)
        offset += c * (k * more + total)
    return offset


def _is_subtracted(terms: Terms, inner: Terms, c: int, k: int) -> bool:
    """True if c·(x // k) is taken from the x in the sum: x - k·(x // k)."""
    [(atom, a)] = inner.items()
    return a == 1 and terms.get(atom, 0) == -(c // k)


def _matching_remainder(terms: Terms, x: Expr, k: int, c: int) -> Expr | None:
    """A term c·(y % k) with y ≡ x modulo k."""
    for t, coefficient in terms.items():
        y, m = _divided(t, Op.FLOORMOD)
        if coefficient != c or m != k:
            continue
        difference, total = gather(x)
        other, offset = gather(y)
        add_scaled(difference, other, -1)
        if (total - offset) % k == 0 and not any(d % k for d in difference.values()):
            return t
    return None


def _by_symbol(s: Simplifier, op: Op, a: Expr, b: Expr) -> Expr:
    """a // b or a % b for a divisor that is not a literal."""
    atom = Binary(op, a, b)
    if not s.positive(b):
        return atom
    for form in (expand(a), gather(a)):  # multiplied out, more is divisible; but what stays is better as it was
        whole, (terms, total) = _split(form, b)
        if s.within(terms, total, b):
            return build(*whole) if op is Op.FLOORDIV else build(terms, total)
    if not whole[0] and not whole[1]:
        return atom
    rest = Binary(op, build(terms, total), b)
    return build(*_plus(whole, ({rest: 1}, 0))) if op is Op.FLOORDIV else rest


def _split(a: Sum, b: Expr) -> tuple[Sum, Sum]:
    """(W, P) with a = b·W + P: the terms with the factor b, or multiples of b if it is a sum."""
    whole: Terms = {}
    part: Terms = {}
    divisor, offset = gather(b)
    if len(divisor) > 1 or offset:
        lead, scale = next(iter(divisor.items()))
        times = a[0].get(lead, 0) // scale if not a[0].get(lead, 0) % scale else 0
        terms, total = _plus(a, (divisor, offset), -times)
        scale, parts = 1, [b]
        whole_total = times
    else:
        [(only, scale)] = divisor.items()
        parts = factors(only)
        terms, total, whole_total = a[0], a[1], 0
    for t, c in terms.items():
        left = without(factors(t), parts)
        if left is None or c % scale:
            part[t] = part.get(t, 0) + c
        elif left:
            add_scaled(whole, {product(left): c // scale})
        else:
            whole_total += c // scale
    return (whole, whole_total), ({t: c for t, c in part.items() if c}, total)


def without(parts: list[Expr], removed: list[Expr]) -> list[Expr] | None:
    """`parts` less `removed`, or None if one is missing."""
    left = list(parts)
    for r in removed:
        if r not in left:
            return None
        left.remove(r)
    return left
