"""The dim that dims broadcast to, where it is known only when the program runs which of them are 1.

    broadcast(broadcast(n, m), k)   =   select(n == 1, select(m == 1, k, m), n)        the first that is not 1

It is that of all of them if they fit. n and m do where broadcast(n, m) = broadcast(m, n): they are equal, or one is 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from legato.arith.expr import Expr, Select, eq, select
from legato.arith.simplify import simplify

__all__ = ["broadcast", "parts", "sides_of_fit"]


def broadcast(a: Expr, b: Expr) -> Expr:
    """`b` where `a` is 1, else `a`, in normal form; each dim that they are made of occurs in it once."""
    return _first_not_one(dict.fromkeys((*parts(a), *parts(b))))


def parts(d: Expr) -> tuple[Expr, ...]:
    """The dims that broadcast to `d`, in order; `d` itself if it is not made of others."""
    found = []
    while isinstance(d, Select) and d.cond is simplify(eq(d.b, 1)):
        found.append(d.b)
        d = d.a
    return *found, d


def _first_not_one(dims: Iterable[Expr]) -> Expr:
    *others, out = dims
    for d in reversed(others):
        out = simplify(select(eq(d, 1), out, d))
    return out


def sides_of_fit(a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
    """(x, y) where `a` == `b` says that x and y broadcast to one dim in either order; None where it does not."""
    for left, right, step in ((a, b, 1), (b, a, -1)):
        found = parts(left)
        for n in range(1, len(found)):
            pair = _first_not_one(found[:n]), _first_not_one(found[n:])
            if broadcast(*reversed(pair)) is right:
                x, y = pair[::step]
                return x, y
    return None
