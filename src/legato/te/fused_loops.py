"""A loop over a product of extents as two loops, where its body takes the variable apart.

for f in 0..n * m { … f // m … f % m … }        =>      for i in 0..n { for j in 0..m { … i … j … } }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from legato.arith.expr import Binary, Const, Expr, Op, Var, const, le
from legato.arith.linear import factors
from legato.arith.poly import expand
from legato.arith.prove import prove
from legato.arith.substitute import replace
from legato.base import dtype as dt
from legato.tir.stmt import For
from legato.tir.walk import expressions, has_load, map_exprs

__all__ = ["unfused"]

_DIVISIONS: Final = (Op.FLOORDIV, Op.FLOORMOD)


def unfused(s: For) -> For | None:
    """`s` as two loops; None where its body does not ask for them."""
    asked = [n for n in expressions(s.body) if isinstance(n, Binary) and n.a is s.var and n.op in _DIVISIONS]
    divisors = dict.fromkeys(n.b for n in asked)
    for inner in divisors:
        outer = None if has_load(inner) else _quotient(s.extent, inner)
        if outer is None or inner is const(1) or not prove(le(const(0), inner)):
            continue
        times = {d: _quotient(d, inner) for d in divisors}
        if all(_divides(k, outer) for k in times.values()):
            return _split(s, outer, inner, {n: k for n in asked if (k := times[n.b]) is not None})
    return None


def _split(s: For, outer: Expr, inner: Expr, divisions: Mapping[Binary, Expr]) -> For:
    """`s` as loops over `outer` and `inner`; each of the `divisions` of its variable is by so many times `inner`."""
    i, j = Var(s.var.name, dt.index, 0), Var(s.var.name, dt.index, 0)
    known: dict[Expr, Expr] = {s.var: i * inner + j}
    for n, k in divisions.items():
        known[n] = i // k if n.op is Op.FLOORDIV else (i % k) * inner + j
    body = map_exprs(s.body, lambda e: replace(e, known))
    return For(i, outer, For(j, inner, body, s.kind), s.kind)


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
