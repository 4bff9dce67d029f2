"""Products multiplied out: the form in which differences of symbolic shapes and strides cancel."""

from __future__ import annotations

from legato.arith.expr import Binary, Expr, Op
from legato.arith.linear import Sum, Terms, add_scaled, factors, gather, product

__all__ = ["expand"]

_LIMIT = 64  # terms; a product that would have more stays a product


def expand(e: Expr) -> Sum:
    """`e` as a sum of products of atoms that are not sums; atoms (divisions, min, …) are not looked into."""
    terms, total = gather(e)
    out: Terms = {}
    for t, c in terms.items():
        if type(t) is Binary and t.op is Op.MUL:
            inner, offset = _expand_product(t)
            add_scaled(out, inner, c)
            total += c * offset
        else:
            out[t] = out.get(t, 0) + c
    return {t: c for t, c in out.items() if c}, total


def _expand_product(e: Expr) -> Sum:
    """A polynomial: products of atoms (as sorted tuples would be; here as interned expressions) with coefficients."""
    terms: Terms = {}
    total = 1
    for f in factors(e):
        other, offset = gather(f)
        if (len(terms) + 1) * (len(other) + 1) > _LIMIT:
            return {e: 1}, 0
        new: Terms = {}
        for t, c in terms.items():
            for u, k in other.items():
                both = product([*factors(t), *factors(u)])
                new[both] = new.get(both, 0) + c * k
        add_scaled(new, terms, offset)
        add_scaled(new, other, total)
        terms, total = new, total * offset
    return terms, total
