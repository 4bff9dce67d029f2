"""How often the statements of a loop nest run: counts of iterations as integers or expressions over the dims."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import reduce

from legato.arith.expr import Binary, Const, Expr, Op, Var, const, max_
from legato.arith.linear import gather
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute
from legato.tir._count import Count, as_count, as_expr, quotient, ratio, times
from legato.tir._guards import Condition, is_static, satisfied
from legato.tir.buffer import Buffer

__all__ = ["Frame", "Frames"]

Factors = tuple[tuple[frozenset[Var], Count], ...]  # loop variables, and the points that they take together

_NOTHING: frozenset[Var] = frozenset()


class Frame:
    """A place in a loop nest.

    total: how often a statement there runs; started: the same where a guard on vector lanes does not save anything;
    lanes: the extent of the vector loop around, None outside of one; vector: its variable. writes: the buffers
    that the loop stores to; conditions: the guards that `factors` count; var: the variable of a loop.
    """

    __slots__ = ("_loop", "conditions", "depth", "factors", "lanes", "outer", "started", "total", "var", "vector",
                 "writes")  # fmt: skip

    def __init__(
        self,
        outer: Frame | None,
        writes: frozenset[Buffer] | None,
        factors: Factors,
        vector: Var | None = None,
        lanes: int | None = None,
        started: Count | None = None,
        conditions: tuple[Condition, ...] = (),
        var: Var | None = None,
        total: Count | None = None,
    ) -> None:
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.outer, self.factors, self.vector, self.lanes = outer, factors, vector, lanes
        self._loop: Frame | None = None if outer is None or writes is not None else outer.loop
        self.conditions, self.var = conditions, var
        self.writes: frozenset[Buffer] = writes or frozenset()
        one: Count = 1
        self.total: Count = reduce(times, (count for _, count in factors), one) if total is None else total
        self.started: Count = self.total if started is None else started

    @property
    def loop(self) -> Frame:
        """The innermost loop around: this frame itself, where that is one (to which it does not refer: it is freed at
        once, and not found by a search)."""
        return self if self._loop is None else self._loop

    @property
    def instructions(self) -> Count:
        """How often a vector instruction there is started."""
        if self.lanes is None:
            return self.total
        return quotient(self.started, self.lanes)

    def points(self, variables: AbstractSet[Var]) -> Count:
        """How many different values `variables` take together here."""
        total: Count = 1
        for group, count in self.factors:
            if not group.isdisjoint(variables):
                total = times(total, count)
        return total


class Frames:
    """The frames of a function. `of` has the frame that each variable changes in."""

    def __init__(self) -> None:
        self.root = Frame(None, frozenset(), ())
        self.of: dict[Var, Frame] = {}
        self.extents: dict[Var, Count] = {}
        self.lets: dict[Var, Expr] = {}
        self._vars: dict[Expr, frozenset[Var]] = {}

    def loop(self, outer: Frame, var: Var, extent: Expr, is_vector: bool, writes: frozenset[Buffer]) -> Frame:
        """Inside the loop of `var` over [0, extent)."""
        group, count = frozenset((var,)), self._extent(extent)
        factors = (*outer.factors, (group, count))
        vector, lanes, started = outer.vector, outer.lanes, None
        if is_vector and lanes is None and isinstance(count, int):
            vector, lanes = var, count
        elif outer.started is not outer.total:
            started = times(outer.started, count)
        total = times(outer.total, count)
        frame = Frame(outer, writes, factors, vector, lanes, started, outer.conditions, var, total)
        self.of[var], self.extents[var] = frame, count
        return frame

    def changing(self, buffer: Buffer, frame: Frame) -> Frame:
        """The innermost loop around `frame` that stores to `buffer`."""
        at = frame.loop
        while at.outer is not None and buffer not in at.writes:
            at = at.outer.loop
        return at

    def _extent(self, extent: Expr) -> Count:
        """How often a loop runs: the more of its first and its last run, where that depends on loops around it; once,
        where it depends on data."""
        if isinstance(extent, Const):
            return int(extent.value)
        extent = self._inlined(extent)
        if not is_static(extent):
            return 1
        inner = [v for v in self.vars(extent) if v in self.extents]
        if not inner:
            return as_count(extent)
        first = substitute(extent, {v: const(0) for v in inner})
        last = substitute(extent, {v: as_expr(self.extents[v]) - 1 for v in inner})
        return as_count(simplify(max_(first, last)))

    def let(self, var: Var, value: Expr) -> None:
        """Takes note of `var = value`."""
        self.lets[var] = value
        deepest = max((self.of[v] for v in self.vars(value) if v in self.of), key=lambda f: f.depth, default=self.root)
        self.of[var] = deepest

    def vars(self, e: Expr) -> frozenset[Var]:
        """The loop variables that `e` depends on, through Lets and Loads."""
        known = self._vars
        found = known.get(e)
        if found is not None:
            return found
        stack = [e]
        while stack:
            node = stack[-1]
            value = self.lets.get(node) if type(node) is Var else None
            parts = node.children() if value is None else (value,)
            pending = [p for p in parts if p not in known]
            if pending:
                stack += pending
                continue
            stack.pop()
            if type(node) is Var and value is None:
                known[node] = frozenset((node,))
            else:
                known[node] = _NOTHING.union(*[known[p] for p in parts])
        return known[e]

    def _inlined(self, e: Expr) -> Expr:
        """`e` without variables bound by Let."""
        while True:
            known = {v: self.lets[v] for v in nodes(e) if isinstance(v, Var) and v in self.lets}
            if not known:
                return e
            e = substitute(e, known)

    def step(self, index: Expr, var: Var) -> int | None:
        """By how much `index` grows with `var`; None where that is not a literal."""
        terms, _ = gather(self._inlined(index))
        if any(t is not var and var in self.vars(t) for t, c in terms.items() if c):
            return None
        return terms.get(var, 0)

    def distances(self, index: Expr, var: Var, count: int) -> list[int] | None:
        """How much larger `index` is at each of `count` values of `var` than at 0; None where that is not literal."""
        index = self._inlined(index)
        first = substitute(index, {var: const(0)})
        found = [simplify(substitute(index, {var: const(n)}) - first) for n in range(count)]
        literal = [int(d.value) for d in found if isinstance(d, Const)]
        return literal if len(literal) == count else None

    # ---------------------------------------------------------------------------------------------- guards

    def guard(self, outer: Frame, cond: Expr, *, holds: bool) -> Frame:
        """Where `cond` holds, or does not hold, as far as that can be counted."""
        cond = self._inlined(cond)
        wanted = [cond]
        if isinstance(cond, Binary) and cond.op is Op.AND and holds:
            wanted = _conjuncts(cond)
        frame = outer
        for part in wanted:
            frame = self._restricted(frame, part, holds)
        return frame

    def _restricted(self, outer: Frame, cond: Expr, holds: bool) -> Frame:
        group = self.vars(cond) & self.extents.keys()
        if isinstance(cond, Const) and bool(cond.value) != holds:
            return Frame(outer, None, (*outer.factors, (group, 0)), outer.vector, outer.lanes, 0)
        if not group or not is_static(cond):
            return outer
        rest: list[tuple[frozenset[Var], Count]] = []
        before: Count = 1  # points of the variables that the condition is about, or others that are guarded with them
        for variables, points in outer.factors:
            if variables.isdisjoint(group):
                rest.append((variables, points))
            else:
                before = times(before, points)
        together = group.union(*(v for v, _ in outer.factors if not v.isdisjoint(group)))
        conditions = [c for c in outer.conditions if not self.vars(c[0]).isdisjoint(together)]
        count = satisfied([*conditions, (cond, holds)], {v: self.extents[v] for v in sorted(together, key=_name)})
        if count is None:
            return outer
        started: Count | None = None
        if outer.vector in group:
            started = outer.started
        elif outer.started is not outer.total:
            started = ratio(times(outer.started, count), before)
            if started is None:
                return outer
        conditions = [*outer.conditions, (cond, holds)]
        return Frame(outer, None, (*rest, (together, count)), outer.vector, outer.lanes, started, tuple(conditions))


def _name(var: Var) -> str:
    return var.name


def _conjuncts(cond: Expr) -> list[Expr]:
    found, stack = [], [cond]
    while stack:
        e = stack.pop()
        if isinstance(e, Binary) and e.op is Op.AND:
            stack += (e.b, e.a)
        else:
            found.append(e)
    return found
