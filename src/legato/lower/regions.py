"""Places of buffers whose sizes are formulas: slots, and regions that lie in them.

Which of two such sizes is larger depends on the call. So a slot is as large as the largest of what lies in it, one
after the other: one buffer, and while that does not live, regions, which are slots one behind the other. What lies
where is decided by the sizes at TYPICAL dims, largest first (greedy by size for shared objects, Pisarchyk & Lee, 2020;
a region takes what would be left over of a slot). Whatever the dims of a call are, no two buffers meet; how much memory
is left unused depends on them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from math import inf

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, const, le, max_
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, variables

__all__ = ["Span", "nested"]

TYPICAL = 128  # an image's height, a text's length: where sizes of several dims compare as they mostly do
DEPTH = 8  # regions in slots of regions: deeper ones would save little
LENGTH = 2_000  # of what the plan's formulas have beside the sizes of slots: each call computes them for its dims
Span = tuple[int, int, Expr]


@dataclass(slots=True)
class _Slot:
    """What buffer `number` lies in from `first` to `last`; in other times, regions do, in their order."""

    number: int
    first: int
    last: int
    bytes: Expr
    typical: int
    regions: list[_Region] = field(default_factory=list)


@dataclass(slots=True)
class _Region:
    """Slots one behind the other, of which the buffers live between `first` and `last`; `used` of `room` bytes are
    theirs at typical dims."""

    first: int
    last: int
    room: float
    used: int = 0
    slots: list[_Slot] = field(default_factory=list)

    def add(self, slot: _Slot) -> None:
        """Puts `slot` behind the others."""
        self.used += slot.typical
        self.slots.append(slot)


def nested(spans: Sequence[Span]) -> tuple[list[Expr], Expr]:
    """Where each buffer begins, and the size of all; a span is the first and last time of its life, and its bytes."""
    return _Packing().run(spans)


def _typical(size: Expr) -> int:
    def value(dim: Var) -> int:
        return min(max(TYPICAL, dim.lo or 0), TYPICAL if dim.hi is None else dim.hi)

    return max(0, int(evaluate(size, {dim: value(dim) for dim in variables(size)})))


class _Packing:
    """One plan; `left` is what may still be added to its formulas."""

    def __init__(self) -> None:
        self.left = LENGTH
        self.fits: Callable[[Expr, Expr], bool] = cache(lambda size, slot: size is slot or prove(le(size, slot)))

    def run(self, spans: Sequence[Span]) -> tuple[list[Expr], Expr]:
        """The places, and the size of all."""
        root = _Region(0, 0, inf)
        typical = [_typical(size) for _, _, size in spans]
        for n in sorted(range(len(spans)), key=lambda n: (-typical[n], spans[n][0])):
            new = _Slot(n, *spans[n], typical[n])
            if not self.put(root, new, DEPTH):
                root.add(new)
        return self.offsets(root, len(spans))

    def put(self, region: _Region, new: _Slot, depth: int) -> bool:
        """Finds a place for `new` in the slots of `region`, or else behind them, or says that it has none."""
        for slot in region.slots:
            if _meet(slot, new):
                continue
            low = bisect_left(slot.regions, new.first, key=lambda r: r.last)
            high = bisect_left(slot.regions, new.last + 1, lo=low, key=lambda r: r.first)
            if low == high and (self.fits(new.bytes, slot.bytes) or self.affords(new)):
                slot.regions.insert(low, inner := _Region(new.first, new.last, slot.typical))
                inner.add(new)
                break
            if high - low == 1 and depth and self.put(slot.regions[low], new, depth - 1):
                break
        else:
            if region.room == inf or region.used + new.typical > region.room or not self.affords(new):
                return False
            region.add(new)
        region.first, region.last = min(region.first, new.first), max(region.last, new.last)
        return True

    def affords(self, new: _Slot) -> bool:
        """Whether the formulas may become longer by the size of `new`; they do, then."""
        length = _length(new.bytes)
        if length > self.left:
            return False
        self.left -= length
        return True

    def offsets(self, root: _Region, count: int) -> tuple[list[Expr], Expr]:
        """Where each buffer begins, and the size of all."""
        sizes: dict[int, Expr] = {}  # of slots, by their numbers
        for slot in reversed(list(_slots(root))):
            inner = dict.fromkeys(_size(region, sizes) for region in slot.regions)
            sizes[slot.number] = reduce(max_, [size for size in inner if not self.fits(size, slot.bytes)], slot.bytes)
        starts: list[Expr] = [const(0)] * count
        stack: list[tuple[_Region, Expr]] = [(root, const(0))]
        while stack:
            region, start = stack.pop()
            for slot in region.slots:
                starts[slot.number] = start
                stack += [(inner, start) for inner in slot.regions]
                start = simplify(start + sizes[slot.number])
        return starts, _size(root, sizes)


def _length(size: Expr) -> int:
    """The number of nodes of a formula written out."""
    found: dict[Expr, int] = {}
    for node in nodes(size):
        found[node] = 1 + sum(found[kid] for kid in node.children())
    return found[size]


def _meet(a: _Slot, b: _Slot) -> bool:
    return a.first <= b.last and b.first <= a.last


def _slots(root: _Region) -> Iterator[_Slot]:
    """All slots, each before those in it."""
    stack = [root]
    while stack:
        region = stack.pop()
        yield from region.slots
        stack += [inner for slot in region.slots for inner in slot.regions]


def _size(region: _Region, sizes: dict[int, Expr]) -> Expr:
    first, *others = (sizes[slot.number] for slot in region.slots) if region.slots else (const(0),)
    return simplify(sum(others, start=first))
