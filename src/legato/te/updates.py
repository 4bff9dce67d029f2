"""What statements change in buffers: the elements within a box become those of an expression, others stay.

    B[i, 4 * j + 1] = e              pins (i, 1), (4 * j + 1, 1):  B'[x0, x1] = e  where x0 = i, x1 = 4 * j + 1
    for i in 0..n { … }              pins (none), (4 * j + 1, 1):  B'[x0, x1] = e with x0 in place of i

An update is relative to a point of the program: `value` holds Loads of *marks*, buffers that stand for what others held
there. Along a dimension without a pin it reaches all elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from legato.arith.assume import Assumptions, facts_of
from legato.arith.expr import Binary, Const, Expr, Op, Var, const, eq, floordiv, floormod, land, le, lt, select
from legato.arith.prove import prove, prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute, variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.tir.buffer import Buffer
from legato.tir.expr import Load

__all__ = ["Pin", "Ranges", "Unreadable", "Update", "linear", "loads_of", "merged", "widened"]

_TRUE: Final[Expr] = const(True, dt.bool_)
_ONE: Final[Expr] = const(1)


class Unreadable(Exception):
    """A loop program is no tensor expression; the message says why."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Variables that run from 0 below an expression: of loops, and subscripts of buffers."""

    extents: Mapping[Var, Expr]

    def holds(self, cond: Expr) -> bool:
        """Whether `cond` is proven."""
        if isinstance(cond, Const):
            return bool(cond.value)
        return prove(cond, None, self.extents) or self._follows(cond)

    def _follows(self, cond: Expr) -> bool:
        """Whether all that `cond` says of subscripts follows from the extents."""
        facts = list(facts_of(cond)) if isinstance(cond, Binary) and cond.op in (Op.LT, Op.LE) else []
        axes: dict[Var, Expr] = {}
        todo = [v for f in facts for v in variables(f)]
        while todo:
            v = todo.pop()
            if v in self.extents and v not in axes:
                axes[v] = self.extents[v]
                todo += variables(self.extents[v])
        return bool(facts) and all(map(Assumptions(axes).nonnegative, facts))

    def never(self, cond: Expr) -> bool:
        """Whether `cond` is proven not to hold."""
        return self.holds(eq(cond, const(False, dt.bool_)))

    def simple(self, e: Expr) -> Expr:
        """`e` with its subscripts in normal form."""
        return simplify(e, None, self.extents)


@dataclass(frozen=True, slots=True)
class Pin:
    """Subscripts from `begin` on, `extent` of them."""

    begin: Expr
    extent: Expr = _ONE

    @property
    def is_one(self) -> bool:
        return self.extent is _ONE

    def same(self, other: Pin) -> bool:
        return prove_equal(self.begin, other.begin) and prove_equal(self.extent, other.extent)

    def holds(self, i: Expr, ranges: Ranges) -> Expr:
        """Where subscript `i` is one of them."""
        if self.is_one:
            cond = _TRUE if prove_equal(i, self.begin) else eq(i, self.begin)
            return _TRUE if ranges.holds(cond) else cond
        parts = (le(self.begin, i), lt(i, self.begin + self.extent))
        return reduce(land, [p for p in parts if not ranges.holds(p)], _TRUE)


Pins = tuple[Pin | None, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """The elements of `buffer` at `index` that lie within the `pins` are `value`."""

    buffer: Buffer
    index: tuple[Var, ...]
    pins: Pins
    value: Expr

    @property
    def place(self) -> tuple[Expr, ...]:
        """An element that is changed, by the variables that tell it: of loops where one is pinned, else of `index`."""
        return tuple(x if p is None or not p.is_one else p.begin for x, p in zip(self.index, self.pins, strict=True))

    def at(self, indices: Sequence[Expr]) -> Expr:
        """The value at `indices`, if these lie within the pins."""
        return substitute(self.value, dict(zip(self.index, indices, strict=True)))

    def reaches(self, indices: Sequence[Expr], ranges: Ranges) -> Expr:
        """Where `indices` lie within the pins."""
        found = _TRUE
        for i, pin in zip(indices, self.pins, strict=True):
            found = land(found, _TRUE if pin is None else pin.holds(i, ranges))
        return _TRUE if ranges.holds(found) else const(False, dt.bool_) if ranges.never(found) else found

    def freed(self, dims: Iterable[int], before: Callable[[tuple[Expr, ...]], Expr], ranges: Ranges) -> Update:
        """The same without pins along `dims`: elsewhere the value is what was `before`."""
        pins, cond = list(self.pins), _TRUE
        for d in dims:
            pin = pins[d]
            if pin is not None:
                cond, pins[d] = land(cond, pin.holds(self.index[d], ranges)), None
        new = replace(self, pins=tuple(pins))
        return new if cond is _TRUE else replace(new, value=select(cond, self.value, before(new.place)))


def merged(
    old: Update, new: Update, before: Callable[[tuple[Expr, ...]], Expr], ranges: Ranges, cond: Expr | None = None
) -> Update:
    """`old`, then `new`; with a `cond`, `new` where it holds, else `old`. The values of both are those behind them;
    `before` says what an element was ahead of both."""
    apart = [d for d, (a, b) in enumerate(zip(old.pins, new.pins, strict=True)) if not _same(a, b)]
    if len(apart) == 1 and cond is None:
        joined = _side_by_side(old, new, apart[0])
        if joined is not None:
            return joined
    if cond is not None:
        a, b = new.freed(apart, before, ranges), old.freed(apart, before, ranges)
        return replace(a, value=select(cond, a.value, b.value))
    first = old.freed(apart, before, ranges)
    return new.freed(apart, first.at, ranges)


def _same(a: Pin | None, b: Pin | None) -> bool:
    return a is b or (a is not None and b is not None and a.same(b))


def _side_by_side(old: Update, new: Update, d: int) -> Update | None:
    """Both as one, where along dimension `d` one of them begins where the other one ends."""
    for first, last in ((old, new), (new, old)):
        a, b = first.pins[d], last.pins[d]
        if a is not None and b is not None and prove_equal(a.begin + a.extent, b.begin):
            pin = Pin(a.begin, simplify(a.extent + b.extent))
            value = select(lt(new.index[d], b.begin), first.value, last.value)
            return replace(new, pins=(*new.pins[:d], pin, *new.pins[d + 1 :]), value=value)
    return None


def loads_of(marks: Iterable[Buffer], *values: Expr) -> list[Load]:
    """The Loads of `marks` in `values`."""
    wanted = set(marks)
    return [n for n in nodes(*values) if isinstance(n, Load) and n.buffer in wanted]


def linear(e: Expr, v: Var) -> tuple[Expr, Expr] | None:
    """(slope, rest) of `e` = slope · v + rest; None where it is not of this form."""
    rest = simplify(substitute(e, {v: const(0)}))
    slope = simplify(substitute(e, {v: const(1)}) - rest)
    return (slope, rest) if v not in variables(slope) and prove_equal(e, slope * v + rest) else None


def widened(u: Update, d: int, v: Var, extent: Expr, mark: Buffer, ranges: Ranges) -> Update:
    """`u`, which iteration `v` of a loop does along dimension `d` at a place of its own, for all iterations. `mark` is
    what the buffer held before; Unreadable where the places are not told apart."""
    pin, x = u.pins[d], u.index[d]
    assert pin is not None
    parts, cond = linear(pin.begin, v), _TRUE
    if parts is None:
        raise Unreadable(f"{u.buffer.name} is stored at {pin.begin}, which is not linear in {v.name}")
    slope, rest = parts
    if prove_equal(slope, pin.extent):
        turn, wide = (x - rest if pin.is_one else floordiv(x - rest, slope)), Pin(rest, simplify(slope * extent))
    elif slope is const(-1) and pin.is_one:
        turn, wide = rest - x, Pin(simplify(rest - extent + 1), extent)
    elif isinstance(slope, Const) and ranges.holds(lt(pin.extent, slope)):
        turn, wide = floordiv(x - rest, slope), Pin(rest, simplify(slope * extent))
        cond = lt(floormod(x - rest, slope), pin.extent)
    else:
        raise Unreadable(f"iterations over {v.name} are not shown to store to {u.buffer.name} at places of their own")
    turn = simplify(turn)
    whole = wide.begin is const(0) and prove_equal(wide.extent, u.buffer.shape[d])
    pins = (*u.pins[:d], None if whole else wide, *u.pins[d + 1 :])
    value = ranges.simple(substitute(u.value, {v: turn}))
    new = replace(u, pins=pins, value=value)
    return new if cond is _TRUE else replace(new, value=select(cond, value, Load(mark, new.place)))
