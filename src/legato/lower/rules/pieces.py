"""Index-set splitting: an axis in the ranges between which conditions on it change.

    for c in 0..96: out[c] = select(c < 64, a[c], b[c − 64])
        =>  for c in 0..64: out[c] = a[c];   for c in 64..96: out[c] = b[c − 64]

So a concatenation is a copy from each of its parts, and padding around a row is written beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, binary, const, select
from legato.arith.fold import COMPARISONS
from legato.arith.interval import Interval
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, rewrite, substitute, variables
from legato.lower.rules.nest import extent_of
from legato.te.tensor import Axis

__all__ = ["Piece", "last_block", "pieces"]

Piece = tuple[int, int, Expr]
MANY = 256  # ranges beyond which the code would grow more than it gains


def pieces(axis: Axis, body: Expr) -> list[Piece]:
    """The ranges (first, behind the last) of `axis`, which has a literal extent, and what `body` is in each of them.

    One range, with the body as it is, where nothing in it compares the axis with literals.
    """
    extent = extent_of(axis.extent)
    assert extent is not None
    where = {n: at for n in nodes(body) if (at := _turns_at(n, axis.var)) is not None}
    cuts = sorted({at for _, at in where.values() if 0 < at < extent})
    if not where or len(cuts) >= MANY:
        return [(0, extent, body)]
    bounds = [0, *cuts, extent]
    return [(lo, hi, _decided(body, where, lo)) for lo, hi in pairwise(bounds)]


def _turns_at(node: Expr, var: Var) -> tuple[bool, int] | None:
    """(whether the comparison holds below, where it changes), if it compares `var` alone with a literal."""
    if not isinstance(node, Binary) or node.op not in (Op.LT, Op.LE) or node.a.dtype.kind != "index":
        return None
    slack = int(node.op is Op.LE)
    upper = simplify(var + node.b - node.a)  # var + c < b  ⇔  var < b − c
    if isinstance(upper, Const):
        return True, int(upper.value) + slack
    lower = simplify(var - node.b + node.a)  # a < var + c  ⇔  var > a − c
    if isinstance(lower, Const):
        return False, int(lower.value) + 1 - slack
    return None


def last_block(axes: Sequence[Axis], inner: Axis, body: Expr) -> tuple[Axis, Expr, Expr] | None:
    """One of `axes` whose last place alone leaves comparisons open that depend on `inner` too (blocks of `inner`'s
    extent, of which the last may not be full), `body` before that place and at it; None if there is none."""
    length = extent_of(inner.extent)
    for axis in axes:
        count = extent_of(axis.extent)
        open_ = [n for n in nodes(body) if _is_comparison(n) and {axis.var, inner.var} <= set(variables(n))]
        if length is None or count is None or count < 2 or not open_:
            continue
        ranges = {inner.var: Interval(0, length - 1), axis.var: Interval(0, count - 2)}
        truth = {n: simplify(n, ranges) for n in open_}
        if all(isinstance(t, Const) for t in truth.values()):
            return axis, _settled(body, truth), substitute(body, {axis.var: const(count - 1)})
    return None


def _is_comparison(node: Expr) -> bool:
    return isinstance(node, Binary) and node.op in COMPARISONS and node.a.dtype.kind == "index"


def _decided(body: Expr, where: Mapping[Expr, tuple[bool, int]], at: int) -> Expr:
    """`body` with the comparisons `where` as they are at position `at`."""
    return _settled(body, {n: const((at < turn) == below) for n, (below, turn) in where.items()})


def _settled(body: Expr, truth: Mapping[Expr, Expr]) -> Expr:
    """`body` with comparisons of known `truth`."""

    def settle(node: Expr) -> Expr | None:
        if node in truth:
            return truth[node]
        match node:
            case Binary(op=Op.AND | Op.OR | Op.NE | Op.EQ) if isinstance(node.a, Const) or isinstance(node.b, Const):
                return binary(node.op, node.a, node.b)
            case Select(cond=Const()):
                return select(node.cond, node.a, node.b)
            case _:
                return None

    return rewrite(body, settle)
