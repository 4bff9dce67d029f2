"""Which rows of a matrix differ: what the operators that look for unique elements compute, as a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legato.arith.expr import const
from legato.base.dtype import int64
from legato.ir.expr import Expr
from legato.ir.types import TensorType

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["distinct", "positions", "rows_at"]


def rows_at(b: Builder, x: Expr, at: Expr) -> Expr:
    """Some rows of `x`."""
    return b.take(x, at, axis=0, mode="fast")


def positions(b: Builder, flags: Expr) -> Expr:
    """The subscripts (int64) of what is set in a vector of bool; their number is a dim of the body from here on."""
    return b.squeeze(b.let("found", b.argwhere(flags, dtype=int64)), axis=(1,))


def distinct(b: Builder, rows: Expr, order: Expr, is_sorted: bool) -> tuple[Expr, Expr, Expr]:
    """Of the rows that differ: where each is first, which of them each row is, and how many there are of each (int64).

    `order` are the subscripts that sort the rows, stably. Unless `is_sorted`, rows come in the order of their places.
    """
    assert isinstance(rows.ty, TensorType)
    n = rows.ty.shape[0]
    zero, places = b.constant(0, int64), b.arange(start=const(0), stop=n, step=1, dtype=int64)
    ascending = rows_at(b, rows, order)
    before = rows_at(b, ascending, b.maximum(b.subtract(places, b.constant(1, int64)), zero))
    is_new = b.logical_or(b.equal(places, zero), b.any(b.not_equal(ascending, before), axis=(1,)))
    first = rows_at(b, order, positions(b, is_new))
    group = b.subtract(b.cumsum(b.cast(is_new, dtype=int64), axis=0), b.constant(1, int64))
    number = b.scatter_elements(b.zeros(shape=(n,), dtype=int64), order, group, axis=0)
    if not is_sorted:
        by_place = b.argsort(first, axis=0, dtype=int64)
        first, number = rows_at(b, first, by_place), rows_at(b, b.argsort(by_place, axis=0, dtype=int64), number)
    assert isinstance(first.ty, TensorType)
    counts = b.zeros(shape=first.ty.shape, dtype=int64)
    counts = b.scatter_elements(counts, number, b.ones(shape=(n,), dtype=int64), axis=0, reduction="add")
    return first, number, counts
