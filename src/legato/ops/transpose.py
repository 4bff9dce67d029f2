"""Operators that permute or repeat elements: transpose, reverse, broadcast_to, tile, repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Expr, const
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._families import Array, broadcast_index
from legato.ops._gradients import Contribution, in_shape, shape_of, sum_to
from legato.ops._moving import as_dim, as_int, by_reference
from legato.ops._rules import at_least, is_one, normalize_axis, stretch, tensor
from legato.te.tensor import Tensor, compute

__all__ = ["BroadcastToAttrs", "RepeatAttrs", "ReverseAttrs", "TileAttrs", "TransposeAttrs"]


# ------------------------------------------------------------------ transpose


@dataclass(frozen=True, slots=True)
class TransposeAttrs(Attrs):
    """Dim n of the result is dim axes[n] of the input; None reverses them."""

    axes: tuple[int, ...] | None = None


def _order(rank: int, attrs: TransposeAttrs) -> tuple[int, ...]:
    return tuple(reversed(range(rank))) if attrs.axes is None else tuple(a % rank for a in attrs.axes)


def _transpose_type(relation: Relation, x: Type, attrs: TransposeAttrs) -> Type:
    ty = tensor(relation, x, "data")
    if attrs.axes is not None:
        found = [normalize_axis(relation, a, ty.rank, "axes") for a in attrs.axes]
        if sorted(found) != list(range(ty.rank)):
            raise relation.fail(f"axes {attrs.axes} is not a permutation of the {ty.rank} dims")
    return TensorType(tuple(ty.shape[a] for a in _order(ty.rank, attrs)), ty.dtype)


def _transpose_reference(x: Array, attrs: TransposeAttrs) -> Array:
    return x.transpose(_order(x.ndim, attrs))


def _transpose_compute(x: Tensor, attrs: TransposeAttrs, out_type: TensorType) -> Tensor:
    order = _order(len(x.shape), attrs)

    def body(*i: Expr) -> Expr:
        place = dict(zip(order, i, strict=True))
        return x[tuple(place[n] for n in range(len(order)))]

    return compute(out_type.shape, body, "transpose")


def _transpose_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    if call.attrs.axes is None:
        return [b.transpose(dy)]
    order = _order(len(shape_of(dy)), call.attrs)
    return [b.transpose(dy, axes=tuple(map(order.index, range(len(order)))))]


transpose = Op(
    name="transpose",
    args=("data",),
    attrs=TransposeAttrs,
    type_rel=_transpose_type,
    reference=_transpose_reference,
    compute=_transpose_compute,
    grad=_transpose_grad,
    value=by_reference(_transpose_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((2, 3, 4), "float32"),), exact=True),
        Sample((((2, 3, 4), "float32"),), {"axes": (0, -1, 1)}, exact=True),
        Sample((((2, 0, 4), "float32"),), {"axes": (1, 2, 0)}, exact=True),
        Sample((((), "float32"),), exact=True),
    ),
    doc="Permutes dims.",
)


# ------------------------------------------------------------------ reverse


@dataclass(frozen=True, slots=True)
class ReverseAttrs(Attrs):
    """The axis to reverse."""

    axis: int


def _reverse_type(relation: Relation, x: Type, attrs: ReverseAttrs) -> Type:
    ty = tensor(relation, x, "data")
    normalize_axis(relation, attrs.axis, ty.rank)
    return ty


def _reverse_reference(x: Array, attrs: ReverseAttrs) -> Array:
    return np.flip(x, attrs.axis)


def _reverse_compute(x: Tensor, attrs: ReverseAttrs, out_type: TensorType) -> Tensor:
    axis = attrs.axis % len(x.shape)

    def body(*i: Expr) -> Expr:
        return x[(*i[:axis], x.shape[axis] - 1 - i[axis], *i[axis + 1 :])]

    return compute(x.shape, body, "reverse")


reverse = Op(
    name="reverse",
    args=("data",),
    attrs=ReverseAttrs,
    type_rel=_reverse_type,
    reference=_reverse_reference,
    compute=_reverse_compute,
    grad=lambda b, call, dy: [b.reverse(dy, axis=call.attrs.axis)],
    value=by_reference(_reverse_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((2, 3), "float32"),), {"axis": 1}, exact=True),
        Sample((((4,), "int8"),), {"axis": -1}, exact=True),
    ),
    doc="Reverses the order along an axis.",
)


# ------------------------------------------------------------------ broadcast_to


@dataclass(frozen=True, slots=True)
class BroadcastToAttrs(Attrs):
    """The shape to broadcast to."""

    shape: tuple[Dim | int, ...]


def _broadcast_type(relation: Relation, x: Type, attrs: BroadcastToAttrs) -> Type:
    ty, shape = tensor(relation, x, "data"), dims(attrs.shape)
    if ty.rank > len(shape):
        raise relation.fail(f"data of rank {ty.rank} cannot become rank {len(shape)}")
    offset = len(shape) - ty.rank
    for n, d in enumerate(ty.shape):
        stretch(relation, d, shape[offset + n], f"broadcast dim {offset + n}")
    for n, d in enumerate(shape):
        at_least(relation, d, 0, f"dim {n} of the shape")
    return TensorType(shape, ty.dtype)


def _broadcast_reference(x: Array, attrs: BroadcastToAttrs) -> Array:
    return np.broadcast_to(x, [as_int(as_dim(d)) for d in attrs.shape])


def _broadcast_compute(x: Tensor, attrs: BroadcastToAttrs, out_type: TensorType) -> Tensor:
    return compute(out_type.shape, lambda *i: x[broadcast_index(i, x.shape, out_type.shape)], "broadcast_to")


broadcast_to = Op(
    name="broadcast_to",
    args=("data",),
    attrs=BroadcastToAttrs,
    type_rel=_broadcast_type,
    reference=_broadcast_reference,
    compute=_broadcast_compute,
    grad=lambda b, call, dy: [sum_to(b, dy, shape_of(call.args[0]))],
    value=by_reference(_broadcast_reference),
    fusion=Fusion.BROADCAST,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((3, 1), "float32"),), {"shape": (2, 3, 4)}, exact=True),
        Sample((((), "int64"),), {"shape": (2, 0)}, exact=True),
        Sample((((2, 3), "bool"),), {"shape": (2, 3)}, exact=True),
    ),
    doc="Repeats dims of extent 1, and in front, until the shape is reached.",
)


# ------------------------------------------------------------------ tile, repeat


@dataclass(frozen=True, slots=True)
class TileAttrs(Attrs):
    """How often each dim is repeated as a whole; aligned at the end with the input's dims."""

    reps: tuple[Dim | int, ...]


def _tile_parts(shape: Sequence[Dim], attrs: TileAttrs) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Shape and repetitions at the common rank."""
    reps = tuple(as_dim(r) for r in attrs.reps)
    rank = max(len(shape), len(reps))
    one = const(1)
    return (one,) * (rank - len(shape)) + tuple(shape), (one,) * (rank - len(reps)) + reps


def _tile_type(relation: Relation, x: Type, attrs: TileAttrs) -> Type:
    ty = tensor(relation, x, "data")
    shape, reps = _tile_parts(ty.shape, attrs)
    if any(isinstance(r, int) and r < 0 for r in attrs.reps):
        raise relation.fail(f"repetitions must not be negative, got {attrs.reps}")
    for n, r in enumerate(reps):
        at_least(relation, r, 0, f"repetitions of dim {n}")
    return TensorType(tuple(d * r for d, r in zip(shape, reps, strict=True)), ty.dtype)


def _tile_reference(x: Array, attrs: TileAttrs) -> Array:
    return np.tile(x, [as_int(as_dim(r)) for r in attrs.reps])


def _tile_compute(x: Tensor, attrs: TileAttrs, out_type: TensorType) -> Tensor:
    extra = len(out_type.shape) - len(x.shape)
    _, reps = _tile_parts(x.shape, attrs)

    def body(*i: Expr) -> Expr:
        parts = zip(i[extra:], x.shape, reps[extra:], strict=True)
        return x[tuple(v if is_one(r) else const(0) if is_one(d) else v % d for v, d, r in parts)]

    return compute(out_type.shape, body, "tile")


def _summed(b: Builder, dy: Node, parts: Sequence[tuple[Dim, ...]], at: Sequence[int], shape: Sequence[Dim]) -> Node:
    """`dy`, whose dim n is cut into `parts[n]`, summed over the part at[n] of each dim that has several; in `shape`."""
    cut: list[Dim] = []
    summed: list[int] = []
    for dims_, n in zip(parts, at, strict=True):
        summed += [len(cut) + n] if len(dims_) > 1 else []
        cut += dims_
    found = b.sum(in_shape(b, dy, cut), axis=tuple(summed)) if summed else dy
    return in_shape(b, found, shape) if len(shape_of(found)) != len(shape) else found


def _tile_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The sum of all copies."""
    shape = shape_of(call.args[0])
    own, reps = _tile_parts(shape, call.attrs)
    parts = [(d,) if is_one(r) else (r, d) for d, r in zip(own, reps, strict=True)]
    return [_summed(b, dy, parts, [0] * len(parts), shape)]


tile = Op(
    name="tile",
    args=("data",),
    attrs=TileAttrs,
    type_rel=_tile_type,
    reference=_tile_reference,
    compute=_tile_compute,
    grad=_tile_grad,
    value=by_reference(_tile_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((2, 3), "float32"),), {"reps": (2, 1)}, exact=True),
        Sample((((3,), "float32"),), {"reps": (2, 2)}, exact=True),
        Sample((((2, 1, 3), "int32"),), {"reps": (3,)}, exact=True),
        Sample((((2, 3), "float32"),), {"reps": (0, 2)}, exact=True),
        Sample((((0, 3), "float32"),), {"reps": (2, 1, 2)}, exact=True),
    ),
    doc="Repeats the whole tensor along each dim.",
)


@dataclass(frozen=True, slots=True)
class RepeatAttrs(Attrs):
    """How often each element is repeated along `axis`."""

    repeats: Dim | int
    axis: int


def _repeat_type(relation: Relation, x: Type, attrs: RepeatAttrs) -> Type:
    ty = tensor(relation, x, "data")
    axis = normalize_axis(relation, attrs.axis, ty.rank)
    if isinstance(attrs.repeats, int) and attrs.repeats < 0:
        raise relation.fail(f"repeats must not be negative, got {attrs.repeats}")
    at_least(relation, as_dim(attrs.repeats), 0, "repeats")
    return TensorType(tuple(d * attrs.repeats if n == axis else d for n, d in enumerate(ty.shape)), ty.dtype)


def _repeat_reference(x: Array, attrs: RepeatAttrs) -> Array:
    return np.repeat(x, as_int(as_dim(attrs.repeats)), attrs.axis)


def _repeat_compute(x: Tensor, attrs: RepeatAttrs, out_type: TensorType) -> Tensor:
    axis = attrs.axis % len(x.shape)

    def body(*i: Expr) -> Expr:
        return x[(*i[:axis], i[axis] // as_dim(attrs.repeats), *i[axis + 1 :])]

    return compute(out_type.shape, body, "repeat")


def _repeat_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The sum of each element's copies."""
    shape, times = shape_of(call.args[0]), as_dim(call.attrs.repeats)
    axis = call.attrs.axis % len(shape)
    parts = [(d, times) if n == axis else (d,) for n, d in enumerate(shape)]
    return [_summed(b, dy, parts, [1] * len(parts), shape)]


repeat = Op(
    name="repeat",
    args=("data",),
    attrs=RepeatAttrs,
    type_rel=_repeat_type,
    reference=_repeat_reference,
    compute=_repeat_compute,
    grad=_repeat_grad,
    value=by_reference(_repeat_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((2, 3), "float32"),), {"repeats": 2, "axis": 1}, exact=True),
        Sample((((2, 3), "float32"),), {"repeats": 3, "axis": -2}, exact=True),
        Sample((((2,), "int64"),), {"repeats": 0, "axis": 0}, exact=True),
        Sample((((2, 3), "float32"),), {"repeats": 0, "axis": 0}, exact=True),
        Sample((((0, 3), "float32"),), {"repeats": 2, "axis": 0}, exact=True),
    ),
    doc="Repeats each element along an axis.",
)
