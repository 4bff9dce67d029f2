"""Which values lie side by side in one buffer, and where: the places of the parts of joints.

    c = join(a, b);  d = join(a, b, e)          one buffer, [a | b | e], of which c is the front

Joints are taken one by one, the largest first: parts that lie nowhere yet get a buffer of their own, or the place of
their whole in a larger one; parts that lie somewhere must lie there in the order that the joint wants.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field, replace
from typing import Generic, TypeVar

from legato.arith.expr import Const, Expr, const
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.tir.buffer import Layout

__all__ = ["Place", "Places", "Whole", "cut_layout", "part_layout", "whole_layout"]

V = TypeVar("V", bound=Hashable)


@dataclass(eq=False, slots=True)
class Whole:
    """A buffer shared by values that follow each other along `axis`, which has `extent` elements there."""

    axis: int
    extent: int


@dataclass(frozen=True, slots=True)
class Place:
    """`extent` elements of `whole` from `start` on."""

    whole: Whole
    start: int
    extent: int


@dataclass(slots=True)
class Places(Generic[V]):
    """Where values lie."""

    of: dict[V, Place] = field(default_factory=dict)

    def add(self, parts: Sequence[tuple[V, int]], axis: int, result: V | None = None) -> Place | None:
        """Where the joint of `parts`, each with its extent along `axis`, lies, which is `result` if that is given; None
        if the parts cannot lie so."""
        starts = [0]
        for _, extent in parts:
            starts.append(starts[-1] + extent)
        known = [self.of.get(v) for v, _ in parts]
        if len({v for v, _ in parts}) < len(parts):
            return None
        own = None if result is None else self.of.get(result)
        if not any(known):
            whole = Whole(axis, starts[-1]) if own is None else own.whole
            found = Place(whole, 0, starts[-1]) if own is None else own
            if whole.axis != axis:
                return None
            for (v, extent), start in zip(parts, starts, strict=False):
                self.of[v] = Place(whole, found.start + start, extent)
        else:
            first = known[0]
            if first is None or first.whole.axis != axis:
                return None
            found = Place(first.whole, first.start, starts[-1])
            wanted = [Place(found.whole, found.start + s, e) for (_, e), s in zip(parts, starts, strict=False)]
            if known != wanted or own not in (None, found):
                return None
        if result is not None:
            self.of[result] = found
        return found


def part_layout(layout: Layout, place: Place) -> Layout:
    """The layout of what lies at `place` of a buffer with this layout."""
    return _padded(layout, place.whole.axis, layout.pad_of(place.whole.axis) + place.whole.extent - place.extent)


def whole_layout(layout: Layout, place: Place) -> Layout:
    """The layout of the buffer where what lies at `place` has this one."""
    return _padded(layout, place.whole.axis, layout.pad_of(place.whole.axis) - place.whole.extent + place.extent)


def cut_layout(layout: Layout, shape: Sequence[Expr], begin: Sequence[Expr], extents: Sequence[Expr]) -> Layout | None:
    """The layout of the block with these `extents` from `begin` on, of a buffer of `shape`; None where there is none: a
    halo would be cut off, or what is left out is not the same everywhere."""
    pads = [layout.pad_of(d) for d in range(len(shape))]
    for d in range(len(shape)):
        rest = simplify(shape[d] - extents[d])
        if rest is const(0) and simplify(begin[d]) is const(0):
            continue
        if layout.halo_of(d) != (0, 0):
            return None
        if d != layout.order[0]:
            if not isinstance(rest, Const):
                return None
            pads[d] += int(rest.value)
    return replace(layout, pad=tuple(pads) if any(pads) else ())


def _padded(layout: Layout, axis: int, pad: int) -> Layout:
    rank = max(len(layout.order), len(layout.pad), len(layout.halo))
    pads = tuple(pad if d == axis else layout.pad_of(d) for d in range(rank))
    return replace(layout, pad=pads if any(pads) else ())
