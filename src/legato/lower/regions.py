"""Places of buffers whose sizes are formulas: slots, and regions that lie in them.

Which of two such sizes is larger depends on the call. So a slot is as large as the largest of what lies in it, one
after the other: one buffer, and while that does not live, regions, which are slots one behind the other. What lies
where is decided by the sizes at TYPICAL dims, largest first (greedy by size for shared objects, Pisarchyk & Lee, 2020;
a region takes what would be left over of a slot). Whatever the dims of a call are, no two buffers meet; how much memory
is left unused depends on them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from math import inf

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, const, le, max_
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.arith.substitute import variables

__all__ = ["Span", "nested"]

TYPICAL = 128  # an image's height, a text's length: where sizes of several dims compare as they mostly do
DEPTH = 8  # regions in slots of regions: deeper ones would save little
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

    def add(self, slot: _Slot) -> bool:
        """Puts `slot` behind the others, if there is room."""
        if self.used + slot.typical > self.room:
            return False
        self.used += slot.typical
        self.slots.append(slot)
        return True


def nested(spans: Sequence[Span]) -> tuple[list[Expr], Expr]:
    """Where each buffer begins, and the size of all; a span is the first and last time of its life, and its bytes."""
    root = _Region(0, 0, inf)
    typical = [_typical(size) for _, _, size in spans]
    for n in sorted(range(len(spans)), key=lambda n: (-typical[n], spans[n][0])):
        _put(root, _Slot(n, *spans[n], typical[n]), DEPTH)
    return _offsets(root, len(spans))


def _typical(size: Expr) -> int:
    def value(dim: Var) -> int:
        return min(max(TYPICAL, dim.lo or 0), TYPICAL if dim.hi is None else dim.hi)

    return max(0, int(evaluate(size, {dim: value(dim) for dim in variables(size)})))


def _put(region: _Region, new: _Slot, depth: int) -> bool:
    """Finds a place for `new` in `region`, or says that it has none."""
    for slot in region.slots:
        if _meet(slot, new):
            continue
        low = bisect_left(slot.regions, new.first, key=lambda r: r.last)
        high = bisect_left(slot.regions, new.last + 1, lo=low, key=lambda r: r.first)
        if low == high:
            slot.regions.insert(low, inner := _Region(new.first, new.last, slot.typical))
            inner.add(new)
            break
        if high - low == 1 and depth and _put(slot.regions[low], new, depth - 1):
            break
    else:
        if not region.add(new):
            return False
    region.first, region.last = min(region.first, new.first), max(region.last, new.last)
    return True


def _meet(a: _Slot, b: _Slot) -> bool:
    return a.first <= b.last and b.first <= a.last


def _offsets(root: _Region, count: int) -> tuple[list[Expr], Expr]:
    sizes: dict[int, Expr] = {}  # of slots, by their numbers
    fits = cache(lambda size, slot: size is slot or prove(le(size, slot)))
    for slot in reversed(list(_slots(root))):
        inner = dict.fromkeys(_size(region, sizes) for region in slot.regions)
        sizes[slot.number] = reduce(max_, [size for size in inner if not fits(size, slot.bytes)], slot.bytes)
    starts: list[Expr] = [const(0)] * count
    stack: list[tuple[_Region, Expr]] = [(root, const(0))]
    while stack:
        region, start = stack.pop()
        for slot in region.slots:
            starts[slot.number] = start
            stack += [(inner, start) for inner in slot.regions]
            start = simplify(start + sizes[slot.number])
    return starts, _size(root, sizes)


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
