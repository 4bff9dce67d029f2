"""Whether every access of a loop program is inside its buffer, for all values of its dims, loops and data: by proof.

    for i in 0..n { if i < m { y[i] = x[k[i] % m]; } }        y[i], k[i]: i < n;  x[…]: 0 <= … < m, as m > i >= 0

A subscript is shown to be at least the low end of what its dimension allows and less than the high end, from the ranges
of loops, the conditions of Ifs and Selects around it, and from what callers guarantee of parameters: their extents are
0 or more, and neither they nor index parameters exceed `LARGEST`. Index arithmetic is that of machine integers, so that
no part of a subscript can leave 64 bits is shown, too. All answers are one-sided: what is not proven may still hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from legato.arith.compare import negation
from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, const, mul
from legato.arith.interval import Interval
from legato.arith.linear import Terms, add_scaled, build, factors
from legato.arith.poly import expand
from legato.arith.simplify import Simplifier
from legato.arith.substitute import nodes, substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.tir.accesses import Access, Guard, accesses, limits
from legato.tir.buffer import Buffer
from legato.tir.expr import Cast, Load
from legato.tir.stmt import Alloc, For, Func, If, Let, Stmt, Store, While
from legato.tir.walk import buffers_written, loop_limits, loop_ranges

__all__ = ["LARGEST", "Finding", "prove_accesses"]

LARGEST: Final = 1 << 40  # of dims: what any memory could hold
_MEMORY: Final = 1 << 46  # elements of a buffer
_WIDE: Final = 1 << 62  # index arithmetic stays within, so that a step beyond it is still a machine integer
_GROWING: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})
_DEPTH: Final = 5  # facts and cases that a proof goes through, one after the other
_STEPS: Final = 200  # and at most so many in all


@dataclass(frozen=True, slots=True)
class Finding:
    """An access, and why it is not proven; None: it is."""

    access: Access
    reason: str | None

    @property
    def key(self) -> tuple[Buffer, tuple[Expr, ...], bool]:
        """The place, whatever guards it."""
        return self.access.buffer, self.access.indices, self.access.is_store


def prove_accesses(func: Func) -> list[Finding]:
    """A finding for each access in `func`, in program order."""
    extents = {d for p in func.params if isinstance(p, Buffer) for d in p.shape}
    dims = [p for p in func.params if isinstance(p, Var)]
    ranges = {d: Interval(0 if d in extents else -LARGEST, LARGEST) for d in dims}
    known = _Known(func, ranges)
    found: list[Finding] = []
    wide: list[str] = []  # what may leave 64 bits: then nothing that follows from a range or condition is proven
    todo: list[tuple[Stmt, _Facts]] = [(func.body, known.of_params(func))]
    while todo:
        s, facts = todo.pop()
        for access in accesses(s):
            found.append(Finding(access, known.fault(access, known.under(access.guard, facts))))
        if not isinstance(s, Store):
            wide += [e for e in map(partial(known.wide, facts), _decisive(s)) if e is not None]
        todo += [(child, inner) for child, inner in reversed(list(_inside(s, facts, known)))]
    return [replace(f, reason=f.reason or wide[0]) for f in found] if wide else found


def _decisive(s: Stmt) -> tuple[Expr, ...]:
    """What the proofs of other statements rely on."""
    return (*s.exprs(), *(s.buffer.shape if isinstance(s, Alloc) else ()))


def _inside(s: Stmt, facts: _Facts, known: _Known) -> Iterator[tuple[Stmt, _Facts]]:
    """The statements in `s`, with what holds there."""
    match s:
        case If(cond, then, orelse):
            yield then, facts.and_(known.assumed(cond, True))
            if orelse is not None:
                yield orelse, facts.and_(known.assumed(cond, False))
        case While(cond, body):
            yield body, facts.and_(known.assumed(cond, True))
        case For(var, extent, body):
            yield body, facts.and_(known.loop(var, extent))
        case Let(var, value, body):
            known.bind(var, value)
            yield body, facts
        case Alloc(buffer, body):
            yield body, facts.and_([known.sum(d) for d in buffer.shape])
        case _:
            for child in s.children():
                yield child, facts


Fact = tuple[Terms, int]  # a sum that is 0 or more


@dataclass(frozen=True, slots=True)
class _Facts:
    """Sums that are 0 or more."""

    sums: tuple[Fact, ...] = ()

    def and_(self, more: Iterable[Fact | None]) -> _Facts:
        new = tuple(f for f in more if f is not None and f not in self.sums)
        return replace(self, sums=(*new, *self.sums)) if new else self


class _Known:
    """What is known in all of a function: ranges of variables, and the values of Lets."""

    def __init__(self, func: Func, ranges: Mapping[Var, Interval]) -> None:
        self.ranges = loop_ranges(func, ranges)
        self.simplify = Simplifier(self.ranges, loop_limits(func))
        self.changing = set(buffers_written(func))
        self.lets: dict[Var, Expr] = {}
        self.steps = 0  # left of a proof

    # Facts

    def of_params(self, func: Func) -> _Facts:
        """What callers guarantee."""
        buffers = [p for p in func.params if isinstance(p, Buffer)]
        extents = dict.fromkeys(d for b in buffers for d in b.shape)
        sizes = dict.fromkeys(reduce(mul, b.shape) for b in buffers if b.rank > 1)
        limits = [(d, const(LARGEST) - d) for d in extents] + [(const(_MEMORY) - size,) for size in sizes]
        return _Facts().and_(self.sum(e) for pair in limits for e in pair)

    def bind(self, var: Var, value: Expr) -> None:
        """Takes note of `var = value`."""
        if var.dtype is dt.index and not self.is_changing(value):
            self.lets[var] = substitute(value, self.lets)

    def is_changing(self, e: Expr) -> bool:
        """Whether `e` may have another value where it stands again."""
        return any(isinstance(n, Load) and n.buffer in self.changing for n in nodes(e))

    def sum(self, e: Expr) -> Fact | None:
        """`e` >= 0, as a fact."""
        if self.is_changing(e):
            return None
        terms, total = expand(self.simplify(substitute(e, self.lets)))
        return (terms, total) if terms else None

    def loop(self, var: Var, extent: Expr) -> list[Fact | None]:
        """Inside the loop of `var`: a product is not 0 there, nor are its factors."""
        parts = factors(extent)
        is_product = all(self.holds(p, _Facts()) for p in parts)
        return [self.sum(extent - 1 - var), *(self.sum(p - 1) for p in parts if is_product)]

    def under(self, guard: Guard | None, facts: _Facts) -> _Facts:
        """`facts`, and what the conditions of Selects say."""
        while guard is not None:
            if self.wide(facts, guard.cond) is None:
                facts = facts.and_(self.assumed(guard.cond, guard.holds))
            guard = guard.outer
        return facts

    def assumed(self, cond: Expr, holds: bool) -> list[Fact | None]:
        """The facts that `cond` says where it holds, or does not."""
        found: list[Fact | None] = []
        todo = [cond if holds else negation(cond)]
        while todo:
            e = todo.pop()
            if isinstance(e, Binary) and e.op is Op.AND:
                todo += (e.a, e.b)
            elif isinstance(e, Binary) and e.op is Op.EQ and e.a.dtype.is_bool and isinstance(e.b, Const):
                todo += self._negated(e.a) if not e.b.value else [e.a]
            elif isinstance(e, Binary) and e.op in (Op.LT, Op.LE, Op.EQ):
                found += self._compared(e)
        return found

    @staticmethod
    def _negated(e: Expr) -> list[Expr]:
        if isinstance(e, Binary) and e.op is Op.OR:
            return [negation(e.a), negation(e.b)]
        is_open = not isinstance(e, Binary) or e.a.dtype.is_bool or e.a.dtype.is_float  # of floats nothing follows
        return [] if is_open else [negation(e)]

    def _compared(self, e: Binary) -> list[Fact | None]:
        a, b = _as_index(e.a), _as_index(e.b)
        if a is None or b is None:
            return []
        if e.op is Op.EQ:
            return [self.sum(a - b), self.sum(b - a)]
        return [self.sum(b - a - 1 if e.op is Op.LT else b - a)]

    # Proofs

    def fault(self, access: Access, facts: _Facts) -> str | None:
        """Why an access is not proven to be inside."""
        for d, (index, (low, end)) in enumerate(zip(access.indices, limits(access.buffer), strict=True)):
            index, end = substitute(index, self.lets), substitute(end, self.lets)
            wide = self.wide(facts, index)
            if wide is not None:
                return wide
            if not self.holds(index - low, facts):
                return f"subscript {d}, {index}, may be less than {low}"
            if not self.holds(end - 1 - index, facts):
                return f"subscript {d}, {index}, may be {end} or more"
        return None

    def wide(self, facts: _Facts, e: Expr) -> str | None:
        """A part of `e` that is not proven to stay within 64 bits, in words."""
        for node in nodes(substitute(e, self.lets)):
            if isinstance(node, Binary) and node.dtype is dt.index and node.op in _GROWING:
                lo, hi = self.simplify.bounds.of(node)
                is_high = (lo is not None and lo >= -_WIDE) or self.holds(node + _WIDE, facts)
                if not is_high or not ((hi is not None and hi <= _WIDE) or self.holds(const(_WIDE) - node, facts)):
                    return f"{node} may leave 64 bits"
        return None

    def holds(self, e: Expr, facts: _Facts, depth: int | None = None) -> bool:
        """Whether `e` >= 0 is proven, `depth` facts or cases further on."""
        if depth is None:
            self.steps, depth = _STEPS, _DEPTH
        self.steps -= 1
        if self.steps < 0:
            return False
        terms, total = expand(self.simplify(e))
        if self.simplify.nonnegative(terms, total):
            return True
        if not depth:
            return False
        for t, c in terms.items():
            rest = build({u: k for u, k in terms.items() if u is not t}, total)
            answer = self._by_case(t, c, rest, facts, depth - 1)
            if answer is not None:
                return answer or self._by_fact(terms, total, facts, depth - 1)
        return self._by_fact(terms, total, facts, depth - 1)

    def _by_case(self, t: Expr, c: int, rest: Expr, facts: _Facts, depth: int) -> bool | None:
        """Whether rest + c·t >= 0, by what `t` may be; None where nothing is known of that."""
        if isinstance(t, Select):
            sides = ((t.a, True), (t.b, False))
            return all(self.holds(rest + c * s, facts.and_(self.assumed(t.cond, on)), depth) for s, on in sides)
        if not isinstance(t, Binary):
            return None
        if t.op in (Op.MIN, Op.MAX):
            enough = any if (t.op is Op.MAX) == (c > 0) else all
            return enough(self.holds(rest + c * side, facts, depth) for side in (t.a, t.b))
        if t.op is Op.FLOORDIV and self.holds(t.b - 1, facts, depth):
            d = t.b  # d·(a // d) is between a - d + 1 and a, and a sum above -1 is at least 0
            nearest = t.a if c < 0 else t.a - (d - 1)
            return self.holds(rest * d + c * nearest + (d - 1), facts, depth)
        if t.op is Op.FLOORMOD and not isinstance(t.b, Const) and self.holds(t.b - 1, facts, depth):
            return self.holds(rest + c * (const(0) if c > 0 else t.b - 1), facts, depth)
        return None

    def _by_fact(self, terms: Terms, total: int, facts: _Facts, depth: int) -> bool:
        """Whether the sum is at least a multiple of some fact that removes what lowers it."""
        tried: set[Expr] = set()
        for sign in (-1, 1):
            for known, offset in facts.sums:
                for t in known.keys() & terms.keys():
                    g, h = sign * terms[t], sign * known[t]
                    if g <= 0 or h <= 0:
                        continue
                    left: Terms = {}
                    add_scaled(left, terms, h)
                    add_scaled(left, known, -g)
                    rest = build(left, total * h - offset * g)
                    if rest not in tried and self.holds(rest, facts, depth):
                        return True
                    tried.add(rest)
        return False


def _as_index(e: Expr) -> Expr | None:
    """An integer of any dtype that index can hold, as index: both sides of a comparison are what they are."""
    if e.dtype is dt.index:
        return e
    if not e.dtype.is_int or e.dtype is dt.uint64:
        return None
    return const(int(e.value)) if isinstance(e, Const) else Cast(e, dt.index)
