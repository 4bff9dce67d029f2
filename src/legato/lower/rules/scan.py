"""The rule for scans: the step loop inside one kernel, a unit's sums in registers, its states updated there.

    parallel blocks of units: states = initial;  barrier
    for t in steps:
        for every phase:
            parallel blocks of units:
                for tiles of rows:
                    for k, unrolled:                     sums[chain][slot][row][vector] += weight[k] · state[row, k]
                    for rows and vectors of the tile:    values of the phase from the sums; stored
            barrier
    parallel blocks of units: results = states

Weights (operands that follow the unit, but neither a row nor the step) are laid out [block][k][slot][unit in block], so
that a thread reads its own from front to back in every step. A state that other units read has two copies, one read
while the other is written. Where there are few rows, or sums are long, they are formed in CHAINS interleaved parts:
their additions need not wait for each other, and errors grow more slowly. All of this follows from shapes and target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from legato.arith.expr import Const, Expr, Var, cdiv, const, floordiv, floormod, lt, select
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, rewrite, substitute, variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.lower.access import depends
from legato.lower.rules.nest import extent_of, lanes_for, loop, serial, work
from legato.lower.rules.tile_update import combine
from legato.te.inline import certain_loads, loads, replaced
from legato.te.scan import Scan
from legato.te.steps import Phase, Steps, Value
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Barrier, For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["Packer", "scan_program"]

CHAINS = 2  # interleaved parts of a sum
FEW = 4  # rows below which the additions of one part would wait for each other
LONG = 256  # terms above which one part loses accuracy
UNROLL = 4  # of the loop over k; a multiple of CHAINS
STEP = 1 << 16  # terms of sums below which a step stays on one thread
ENOUGH = 8  # accumulators that hide the latency of an addition

Packer = Callable[[Tensor, Buffer], None]  # makes a tensor available whose stage rearranges another


def scan_program(scan: Scan, steps: Steps, target: Target, pack: Packer) -> tuple[Stmt, tuple[Tensor, ...]]:
    """The loop program of `scan`, and what it writes beside the scan's results."""
    return _Program(scan, steps, target, pack).build()


@dataclass(frozen=True, slots=True)
class _Tiling:
    """How a phase is cut: blocks of `vectors` · `lanes` units, tiles of up to `rows` rows, sums in `chains` parts."""

    lanes: int
    vectors: int
    rows: int
    chains: int

    @property
    def width(self) -> int:
        """Units in a block."""
        return self.lanes * self.vectors


def _tiling(axes: Sequence[Axis], phase: Phase | None, target: Target) -> _Tiling:
    slots, values = ((), ()) if phase is None else (phase.slots, phase.values)
    known = extent_of(axes[-1].extent)
    lanes = lanes_for(target, [*(s.body for s in slots), *(v.expr for v in values)])
    if known is not None:
        lanes = min(lanes, 1 << max(0, (known - 1).bit_length()))
    count = 4 if known is None else -(-known // lanes)
    rows = extent_of(axes[-2].extent) if len(axes) > 1 else 1
    terms = None if phase is None or phase.along is None else extent_of(phase.along.extent)
    chains = CHAINS if rows is None or rows < FEW or terms is None or terms > LONG else 1
    sums = max(1, len(slots))
    busy = sums * chains * min(rows or 1, FEW)
    vectors = next(v for v in (1, 2, 4) if v == 4 or busy * v >= ENOUGH or count % (2 * v))
    scalars = len(_row_operands([s.body for s in slots], axes[-1]))

    def registers(rows: int) -> int:
        return sums * vectors * rows * chains + min(_operands(sums, vectors, rows, scalars))

    fits = [n for n in range(2, 15) if registers(n) < target.vector_registers]
    return _Tiling(lanes, vectors, max(fits, default=1), chains)


def _row_operands(bodies: Sequence[Expr], unit: Axis) -> list[Load]:
    """What the sums read that does not follow the unit."""
    return list(dict.fromkeys(x for b in bodies for x in certain_loads(b) if not depends(x, unit.var)))


def _operands(sums: int, vectors: int, rows: int, scalars: int) -> tuple[int, int]:
    """Operands in registers where rows are updated one after the other, and where slots are."""
    return sums * vectors + scalars, vectors + rows * scalars


@dataclass(frozen=True, slots=True)
class _Tile:
    """Where a tile lies: `rows` rows of axis `row` from `first` on (None: there is no such axis), at `env` of the axes
    outside of it, in block `block` of the units."""

    block: Expr
    first: Expr
    rows: int
    row: Axis | None
    env: Mapping[Var, Expr]


class _Program:
    def __init__(self, scan: Scan, steps: Steps, target: Target, pack: Packer) -> None:
        self.scan, self.steps, self.target, self.pack = scan, steps, target, pack
        self.unit = steps.axes[-1]
        self.results = scan.results[: len(scan.emissions)]
        self.last = scan.results[len(scan.emissions) :]
        self.copies = [
            final if own else Tensor(f"{final.name}_copies", (const(2), *final.shape), final.dtype)
            for final, own in zip(self.last, steps.own, strict=True)
        ]
        self.parity = floormod(scan.step, const(2))
        self.threaded = self._is_threaded()

    def build(self) -> tuple[Stmt, tuple[Tensor, ...]]:
        """The program, and the tensors that it uses as memory."""
        axes = tuple(a.var for a in self.steps.axes)
        states = list(zip(self.copies, self.last, self.steps.own, self.scan.states, strict=True))
        begin = [Store(c, axes if own else (const(0), *axes), s.initial[axes]) for c, _, own, s in states]
        final = simplify(floormod(self.scan.steps, const(2)))
        end = [Store(last, axes, c[(final, *axes)]) for c, last, own, _ in states if not own]
        phases = [s for p in self.steps.phases for s in (self._phase(p), *self._met())]
        body = For(self.scan.step, self.scan.steps, block(*phases))
        held = [v.held for p in self.steps.phases for v in p.values if v.held is not None]
        doubled = [c for c, _, own, _ in states if not own]
        return block(self._everywhere(begin), *self._met(), body, self._everywhere(end)), (*doubled, *held)

    # Threads

    def _is_threaded(self) -> bool:
        """True if a step is worth waiting for other threads at its end, or might be (symbolic extents)."""
        total = 0
        for p in self.steps.phases:
            sums = work([a.extent for a in (*self.steps.axes, *([p.along] if p.along else []))], len(p.slots))
            if sums is None:
                return True
            total += sums
        return total >= STEP

    def _met(self) -> tuple[Stmt, ...]:
        return (Barrier(),) if self.threaded else ()

    # Loops

    def _blocks(self, tiling: _Tiling, body: Callable[[Expr], Stmt]) -> Stmt:
        """`body` for every block of units."""
        count = simplify(cdiv(self.unit.extent, tiling.width))
        if not self.threaded:
            return loop("p", count, body)
        var = Var("p", lo=0)
        return For(var, count, body(var), LoopKind.PARALLEL)

    def _everywhere(self, stores: Sequence[Store]) -> Stmt:
        """`stores`, which use the axes, for every element."""
        if not stores:
            return block()
        tiling = _tiling(self.steps.axes, None, self.target)

        def vectors(p: Expr, env: dict[Var, Expr]) -> Stmt:
            def one(v: Expr) -> Stmt:
                lane = Var("l", lo=0, hi=tiling.lanes - 1)
                unit = p * tiling.width + v * tiling.lanes + lane
                done = block(*(_substituted(s, {**env, self.unit.var: unit}) for s in stores))
                return For(lane, const(tiling.lanes), self.guarded(tiling, unit, done), LoopKind.VECTOR)

            return loop("v", const(tiling.vectors), one)

        return self._blocks(tiling, lambda p: serial(self.steps.axes[:-1], lambda env: vectors(p, env)))

    def guarded(self, tiling: _Tiling, unit: Expr, stmt: Stmt) -> Stmt:
        """`stmt`, where `unit` is one."""
        known = extent_of(self.unit.extent)
        return stmt if known is not None and known % tiling.width == 0 else If(lt(unit, self.unit.extent), stmt)

    # Phases

    def _phase(self, phase: Phase) -> Stmt:
        tiling = _tiling(self.steps.axes, phase, self.target)
        work = _Work(self, phase, tiling)
        outer, row = self.steps.axes[:-2], self.steps.axes[-2] if len(self.steps.axes) > 1 else None

        def rows(p: Expr, env: dict[Var, Expr]) -> Stmt:
            if row is None:
                return work.tile(_Tile(p, const(0), 1, None, env))
            return _tiles(row.extent, tiling.rows, lambda first, n: work.tile(_Tile(p, first, n, row, env)))

        return self._blocks(tiling, lambda p: serial(outer, lambda env: rows(p, env)))

    def before(self, e: Expr) -> Expr:
        """`e` with the states before the step read from where they lie."""
        which = {s.before: n for n, s in enumerate(self.scan.states)}
        found: dict[Load, Expr] = {}
        for x in loads(e):
            n = which.get(x.buffer) if isinstance(x.buffer, Tensor) else None
            if n is not None:
                found[x] = Load(self.copies[n], x.indices if self.steps.own[n] else (self.parity, *x.indices))
        return replaced(e, found) if found else e

    def place(self, value: Value) -> tuple[Tensor, tuple[Expr, ...]]:
        """Where the element of a value at the axes is stored."""
        axes = tuple(a.var for a in self.steps.axes)
        if value.held is not None:
            return value.held, axes
        if value.result is not None:
            return self.results[value.result], value.index
        assert value.state is not None
        own = self.steps.own[value.state]
        return self.copies[value.state], axes if own else (const(1) - self.parity, *axes)


Reader = Callable[["_Tile", Expr, Expr, Var], Load]  # (tile, k, vector, lane) -> what is read there


class _Work:
    """What one phase does in each tile."""

    def __init__(self, program: _Program, phase: Phase, tiling: _Tiling) -> None:
        self.program, self.phase, self.tiling = program, phase, tiling
        self.unit = program.unit
        self.bodies = [program.before(s.body) for s in phase.slots]
        self.readers: list[dict[Load, Reader]] = [{} for _ in phase.slots]
        for group in self._weights():
            packed = self._packed([x for _, x in group])
            for n, (slot, x) in enumerate(group):
                self.readers[slot][x] = self._reader(packed, n)

    # Weights

    def _weights(self) -> list[list[tuple[int, Load]]]:
        """Operands that are the same in every step, by slot; together in a group if they can lie in one tensor."""
        found = [(n, x) for n, body in enumerate(self.bodies) for x in certain_loads(body) if self._is_weight(x)]
        if len(found) == len(self.bodies) > 1 and all(x.buffer is found[0][1].buffer for _, x in found):
            apart = {n: _apart(found[0][1], x) for n, x in found}
            order = sorted(found, key=lambda f: apart[f[0]] or ())
            steps = {_apart(x, y) for (_, x), (_, y) in pairwise(order)}
            if len(steps) == 1 and any(steps.pop() or ()):
                return [order]
        return [[f] for f in found]

    def _is_weight(self, x: Load) -> bool:
        program, along = self.program, self.phase.along
        assert along is not None
        if x.buffer not in program.scan.inputs or any(isinstance(n, Load) for i in x.indices for n in nodes(i)):
            return False
        return set(variables(*x.indices)) == {self.unit.var, along.var}

    def _packed(self, group: Sequence[Load]) -> Tensor:
        """The operands of `group` laid out [block][k][which][unit in block], filled up with zeros."""
        along, width, units = self.phase.along, self.tiling.width, self.unit.extent
        assert along is not None
        which = [Axis(Var("s", dt.index, 0), const(len(group)))] if len(group) > 1 else []
        axes = (
            Axis(Var("p", dt.index, 0), simplify(cdiv(units, width))),
            Axis(Var("k", dt.index, 0), along.extent),
            *which,
            Axis(Var("u", dt.index, 0), const(width)),
        )
        unit = axes[0].var * width + axes[-1].var
        env: dict[Var, Expr] = {self.unit.var: unit, along.var: axes[1].var}
        index = tuple(substitute(i, env) for i in group[0].indices)
        if which:
            apart = _apart(group[0], group[1]) or ()
            index = tuple(i + which[0].var * d for i, d in zip(index, apart, strict=True))
        value: Expr = Load(group[0].buffer, index)
        if not (isinstance(units, Const) and int(units.value) % width == 0):
            value = select(lt(unit, units), value, const(0, value.dtype))
        packed = Tensor(f"packed_{group[0].buffer.name}", [a.extent for a in axes], value.dtype, Stage(axes, value))
        self.program.pack(packed, group[0].buffer)
        return packed

    def _reader(self, packed: Tensor, n: int) -> Reader:
        lanes = self.tiling.lanes
        which = (const(n),) if packed.rank == 4 else ()
        return lambda at, k, v, lane: packed[(at.block, k, *which, v * lanes + lane)]

    # A tile

    def tile(self, at: _Tile) -> Stmt:
        """The sums of one tile, then its values."""
        lanes, vectors = const(self.tiling.lanes), const(self.tiling.vectors)
        lane = Var("l", lo=0, hi=self.tiling.lanes - 1)
        count = const(len(self.bodies))
        dtype = self.bodies[0].dtype if self.bodies else dt.float32
        sums = Buffer("sums", (const(at.rows), vectors, count, lanes), dtype, scope=Scope.LOCAL)

        def values(m: Expr) -> Stmt:
            return loop("v", vectors, lambda v: self._values(at, m, v, lane, sums))

        body = loop("m", const(at.rows), values)
        if not self.bodies:
            return For(lane, lanes, body, LoopKind.VECTOR)
        acc = Buffer(
            "acc", (const(self.tiling.chains), count, const(at.rows), vectors, lanes), dtype, scope=Scope.REGISTER
        )
        body = block(self._cleared(acc, lane), self._reduce(at, acc, lane), self._joined(acc, sums, lane), body)
        return Alloc(sums, Alloc(acc, For(lane, lanes, body, LoopKind.VECTOR)))

    def _cleared(self, acc: Buffer, lane: Var) -> Stmt:
        zero = const(0, acc.dtype)
        return _each(acc.shape[:-1], lambda *i: Store(acc, (*i, lane), zero))

    def _joined(self, acc: Buffer, sums: Buffer, lane: Var) -> Stmt:
        def one(*i: Expr) -> Stmt:
            slot, m, v = i
            total: Expr = Load(acc, (const(0), *i, lane))
            for p in range(1, self.tiling.chains):
                total = total + Load(acc, (const(p), *i, lane))
            return Store(sums, (m, v, slot, lane), total)

        return _each(acc.shape[1:-1], one)

    def _reduce(self, at: _Tile, acc: Buffer, lane: Var) -> Stmt:
        """The loop over k, neighbouring terms of which go to different accumulators."""
        assert self.phase.along is not None
        extent = self.phase.along.extent
        full, chains = floordiv(extent, const(UNROLL)), self.tiling.chains

        def several(q: Expr) -> Stmt:
            return _each((const(UNROLL // chains), const(chains)),
                         lambda n, p: self._update(at, acc, q * UNROLL + n * chains + p, p, lane))  # fmt: skip

        main = loop("k", simplify(full), several)
        left = simplify(extent - full * UNROLL)
        if isinstance(left, Const):
            rest = [
                self._update(at, acc, simplify(full * UNROLL + n), const(n % chains), lane)
                for n in range(int(left.value))
            ]
            return block(main, *rest)
        return block(main, loop("k", left, lambda n: self._update(at, acc, full * UNROLL + n, const(0), lane)))

    def _update(self, at: _Tile, acc: Buffer, k: Expr, p: Expr, lane: Var) -> Stmt:
        """Every accumulator of chain `p` with the term `k`. What follows the row or the unit only is read once."""
        assert self.phase.along is not None
        along: dict[Var, Expr] = {self.phase.along.var: k}
        shape, vectors = (const(self.tiling.vectors), const(self.tiling.lanes)), self.tiling.vectors
        shared = _row_operands(self.bodies, self.unit)
        scalars = [{x: Var("a", x.dtype) for x in shared} for _ in range(at.rows)]
        held = [{x: Buffer("w", shape, x.dtype, scope=Scope.REGISTER) for x in read} for read in self.readers]

        def fetch(slot: int, x: Load, v: Expr) -> Stmt:
            return Store(held[slot][x], (v, lane), self.readers[slot][x](at, k, v, lane))

        def update(slot: int, m: int, v: Expr) -> Stmt:
            known: dict[Load, Expr] = {**scalars[m], **{x: Load(w, (v, lane)) for x, w in held[slot].items()}}
            term = substitute(replaced(self.bodies[slot], known), {**self._point(at, const(m), v, lane), **along})
            place = (p, const(slot), const(m), v, lane)
            return Store(acc, place, combine("sum", Load(acc, place), term, self.program.target))

        def fetches(slot: int) -> list[Stmt]:
            return [_unrolled(vectors, partial(fetch, slot, x)) for x in held[slot]]

        def named(stmts: Sequence[Stmt], rows: Sequence[int]) -> Stmt:
            out = block(*stmts)
            for m in rows:
                point = {**self._point(at, const(m), const(0), lane), **along}
                for x, var in scalars[m].items():
                    out = Let(var, substitute(x, point), out)
            return out

        slots, rows = range(len(self.bodies)), range(at.rows)
        one_row, one_slot = _operands(len(slots), vectors, at.rows, len(shared))
        if one_row < one_slot:
            by_row = [named([_unrolled(vectors, partial(update, n, m)) for n in slots], [m]) for m in rows]
            out = block(*(s for n in slots for s in fetches(n)), *by_row)
        else:
            by_slot = [
                s for n in slots for s in (*fetches(n), *(_unrolled(vectors, partial(update, n, m)) for m in rows))
            ]
            out = named(by_slot, rows)
        for b in (b for of_slot in held for b in of_slot.values()):
            out = Alloc(b, out)
        return out

    def _point(self, at: _Tile, m: Expr, v: Expr, lane: Var) -> dict[Var, Expr]:
        """The values of the axes at row `m` and vector `v` of the tile."""
        env = {**at.env, self.unit.var: at.block * self.tiling.width + v * self.tiling.lanes + lane}
        return env if at.row is None else {**env, at.row.var: at.first + m}

    def _values(self, at: _Tile, m: Expr, v: Expr, lane: Var, sums: Buffer) -> Stmt:
        """Computes the phase's values from the sums, all before any is stored: a state may be updated in place."""
        point = self._point(at, m, v, lane)
        known: dict[Load, Expr] = {s.load: Load(sums, (m, v, const(n), lane)) for n, s in enumerate(self.phase.slots)}
        exprs = [substitute(self.program.before(replaced(value.expr, known)), point) for value in self.phase.values]
        names: dict[Expr, Expr] = {}
        lets: list[tuple[Var, Expr]] = []
        for e in sorted(dict.fromkeys(exprs), key=lambda e: sum(1 for _ in nodes(e))):
            var = Var("x", e.dtype)
            lets.append((var, rewrite(e, names.get)))
            names[e] = var
        stores = []
        for value, e in zip(self.phase.values, exprs, strict=True):
            target, index = self.program.place(value)
            stores.append(Store(target, tuple(substitute(i, point) for i in index), names[e]))
        out = block(*stores)
        for var, e in reversed(lets):
            out = Let(var, e, out)
        return self.program.guarded(self.tiling, point[self.unit.var], out)


def _substituted(s: Store, env: Mapping[Var, Expr]) -> Stmt:
    return s.with_exprs(tuple(substitute(e, env) for e in s.exprs()))


def _apart(a: Load, b: Load) -> tuple[int, ...] | None:
    """How far the subscripts of `b` are behind those of `a`; None unless these are literals."""
    found = [simplify(y - x) for x, y in zip(a.indices, b.indices, strict=True)]
    return (
        tuple(int(d.value) for d in found if isinstance(d, Const)) if all(isinstance(d, Const) for d in found) else None
    )


def _unrolled(count: int, body: Callable[[Expr], Stmt]) -> Stmt:
    return loop("v", const(count), body, LoopKind.UNROLL)


def _each(extents: Sequence[Expr], body: Callable[..., Stmt]) -> Stmt:
    """`body` at every index below `extents`, written out."""
    if not extents:
        return body()
    return loop("n", extents[0], lambda i: _each(extents[1:], partial(body, i)), LoopKind.UNROLL)


def _tiles(extent: Expr, most: int, body: Callable[[Expr, int], Stmt]) -> Stmt:
    """`body(first, rows)` for tiles of nearly equal size, up to `most` rows."""
    known = extent_of(extent)
    if known is None:
        full = floordiv(extent, const(most))
        main = loop("t", full, lambda t: body(t * most, most))
        return block(main, loop("m", extent - full * most, lambda m: body(full * most + m, 1)))
    if not known:
        return block()
    count = -(-known // most)
    small, bigger = divmod(known, count)
    parts = [loop("t", const(bigger), lambda t: body(t * (small + 1), small + 1))] if bigger else []
    start = bigger * (small + 1)
    return block(*parts, loop("t", const(count - bigger), lambda t: body(t * small + start, small)))
