"""The rule for reductions along memory: each reduction of some rows in partial vectors, then the stored elements.

    parallel tiles of rows:
        for m in rows: s0[m] = reduce over row m …               (softmax: the maximum)
        for m in rows: s1[m] = reduce over row m using s0[m] …   (the sum of exponentials)
        for m in rows: for row m: out = f(row, s0[m], s1[m])

A row's sum is formed in UNROLL vectors of partial sums, joined pairwise; no row waits for what joins the lanes of
another. Rows of at most half a vector lie in lanes, one in each, and so do those that do not run along memory: their
sums are formed element by element. Which order it is the target and the row's extent decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from legato.arith.expr import Expr, Var, const, floordiv, lt
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute, variables
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import stride
from legato.lower.rules.across import across
from legato.lower.rules.nest import (
    SOME,
    extent_of,
    in_tiles,
    is_threaded,
    is_unit,
    lanes_for,
    loop,
    parallel,
    serial,
    together,
    vector,
    vector_loop,
    work,
)
from legato.lower.rules.tile_shape import MANY_ROWS
from legato.lower.rules.tile_update import combine
from legato.te.inline import certain_loads, loads
from legato.te.lower import identity
from legato.te.tensor import Axis, Reduction, Tensor
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["MIN_LANES", "RowJob", "RowReduction", "along_vectors", "halves", "lanes_along", "row"]

UNROLL = 4
MIN_LANES = 4  # no vectors along shorter rows
NEAR = 1 << 15  # bytes of rows that stay in the first cache, beside what is stored
TILES = 16  # tiles that there should be at least, so that threads share evenly
ENOUGH = 16  # rows along an axis
FEW = 16  # elements that are written out one by one
_Update = Callable[[int, Expr], Stmt]
_One = Callable[[dict[Var, Expr], Expr], Stmt]
_At = Callable[[Expr], Mapping[Var, Expr]]


@dataclass(frozen=True, slots=True)
class RowReduction:
    """One reduction of a row: `tensor` at `indices` (functions of the outer axes) is the reduction of `body`."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    reduction: Reduction
    body: Expr


@dataclass(frozen=True, slots=True)
class RowJob:
    """What to compute: for each point of `outer`, `reductions` in order, then out[axes] = body along `inner`.

    `body` and the reductions' bodies read the results of earlier reductions through Loads of their tensors.
    """

    out: Tensor
    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    reductions: tuple[RowReduction, ...]
    index: tuple[Expr, ...]
    body: Expr


def lanes_along(r: RowReduction, target: Target) -> int | None:
    """Lanes of the vectors along the last axis of a reduction; None where that is short, or nothing lies along it."""
    last = r.reduction.axes[-1]
    lanes, length = lanes_for(target, [r.body]), extent_of(last.extent)
    if length is not None and length < lanes:
        lanes = 1 << max(0, (length - 1).bit_length())  # one vector, masked where the length is no power of two
    if min(lanes, length or lanes) < MIN_LANES or all(stride(x, last.var) != 1 for x in loads(r.body)):
        return None
    return lanes


def row(job: RowJob, target: Target) -> Stmt:
    """The scheduled nest of `job`."""
    units = {a.var: const(0) for a in (*job.outer, *job.inner) if is_unit(a.extent)}
    outer = [a for a in job.outer if a.var not in units]
    inner = [a for a in job.inner if a.var not in units]
    length = max(_length(r.reduction.axes) for r in job.reductions)
    threaded = is_threaded([a.extent for a in outer], 4 * length * len(job.reductions))
    is_short = 2 * length <= target.lanes(job.reductions[0].tensor.dtype)
    if not outer:
        return _Rows(job, target, inner, lambda _: units, in_lane=is_short).build()
    axis = _longest(outer)
    outer = [*(a for a in outer if a is not axis), axis]

    def tile(env: dict[Var, Expr], first: Expr, rows: int) -> Stmt:
        return _Rows(job, target, inner, lambda m: {**units, **env, axis.var: first + m}, rows).build()

    def lane(env: dict[Var, Expr], place: Expr) -> Stmt:
        return _Rows(job, target, inner, lambda _: {**units, **env, axis.var: place}, in_lane=True).build()

    if is_short or all(lanes_along(r, target) is None for r in job.reductions):
        return _in_lanes(job, target, outer, threaded, lane)
    most = _at_once(job, length, target)
    if threaded:
        most = min(most, _power(work([a.extent for a in outer]) or TILES * most) // TILES)
    return in_tiles(outer, max(1, most), threaded, tile)


def _longest(outer: Sequence[Axis]) -> Axis:
    """The axis whose rows are done together: of those that are not long enough the longest, else the last."""
    return max(reversed(outer), key=lambda a: min(extent_of(a.extent) or SOME, ENOUGH))


def _length(axes: Sequence[Axis]) -> int:
    total = 1
    for a in axes:
        total *= extent_of(a.extent) or MANY_ROWS
    return total


def _at_once(job: RowJob, length: int, target: Target) -> int:
    """How many rows may be reduced together, a power of two: they stay in the first cache."""
    dtype = job.reductions[0].tensor.dtype
    return _power(min(NEAR // (length * dtype.bytes), target.lanes(dtype)))


def _power(n: int) -> int:
    """The largest power of two that is no more than `n`; 1 for less."""
    return 1 << max(0, n.bit_length() - 1)


def _in_lanes(job: RowJob, target: Target, outer: Sequence[Axis], threaded: bool, one: _One) -> Stmt:
    """`one` row in each lane of vectors that run along the last of `outer`."""
    *others, last = outer
    lanes = lanes_for(target, [job.body, *(r.body for r in job.reductions)])
    full = simplify(floordiv(last.extent, const(lanes)))

    def vectors(count: Expr, along: Callable[[dict[Var, Expr], Expr], Stmt]) -> Stmt:
        def at(values: list[Expr]) -> Stmt:
            *before, v = values
            return along({a.var: i for a, i in zip(others, before, strict=True)}, v)

        return parallel([*(a.extent for a in others), count], at, threaded)

    def some(env: dict[Var, Expr], place: Expr) -> Stmt:
        return If(lt(place, last.extent), one(env, place))

    nests = [vectors(full, lambda env, v: vector(lanes, lambda lane: one(env, v * lanes + lane)))]
    left = extent_of(simplify(last.extent - full * lanes))
    if left is None:
        nests.append(vectors(const(1), lambda env, _: vector(lanes, lambda lane: some(env, full * lanes + lane))))
    elif left:
        nests.append(vectors(const(1), lambda env, _: vector(left, lambda lane: one(env, full * lanes + lane))))
    return together(nests if extent_of(full) != 0 else nests[1:])


class _Rows:
    """`rows` rows, those of the outer axes' values `at` 0, 1, …; or one, in a lane of a vector."""

    def __init__(
        self, job: RowJob, target: Target, inner: Sequence[Axis], at: _At, rows: int = 1, *, in_lane: bool = False
    ) -> None:
        self.job, self.target, self.inner, self.at, self.rows, self.in_lane = job, target, inner, at, rows, in_lane
        self.slots = 1 << (rows - 1).bit_length()
        shape = (const(self.slots),)
        self.results = {r.tensor: Buffer("s", shape, r.tensor.dtype, scope=Scope.LOCAL) for r in job.reductions}

    def build(self) -> Stmt:
        parts = [self._reduce(r) for r in self.job.reductions]
        body = block(*parts, loop("m", const(self.rows), self._store))
        for b in self.results.values():
            body = Alloc(b, body)
        return body

    def _known(self, e: Expr, m: Expr, env: Mapping[Var, Expr]) -> Expr:
        """`e` in row `m` at `env`, with the results of reductions read from where the rows keep them."""

        def kept(n: Expr) -> Expr | None:
            return Load(self.results[n.buffer], (m,)) if isinstance(n, Load) and n.buffer in self.results else None

        return substitute(rewrite(e, kept), {**self.at(m), **env})

    def _of_row(self, body: Expr, m: Expr, along: Sequence[Axis]) -> tuple[Expr, dict[Var, Expr]]:
        """`body` with what it computes from earlier reductions alone, the same everywhere `along` the row, replaced by
        variables; and their values. What a Select guards stays where it is: it may lie outside its buffer."""
        inner, found = {a.var for a in along}, dict[Expr, Var]()
        known, certain = set[Var](), set(certain_loads(body))

        def take(e: Expr) -> Expr | None:
            used, read = set(variables(e)), loads(e)
            is_made = not known.isdisjoint(used) or any(x.buffer in self.results for x in read)
            if isinstance(e, Load | Var) or not e.dtype.is_float or not is_made or not inner.isdisjoint(used):
                return None
            if any(x not in certain and x.buffer not in self.results for x in read):
                return None
            var = found.setdefault(e, Var("of_row", e.dtype))
            known.add(var)
            return var

        body = rewrite(body, take)
        return body, {var: self._known(e, m, {}) for e, var in found.items()}

    def _along(self, axes: Sequence[Axis], body: Callable[[dict[Var, Expr]], Stmt]) -> Stmt:
        """`body` one by one along `axes`; written out where there are few, so that what is read again is read once."""
        is_written = self.in_lane and (work([a.extent for a in axes]) or MANY_ROWS) <= FEW
        return serial(axes, body, kind=LoopKind.UNROLL if is_written else LoopKind.SERIAL)

    def _store(self, m: Expr) -> Stmt:
        """Stores row `m`."""
        body, of_row = self._of_row(self.job.body, m, self.inner)

        def store(env: dict[Var, Expr]) -> Stmt:
            index = tuple(substitute(i, {**self.at(m), **env}) for i in self.job.index)
            return Store(self.job.out, index, self._known(body, m, env))

        if not self.inner or self.in_lane:
            return _lets(of_row, self._along(self.inner, store))
        *rest, last = self.inner
        lanes = lanes_for(self.target, [self.job.body])
        return _lets(
            of_row, serial(rest, lambda env: vector_loop(last.extent, lanes, lambda i: store({**env, last.var: i})))
        )

    def _reduce(self, r: RowReduction) -> Stmt:
        """The statements that leave the reduction of each row in its result buffer."""
        lanes = lanes_along(r, self.target)
        if self.in_lane or lanes is None:
            return loop("m", const(self.rows), lambda m: self._scalar(r, m))
        size = self.slots * lanes
        parts = Buffer("parts", (const(size),), r.tensor.dtype, scope=Scope.LOCAL)
        vectors = loop("m", const(self.rows), lambda m: self._accumulated(r, m, parts, lanes))

        def join(a: Expr, b: Expr) -> Expr:
            return self._join(r, a, b)

        def finish(sums: Buffer) -> Stmt:
            return vector(self.rows, lambda m: self._finished(r, m, Load(sums, (m,))))

        width = self.target.lanes(r.tensor.dtype)
        return Alloc(parts, block(vectors, across(parts, self.slots, lanes, width, join, finish)))

    def _accumulated(self, r: RowReduction, m: Expr, parts: Buffer, lanes: int) -> Stmt:
        """Leaves the reduction of row `m` in as many `parts` as there are lanes."""
        body, of_row = self._of_row(r.body, m, r.reduction.axes)
        *rest, last = r.reduction.axes
        length = extent_of(last.extent)
        unroll = UNROLL if length is None or length >= UNROLL * lanes else 1
        acc = Buffer("acc", (const(unroll), const(lanes)), r.tensor.dtype, scope=Scope.REGISTER)
        lane = Var("l", lo=0, hi=lanes - 1)
        zero = identity(r.reduction.combiner, r.tensor.dtype)

        def update(u: int, env: dict[Var, Expr]) -> Stmt:
            place = (const(u), lane)
            return Store(acc, place, self._join(r, Load(acc, place), self._known(body, m, env)))

        def along(env: dict[Var, Expr]) -> Stmt:
            return along_vectors(last.extent, lanes, unroll, lane, lambda u, i: update(u, {**env, last.var: i}))

        start = [Store(acc, (const(u), lane), zero) for u in range(unroll)]
        joined = [
            Store(acc, (const(u), lane), self._join(r, Load(acc, (const(u), lane)), Load(acc, (const(u + step), lane))))
            for step in halves(unroll)
            for u in range(step)
        ]
        leave = Store(parts, (m * lanes + lane,), Load(acc, (const(0), lane)))
        nest = For(lane, const(lanes), block(*start, serial(rest, along), *joined, leave), LoopKind.VECTOR)
        return _lets(of_row, Alloc(acc, nest))

    def _finished(self, r: RowReduction, m: Expr, total: Expr) -> Stmt:
        """Leaves the result of row `m`, combined with the initial value, in its buffer."""
        if r.reduction.init is not None:
            total = self._join(r, substitute(r.reduction.init, self.at(m)), total)
        return Store(self.results[r.tensor], (m,), total)

    def _join(self, r: RowReduction, a: Expr, b: Expr) -> Expr:
        return combine(r.reduction.combiner, a, b, self.target)

    def _scalar(self, r: RowReduction, m: Expr) -> Stmt:
        """Leaves the reduction of row `m` in its buffer, element by element."""
        body, of_row = self._of_row(r.body, m, r.reduction.axes)
        result = self.results[r.tensor]
        init = r.reduction.init or identity(r.reduction.combiner, r.tensor.dtype)

        def step(env: dict[Var, Expr]) -> Stmt:
            return Store(result, (m,), self._join(r, Load(result, (m,)), self._known(body, m, env)))

        start = Store(result, (m,), substitute(init, self.at(m)))
        return _lets(of_row, block(start, self._along(r.reduction.axes, step)))


def _lets(values: Mapping[Var, Expr], body: Stmt) -> Stmt:
    """`body`, where the variables have these values, later ones in terms of earlier ones."""
    for var, value in reversed(list(values.items())):
        body = Let(var, value, body)
    return body


def along_vectors(extent: Expr, lanes: int, unroll: int, lane: Expr, body: _Update) -> Stmt:
    """body(u, i) over i in 0..extent: `unroll` vectors a time, then single vectors, then a masked one."""
    width = lanes * unroll
    full = floordiv(extent, const(width))
    parts = [loop("k", full, lambda k: block(*(body(u, k * width + u * lanes + lane) for u in range(unroll))))]
    done = full * width
    singles = simplify(floordiv(extent - done, const(lanes)))
    if unroll > 1 and extent_of(singles) != 0:
        parts.append(loop("k", singles, lambda k: body(0, done + k * lanes + lane)))
    start = simplify(floordiv(extent, const(lanes)) * lanes)
    left = extent_of(simplify(extent - start))
    if left != 0:
        parts.append(If(lt(start + lane, extent), body(0, start + lane)))
    return block(*parts)


def halves(n: int) -> list[int]:
    """n/2, n/4, …, 1."""
    found = []
    while n > 1:
        n //= 2
        found.append(n)
    return found
