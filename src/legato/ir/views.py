"""`join` and `part`: values that are no computation, because of where other values lie in memory.

    join((a, b, …), axis)        the tensors one after the other along `axis`, in memory as here: nothing is copied
    part(x, begin, shape)        the block of `x` from `begin` on, where it lies

`lower` makes them. As values they are like any other: what they mean does not depend on how it comes about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.span import Span
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr, tuple_of
from legato.ir.op import Op, Relation
from legato.ir.types import Dim, TensorType, TupleType, Type

__all__ = ["JOIN", "PART", "VIEWS", "JoinAttrs", "PartAttrs", "join", "part"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class JoinAttrs(Attrs):
    """The dimension along which the tensors follow each other."""

    axis: int


@dataclass(frozen=True, slots=True)
class PartAttrs(Attrs):
    """Where the block begins, and its extents."""

    begin: tuple[Dim, ...]
    shape: tuple[Dim, ...]


def _join_type(relation: Relation, data: Type, attrs: JoinAttrs) -> Type:
    if not isinstance(data, TupleType) or not data.fields:
        raise relation.fail(f"data must be tensors, got {data}")
    first, *others = data.fields
    if not isinstance(first, TensorType) or attrs.axis not in range(first.rank):
        raise relation.fail(f"data[0] must be a tensor with a dim {attrs.axis}, got {first}")
    shape = list(first.shape)
    for n, ty in enumerate(others, 1):
        if not isinstance(ty, TensorType) or ty.rank != first.rank or ty.dtype != first.dtype:
            raise relation.fail(f"data[{n}] must be like data[0], {first}, but for dim {attrs.axis}; got {ty}")
        for k, d in enumerate(ty.shape):
            shape[k] = shape[k] + d if k == attrs.axis else relation.same(shape[k], d, f"data[{n}], dim {k}")
    return TensorType(tuple(shape), first.dtype)


def _part_type(relation: Relation, x: Type, attrs: PartAttrs) -> Type:
    if not isinstance(x, TensorType) or x.rank != len(attrs.begin) or x.rank != len(attrs.shape):
        raise relation.fail(f"begin and shape have {len(attrs.begin)} and {len(attrs.shape)} entries, got {x}")
    return TensorType(attrs.shape, x.dtype)


def _join_reference(data: tuple[Array, ...], attrs: JoinAttrs) -> Array:
    return np.concatenate(data, attrs.axis)


def _part_reference(x: Array, attrs: PartAttrs) -> Array:
    return x[tuple(slice(_int(b), _int(b) + _int(n)) for b, n in zip(attrs.begin, attrs.shape, strict=True))]


def _int(dim: Dim) -> int:
    assert isinstance(dim, Const)  # the interpreter gives every dim its value
    return int(dim.value)


JOIN = Op(
    name="join",
    args=("*data",),
    attrs=JoinAttrs,
    type_rel=_join_type,
    reference=_join_reference,
    strings=True,
    doc="Tensors one after the other along an axis, in the memory of which they are parts.",
)
PART = Op(
    name="part",
    args=("x",),
    attrs=PartAttrs,
    type_rel=_part_type,
    reference=_part_reference,
    strings=True,
    doc="A block of a tensor, where it lies in memory.",
)
VIEWS = (JOIN, PART)


def join(parts: Sequence[Expr], axis: int, ty: Type, span: Span | None = None) -> Call:
    """The call of `join` that has type `ty`."""
    return Call(JOIN, (tuple_of(parts),), JoinAttrs(axis), ty=ty, span=span)


def part(x: Expr, begin: Sequence[Dim], ty: TensorType, span: Span | None = None) -> Call:
    """The typed call of `part` that has type `ty`."""
    return Call(PART, (x,), PartAttrs(tuple(begin), ty.shape), ty=ty, span=span)
