"""Sequences and optional values. A sequence whose length is known is a tuple, one of any length a List."""

from __future__ import annotations

from collections.abc import Iterable

from legato.arith.expr import Const
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.containers import (
    as_list,
    element_of,
    get_element,
    has_element,
    is_list,
    is_option,
    joined_list,
    nothing,
    several,
    some,
    taken_apart,
)
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.inputs import Dims, contained_type
from legato.frontend.onnx.proto import TypeProto
from legato.ir.expr import Expr
from legato.ir.types import UNIT, TensorType, TupleType

_PARTS = 10_000  # that a tensor is split into


def _items(b: Emitter, xs: Expr) -> tuple[Expr, ...] | None:
    """The elements of a sequence of known length; None of one of any length."""
    if isinstance(xs.ty, TupleType):
        return tuple(b.get(xs, n) for n in range(len(xs.ty.fields)))
    if not is_list(xs.ty):
        raise ImportModelError(f"an input of type {xs.ty}, wanted a sequence")
    return None


def _require_tensors(b: Emitter, items: Iterable[Expr]) -> None:
    """ONNX has sequences of tensors alone; UnsupportedError for others."""
    for x in items:
        b.type_of(x)


def _number(b: Emitter, position: Expr) -> int | None:
    """A position, where it is known."""
    found = b.array(position)
    return None if found is None else int(b.scalar(position, "the position"))


def _place(position: int, count: int, most: int) -> int:
    """A position in a sequence of `count` elements, counted from the front."""
    if not -count <= position <= most:
        raise ImportModelError(f"position {position} in a sequence of {count} elements")
    return position % count if position < 0 else position


def _position(b: Emitter, xs: Expr, position: Expr) -> Expr:
    return b.prelude("sequence_position", xs, b.to(b.reshape(position, newshape=()), dt.int64))


def sequence_construct(b: Emitter, *inputs: Expr) -> tuple[Expr]:
    _require_tensors(b, inputs)
    return (b.tuple_(inputs),)


def sequence_empty(b: Emitter, *, dtype: int = 1) -> tuple[Expr]:
    return (b.tuple_(()),)


def sequence_length(b: Emitter, xs: Expr) -> Expr:
    items = _items(b, xs)
    return b.prelude("sequence_length", xs) if items is None else b.constant(len(items), dt.int64)


def sequence_at(b: Emitter, xs: Expr, position: Expr) -> tuple[Expr]:
    items, at = _items(b, xs), _number(b, position)
    if items is not None and at is not None:
        return (items[_place(at, len(items), len(items) - 1)],)
    xs = as_list(b, xs, "the sequence")
    rest = b.prelude("sequence_from", xs, _position(b, xs, position))
    return (taken_apart(b, rest, lambda x, _: x, None),)  # the program ends at this node where nothing is there


def sequence_insert(b: Emitter, xs: Expr, x: Expr, position: Expr | None = None) -> tuple[Expr]:
    _require_tensors(b, (x,))
    items = _items(b, xs)
    at = None if position is None else _number(b, position)
    if items is not None and (position is None or at is not None):
        n = len(items) if at is None else _place(at, len(items), len(items))
        return (b.tuple_((*items[:n], x, *items[n:])),)
    if items == ():
        return (b.tuple_((x,)),)
    xs = as_list(b, xs, "the sequence")
    assert x.ty is not None
    if element_of(xs) != x.ty:
        raise UnsupportedError(several("the sequence", element_of(xs), x.ty))
    place = b.prelude("sequence_length", xs) if position is None else _position(b, xs, position)
    return (b.prelude("sequence_insert", xs, place, x),)


def sequence_erase(b: Emitter, xs: Expr, position: Expr | None = None) -> tuple[Expr]:
    items = _items(b, xs)
    at = -1 if position is None else _number(b, position)
    if items is not None and at is not None:
        n = _place(at, len(items), len(items) - 1)
        return (b.tuple_((*items[:n], *items[n + 1 :])),)
    xs = as_list(b, xs, "the sequence")
    place = b.constant(-1, dt.int64) if position is None else position
    return (b.prelude("sequence_erase", xs, _position(b, xs, place)),)


def concat_from_sequence(b: Emitter, xs: Expr, *, axis: int, new_axis: int = 0) -> Expr:
    items = _items(b, xs)
    if items is None:
        element = element_of(xs)
        if not isinstance(element, TensorType):
            raise UnsupportedError(f"a sequence of {element}")
        return joined_list(b, xs, b.axis(axis, element.rank + bool(new_axis)), new=bool(new_axis))
    if not items:
        raise ImportModelError("ConcatFromSequence of a sequence without elements")
    place = b.axis(axis, b.rank(items[0]) + bool(new_axis))
    parts = [b.expand_dims(x, axis=place) for x in items] if new_axis else items
    return b.concatenate(tuple(parts), axis=place)


def split_to_sequence(
    b: Emitter, x: Expr, split: Expr | None = None, *, axis: int = 0, keepdims: int = 1
) -> tuple[Expr]:
    along = b.axis(axis, b.rank(x))
    sizes = _sizes(b, x, split, along)
    parts, begin = [], 0
    for size in sizes:
        part = b.strided_slice(x, begin=(begin,), end=(begin + size,), strides=(1,), axes=(along,))
        parts.append(b.squeeze(part, axis=(along,)) if split is None and not keepdims else part)
        begin += size
    return (b.tuple_(parts),)


def _sizes(b: Emitter, x: Expr, split: Expr | None, axis: int) -> tuple[int, ...]:
    """The extents of the parts along `axis`."""
    extent = b.dims_of(x)[axis]
    if split is not None and b.rank(split):
        found = b.ints(split, "how the tensor is split")
        if min(found, default=0) < 0 or (isinstance(extent, Const) and sum(found) != extent.value):
            raise ImportModelError(f"parts of extents {list(found)} of an extent of {extent}")
        return found
    if not isinstance(extent, Const):
        raise UnsupportedError(f"the extent that is split is symbolic, {extent}: it must be known")
    total = int(extent.value)
    size = 1 if split is None else b.ints(split, "how the tensor is split")[0]
    if size <= 0:
        raise ImportModelError(f"parts of extent {size}")
    if total // size > _PARTS:
        raise UnsupportedError(f"a sequence of {total // size} parts: {_PARTS} are the most")
    return (size,) * (total // size) + ((total % size,) if total % size else ())


def optional(b: Emitter, x: Expr | None = None, *, type: TypeProto | None = None) -> tuple[Expr]:
    if x is not None:
        return (some(x),)
    known = type is not None and type.WhichOneof("value") is not None
    return (nothing(contained_type(type, "the optional value", Dims()) if type is not None and known else UNIT),)


def optional_has_element(b: Emitter, x: Expr | None = None) -> Expr:
    if x is None:
        return b.constant(False, dt.bool_)
    return has_element(b, x) if is_option(x.ty) else b.constant(True, dt.bool_)


def optional_get_element(b: Emitter, x: Expr) -> tuple[Expr]:
    return (get_element(b, x) if is_option(x.ty) else x,)
