"""How terms are added to the sums of a register tile (see `tile`).

Operands that do not depend on the row are read once for all rows, those that do not depend on the channel once for all
vectors of a row, and elements that several windows read once for all of these (see `overlap`). Where a product replaces
an operand, it takes a copy of the row's data or, where there are no registers for that, a weight that is loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from legato.arith.expr import Binary, Expr, Op, Var, binary, const, floormod, lt
from legato.arith.substitute import rewrite, substitute
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.rules.ahead import Share, share_of
from legato.lower.rules.nest import loop, number_of, serial
from legato.lower.rules.overlap import Meeting, Overlap, find_overlap
from legato.lower.rules.parts import Parts
from legato.lower.rules.tile_job import TileJob
from legato.lower.rules.tile_shape import TileShape
from legato.lower.rules.unrolled import unrolled, unrolled_by
from legato.te.inline import certain_loads, loads
from legato.te.tensor import COMBINERS, Axis
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Call, Load
from legato.tir.stmt import Alloc, If, Let, Prefetch, Stmt, Store, block

__all__ = ["UNROLL", "Place", "TileUpdate", "combine", "is_dot"]

UNROLL = 4  # of the innermost reduction loop; longer bodies make LLVM spill


def combine(combiner: str, total: Expr, value: Expr, target: Target) -> Expr:
    """`total` combined with `value`; a float sum of products becomes a fused multiply-add where the target has it, one
    of dot products adds to them."""
    if is_dot(value):
        assert isinstance(value, Call)
        return Call(value.name, (total, *value.args[1:]), value.dtype)
    if combiner == "sum" and value.dtype.is_float and isinstance(value, Binary) and value.op is Op.MUL and target.fma:
        return Call("fma", (value.a, value.b, total), value.dtype)
    if combiner in ("min", "max"):  # this way round what is NaN is told from `value`, once for all that it goes into
        return binary(COMBINERS[combiner], value, total)
    return binary(COMBINERS[combiner], total, value)


def is_dot(e: Expr) -> bool:
    """True for the sum of two products of pairs: `e` is that sum and 0."""
    return isinstance(e, Call) and e.name == "dot2"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tile lies: channels from `start`, rows from `first`; lanes at or beyond `limit` are no channels.
    turn: how many tiles use the same weights before it."""

    start: Expr
    vectors: int
    limit: Expr | None
    first: Expr
    rows: int
    lane: Var
    turn: Expr


class TileUpdate:
    """How the terms of a reduction are added to the sums of register tiles; `env` has the values of the outer axes, of
    axes that `parts` cut those of the pieces count."""

    def __init__(
        self, job: TileJob, target: Target, shape: TileShape, env: Mapping[Var, Expr], parts: Parts | None
    ) -> None:
        self.job, self.target, self.shape, self.env, self.parts = job, target, shape, env, parts
        self.row, self.channel = job.row, job.order[-1]

    def slot(self, at: Place, m: Expr, v: Expr) -> tuple[Expr, ...]:
        """Where the sums of vector (m, v) are among those of a tile."""
        return (m, v, at.lane) if self.shape.terms == 1 else (m, v * self.shape.lanes + at.lane)

    def guarded(self, at: Place, v: Expr, stmt: Stmt) -> Stmt:
        """`stmt`, for the lanes of vector `v` that are channels."""
        return stmt if at.limit is None else If(lt(at.start + v * self.shape.lanes + at.lane, at.limit), stmt)

    def point(self, at: Place, m: Expr, v: Expr) -> dict[Var, Expr]:
        """The values of the axes at row `m` and vector `v` of the tile."""
        within = v * self.shape.lanes + at.lane
        env = {**self.env, self.channel.var: at.start + within, self.job.within: within}
        if self.row is not None:
            env[self.row.var] = at.first + m
        if self.job.term is not None:
            env[self.job.term] = floormod(at.lane, const(self.shape.terms))
        return env

    def _follows_channel(self, x: Load) -> bool:
        return depends(x, self.channel.var) or depends(x, self.job.within)

    def reduce(self, acc: Buffer, at: Place, axes: Sequence[Axis], env: dict[Var, Expr]) -> Stmt:
        """The loops over reduction axes `axes` around the update of every accumulator; `env` has those outside."""
        *outer, last = axes
        overlap = self._overlap(at, last)
        if overlap is None:
            return serial(outer, lambda inside: self._terms(acc, at, last, {**env, **inside}))

        def slide(inside: dict[Var, Expr]) -> Stmt:
            known = {**env, **inside}
            ahead = self._ahead(at, overlap.reach, {**known, last.var: const(0)})
            return block(ahead, unrolled("v", at.vectors, lambda v: self._slide(overlap, acc, at, v, last, known)))

        return serial(outer, slide)

    def _terms(self, acc: Buffer, at: Place, last: Axis, known: Mapping[Var, Expr]) -> Stmt:
        """Adds the terms of axis `last`, one after the other."""
        times = self._times()

        def ahead(v: Expr) -> Stmt:
            return self._ahead(at, times, self._resolved({**known, last.var: v}))

        main = unrolled_by(times, last, lambda v: self._update(acc, at, self._resolved({**known, last.var: v})), ahead)
        if self.job.last is None:
            return main
        body, count = self.job.last
        behind = loop("r", count, lambda r: self._update(acc, at, {**known, last.var: last.extent + r}, body))
        return block(main, behind)

    def _times(self) -> int:
        """How often the innermost loop is unrolled: pairs that are taken apart are twice as many operations."""
        return UNROLL // 2 if is_dot(self.job.body) and not self.target.has_bf16 else UNROLL

    def _ahead(self, at: Place, times: int, values: Mapping[Var, Expr]) -> Stmt:
        """Asks for weights that are wanted next, with the `times` terms of the sum from that at `values` on."""
        shares = self._shares(times)
        if not shares:
            return block()
        term = number_of(self.job.reduction.axes, values)
        return block(*(share.fetch(x, at.turn, term, self._next(share, x, at)) for x, share in shares.items()))

    def _shares(self, times: int) -> dict[Load, Share]:
        """What each turn asks for of the weights that are wanted next; `times` terms of the sum are written out."""
        job, shape = self.job, self.shape
        found = {}
        for x in self._operands(job.body)[0] if job.ahead is not None else ():
            if x.buffer in job.packed and job.last is None:
                share = share_of(job.ahead, x, job.reduction, job.within, times, shape.width * shape.terms, shape.lanes)
                if share is not None:
                    found[x] = share
        return found

    def _next(self, share: Share, x: Load, at: Place) -> dict[Var, Expr]:
        """Where the block of `x` that is wanted next begins."""
        here = {**self.point(at, const(0), const(0)), at.lane: const(0)}
        along = share.ahead.along
        zeros = {axis.var: const(0) for axis in self.job.reduction.axes}
        return {**here, self.job.within: const(0), along: here[along] + 1, **zeros}

    def _resolved(self, values: dict[Var, Expr]) -> dict[Var, Expr]:
        """`values` of loop variables, and with them those of the axes that are cut."""
        cut = self.parts.cut if self.parts is not None else {}
        return {**values, **{var: substitute(e, values) for var, e in cut.items()}}

    def _overlap(self, at: Place, last: Axis) -> Overlap | None:
        """How windows slide along the rows, where that saves loads and all that it holds fits into registers."""
        job, shape = self.job, self.shape
        if self.row is None or self.parts or job.last or shape.terms > 1 or is_dot(job.body):
            return None
        found = find_overlap(job.body, self.row, last) if self.target.has_three_operands else None
        if found is None or found.reach + 1 + at.rows * at.vectors > self.target.vector_registers:
            return None
        if not self._follows_channel(found.read):  # one load serves a whole row of the tile
            return None
        return found if {*loads(job.body)} == {found.read, *self._operands(job.body)[0]} else None

    def _slide(self, overlap: Overlap, acc: Buffer, at: Place, v: Expr, last: Axis, known: Mapping[Var, Expr]) -> Stmt:
        """Adds the terms of axis `last` to vector `v` of every row: each element is loaded once."""
        body, lanes = self.job.body, const(self.shape.lanes)
        shape = (const(overlap.reach), lanes)
        held = {x: Buffer("w", shape, x.dtype, scope=Scope.REGISTER) for x in self._operands(body)[0]}
        element = Buffer("x", (lanes,), overlap.read.dtype, scope=Scope.REGISTER)

        def hold(x: Load, r: Expr) -> Stmt:
            return self._hold(x, held[x], r, at, v, {**known, last.var: r})

        def meet(meeting: Meeting) -> Stmt:
            def add(n: Expr) -> Stmt:
                m, r = meeting.row - n * meeting.back, n * meeting.on + meeting.term
                found: dict[Expr, Expr] = {x: Load(b, (r, at.lane)) for x, b in held.items()}
                value = rewrite(body, {**found, overlap.read: Load(element, (at.lane,))}.get)
                return self._add(acc, at, m, v, value, {**known, last.var: r})

            here = {**self.point(at, const(meeting.row), v), **known, last.var: const(meeting.term)}
            load = Store(element, (at.lane,), substitute(overlap.read, here))
            return self.guarded(at, v, block(load, unrolled("n", meeting.count, add)))

        holds = [unrolled("r", overlap.reach, partial(hold, x)) for x in held]
        out = Alloc(element, block(*holds, *map(meet, overlap.meetings(at.rows))))
        for b in held.values():
            out = Alloc(b, out)
        return out

    def _hold(self, x: Load, held: Buffer, n: Expr, at: Place, v: Expr, reduced: Mapping[Var, Expr]) -> Stmt:
        """Loads vector `v` of `x`, which all rows use, into place `n` of `held`."""
        store = Store(held, (n, at.lane), substitute(x, {**self.point(at, const(0), v), **reduced}))
        return store if x.buffer in self.job.packed else self.guarded(at, v, store)

    def _add(self, acc: Buffer, at: Place, m: Expr, v: Expr, value: Expr, reduced: Mapping[Var, Expr]) -> Stmt:
        """Combines sum (m, v) with a term of it."""
        place = self.slot(at, m, v)
        term = substitute(value, {**self.point(at, m, v), **reduced})
        return Store(acc, place, combine(self.job.reduction.combiner, Load(acc, place), term, self.target))

    def _update(self, acc: Buffer, at: Place, reduced: dict[Var, Expr], body: Expr | None = None) -> Stmt:
        """acc[m][v] = combine(acc[m][v], body): operands that do not depend on the row are read once per vector,
        those that do not depend on the channel once per row. `body` is the job's by default."""
        job, lane = self.job, at.lane
        term = job.body if body is None else body
        zero = const(0)
        vectors, rows = self._operands(term)
        shared = self._shares(self._times())
        shape = (const(at.vectors), const(self.shape.lanes))
        held = {x: Buffer("w", shape, x.dtype, scope=Scope.REGISTER) for x in vectors}
        are_copied, again = self._operands_replaced(at, vectors, term)
        scalars = {x: Var("a", x.dtype) for x in rows}
        rest = [x for x in loads(term) if x not in held and x not in scalars]
        # Sums side by side are of packed weights, which go on, with zeros, behind the last channel.
        is_guarded = self.shape.terms == 1 and any(self._follows_channel(x) for x in rest)

        def fetch(x: Load, v: Expr) -> Stmt:
            store = self._hold(x, held[x], v, at, v, reduced)
            if x.buffer not in job.packed or job.ahead is None or x in shared:
                return store
            return block(store, self._fetch(x, job.ahead.along, at, v, reduced))

        def value(v: Expr, *, is_held: bool = True) -> Expr:
            known: dict[Expr, Expr] = {x: Load(b, (v, lane)) for x, b in held.items()} if is_held else {}
            known |= scalars
            return rewrite(term, lambda e: known.get(e) if isinstance(e, Load | Call) else None)

        def one(m: Expr, v: Expr, *, is_held: bool = True) -> Stmt:
            update = self._add(acc, at, m, v, value(v, is_held=is_held), reduced)
            return self.guarded(at, v, update) if is_guarded else update

        def of_row(m: Expr) -> Stmt:
            if are_copied and not is_guarded:
                body = self._in_two_steps(acc, at, m, value, reduced)
            else:
                body = unrolled("v", at.vectors, lambda v: one(m, v), again)
            if again:
                body = block(unrolled("v", again, lambda v: one(m, v, is_held=False)), body)
            for x, var in scalars.items():
                body = Let(var, substitute(x, {**self.point(at, m, zero), **reduced}), body)
            return body

        fetches = [unrolled("v", at.vectors, partial(fetch, x), again) for x in held]
        out = block(*fetches, unrolled("m", at.rows, of_row))
        for b in held.values():
            out = Alloc(b, out)
        return out

    def _in_two_steps(
        self, acc: Buffer, at: Place, m: Expr, term: Callable[[Expr], Expr], reduced: Mapping[Var, Expr]
    ) -> Stmt:
        """Combines the sums of row `m` with the terms of all vectors, all of which are formed before the first is
        added: 1 to 4 % faster on Zen 3 than one after the other."""
        lane = at.lane
        terms = Buffer("p", (const(at.vectors), const(self.shape.lanes)), acc.dtype, scope=Scope.REGISTER)

        def of_vector(v: Expr) -> Stmt:
            return Store(terms, (v, lane), substitute(term(v), {**self.point(at, m, v), **reduced}))

        sums = unrolled("v", at.vectors, lambda v: self._add(acc, at, m, v, Load(terms, (v, lane)), reduced))
        return Alloc(terms, block(unrolled("v", at.vectors, of_vector), sums))

    def _operands_replaced(self, at: Place, weights: Sequence[Load], term: Expr) -> tuple[bool, int]:
        """What products replace, where they replace an operand: whether copies of a row's data, for which registers
        are left; else how many vectors of `weights` are loaded for every product, the last of a row taking its data."""
        if self.target.has_three_operands or is_dot(term) or not weights:
            return False, 0
        if at.vectors * (at.rows + 2) <= self.target.vector_registers:
            return True, 0
        is_padded = at.limit is None or all(x.buffer in self.job.packed for x in weights)
        return False, at.vectors - 1 if is_padded else 0

    def _fetch(self, x: Load, along: Var, at: Place, v: Expr, reduced: dict[Var, Expr]) -> Stmt:
        """Fetches what `x` is at the next value of `along`."""
        here = self.point(at, const(0), v)
        there = substitute(x, {**here, **reduced, at.lane: const(0), along: here[along] + 1})
        assert isinstance(there, Load)
        return Prefetch(there.buffer, there.indices)

    def _operands(self, body: Expr) -> tuple[list[Load], list[Expr]]:
        """The Loads of the body that follow the channel but not the row, and those that do not follow the channel;
        a pair of these is one operand.

        What a Select guards stays where it is: it may lie outside its buffer."""
        if is_dot(body):
            assert isinstance(body, Call)
            _, data, weights = body.args
            assert isinstance(weights, Load)
            return [weights], [data]
        reads = certain_loads(body)
        row = None if self.row is None else self.row.var
        vectors = [x for x in reads if row is not None and not depends(x, row) and self._follows_channel(x)]
        rows = [x for x in reads if not self._follows_channel(x)]
        return ([x for x in vectors if not _is_inside(x, vectors)], [x for x in rows if not _is_inside(x, rows)])


def _is_inside(x: Load, others: Sequence[Load]) -> bool:
    """True if `x` is only a subscript of another of `others`."""
    return any(x is not o and x in loads(o) for o in others)
