"""A vector axis that what is read takes apart: out[c] = f(a[c // g], b[c % g], …).

Where g is at least a vector, the axis is two: c = (p, q), and vectors run along q. Where it is small, results from
neighbouring places are interleaved:

    for i in 0..n/g, a vector at a time:
        for r in 0..g: part[r][lane] = f at c = (i + lane)·g + r         read along memory
        for j in 0..g: out[i·g + j·lanes + lane] = part[…][…]            one shuffle of what is in registers

So are the results along a last axis of few places, which is one with the axis before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from legato.arith.expr import Binary, Const, Expr, Op, Var, const, floordiv, floormod
from legato.arith.fold import COMPARISONS
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, rewrite, substitute
from legato.lower.access import stride
from legato.lower.rules.nest import extent_of, loop, vector, vector_loop
from legato.lower.rules.pieces import pieces
from legato.te.inline import loads
from legato.te.tensor import Axis
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Stmt, Store, block

__all__ = ["beside", "digit", "interleaved", "split"]

MOST = 4  # vectors that one shuffle takes its lanes from
_Store = Callable[[Expr, Expr], Stmt]  # stores a value at a place of the axis


def digit(axis: Axis, body: Expr, lanes: int) -> int | None:
    """g, if `body` depends on places of `axis`, of literal extent, by c // g or c % g; None where that is no use."""
    extent = extent_of(axis.extent)
    found = {
        int(n.b.value)
        for n in nodes(body)
        if isinstance(n, Binary) and n.op in (Op.FLOORDIV, Op.FLOORMOD) and n.a is axis.var and isinstance(n.b, Const)
    }
    if extent is None or len(found) != 1 or lanes == 1:
        return None
    (g,) = found
    fits = 1 < g < extent and extent % g == 0 and (g >= lanes or (g <= MOST and extent >= lanes * g))
    return g if fits else None


def split(axis: Axis, g: int, body: Expr, lanes: int, store: _Store) -> Stmt:
    """`body` along `axis`, as loops over its digits."""
    low = Axis(Var(axis.var.name, lo=0, hi=g - 1), const(g))

    def run(p: Expr) -> Stmt:
        value = _at(body, axis, p * g + low.var)
        return block(*(part(p, *piece) for piece in pieces(low, value)))

    def part(p: Expr, lo: int, hi: int, value: Expr) -> Stmt:
        return vector_loop(
            const(hi - lo), lanes, lambda i: store(p * g + (lo + i), substitute(value, {low.var: lo + i}))
        )

    return loop("d", simplify(floordiv(axis.extent, const(g))), run)


def interleaved(axis: Axis, g: int, body: Expr, lanes: int, store: _Store) -> Stmt | None:
    """`body` along `axis`, g vectors at a time; None where some of it does not run along memory."""
    high = Axis(Var(axis.var.name, lo=0), simplify(floordiv(axis.extent, const(g))))
    return _in_turns(high, [_at(body, axis, high.var * g + r) for r in range(g)], lanes, store)


def beside(high: Axis, low: Axis, body: Expr, lanes: int, store: _Store) -> Stmt | None:
    """`body` along two axes, of which the lower has few places, as if they were one; None where that is no use."""
    g, extent = extent_of(low.extent), extent_of(high.extent)
    if g is None or not 2 <= g <= MOST or extent is None or extent < lanes or lanes == 1:
        return None
    return _in_turns(high, [_at(body, low, const(r)) for r in range(g)], lanes, store)


def _in_turns(high: Axis, values: Sequence[Expr], lanes: int, store: _Store) -> Stmt | None:
    """`values` along `high`, one of each in turn; None where some do not run along memory, or change at places of their
    own."""
    cuts = [pieces(high, value) for value in values]
    ranges = [[(lo, hi) for lo, hi, _ in cut] for cut in cuts]
    if any(r != ranges[0] for r in ranges):
        return None
    if any(stride(x, high.var) not in (0, 1) for cut in cuts for *_, value in cut for x in loads(value)):
        return None
    return block(
        *(_range(high.var, lo, hi, [c[n][2] for c in cuts], lanes, store) for n, (lo, hi) in enumerate(ranges[0]))
    )


def _range(var: Var, lo: int, hi: int, values: Sequence[Expr], lanes: int, store: _Store) -> Stmt:
    """`values` from `lo` to `hi` of `var`, one of each in turn."""
    full, left = divmod(hi - lo, lanes)
    done = [loop("v", const(full), lambda v: _shuffled(values, var, v * lanes + lo, lanes, store))]
    if left:
        done.append(_shuffled(values, var, const(lo + full * lanes), left, store))
    return block(*done)


def _shuffled(values: Sequence[Expr], var: Var, first: Expr, lanes: int, store: _Store) -> Stmt:
    """`values` at `lanes` places of `var` from `first` on, interleaved and stored."""
    g = len(values)
    parts = Buffer("part", (const(g), const(lanes)), values[0].dtype, scope=Scope.REGISTER)

    def read(r: int, lane: Expr) -> Stmt:
        return Store(parts, (const(r), lane), substitute(values[r], {var: first + lane}))

    def write(j: int, lane: Expr) -> Stmt:
        place = lane + j * lanes
        value = Load(parts, (floormod(place, const(g)), floordiv(place, const(g))))
        return store(first * g + place, value)

    reads = [vector(lanes, partial(read, r)) for r in range(g)]
    return Alloc(parts, block(*reads, *(vector(lanes, partial(write, j)) for j in range(g))))


def _at(body: Expr, axis: Axis, place: Expr) -> Expr:
    """`body` at `place` of `axis`, with subscripts and comparisons simplified."""

    def simpler(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return Load(node.buffer, tuple(simplify(substitute(i, {axis.var: place})) for i in node.indices))
        if isinstance(node, Binary) and node.op in COMPARISONS and node.a.dtype.kind == "index":
            return simplify(substitute(node, {axis.var: place}))
        return None

    return substitute(rewrite(body, simpler), {axis.var: place})
