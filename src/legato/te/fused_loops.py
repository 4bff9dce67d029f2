"""A loop over a product of extents as two loops, where its body takes the variable apart.

for f in 0..n * m { … f // m … f % m … }        =>      for i in 0..n { for j in 0..m { … i … j … } }
"""

from __future__ import annotations

from collections import Counter

from legato.arith.expr import Binary, Const, Expr, Op, Var, const, le
from legato.arith.linear import factors
from legato.arith.poly import expand
from legato.arith.prove import prove
from legato.arith.substitute import replace
from legato.base import dtype as dt
from legato.tir.stmt import For
from legato.tir.walk import expressions, has_load, map_exprs

__all__ = ["unfused"]


def unfused(s: For) -> For | None:
    """`s` as two loops; None where its body does not ask for them."""
    parts = [n for n in expressions(s.body) if isinstance(n, Binary) and n.a is s.var]
    divisors = dict.fromkeys(n.b for n in parts if n.op in (Op.FLOORDIV, Op.FLOORMOD))
    for inner in divisors:
        outer = None if has_load(inner) else _quotient(s.extent, inner)
        if outer is None or inner is const(1) or not prove(le(const(0), inner)):
            continue
        if not all(_divides(_quotient(d, inner), outer) for d in divisors):
            continue
        i, j = Var(s.var.name, dt.index, 0), Var(s.var.name, dt.index, 0)
        known: dict[Expr, Expr] = {s.var: i * inner + j}
        for n in parts:
            times = _quotient(n.b, inner)
            if times is not None and n.op is Op.FLOORDIV:
                known[n] = i // times
            elif times is not None and n.op is Op.FLOORMOD:
                known[n] = (i % times) * inner + j
        body = map_exprs(s.body, lambda e, known=known: replace(e, known))  # type: ignore[misc]
        return For(i, outer, For(j, inner, body, s.kind), s.kind)
    return None


def _divides(times: Expr | None, extent: Expr) -> bool:
    """Whether `times` is at least 1 where there is an iteration: a factor of the extent."""
    return (
        times is not None and prove(le(const(0), times)) and (times is const(1) or _quotient(extent, times) is not None)
    )


def _quotient(e: Expr, by: Expr) -> Expr | None:
    """The product that makes `e` of `by`; None where there is none."""
    (a, rest), (b, other) = expand(e), expand(by)
    if isinstance(by, Const) and not a:
        return const(rest // other) if other and rest % other == 0 else None
    if rest or len(a) != 1 or (b and other) or len(b) > 1:
        return None
    ((term, k),) = a.items()
    mine, theirs, c = Counter(factors(term)), Counter[Expr](), other
    if b:
        ((divisor, c),) = b.items()
        theirs = Counter(factors(divisor))
    if not c or k % c or theirs - mine:
        return None
    found: Expr = const(k // c)
    for x in (mine - theirs).elements():
        found = found * x
    return found
