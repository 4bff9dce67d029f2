"""Vectors of partial results, one for each of several rows, joined across their lanes: all rows at once.

    both halves of each row are joined, then both halves of what that leaves, …, until there is one result for each row,
    side by side in vectors

The rows do not wait for each other, and each step takes half the operations of the one before.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.expr import Expr, const, floordiv
from legato.lower.rules.nest import vector
from legato.lower.rules.unrolled import unrolled
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Stmt, Store, block

__all__ = ["across"]


def across(
    parts: Buffer, rows: int, width: int, lanes: int, join: Callable[[Expr, Expr], Expr], then: Callable[[Buffer], Stmt]
) -> Stmt:
    """`then` of the results of `rows` rows: of `parts`, `width` of each row, one row after the other, joined in vectors
    of at most `lanes`. All numbers are powers of two."""
    if width == 1:
        return then(parts)
    half = width // 2
    many = min(lanes, rows * half)
    joined = Buffer("joined", (const(rows * half),), parts.dtype, scope=Scope.REGISTER)

    def joins(v: Expr) -> Stmt:
        def one(lane: Expr) -> Stmt:
            i = v * many + lane
            first = i + floordiv(i, const(half)) * half
            return Store(joined, (i,), join(Load(parts, (first,)), Load(parts, (first + half,))))

        return vector(many, one)

    steps = unrolled("v", rows * half // many, joins)
    return Alloc(joined, block(steps, across(joined, rows, half, lanes, join, then)))
