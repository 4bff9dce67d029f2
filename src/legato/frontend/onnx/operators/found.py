"""Operators whose data decides how much they give: what is not zero, what is chosen, what is different."""

from __future__ import annotations

import math
from collections import ChainMap

from legato.arith.expr import Const, const, le
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base.dtype import bool_, int64
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import Captures
from legato.frontend.onnx.loops import Loop
from legato.ir.expr import Expr
from legato.ops._distinct import distinct, positions, rows_at

_COLUMNS = 8  # elements that Unique compares of parts, a sort for each: more of them are sorts in a loop


def nonzero(b: Emitter, x: Expr) -> Expr:
    if not b.rank(x):
        x = b.reshape(x, newshape=(1,))
    return b.transpose(_where(b, x), axes=(1, 0))


def compress(b: Emitter, x: Expr, condition: Expr, *, axis: int | None = None) -> Expr:
    """The parts along `axis`, or the elements, for which a condition holds; it may be shorter than they are many."""
    if axis is None:
        x, axis = b.reshape(x, newshape=(-1,)), 0
    axis = b.axis(axis, b.rank(x))
    if b.rank(condition) != 1 or not b.dtype(condition).is_bool:
        raise ImportModelError(f"the condition is {condition.ty}, wanted a vector of bool")
    count, extent = b.dims_of(condition)[0], b.dims_of(x)[axis]
    if not prove(le(count, extent)):
        places = b.arange(start=const(0), stop=count, step=1, dtype=int64)
        condition = b.logical_and(condition, b.less(places, b.extent(extent, int64)))
    return b.take(x, _positions(b, condition), axis=axis, mode="fast")


def unique(b: Emitter, x: Expr, *, axis: int | None = None, sorted: bool = True) -> tuple[Expr, Expr, Expr, Expr]:
    """The different elements, or parts along `axis`, where each is first, which of them each is, and how many there are
    of each."""
    if axis is None:
        x, at = b.reshape(x, newshape=(-1,)), 0
    else:
        at = b.axis(axis, b.rank(x))
    rank = b.rank(x)
    parts = b.transpose(x, axes=(at, *(d for d in range(rank) if d != at))) if at else x
    n, *inner = b.dims_of(parts)
    rows = b.reshape(parts, newshape=(n, b.product(inner)), allowzero=True)
    rows = b.strings.rank(rows) if b.dtype(rows).is_string else rows
    order = _row_order(b, rows, b.arange(start=const(0), stop=n, step=1, dtype=int64))
    first, number, counts = distinct(b, rows, order, sorted)
    return b.take(x, first, axis=at, mode="fast"), first, number, counts


def _row_order(b: Emitter, rows: Expr, places: Expr) -> Expr:
    """The subscripts that sort the rows of a matrix, stably: by the last column first."""
    columns = b.dims_of(rows)[1]
    if isinstance(columns, Const) and columns.value <= _COLUMNS:
        order = places
        for n in reversed(range(int(columns.value))):
            order = _ordered(b, order, b.take(rows, b.constant(n, int64), axis=1, mode="fast"))
        return order
    outside, captures = b.dims_here(), Captures(ChainMap(), b.named)
    i, order = b.var("i", (), "int64"), b.var("order", b.type_of(places))
    with b.bindings() as bound:
        column = b.subtract(b.extent(simplify(columns - 1), int64), i)
        keys = b.take(captures.kept(rows, "rows"), column, axis=1, mode="fast")
        after = b.let("after", _ordered(b, order, keys))
    loop = Loop(b, "columns", [order], set(), captures, b.extent(columns, int64), i, None, outside)
    return loop.close([after], None, [], [places], None, bound)[0]


def _ordered(b: Emitter, order: Expr, keys: Expr) -> Expr:
    """Subscripts of keys, sorted by these, stably."""
    return rows_at(b, order, b.argsort(rows_at(b, keys, order), axis=0, dtype=int64))


def _where(b: Emitter, x: Expr) -> Expr:
    """The subscripts (int64) of what is not zero, a row for each; their number is a dim of the body from here on."""
    return b.let("found", b.argwhere(x, dtype=int64))


def _positions(b: Emitter, x: Expr) -> Expr:
    """The same of a vector, as a vector."""
    return positions(b, x if b.dtype(x) == bool_ else b.cast(x, dtype=bool_))


def non_max_suppression(
    b: Emitter,
    boxes: Expr,
    scores: Expr,
    most: Expr | None = None,
    overlap: Expr | None = None,
    least: Expr | None = None,
    *,
    center_point_box: bool = False,
) -> Expr:
    """Without `most` none is kept; without `least` there is no lowest score."""
    if center_point_box:
        x, y, width, height = (b.columns(boxes, n, n + 1) for n in range(4))
        half = b.like(0.5, boxes)
        dx, dy = b.multiply(width, half), b.multiply(height, half)
        corners = (b.subtract(y, dy), b.subtract(x, dx), b.add(y, dy), b.add(x, dx))
        boxes = b.concatenate(corners, axis=2)
    found = b.vision.all_class_non_max_suppression(
        boxes, scores, _limit(b, most, b.constant(0, int64)), _limit(b, overlap, b.constant(0.0)),
        _limit(b, least, b.constant(-math.inf)),
    )  # fmt: skip
    (kept,) = b.dims(b.get(found, 1), "boxes")
    return b.strided_slice(b.get(found, 0), begin=(0,), end=(kept,), strides=(1,), axes=(0,))


def _limit(b: Emitter, x: Expr | None, default: Expr) -> Expr:
    return default if x is None else b.reshape(x, newshape=()) if b.rank(x) else x
