"""Loops that are written out, whole or by so many steps."""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.expr import Const, Expr, const, floordiv
from legato.arith.simplify import simplify
from legato.lower.rules.nest import Body, extent_of, loop
from legato.te.tensor import Axis
from legato.tir.stmt import LoopKind, Stmt, block

__all__ = ["each", "looped", "unrolled", "unrolled_by"]


def each(rows: int, vectors: int, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """`body` for every row and vector, written out."""
    return unrolled("m", rows, lambda m: unrolled("v", vectors, lambda v: body(m, v)))


def looped(rows: int, vectors: int, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """`body` for every row and vector, one after the other."""
    return loop("m", const(rows), lambda m: loop("v", const(vectors), lambda v: body(m, v)))


def unrolled(name: str, end: int, body: Body, first: int = 0) -> Stmt:
    """`body` for first … end - 1, written out."""
    return loop(name, const(end - first), lambda i: body(i + first), LoopKind.UNROLL)


def unrolled_by(times: int, axis: Axis, body: Body, before: Body) -> Stmt:
    """A reduction loop unrolled `times` times, with `before` in front of so many; what is left over runs behind it."""
    known = extent_of(axis.extent)
    if known is not None and known <= times:
        return block(before(const(0)), unrolled("r", known, body))
    full = floordiv(axis.extent, const(times))
    main = loop("r", full, lambda v: block(before(v * times), unrolled("u", times, lambda u: body(v * times + u))))
    left = simplify(axis.extent - full * times)
    if isinstance(left, Const):
        if not left.value:
            return main
        return block(main, unrolled("u", int(left.value), lambda u: body(full * times + u)))
    return block(main, loop("u", left, lambda u: body(full * times + u)))
