"""Building blocks of the rules: loops over axes, vector loops with tails, parallel outer loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from legato.arith.expr import Const, Expr, Var, cdiv, const, floordiv, floormod, lt, min_
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes
from legato.base.target import Target
from legato.lower.access import extent_of, is_unit
from legato.te.tensor import Axis
from legato.tir.expr import Load
from legato.tir.stmt import For, If, LoopKind, Stmt, block
from legato.tir.walk import statements

__all__ = ["SOME", "Body", "balanced", "by_one_thread", "chunked", "extent_of", "in_tiles", "is_shared", "is_threaded",
           "is_unit", "lanes_for", "loop", "number_of", "parallel", "serial", "together", "unfused", "vector",
           "vector_loop", "where", "work"]  # fmt: skip

Body = Callable[[Expr], Stmt]
Tile = Callable[[dict[Var, Expr], Expr, int], Stmt]  # of the values of the outer axes, the first place, how many
GRAIN = 1 << 14  # element operations below which a kernel stays on one thread: a fork-join costs about a microsecond
PIECES = 16  # iterations that a parallel loop should have at least, so that threads share evenly
SOME = 4  # what symbolic extents count as


def lanes_for(target: Target, exprs: Iterable[Expr]) -> int:
    """Vector lanes such that the widest value in `exprs` fills one register (index arithmetic not counted)."""
    widest = max((n.dtype.bytes for e in exprs for n in nodes(e) if _is_value(n)), default=4)
    return max(1, target.vector_bytes // widest)


def _is_value(e: Expr) -> bool:
    return e.dtype.kind != "index" and not isinstance(e, Const) and (not e.dtype.is_bool or isinstance(e, Load))


def loop(name: str, extent: Expr, body: Body, kind: LoopKind = LoopKind.SERIAL) -> Stmt:
    """A loop of `kind`; its body alone where the extent is 1."""
    if is_unit(extent):
        return body(const(0))
    var = Var(name, lo=0)
    return For(var, extent, body(var), kind)


def balanced(extent: int, most: int) -> list[tuple[int, int, int]]:
    """(size, how many, where they begin) of as few pieces of at most `most` as make up `extent`: nearly equal ones, the
    larger first."""
    count = -(-extent // most)
    small, larger = divmod(extent, count)
    pieces = [(small + 1, larger, 0), (small, count - larger, larger * (small + 1))]
    return [piece for piece in pieces if piece[1]]


def serial(
    axes: Sequence[Axis],
    body: Callable[[dict[Var, Expr]], Stmt],
    env: dict[Var, Expr] | None = None,
    kind: LoopKind = LoopKind.SERIAL,
) -> Stmt:
    """A nest of loops over `axes`, serial by default; the body gets the value of each axis variable."""
    env = dict(env or {})
    if not axes:
        return body(env)
    first, rest = axes[0], axes[1:]
    return loop(first.var.name, first.extent, lambda v: serial(rest, body, {**env, first.var: v}, kind), kind)


def parallel(extents: Sequence[Expr], body: Callable[[list[Expr]], Stmt], threaded: bool) -> Stmt:
    """A loop nest over `extents`. If `threaded`, leading loops are fused into one PARALLEL loop, as many as needed: the
    first symbolic extent, mostly of a batch, may be 1, others count as a few."""
    taken, pieces, unknown = 0, 1, 1
    if threaded:
        while taken < len(extents) and pieces < PIECES:
            known = extent_of(extents[taken])
            pieces *= unknown if known is None else known
            unknown = unknown if known is not None else SOME
            taken += 1
    outer, inner = list(extents[:taken]), list(extents[taken:])

    def rest(values: list[Expr], left: list[Expr]) -> Stmt:
        if not left:
            return body(values)
        return loop("i", left[0], lambda v: rest([*values, v], left[1:]))

    if not outer or all(is_unit(e) for e in outer):
        return rest([const(0)] * len(outer), inner)
    total: Expr = const(1)
    for e in outer:
        total = total * e
    var = Var("p", lo=0)
    return For(var, simplify(total), rest(unfused(var, outer), inner), LoopKind.PARALLEL)


def is_shared(body: Stmt) -> bool:
    """True if threads share loops of `body`."""
    return any(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(body))


def by_one_thread(body: Stmt) -> Stmt:
    """`body` beside nests that threads share: it is shared itself, or one of them does it."""
    return body if is_shared(body) else For(Var("p", lo=0), const(1), body, LoopKind.PARALLEL)


def together(nests: Sequence[Stmt]) -> Stmt:
    """The nests as one kernel's body."""
    return block(*(map(by_one_thread, nests) if any(map(is_shared, nests)) else nests))


def unfused(var: Expr, extents: Sequence[Expr]) -> list[Expr]:
    """The value of each of the fused loops at iteration `var` of the fused one."""
    values: list[Expr] = []
    left: Expr = var
    for n, extent in enumerate(reversed(extents)):
        first = n == len(extents) - 1
        values.append(const(0) if is_unit(extent) else left if first else floormod(left, extent))
        left = floordiv(left, extent)
    return values[::-1]


def number_of(axes: Iterable[Axis], values: Mapping[Var, Expr]) -> Expr:
    """Which one of all that there are along `axes`, the last of which runs fastest, is that at their `values`."""
    number: Expr = const(0)
    for axis in axes:
        number = number * axis.extent + values[axis.var]
    return simplify(number)


def in_tiles(axes: Sequence[Axis], most: int, threaded: bool, tile: Tile) -> Stmt:
    """Tiles of at most `most` places along the last of `axes`, nearly equal ones; single places behind full tiles where
    the extent is symbolic."""
    *outer, last = axes

    def tiles(first: Expr, count: Expr, size: int) -> Stmt:
        def one(values: list[Expr]) -> Stmt:
            *others, number = values
            return tile({a.var: v for a, v in zip(outer, others, strict=True)}, first + number * size, size)

        return parallel([*(a.extent for a in outer), count], one, threaded)

    known = extent_of(last.extent)
    if known is None:
        full = floordiv(last.extent, const(most))
        return together([tiles(const(0), full, most), tiles(full * most, floormod(last.extent, const(most)), 1)])
    return together([tiles(const(first), const(count), size) for size, count, first in balanced(known, most)])


def where(condition: Expr, then: Stmt, otherwise: Stmt | None = None) -> Stmt:
    """One of the two, by `condition`; where that is known, it alone."""
    if isinstance(condition, Const):
        return then if condition.value else otherwise or block()
    return If(condition, then, otherwise)


def vector_loop(extent: Expr, lanes: int, body: Body) -> Stmt:
    """`body(i)` for i in 0..extent, `lanes` at a time; the tail is a shorter vector, or a masked one."""
    known = extent_of(extent)
    full = floordiv(extent, const(lanes))
    parts: list[Stmt] = []
    if known is None or known >= lanes:
        parts.append(loop("v", full, lambda v: vector(lanes, lambda lane: body(v * lanes + lane))))
    rest = simplify(floormod(extent, const(lanes)))
    left = extent_of(rest)
    if left is None:
        start = full * lanes
        tail = vector(lanes, lambda lane: If(lt(start + lane, extent), body(start + lane)))
        parts.append(If(lt(const(0), rest), tail))
    elif left:
        parts.append(vector(left, lambda lane: body(full * lanes + lane)))
    return block(*parts)


def vector(lanes: int, body: Body) -> Stmt:
    """`body` in so many lanes."""
    if lanes == 1:
        return body(const(0))
    var = Var("l", lo=0, hi=lanes - 1)
    return For(var, const(lanes), body(var), LoopKind.VECTOR)


def chunked(extent: Expr, lanes: int, chunk: int, body: Body) -> Stmt:
    """One long axis in parallel chunks of vectors."""

    def piece(p: Expr) -> Stmt:
        start = p * chunk
        length = simplify(min_(const(chunk), extent - start))
        return vector_loop(length, lanes, lambda i: body(start + i))

    var = Var("p", lo=0)
    return For(var, simplify(cdiv(extent, chunk)), piece(var), LoopKind.PARALLEL)


def work(extents: Iterable[Expr], per_element: int = 1) -> int | None:
    """Element operations of a nest; None where an extent is symbolic."""
    total = per_element
    for e in extents:
        size = extent_of(e)
        if size is None:
            return None
        total *= size
    return total


def is_threaded(extents: Iterable[Expr], per_element: int = 1) -> bool:
    """True if the nest is worth a fork-join, or might be (symbolic extents)."""
    total = work(extents, per_element)
    return total is None or total >= GRAIN
