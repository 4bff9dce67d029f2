"""Which results of a block's groups are written side by side, into the memory of what joins them.

A joint of a group, or a group that is a joint, is a view of memory if all its parts are results of this block's groups
that nobody else wants in memory of their own. Whoever computes a part is then asked to lay it out as the part of a
whole: in the whole's order, with the rest of the whole as stride padding. Where a part comes out otherwise, its joints
are computed as they stand, that is, copied.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import field, replace

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.ir import expr as ir
from legato.ir.types import TensorType
from legato.lower.places import Place, Places, Whole, part_layout, whole_layout
from legato.lower.reuse import Widths
from legato.tir.buffer import Layout

__all__ = ["JointUse", "Paddings", "Wholes", "halo_layout"]

Paddings = Mapping[ir.Var, Mapping[float, Sequence[Widths]]]  # by what is padded and the value, the widths


@dataclass(frozen=True, slots=True)
class JointUse:
    """Joint number `number` of the group bound to `user`, over `parts`; `result` is `user` if the group is nothing
    else. Whether the result leaves the block's kernels (it lies in row-major order then)."""

    user: ir.Var
    number: int
    parts: tuple[ir.Var, ...]
    axis: int
    result: ir.Var | None
    leaves: bool

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the parts along the axis, which are literals."""
        return tuple(_extent(p, self.axis) or 0 for p in self.parts)

    @staticmethod
    def of(
        user: ir.Var, number: int, axis: int, parts: Sequence[ir.Expr], is_result: bool, leaving: Container[ir.Var],
        users: Mapping[ir.Var, int],
    ) -> JointUse | None:  # fmt: skip
        """The joint, if views may take its place: of parts that have elements; `users` counts the groups that read a
        variable."""
        known = tuple(p for p in parts if isinstance(p, ir.Var) and p in users and p not in leaving)
        leaves = is_result and user in leaving
        if len(known) < len(parts) or not all(_extent(p, axis) for p in known):
            return None
        if leaves and any(users[p] > 1 for p in known):
            return None  # others read them better in an order of their own
        return JointUse(user, number, known, axis, user if is_result else None, leaves)


def _extent(v: ir.Var, axis: int) -> int | None:
    extent = v.ty.shape[axis] if isinstance(v.ty, TensorType) else None
    return int(extent.value) if isinstance(extent, Const) else None


@dataclass(slots=True)
class Wholes:
    """The places of parts, and how the wholes lie in memory as far as that is decided."""

    places: Places[ir.Var] = field(default_factory=Places)
    halos: dict[Whole, Layout] = field(default_factory=dict)  # what is asked of parts: halo, or order, or neither
    layouts: dict[Whole, Layout] = field(default_factory=dict)  # of wholes of which something is in memory
    sizes: dict[Whole, int] = field(default_factory=dict)  # extent of what decided the order
    lying: set[ir.Var] = field(default_factory=set)  # parts that lie where they should
    joined: dict[tuple[ir.Var, int], tuple[JointUse, Place]] = field(default_factory=dict)
    smallest: dict[ir.Var, JointUse] = field(default_factory=dict)  # that a part is of, among those that have places

    @staticmethod
    def plan(uses: Sequence[JointUse], paddings: Paddings) -> Wholes:
        """Places for the parts of as many of the joints `uses` as possible."""
        found = Wholes()
        for use in sorted(uses, key=lambda u: -sum(u.extents)):
            place = found._place(use)
            if place is not None:
                found.joined[use.user, use.number] = use, place
                if use.leaves:
                    found.halos[place.whole] = Layout(tuple(range(_rank(use.user))))
        for v, place in found.places.of.items():
            if place.whole not in found.halos:
                members = [u for u, p in found.places.of.items() if p.whole is place.whole]
                found.halos[place.whole] = _halo(place.whole.axis, _rank(v), members, paddings)
        return found

    def _place(self, use: JointUse) -> Place | None:
        """Where `use` lies; None if it cannot, or only as long as others turn out to lie where they should: one that
        shares some of its parts with a larger one has all of them there."""
        within = self.smallest.get(use.parts[0])
        if any(self.smallest.get(p) is not within for p in use.parts):
            return None
        if use.leaves and any(p in self.places.of for p in use.parts):
            return None
        place = self.places.add(list(zip(use.parts, use.extents, strict=True)), use.axis, use.result)
        if place is not None:
            self.smallest.update(dict.fromkeys(use.parts, use))
        return place

    def wanted(self, v: ir.Var) -> Layout | None:
        """How `v` should lie in memory; None if it has no place in a whole."""
        place = self.places.of.get(v)
        if place is None:
            return None
        known = self.layouts.get(place.whole, self.halos[place.whole])
        if self.sizes.get(place.whole, place.extent) < place.extent:
            known = replace(known, order=(), pad=(0,) * _rank(v))  # too large a part to be turned round
        return part_layout(known, place)

    def settle(self, v: ir.Var, layout: Layout) -> None:
        """Notes that `v` lies in memory of its own, or of its whole, with this layout."""
        place = self.places.of.get(v)
        if place is None:
            return
        assert isinstance(v.ty, TensorType)
        asked = self.halos[place.whole]
        if place.whole not in self.layouts:
            found = whole_layout(layout, place)
            if found != Layout(layout.order, asked.halo, asked.halo_value):
                return
            self.layouts[place.whole], self.sizes[place.whole] = found, place.extent
        whole = self.layouts[place.whole]
        # A dimension of one element, and nothing else along it, may stand anywhere in the order.
        units = {d for d in range(v.ty.rank) if _extent(v, d) == 1 and whole.is_dense_along(d)} - {place.whole.axis}
        is_in_order = [d for d in layout.order if d not in units] == [d for d in whole.order if d not in units]
        if is_in_order and part_layout(replace(whole, order=layout.order), place) == layout:
            self.lying.add(v)

    def view(self, user: ir.Var, number: int) -> tuple[JointUse, Layout] | None:
        """Joint `number` of the group bound to `user` with its layout, if its parts lie in memory as it wants them."""
        use, place = self.joined.get((user, number), (None, None))
        if use is None or place is None or not self.lying.issuperset(use.parts):
            return None
        return use, part_layout(self.layouts[place.whole], place)


def _rank(v: ir.Var) -> int:
    assert isinstance(v.ty, TensorType)
    return v.ty.rank


def _halo(axis: int, rank: int, members: Sequence[ir.Var], paddings: Paddings) -> Layout:
    """The halo that most of those who pad `members` want: none along `axis`, where the next member begins."""
    by_value: dict[float, list[Widths]] = {}
    for v in members:
        for value, widths in paddings.get(v, {}).items():
            by_value.setdefault(value, []).extend(w for w in widths if w[axis] == (0, 0))
    value, widths = max(by_value.items(), key=lambda item: len(item[1]), default=(0.0, []))
    if not widths:
        return Layout((), pad=(0,) * rank)
    return replace(halo_layout(value, widths), pad=(0,) * rank)


def halo_layout(value: float, widths: Sequence[Widths]) -> Layout:
    """A halo of `value`, in whatever order, that is as wide as each of `widths`."""
    widest = [(max(b for b, _ in dim), max(a for _, a in dim)) for dim in zip(*widths, strict=True)]
    return Layout((), tuple(widest), value)
