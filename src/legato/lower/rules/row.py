"""The rule for reductions along memory: row by row, each reduction in partial vectors, then the stored elements.

    parallel rows:
        s0 = reduce over the row …            (softmax: the maximum)
        s1 = reduce over the row using s0 …   (the sum of exponentials)
        for the row: out = f(row, s0, s1)

A row's sum is formed in UNROLL vectors of partial sums, joined pairwise: an order fixed by the target and the extent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from legato.arith.expr import Expr, Var, const, floordiv, lt
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute, variables
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import stride
from legato.lower.rules.nest import extent_of, is_threaded, is_unit, lanes_for, loop, parallel, serial, vector_loop
from legato.lower.rules.tile_update import combine
from legato.te.inline import certain_loads, loads
from legato.te.lower import identity
from legato.te.tensor import Axis, Reduction, Tensor
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["MIN_LANES", "RowJob", "RowReduction", "along_vectors", "halves", "lanes_along", "row"]

UNROLL = 4
MIN_LANES = 4  # shorter rows are reduced one by one
_Update = Callable[[int, Expr], Stmt]


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
    if lanes < MIN_LANES or all(stride(x, last.var) != 1 for x in loads(r.body)):
        return None
    return lanes


def row(job: RowJob, target: Target) -> Stmt:
    """The scheduled nest of `job`."""
    units = {a.var: const(0) for a in (*job.outer, *job.inner) if is_unit(a.extent)}
    outer = [a for a in job.outer if a.var not in units]
    inner = [a for a in job.inner if a.var not in units]
    per_row = sum(_length(r.reduction.axes) for r in job.reductions)
    threaded = is_threaded([a.extent for a in outer], 4 * per_row)

    def at(values: list[Expr]) -> Stmt:
        env = {**units, **{a.var: v for a, v in zip(outer, values, strict=True)}}
        return _Row(job, target, env, inner).build()

    return parallel([a.extent for a in outer], at, threaded)


def _length(axes: Sequence[Axis]) -> int:
    total = 1
    for a in axes:
        total *= extent_of(a.extent) or 256
    return total


class _Row:
    def __init__(self, job: RowJob, target: Target, env: dict[Var, Expr], inner: Sequence[Axis]) -> None:
        self.job, self.target, self.env, self.inner = job, target, env, inner
        self.results = {r.tensor: Buffer("s", (), r.tensor.dtype, scope=Scope.LOCAL) for r in job.reductions}

    def build(self) -> Stmt:
        parts = [self._reduce(r) for r in self.job.reductions]
        body = block(*parts, self._store())
        for b in self.results.values():
            body = Alloc(b, body)
        return body

    def _known(self, e: Expr, env: dict[Var, Expr]) -> Expr:
        """`e` at `env`, with the results of reductions read from where this row keeps them."""
        e = rewrite(
            e, lambda n: Load(self.results[n.buffer], ()) if isinstance(n, Load) and n.buffer in self.results else None
        )
        return substitute(e, {**self.env, **env})

    def _of_row(self, body: Expr, along: Sequence[Axis]) -> tuple[Expr, dict[Var, Expr]]:
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
        return body, {var: self._known(e, {}) for e, var in found.items()}

    def _store(self) -> Stmt:
        body, of_row = self._of_row(self.job.body, self.inner)

        def store(env: dict[Var, Expr]) -> Stmt:
            index = tuple(substitute(i, {**self.env, **env}) for i in self.job.index)
            return Store(self.job.out, index, self._known(body, env))

        if not self.inner:
            return _lets(of_row, store({}))
        *rest, last = self.inner
        lanes = lanes_for(self.target, [self.job.body])
        return _lets(
            of_row, serial(rest, lambda env: vector_loop(last.extent, lanes, lambda i: store({**env, last.var: i})))
        )

    def _reduce(self, r: RowReduction) -> Stmt:
        """The statements that leave the reduction of this row in its result buffer."""
        body, of_row = self._of_row(r.body, r.reduction.axes)
        return _lets(of_row, self._accumulated(replace(r, body=body)))

    def _accumulated(self, r: RowReduction) -> Stmt:
        *rest, last = r.reduction.axes
        lanes, length = lanes_along(r, self.target), extent_of(last.extent)
        if lanes is None:
            return self._scalar(r)
        unroll = UNROLL if length is None or length >= UNROLL * lanes else 1
        acc = Buffer("acc", (const(unroll), const(lanes)), r.tensor.dtype, scope=Scope.REGISTER)
        lane = Var("l", lo=0, hi=lanes - 1)
        zero = identity(r.reduction.combiner, r.tensor.dtype)

        def update(u: int, env: dict[Var, Expr]) -> Stmt:
            total = Load(acc, (const(u), lane))
            value = combine(r.reduction.combiner, total, self._known(r.body, env), self.target)
            return Store(acc, (const(u), lane), value)

        def along(env: dict[Var, Expr]) -> Stmt:
            return along_vectors(last.extent, lanes, unroll, lane, lambda u, i: update(u, {**env, last.var: i}))

        start = [Store(acc, (const(u), lane), zero) for u in range(unroll)]
        joined = [
            Store(acc, (const(u), lane), self._join(r, Load(acc, (const(u), lane)), Load(acc, (const(u + step), lane))))
            for step in halves(unroll)
            for u in range(step)
        ]
        parts = Buffer("parts", (const(lanes),), r.tensor.dtype, scope=Scope.LOCAL)
        spill = Store(parts, (lane,), Load(acc, (const(0), lane)))
        vectors = Alloc(
            acc, For(lane, const(lanes), block(*start, serial(rest, along), *joined, spill), LoopKind.VECTOR)
        )
        return Alloc(parts, block(vectors, self._across(r, parts, lanes)))

    def _across(self, r: RowReduction, parts: Buffer, lanes: int) -> Stmt:
        """Joins the lanes pairwise and leaves the result, combined with the initial value, in its buffer."""
        steps: list[Stmt] = []
        for step in halves(lanes):
            lane = Var("l", lo=0, hi=step - 1)
            both = self._join(r, Load(parts, (lane,)), Load(parts, (lane + step,)))
            join = Store(parts, (lane,), both)
            steps.append(For(lane, const(step), join, LoopKind.VECTOR))
        total: Expr = Load(parts, (const(0),))
        if r.reduction.init is not None:
            total = self._join(r, substitute(r.reduction.init, self.env), total)
        return block(*steps, Store(self.results[r.tensor], (), total))

    def _join(self, r: RowReduction, a: Expr, b: Expr) -> Expr:
        return combine(r.reduction.combiner, a, b, self.target)

    def _scalar(self, r: RowReduction) -> Stmt:
        result = self.results[r.tensor]
        init = r.reduction.init or identity(r.reduction.combiner, r.tensor.dtype)

        def step(env: dict[Var, Expr]) -> Stmt:
            value = combine(r.reduction.combiner, Load(result, ()), self._known(r.body, env), self.target)
            return Store(result, (), value)

        return block(Store(result, (), substitute(init, self.env)), serial(r.reduction.axes, step))


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
