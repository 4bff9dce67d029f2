"""Where branches and functions leave their results.

A result whose dims are known only when it is there comes with them: each has a word beside the parts of the result, and
a tensor of such extents is an object, whose handle is the part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from legato.arith.expr import Var, fresh
from legato.arith.prove import prove_equal
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.replace import replace_vars
from legato.ir import expr as ir
from legato.ir._dims import free_dims
from legato.ir.constraint import sides
from legato.ir.dim_values import dim_pairs
from legato.ir.types import TensorType, TupleType, Type
from legato.lower.hosts.body import Body
from legato.lower.hosts.cells import leaf_types
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.magnitude import same_size
from legato.lower.hosts.objects import opened
from legato.lower.hosts.values import Value, flat, nest, new_value, told
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, cast
from legato.tir.stmt import Check, Store

__all__ = ["RESULT", "Place", "known", "new_place", "registers", "store_dims", "taken"]

RESULT = "the result of a call"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a result of type `ty` belongs. `dims` are the words of those that come with it."""

    ty: Type
    value: Value
    dims: Mapping[Var, Buffer] = field(default_factory=dict)

    @property
    def words(self) -> tuple[Buffer, ...]:
        """The parts, and the words of the dims behind them."""
        return (*flat(self.value), *self.dims.values())


def new_place(ty: Type, name: str, late: Sequence[Var], scope: Scope) -> Place:
    """A place for a result with which the dims `late` come, in buffers of `scope`."""
    dims = {d: Buffer(d.name, (), dt.int64, scope=scope) for d in late}
    return Place(ty, _parts(ty, name, frozenset(late), scope), dims)


def _parts(ty: Type, name: str, late: frozenset[Var], scope: Scope) -> Value:
    if isinstance(ty, TupleType):
        return tuple(_parts(f, f"{name}_{n}", late, scope) for n, f in enumerate(ty.fields))
    if isinstance(ty, TensorType) and not late.isdisjoint(free_dims(ty)):
        return Buffer(name, (), dt.handle, scope=scope)
    return new_value(ty, name, scope)


def registers(place: Place, frame: Frame, out: Body) -> Place:
    """`place`, whose buffers have room for the rest of the block."""
    for buffer in place.words:
        frame.placed(buffer, out)
    return place


def store_dims(frame: Frame, place: Place, result: ir.Expr, out: Body) -> None:
    """Appends the stores of the dims that come with `result` to their words."""
    assert result.ty is not None
    own = [d for d in place.dims if d not in frame.known]
    values = {**{d: d for d in place.dims}, **told([(place.ty, result.ty)], own, result)}
    out.extend(Store(word, (), cast(values[d], dt.int64)) for d, word in place.dims.items())


def taken(frame: Frame, place: Place, ty: Type, at: ir.Expr, out: Body) -> Value:
    """Appends the taking of what has been left in `place`, as a value of type `ty`, whose dims are known from here on.

    The block owns its objects.
    """
    own = {d: d if ty is place.ty else fresh(d.name, d.lo, d.hi) for d in place.dims}
    frame.bring({own[d]: Load(word, ()) for d, word in place.dims.items()}, out)
    known(frame, replace_vars(place.ty, {}, own), ty, RESULT, at, out)
    leaves = [_taken(frame, leaf, t, out) for leaf, t in zip(flat(place.value), leaf_types(ty), strict=True)]
    return nest(ty, iter(leaves))


def known(frame: Frame, got: Type, wanted: Type, what: str, at: ir.Expr, out: Body) -> None:
    """Gives the dims of `wanted`, the type of `what` at a node, their values where its value is of type `got`; those
    that have some must agree."""
    frame.bring(told([(wanted, got)], frame.late(wanted), at), out)
    where = "" if at.span is None else f" at {at.span}"
    for a, b in dim_pairs(got, wanted):
        if not prove_equal(a, b) and frame.known.issuperset(variables(a, b)):
            left, right = sides(a, b)
            code = frame.program.check(f"{what}{where}: a dim is {left}, wanted {right}")
            out.append(Check(same_size(a, b), code))


def _taken(frame: Frame, leaf: Buffer, ty: Type, out: Body) -> Buffer:
    if leaf.dtype != dt.handle:
        return leaf
    frame.owners.own(leaf)
    if not isinstance(ty, TensorType):
        return leaf
    tensor = opened(Buffer(leaf.name, ty.shape, ty.dtype), leaf, out)
    frame.borrowed.box(tensor, leaf)
    return tensor
