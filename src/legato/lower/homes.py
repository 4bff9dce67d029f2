"""The buffers that values of a block share: those that `join` puts side by side, and what `part` reads of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from legato.arith.expr import Const, Expr, const
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.ir import expr as ir
from legato.ir.let import Binding
from legato.ir.types import TensorType
from legato.ir.views import JOIN, JoinAttrs, PartAttrs
from legato.lower.places import Place, Places, Whole, cut_layout, part_layout, whole_layout
from legato.tir.buffer import Buffer, Layout

__all__ = ["Homes", "Views"]


@dataclass(slots=True)
class Views:
    """Buffers that lie in others: in what, and from which byte on. `own` gathers those that are to be placed."""

    own: list[Buffer] = field(default_factory=list)
    within: dict[Buffer, tuple[Buffer, Expr]] = field(default_factory=dict)

    def add(self, buffer: Buffer, base: Buffer, begin: Sequence[Expr]) -> Buffer:
        """`buffer`, which lies in `base` from element `begin` on."""
        offset: Expr = const(0)
        for index, stride in zip(begin, base.strides(), strict=True):
            offset = offset + index * stride
        root, before = self.within.get(base, (base, const(0)))
        self.within[buffer] = root, before + offset * base.dtype.bytes
        return buffer

    def part(self, name: str, source: Buffer, attrs: PartAttrs) -> Buffer:
        """The block of `source` that `attrs` describe."""
        layout = cut_layout(source.layout, source.shape, attrs.begin, attrs.shape)
        if layout is None:
            raise InternalError(f"{name} is no block of {source.name}, as that lies in memory")
        return self.add(Buffer(name, attrs.shape, source.dtype, layout), source, attrs.begin)


@dataclass(slots=True)
class Homes:
    """Where the parts of the joins of a block lie. A buffer is made when the first value in it is."""

    views: Views
    places: Places[ir.Var] = field(default_factory=Places)
    wanted: dict[Whole, Buffer] = field(default_factory=dict)  # where results of the block belong
    made: dict[Whole, Buffer] = field(default_factory=dict)

    def plan(self, bindings: Sequence[Binding], results: Mapping[ir.Var, object]) -> None:
        """Places for all that `bindings` join; `results` says where some of it is wanted."""
        joins = [(var, value) for var, value in bindings if isinstance(value, ir.Call) and value.op is JOIN]
        for var, call in sorted(joins, key=lambda item: -_extent(item[0], _axis(item[1]))):
            (data,) = call.args
            assert isinstance(data, ir.Tuple)
            parts = [v for v in data.fields if isinstance(v, ir.Var)]
            axis = _axis(call)
            place = self.places.add([(v, _extent(v, axis)) for v in parts], axis, var)
            if place is None or len(parts) < len(data.fields):
                raise InternalError(f"the parts of {var.name} do not lie side by side")
            target = results.get(var)
            if isinstance(target, Buffer) and place.extent == place.whole.extent:
                self.wanted[place.whole] = target

    def buffer(self, var: ir.Var, name: str, layout: Layout) -> Buffer:
        """The buffer for `var`, which has a place, with this layout."""
        place = self.places.of[var]
        assert isinstance(var.ty, TensorType)
        base = self.made.get(place.whole)
        if base is None:
            base = self.made[place.whole] = self._base(place, var.ty, name, whole_layout(layout, place))
        if place.extent == place.whole.extent:
            return base
        begin = [const(place.start if d == place.whole.axis else 0) for d in range(var.ty.rank)]
        return self.views.add(Buffer(name, var.ty.shape, var.ty.dtype, layout), base, begin)

    def _base(self, place: Place, ty: TensorType, name: str, layout: Layout) -> Buffer:
        target = self.wanted.get(place.whole)
        if target is not None and target.layout == layout:
            return target
        shape = tuple(const(place.whole.extent) if d == place.whole.axis else n for d, n in enumerate(ty.shape))
        base = Buffer(name, shape, ty.dtype, layout)
        self.views.own.append(base)
        return base

    def joined(self, var: ir.Var) -> Buffer:
        """The buffer that holds join `var`, whose parts are made."""
        place = self.places.of[var]
        return self.buffer(var, var.name, part_layout(self.made[place.whole].layout, place))


def _axis(call: ir.Call) -> int:
    assert isinstance(call.attrs, JoinAttrs)
    return call.attrs.axis


def _extent(v: ir.Var, axis: int) -> int:
    assert isinstance(v.ty, TensorType)
    extent = v.ty.shape[axis]
    assert isinstance(extent, Const)
    return int(extent.value)
