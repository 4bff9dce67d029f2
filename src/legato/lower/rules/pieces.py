"""Index-set splitting: an axis in the ranges between which conditions on it change.

    for c in 0..96: out[c] = select(c < 64, a[c], b[c − 64])
        =>  for c in 0..64: out[c] = a[c];   for c in 64..96: out[c] = b[c − 64]

So a concatenation is a copy from each of its parts, and padding around a row is written beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, binary, const, lt, select
from legato.arith.fold import COMPARISONS
from legato.arith.interval import Interval
from legato.arith.linear import gather
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


def last_block(axes: Sequence[Axis], inner: Axis, body: Expr) -> tuple[Expr, Expr, Expr] | None:
    """Where comparisons that depend on `inner` (blocks of a known extent, of which the last may not be full) are open
    in the last block alone: what is true before that, `body` there, and in the last; None if there is no such thing."""
    length = extent_of(inner.extent)
    if length is None:
        return None
    for axis in axes:
        count = extent_of(axis.extent)
        open_ = [n for n in nodes(body) if _is_comparison(n) and {axis.var, inner.var} <= set(variables(n))]
        if not open_ or (count is not None and count < 2):
            continue
        if count is None:
            end = _at_most(open_[0], inner.var, length - 1) if len(open_) == 1 else None
            if end is not None:
                return end, _settled(body, {open_[0]: const(True)}), body
            continue
        ranges = {inner.var: Interval(0, length - 1), axis.var: Interval(0, count - 2)}
        truth = {n: simplify(n, ranges) for n in open_}
        if all(isinstance(t, Const) for t in truth.values()):
            last = substitute(body, {axis.var: const(count - 1)})
            return lt(axis.var, count - 1), _settled(body, truth), last
    return None


def _at_most(node: Expr, var: Var, most: int) -> Expr | None:
    """What makes comparison `node` true for all `var` up to `most`: that it is there; None if that does not follow."""
    if not isinstance(node, Binary) or node.op not in (Op.LT, Op.LE):
        return None
    terms, _ = gather(node.a - node.b)
    grows = terms.get(var, 0) > 0 and not any(var in variables(t) for t in terms if t is not var)
    return simplify(substitute(node, {var: const(most)})) if grows else None


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
