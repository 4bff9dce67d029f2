"""The rule for chains (contraction, reductions along rows, contraction): a block of rows at a time, in the cache of one
core.

    parallel (outer axes, blocks of rows):
        operand[row][c] = query                                   copied: rows close together, scaled once
        for blocks of k: score[row][k] = f(Σ_c operand · keys)    the register tile of `tile`
        for reductions along rows:
            for rows: partial vectors over k;  then all rows: joined across lanes
        for rows: weight[row][k]                                  in place of the scores, or beside them as bfloat16
        for blocks of d: out = g(Σ_k weight · values)             the register tile again

What the last reduction sums is kept in place of the scores if the weights are made of it: exponentials are computed
once. A division by a softmax's sum is a product with the reciprocal.

Every element sees the same operations in the same order whatever block its row is in.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.bounds import bounds
from legato.arith.expr import Binary, Expr, Op, Var, cdiv, const, floordiv, floormod, lt
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.algorithms.pairs import dot, word
from legato.lower.chain import Chain, RowStep
from legato.lower.rules.nest import extent_of, loop, unfused, vector_loop
from legato.lower.rules.row import along_vectors, halves
from legato.lower.rules.tile import row_tiles
from legato.lower.rules.tile_job import TileJob
from legato.lower.rules.tile_shape import TileShape
from legato.lower.rules.tile_update import combine
from legato.te.inline import loads
from legato.te.lower import identity
from legato.te.tensor import Axis, Reduction, Tensor
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Call, Load, cast
from legato.tir.stmt import Alloc, For, If, LoopKind, Stmt, Store, block

__all__ = ["Blocked", "ChainJob", "chain_nest", "fits"]

UNROLL = 4  # vectors of partial results of a row, joined pairwise
MIN_KEYS = 4  # shorter rows are not worth vectors
PAD = 16  # elements behind rows: strides of a power of two would meet in few sets of the cache


@dataclass(frozen=True, slots=True)
class Blocked:
    """An operand that follows the vector axis, as the register tile reads it: `load`, with `block` and `within` instead
    of the axis if it is packed. `step` counts the words of a packed operand of bfloat16, in place of the axis summed
    over."""

    load: Load
    block: Var
    within: Var
    shape: TileShape
    is_packed: bool
    step: Axis | None = None


@dataclass(frozen=True, slots=True)
class ChainJob:
    """What to compute: `chain`, into `out`."""

    out: Tensor
    chain: Chain
    keys: Blocked
    values: Blocked

    @property
    def rows(self) -> int:
        """Rows in a block, at most."""
        return self.keys.shape.rows

    def strides(self) -> tuple[int, int]:
        """Elements from row to row of the copied operand and of the scores."""
        return _padded(_most(self.chain.reduced.extent)), _padded(_most(self.chain.key.extent))


def fits(chain: Chain, shape: TileShape, target: Target) -> bool:
    """True if rows of the scores, as many as `shape` has, stay in a core's cache, and are long enough for vectors."""
    keys, reduced = bounds(chain.key.extent).hi, bounds(chain.reduced.extent).hi
    if keys is None or reduced is None or (extent_of(chain.key.extent) or MIN_KEYS) < MIN_KEYS:
        return False
    row = (_padded(keys) + _padded(reduced)) * chain.product.dtype.bytes
    return shape.rows * row <= target.l2_bytes // 2


def _most(extent: Expr) -> int:
    most = bounds(extent).hi
    assert most is not None  # `fits` says so
    return most


def _padded(n: int) -> int:
    rounded = -(-n // PAD) * PAD
    return rounded if rounded // PAD % 2 else rounded + PAD


def chain_nest(job: ChainJob, target: Target) -> Stmt:
    """The scheduled nest of `job`."""
    extent, most = job.chain.row.extent, job.rows
    outer = [a.extent for a in job.chain.outer]
    known = extent_of(extent)
    if known is not None:
        count = -(-known // most)
        most, least = -(-known // count), known // count
        taller = known - least * count if most != least else count
        total: Expr = const(count)
    else:
        full = floordiv(extent, const(most))
        total = simplify(cdiv(extent, const(most)))
    var = Var("p", lo=0)
    *values, t = unfused(var, [*outer, total])
    env: dict[Var, Expr] = {a.var: v for a, v in zip(job.chain.outer, values, strict=True)}
    work = _Block(job, target, env, most)
    body: Stmt
    if known is None:
        rest = work.rows(full * most, floormod(extent, const(most)))
        body = If(lt(t, full), work.rows(t * most, const(most)), rest)
    elif taller == count:
        body = work.rows(t * most, const(most))
    else:
        rest = work.rows(taller * most + (t - taller) * least, const(least))
        body = If(lt(t, taller), work.rows(t * most, const(most)), rest)
    for e in outer:
        total = total * e
    return For(var, simplify(total), work.allocated(body), LoopKind.PARALLEL)


class _Block:
    """A block of rows at fixed outer axes."""

    def __init__(self, job: ChainJob, target: Target, env: dict[Var, Expr], most: int) -> None:
        self.job, self.chain, self.target, self.env = job, job.chain, target, env
        chain, (inner, outer) = job.chain, job.strides()
        dtype = chain.product.dtype
        narrow = [dtype if operand.step is None else dt.bfloat16 for operand in (job.keys, job.values)]
        self.operand = Buffer("operand", (const(most), const(inner)), narrow[0], scope=Scope.LOCAL)
        self.scores = Buffer("scores", (const(most), const(outer)), dtype, scope=Scope.LOCAL)
        self.weights = self.scores
        if narrow[1] is not dtype:
            self.weights = Buffer("weights", self.scores.shape, narrow[1], scope=Scope.LOCAL)
        self.lanes = _lanes(chain.key.extent, target.lanes(dtype))
        shape = (const(most), const(self.lanes))
        self.parts = Buffer("parts", shape, dtype, scope=Scope.LOCAL)
        self.results = {
            s.load: Buffer("s", (const(most),), s.load.dtype, Layout.row_major(1), Scope.LOCAL) for s in chain.steps
        }

    def allocated(self, body: Stmt) -> Stmt:
        """`body` with the memory that a block needs."""
        for b in dict.fromkeys((self.operand, self.scores, self.weights, self.parts, *self.results.values())):
            body = Alloc(b, body)
        return body

    def rows(self, first: Expr, count: Expr) -> Stmt:
        """All of `count` rows from `first` on."""
        chain = self.chain
        within = Axis(Var("m", lo=0), count)
        at: dict[Var, Expr] = {**self.env, chain.row.var: first + within.var}
        return block(
            self._copied(within, at),
            self._first(within, at),
            *self._along_rows(within, at),
            self._second(within, at),
        )

    def _copied(self, within: Axis, at: dict[Var, Expr]) -> Stmt:
        """Stores the rows' operand of the first contraction."""
        chain, lanes = self.chain, self.target.lanes(self.chain.product.dtype)

        def store(m: Expr, c: Expr) -> Stmt:
            value = substitute(substitute(chain.query, at), {within.var: m, chain.reduced.var: c})
            return Store(self.operand, (m, c), cast(value, self.operand.dtype))

        return loop("m", within.extent, lambda m: vector_loop(chain.reduced.extent, lanes, lambda c: store(m, c)))

    def _first(self, within: Axis, at: dict[Var, Expr]) -> Stmt:
        """Stores the scores."""
        chain = self.chain
        made = substitute(chain.scores, at)

        def score(total: Expr) -> Expr:
            return rewrite(made, lambda e: total if isinstance(e, Load) and e.buffer is chain.product.buffer else None)

        return self._product(
            self.job.keys,
            TileJob(
                out=self.scores,
                index=(within.var, chain.key.var),
                order=(within, chain.key),
                row=within,
                reduction=Reduction("sum", (self.job.keys.step or chain.reduced,)),
                body=_term(self.operand, within.var, chain.reduced, self.job.keys),
                dtype=chain.product.dtype,
                epilogue=score,
                block=self.job.keys.block,
                within=self.job.keys.within,
                packed=self._packed(self.job.keys),
                is_part=True,
            ),
        )

    def _second(self, within: Axis, at: dict[Var, Expr]) -> Stmt:
        """Stores the results."""
        chain = self.chain
        made = substitute(chain.result, at)

        def result(total: Expr) -> Expr:
            return rewrite(made, lambda e: total if isinstance(e, Load) and e.buffer is chain.total.buffer else None)

        return self._product(
            self.job.values,
            TileJob(
                out=self.job.out,
                order=(within, chain.channel),
                row=within,
                reduction=Reduction("sum", (self.job.values.step or chain.key,)),
                body=_term(self.weights, within.var, chain.key, self.job.values),
                dtype=chain.total.dtype,
                epilogue=result,
                block=self.job.values.block,
                within=self.job.values.within,
                packed=self._packed(self.job.values),
                is_part=True,
                index=tuple(substitute(i, at) for i in chain.index),
            ),
        )

    def _packed(self, operand: Blocked) -> frozenset[Buffer]:
        return frozenset({operand.load.buffer} if operand.is_packed else ())

    def _product(self, operand: Blocked, job: TileJob) -> Stmt:
        blocks = simplify(cdiv(job.order[-1].extent, operand.shape.width))
        return loop("ob", blocks, lambda ob: row_tiles(job, operand.shape, self.target, self.env, ob))

    # Reductions along rows

    def _along_rows(self, within: Axis, at: dict[Var, Expr]) -> list[Stmt]:
        """The reductions, and the weights in place of the scores."""
        chain = self.chain
        steps, weight, kept = _once(chain)
        inverted = None if kept is None else _reciprocal(chain, kept)
        done: list[Stmt] = []
        if inverted is not None:
            weight = inverted
        for step in steps:
            turned = inverted is not None and step is kept
            done.append(self._reduced(step, within, at, keeps=step is kept, turned=turned))
        if weight is not chain.score or self.weights is not self.scores:
            done.append(self._stored(weight, within, at))
        return done

    def _known(self, e: Expr, at: dict[Var, Expr], m: Expr, within: Axis, k: Expr) -> Expr:
        """`e` at row `m` of the block and element `k`, with scores and results read from where the block has them."""
        held: dict[Expr, Expr] = {self.chain.score: Load(self.scores, (m, k))}
        held |= {load: Load(b, (m,)) for load, b in self.results.items()}
        holes: dict[Expr, Var] = {x: Var("x", x.dtype) for x in held}
        e = rewrite(e, lambda n: holes.get(n))
        e = substitute(substitute(e, at), {within.var: m, self.chain.key.var: k})
        return substitute(e, {holes[x]: value for x, value in held.items()})

    def _stored(self, weight: Expr, within: Axis, at: dict[Var, Expr]) -> Stmt:
        def store(m: Expr, k: Expr) -> Stmt:
            return Store(self.weights, (m, k), cast(self._known(weight, at, m, within, k), self.weights.dtype))

        extent = self.chain.key.extent
        return loop("m", within.extent, lambda m: vector_loop(extent, self.lanes, lambda k: store(m, k)))

    def _reduced(self, step: RowStep, within: Axis, at: dict[Var, Expr], keeps: bool, turned: bool) -> Stmt:
        """Leaves the reduction of every row in its results (`turned`: the reciprocal); `keeps` what is reduced in place
        of the scores."""
        result = self.results[step.load]
        lane = Var("l", lo=0, hi=self.lanes - 1)
        known = extent_of(self.chain.key.extent)
        unroll = UNROLL if known is None or known >= UNROLL * self.lanes else 1
        acc = Buffer("acc", (const(unroll), const(self.lanes)), result.dtype, scope=Scope.REGISTER)

        def join(a: Expr, b: Expr) -> Expr:
            return combine(step.combiner, a, b, self.target)

        def update(m: Expr, u: int, k: Expr) -> Stmt:
            value = self._known(step.body, at, m, within, k)
            total = Load(acc, (const(u), lane))
            if not keeps:
                return Store(acc, (const(u), lane), combine(step.combiner, total, value, self.target))
            again = Load(self.scores, (m, k))
            return block(Store(self.scores, (m, k), value), Store(acc, (const(u), lane), join(total, again)))

        def vectors(m: Expr) -> Stmt:
            zero = identity(step.combiner, result.dtype)
            start = [Store(acc, (const(u), lane), zero) for u in range(unroll)]
            along = along_vectors(self.chain.key.extent, self.lanes, unroll, lane, lambda u, k: update(m, u, k))
            joined = [
                Store(acc, (const(u), lane), join(Load(acc, (const(u), lane)), Load(acc, (const(u + step), lane))))
                for step in halves(unroll)
                for u in range(step)
            ]
            spill = Store(self.parts, (m, lane), Load(acc, (const(0), lane)))
            return Alloc(acc, For(lane, const(self.lanes), block(*start, along, *joined, spill), LoopKind.VECTOR))

        def finish(m: Expr) -> Stmt:
            total: Expr = Load(self.parts, (m, const(0)))
            if step.init is not None:
                total = join(self._known(step.init, at, m, within, const(0)), total)
            return Store(result, (m,), const(1, result.dtype) / total if turned else total)

        rows = within.extent
        return block(loop("m", rows, vectors), *self._across(rows, join), loop("m", rows, finish))

    def _across(self, rows: Expr, join: Callable[[Expr, Expr], Expr]) -> list[Stmt]:
        """Joins the lanes of every row's parts pairwise, all rows a step at a time: they do not wait for each other."""
        done: list[Stmt] = []
        for step in halves(self.lanes):
            lane = Var("l", lo=0, hi=step - 1)

            def one(m: Expr, lane: Var = lane, step: int = step) -> Stmt:
                both = join(Load(self.parts, (m, lane)), Load(self.parts, (m, lane + step)))
                return For(lane, const(step), Store(self.parts, (m, lane), both), LoopKind.VECTOR)

            done.append(loop("m", rows, one))
        return done


def _term(rows: Buffer, m: Var, along: Axis, operand: Blocked) -> Expr:
    """What is summed: the elements of row `m` along an axis times the operand, two at a time where that has words."""
    read = Load(rows, (m, along.var))
    if operand.step is None:
        return read * operand.load
    return dot(word(read, along.var, operand.step.var), operand.load)


def _lanes(extent: Expr, lanes: int) -> int:
    known = extent_of(extent)
    return lanes if known is None or known >= lanes else 1 << max(0, (known - 1).bit_length())


def _once(chain: Chain) -> tuple[tuple[RowStep, ...], Expr, RowStep | None]:
    """The steps and the weights. Where these are made of what the last step reduces and of nothing else in the scores,
    that is kept: the weights are written with the score in its place, and the step is given as well."""
    last = chain.steps[-1]
    if last.body is chain.score:
        return chain.steps, chain.weight, None
    weight = rewrite(chain.weight, lambda e: chain.score if e is last.body else None)
    hole = rewrite(chain.weight, lambda e: const(0, e.dtype) if e is last.body else None)
    if weight is chain.weight or chain.score in loads(hole):
        return chain.steps, chain.weight, None
    return chain.steps, weight, last


def _reciprocal(chain: Chain, kept: RowStep) -> Expr | None:
    """The weights with the reciprocal in place of what `kept` reduces, if that only divides what is kept; None unless
    it is a sum of exp(y − max y), which is between 1 and the number of terms, or NaN."""
    if kept.combiner != "sum" or kept.init is not None or not _is_softmax(chain, kept):
        return None
    quotient = kept.body / kept.load
    product = chain.score * kept.load
    weight = rewrite(chain.weight, lambda e: product if e is quotient else None)
    hole = rewrite(chain.weight, lambda e: const(0, e.dtype) if e is quotient else None)
    return None if kept.load in loads(hole) or chain.score in loads(hole) else weight


def _is_softmax(chain: Chain, kept: RowStep) -> bool:
    e = kept.body
    if not isinstance(e, Call) or e.name != "exp":
        return False
    (x,) = e.args
    if not isinstance(x, Binary) or x.op is not Op.SUB:
        return False
    return any(s.load is x.b and s.combiner == "max" and s.init is None and s.body is x.a for s in chain.steps)
