"""Rules of comparisons on index expressions, and of logic on conditions.

A comparison becomes a test of the difference's sign; bounds decide it or its terms are divided by their common factor
and written with positive coefficients on both sides: `4*i + 8 < 4*n` is `i + 2 < n`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legato.arith.expr import Binary, Const, Expr, Op, binary, const
from legato.arith.linear import Terms, add_scaled, atom_key, build, content, gather
from legato.base import dtype as dt

if TYPE_CHECKING:
    from legato.arith.simplify import Simplifier

__all__ = ["comparison", "logic"]

_TRUE, _FALSE = const(True, dt.bool_), const(False, dt.bool_)
_MANY = 16  # operands of a conjunction that are looked through for repetitions


def comparison(s: Simplifier, op: Op, a: Expr, b: Expr) -> Expr:
    """`a op b` on simplified index expressions."""
    terms, total = gather(a)
    other, offset = gather(b)
    add_scaled(terms, other, -1)
    terms = {t: c for t, c in terms.items() if c}
    total -= offset
    if op is Op.LT or op is Op.LE:
        return _less(s, terms, total if op is Op.LT else total - 1)
    same = _equal(s, terms, total)
    return same if op is Op.EQ else negation(same)


def _less(s: Simplifier, terms: Terms, total: int) -> Expr:
    """The sum < 0."""
    if s.nonnegative(terms, total):
        return _FALSE
    if s.nonnegative({t: -c for t, c in terms.items()}, -total - 1):
        return _TRUE
    g = content(terms)
    left, right, bound = _sides(terms, g, -(total // g))  # left < right + bound
    if not right:
        return Binary(Op.LT, build(left), const(bound))
    if bound == 1:
        return Binary(Op.LE, build(left), build(right))
    if not left:
        return Binary(Op.LT, const(-bound), build(right))
    return Binary(Op.LT, build(left, max(0, -bound)), build(right, max(0, bound)))


def _equal(s: Simplifier, terms: Terms, total: int) -> Expr:
    """The sum == 0."""
    if not terms:
        return _FALSE if total else _TRUE
    g = content(terms)
    lo, hi = s.bounds.of_sum(terms, total)
    if total % g or (lo is not None and lo > 0) or (hi is not None and hi < 0) or _apart(s, terms, total):
        return _FALSE
    if min(terms, key=atom_key) in [t for t, c in terms.items() if c < 0]:
        terms, total = {t: -c for t, c in terms.items()}, -total
    left, right, bound = _sides(terms, g, -(total // g))
    if not right:
        return Binary(Op.EQ, build(left), const(bound))
    return Binary(Op.EQ, build(left, max(0, -bound)), build(right, max(0, bound)))


def _apart(s: Simplifier, terms: Terms, total: int) -> bool:
    """True if limits show that the sum is not 0."""
    if not s.limits:
        return False
    return s.nonnegative(terms, total - 1) or s.nonnegative({t: -c for t, c in terms.items()}, -total - 1)


def _sides(terms: Terms, g: int, bound: int) -> tuple[Terms, Terms, int]:
    left = {t: c // g for t, c in terms.items() if c > 0}
    right = {t: -c // g for t, c in terms.items() if c < 0}
    return left, right, bound


def logic(op: Op, a: Expr, b: Expr) -> Expr:
    """`a op b` on simplified conditions, or a comparison of operands that are not index."""
    if op is Op.AND or op is Op.OR:
        return _connect(op, a, b)
    if a.dtype.is_bool and (op is Op.EQ or op is Op.NE):
        for x, y in ((a, b), (b, a)):
            if type(x) is Const:
                return y if bool(x.value) == (op is Op.EQ) else negation(y)
    return binary(op, a, b)


def _connect(op: Op, a: Expr, b: Expr) -> Expr:
    """A conjunction or disjunction with each operand once."""
    parts: dict[Expr, None] = {}
    stack = [b, a]
    while stack:
        node = stack.pop()
        if type(node) is Binary and node.op is op and len(parts) < _MANY:
            stack += (node.b, node.a)
        else:
            parts[node] = None
    out, *rest = parts
    for p in rest:
        out = binary(op, out, p)
    return out


def negation(e: Expr) -> Expr:
    """not e, for a simplified condition."""
    if type(e) is Const:
        return _FALSE if e.value else _TRUE
    if type(e) is Binary:
        a, b = e.a, e.b
        if e.op is Op.NE:
            return Binary(Op.EQ, a, b)
        if e.op is Op.EQ:  # not (x == False) is x
            return a if b is _FALSE else Binary(Op.NE, a, b)
        if e.op is Op.LT and not a.dtype.is_float:  # with NaN, not (a < b) says less than b <= a
            return Binary(Op.LE, b, a)
        if e.op is Op.LE and not a.dtype.is_float:
            return Binary(Op.LT, b, a)
    return binary(Op.EQ, e, _FALSE)
