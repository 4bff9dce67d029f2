"""Operators that put tensors together and take them apart: concatenate, stack, split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

import legato.te.math as te
from legato.arith.expr import Const, Expr, const
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ops._families import Array
from legato.ops._gradients import Contribution, extents, shape_of
from legato.ops._moving import as_dim, as_int, by_reference
from legato.ops._rules import at_least, known_dim, normalize_axis, same_dtype, tensor, tensors
from legato.te.tensor import Tensor, compute

__all__ = ["ConcatenateAttrs", "SplitAttrs", "StackAttrs"]

MAX_PARTS: Final = 50_000  # a type has no more


@dataclass(frozen=True, slots=True)
class ConcatenateAttrs(Attrs):
    """The axis along which the tensors follow each other."""

    axis: int = 0


@dataclass(frozen=True, slots=True)
class StackAttrs(Attrs):
    """The position of the new axis in the result."""

    axis: int = 0


@dataclass(frozen=True, slots=True)
class SplitAttrs(Attrs):
    """The number of equal parts, or the positions at which to cut, along `axis`."""

    indices_or_sections: int | tuple[Dim | int, ...]
    axis: int = 0


# ------------------------------------------------------------------ concatenate


def _concatenate_type(relation: Relation, data: Type, attrs: ConcatenateAttrs) -> Type:
    parts = tensors(relation, data, "data")
    axis = normalize_axis(relation, attrs.axis, parts[0].rank)
    dtype = same_dtype(relation, *parts)
    shape = list(parts[0].shape)
    for n, part in enumerate(parts[1:], 1):
        if part.rank != len(shape):
            raise relation.fail(f"data[{n}] has rank {part.rank}, data[0] has rank {len(shape)}")
        for k, d in enumerate(part.shape):
            shape[k] = shape[k] + d if k == axis else relation.same(shape[k], d, f"data[{n}], dim {k}")
    return TensorType(tuple(shape), dtype)


def _concatenate_reference(data: tuple[Array, ...], attrs: ConcatenateAttrs) -> Array:
    return np.concatenate(data, attrs.axis)


def _concatenate_compute(data: tuple[Tensor, ...], attrs: ConcatenateAttrs, out_type: TensorType) -> Tensor:
    axis = attrs.axis % len(out_type.shape)
    starts: list[Expr] = [const(0)]
    for part in data[:-1]:
        starts.append(starts[-1] + part.shape[axis])

    def body(*i: Expr) -> Expr:
        chosen: Expr = data[-1][(*i[:axis], i[axis] - starts[-1], *i[axis + 1 :])]
        for n in reversed(range(len(data) - 1)):
            mine = data[n][(*i[:axis], i[axis] - starts[n], *i[axis + 1 :])]
            chosen = te.select(te.lt(i[axis], starts[n + 1]), mine, chosen)
        return chosen

    return compute(out_type.shape, body, "concatenate")


def _part_types(call: Call) -> tuple[TensorType, ...]:
    """The types of the tensors that a call puts together."""
    (data,) = call.args
    assert isinstance(data.ty, TupleType)
    return tuple(f for f in data.ty.fields if isinstance(f, TensorType))


def _concatenate_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The parts of `dy`."""
    parts, axis = _part_types(call), call.attrs.axis % len(shape_of(dy))
    if len(parts) == 1:
        return [(dy,)]
    cuts = tuple(accumulate(p.shape[axis] for p in parts[:-1]))
    found = b.split(dy, indices_or_sections=extents(cuts), axis=axis)
    return [tuple(b.get(found, n) for n in range(len(parts)))]


concatenate = Op(
    name="concatenate",
    args=("*data",),
    attrs=ConcatenateAttrs,
    type_rel=_concatenate_type,
    reference=_concatenate_reference,
    compute=_concatenate_compute,
    grad=_concatenate_grad,
    value=by_reference(_concatenate_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((2, 3), "float32"), ((2, 1), "float32")), {"axis": 1}, exact=True),
        Sample((((2, 3), "float32"), ((0, 3), "float32"), ((4, 3), "float32")), {"axis": -2}, exact=True),
        Sample((((3,), "int64"),), exact=True),
        Sample((((3,), "float32"),), exact=True),
    ),
    doc="The tensors one after the other along an axis.",
)


# ------------------------------------------------------------------ stack


def _stack_type(relation: Relation, data: Type, attrs: StackAttrs) -> Type:
    parts = tensors(relation, data, "data")
    axis = normalize_axis(relation, attrs.axis, parts[0].rank + 1)
    dtype = same_dtype(relation, *parts)
    shape = parts[0].shape
    for n, part in enumerate(parts[1:], 1):
        if part.rank != len(shape):
            raise relation.fail(f"data[{n}] has rank {part.rank}, data[0] has rank {len(shape)}")
        shape = tuple(
            relation.same(a, b, f"data[{n}], dim {k}") for k, (a, b) in enumerate(zip(shape, part.shape, strict=True))
        )
    return TensorType((*shape[:axis], const(len(parts)), *shape[axis:]), dtype)


def _stack_reference(data: tuple[Array, ...], attrs: StackAttrs) -> Array:
    return np.stack(data, attrs.axis)


def _stack_compute(data: tuple[Tensor, ...], attrs: StackAttrs, out_type: TensorType) -> Tensor:
    axis = attrs.axis % len(out_type.shape)

    def body(*i: Expr) -> Expr:
        inner = (*i[:axis], *i[axis + 1 :])
        chosen: Expr = data[-1][inner]
        for n in reversed(range(len(data) - 1)):
            chosen = te.select(te.eq(i[axis], const(n)), data[n][inner], chosen)
        return chosen

    return compute(out_type.shape, body, "stack")


def _stack_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The parts of `dy`, without the axis along which they lie."""
    count, axis = len(_part_types(call)), call.attrs.axis % len(shape_of(dy))
    found = b.split(dy, indices_or_sections=count, axis=axis)
    return [tuple(b.squeeze(b.get(found, n), axis=axis) for n in range(count))]


stack = Op(
    name="stack",
    args=("*data",),
    attrs=StackAttrs,
    type_rel=_stack_type,
    reference=_stack_reference,
    compute=_stack_compute,
    grad=_stack_grad,
    value=by_reference(_stack_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((2, 3), "float32"), ((2, 3), "float32")), {"axis": 1}, exact=True),
        Sample((((), "int64"), ((), "int64"), ((), "int64")), exact=True),
        Sample((((2,), "float32"), ((2,), "float32")), {"axis": -1}, exact=True),
        Sample((((0, 2), "float32"),), {"axis": 1}, exact=True),
    ),
    doc="Tensors of one shape side by side along a new axis.",
)


# ------------------------------------------------------------------ split


def _cuts(extent: Dim, attrs: SplitAttrs) -> list[Dim]:
    """Where the parts begin, and where the last one ends."""
    if isinstance(attrs.indices_or_sections, int):
        step = extent // attrs.indices_or_sections
        return [step * n for n in range(attrs.indices_or_sections)] + [extent]
    return [const(0), *(as_dim(i) for i in attrs.indices_or_sections), extent]


def _split_type(relation: Relation, x: Type, attrs: SplitAttrs) -> Type:
    ty = tensor(relation, x, "data")
    axis = normalize_axis(relation, attrs.axis, ty.rank)
    extent = known_dim(ty.shape[axis])
    sections = attrs.indices_or_sections
    if isinstance(sections, int):
        if sections < 1:
            raise relation.fail(f"the number of parts must be positive, got {sections}")
        if sections > MAX_PARTS:
            raise relation.fail(f"a tuple has at most {MAX_PARTS} parts, got {sections}")
        if isinstance(extent, Const) and extent.value % sections:
            raise relation.fail(f"dim {axis} of {extent} does not divide into {sections} equal parts")
        step = extent // sections
        relation.same(step * sections, extent, f"dim {axis}, split into {sections} equal parts")
        lengths: list[Dim] = [step] * sections
    else:
        cuts = _cuts(extent, attrs)
        lengths = [b - a for a, b in pairwise(cuts)]
        if any(isinstance(d, Const) and d.value < 0 for d in lengths):
            raise relation.fail(f"the cuts {sections} are not ascending within dim {axis} of {extent}")
        for d in lengths:
            at_least(relation, d, 0, f"the length of a part of dim {axis}")
    shapes = [(*ty.shape[:axis], d, *ty.shape[axis + 1 :]) for d in lengths]
    return TupleType(tuple(TensorType(s, ty.dtype) for s in shapes))


def _split_reference(x: Array, attrs: SplitAttrs) -> tuple[Array, ...]:
    axis = attrs.axis % x.ndim
    cuts = [as_int(c) for c in _cuts(const(x.shape[axis]), attrs)]
    before = (slice(None),) * axis
    return tuple(x[(*before, slice(a, b))] for a, b in pairwise(cuts))


def _split_compute(x: Tensor, attrs: SplitAttrs, out_type: TupleType) -> tuple[Tensor, ...]:
    axis = attrs.axis % len(x.shape)
    cuts = _cuts(x.shape[axis], attrs)
    return tuple(_part(x, axis, start, ty) for start, ty in zip(cuts, out_type.fields, strict=False))


def _part(x: Tensor, axis: int, start: Dim, ty: Type) -> Tensor:
    assert isinstance(ty, TensorType)
    return compute(ty.shape, lambda *i: x[(*i[:axis], i[axis] + start, *i[axis + 1 :])], "split")


def _split_value(x: Sequence[Dim] | None, attrs: SplitAttrs, ty: TensorType) -> tuple[tuple[Dim, ...], ...] | None:
    sections = attrs.indices_or_sections
    if x is None or ty.rank != 1 or (isinstance(sections, tuple) and not all(isinstance(s, int) for s in sections)):
        return None
    cuts = [as_int(c) for c in _cuts(const(len(x)), attrs)]
    return tuple(tuple(x[a:b]) for a, b in pairwise(cuts))


def _split_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The parts of `dy` one after the other."""
    assert isinstance(dy.ty, TupleType)
    axis = call.attrs.axis
    return [b.concatenate([b.get(dy, n) for n in range(len(dy.ty.fields))], axis=axis)]


split = Op(
    name="split",
    args=("data",),
    attrs=SplitAttrs,
    type_rel=_split_type,
    reference=_split_reference,
    compute=_split_compute,
    grad=_split_grad,
    value=_split_value,  # type: ignore[arg-type]  # the value of a tuple is a tuple of values
    fusion=Fusion.INJECTIVE,
    strings=True,
    samples=(
        Sample((((6, 2), "float32"),), {"indices_or_sections": 3}, exact=True),
        Sample((((2, 7), "float32"),), {"indices_or_sections": (2, 5), "axis": 1}, exact=True),
        Sample((((2, 3), "int32"),), {"indices_or_sections": (0, 3), "axis": -1}, exact=True),
        Sample((((4,), "float32"),), {"indices_or_sections": 1}, exact=True),
    ),
    doc="Parts of a tensor along an axis, as a tuple.",
)
