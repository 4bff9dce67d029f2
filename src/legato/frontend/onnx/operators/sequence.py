"""Sequences and optional values. A sequence whose length is known is a tuple, one of any length a List."""

from __future__ import annotations

from collections.abc import Iterable

from legato.arith.expr import Const, cdiv, const, expr, lt, max_
from legato.arith.prove import provably_different, prove
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.cells import contents
from legato.frontend.onnx.computed import bounds_of_slice
from legato.frontend.onnx.containers import (
    as_list,
    coerced,
    consed,
    element_of,
    element_type,
    get_element,
    has_element,
    is_list,
    is_option,
    joined_list,
    list_of_parts,
    list_type,
    nothing,
    some,
    taken_apart,
)
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.inputs import Dims, contained_type
from legato.frontend.onnx.proto import TypeProto
from legato.ir.expr import Expr
from legato.ir.types import UNIT, Dim, TupleType

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
    xs, x = _with_room(b, xs, x)
    place = b.prelude("sequence_length", xs) if position is None else _position(b, xs, position)
    longer = b.prelude("sequence_from", consed(b, x, xs), place)  # has an element where one more is possible
    return (taken_apart(b, longer, lambda *_: b.prelude("sequence_insert", xs, place, x), None),)


def _with_room(b: Emitter, xs: Expr, x: Expr) -> tuple[Expr, Expr]:
    """A sequence as a List whose elements are of a type that `x` can have, and `x` as this."""
    own = xs.ty.fields if isinstance(xs.ty, TupleType) else (element_of(xs),)
    element = element_type(b, [*own, b.type_of(x)], "the sequence")
    return coerced(b, xs, list_type(element)), coerced(b, x, element)


def sequence_erase(b: Emitter, xs: Expr, position: Expr | None = None) -> tuple[Expr]:
    items = _items(b, xs)
    at = -1 if position is None else _number(b, position)
    if items is not None and at is not None:
        n = _place(at, len(items), len(items) - 1)
        return (b.tuple_((*items[:n], *items[n + 1 :])),)
    xs = as_list(b, xs, "the sequence")
    place = _position(b, xs, b.constant(-1, dt.int64) if position is None else position)
    rest = b.prelude("sequence_from", xs, place)
    return (taken_apart(b, rest, lambda *_: b.prelude("sequence_erase", xs, place), None),)


def concat_from_sequence(b: Emitter, xs: Expr, *, axis: int, new_axis: bool = False) -> Expr:
    items = _items(b, xs)
    if items is None:
        element = element_of(xs)
        tensor = contents(b, element)
        if tensor is None:
            raise UnsupportedError(f"a sequence of {element}")
        return joined_list(b, xs, b.axis(axis, tensor.rank + new_axis), new=new_axis)
    if not items:
        raise ImportModelError("ConcatFromSequence of a sequence without elements")
    place = b.axis(axis, b.rank(items[0]) + new_axis)
    parts = [b.expand_dims(x, axis=place) for x in items] if new_axis else items
    return b.concatenate(tuple(parts), axis=place)


def split_to_sequence(
    b: Emitter, x: Expr, split: Expr | None = None, *, axis: int = 0, keepdims: bool = True
) -> tuple[Expr]:
    """A tuple where it is known how many parts there are, else a List. Without `split` their extent is 1."""
    along = b.axis(axis, b.rank(x))
    sizes = _sizes(b, b.dims_of(x)[along], split)
    squeezes = split is None and not keepdims
    if sizes is None:
        return (_parts_by_position(b, x, split, along, squeezes=squeezes),)
    parts, begin = list[Expr](), expr(0)
    for size in sizes:
        end = simplify(begin + size)
        part = b.strided_slice(x, begin=(begin,), end=(end,), strides=(1,), axes=(along,))
        parts.append(b.squeeze(part, axis=(along,)) if squeezes else part)
        begin = end
    return (b.tuple_(parts),)


def _sizes(b: Emitter, extent: Dim, split: Expr | None) -> tuple[Dim, ...] | None:
    """The extents of the parts of an extent, which must add up to it; None where it is not known how many there are."""
    if split is not None and b.rank(split):
        return _given_sizes(b, extent, split) if isinstance(b.dims_of(split)[0], Const) else None
    each: Dim | None = const(1) if split is None else (b.known_dims(split) or (None,))[0]
    if isinstance(each, Const) and each.value <= 0:
        raise ImportModelError(f"parts of extent {each}")
    if not isinstance(each, Const) or not isinstance(extent, Const):
        return None
    count, rest = divmod(int(extent.value), int(each.value))
    if count > _PARTS:
        raise UnsupportedError(f"a sequence of {count} parts: {_PARTS} are the most")
    return (each,) * count + ((const(rest),) if rest else ())


def _given_sizes(b: Emitter, extent: Dim, split: Expr) -> tuple[Dim, ...]:
    found = b.dims(split, "the extents of the parts")
    total = simplify(sum(found, const(0)))
    if provably_different(total, extent) or any(prove(lt(size, 0)) for size in found):
        raise ImportModelError(f"parts of extents {', '.join(map(str, found))} of an extent of {extent}")
    b.require(total, extent, "extents of the parts")
    return found


def _parts_by_position(b: Emitter, x: Expr, split: Expr | None, axis: int, *, squeezes: bool) -> Expr:
    """The List of the parts of `x` along `axis`."""
    whole, extent = b.let("whole", x), b.dims_of(x)[axis]
    if split is None:
        end = b.constant(1, dt.int64)
        return list_of_parts(b, extent, lambda i: _part(b, whole, axis, i, None if squeezes else b.add(i, end)))
    count, ends, sizes = _ends(b, split, extent)
    begins, ends = b.let("begins", b.subtract(ends, sizes)), b.let("ends", b.minimum(ends, b.extent(extent, dt.int64)))
    return list_of_parts(b, count, lambda i: _part(b, whole, axis, *(b.take(v, i, axis=0) for v in (begins, ends))))


def _ends(b: Emitter, split: Expr, extent: Dim) -> tuple[Dim, Expr, Expr]:
    """How many parts there are, where each ends (int64; the last one at `extent` or behind it), how long each is."""
    split = b.to(split, dt.int64)
    if not b.rank(split):
        size = b.dim(split, "the extent of a part")
        b.require_least(size, const(1), "the extent of a part")
        count = simplify(cdiv(extent, max_(size, const(1))))
        places = b.arange(start=const(1), stop=simplify(count + 1), step=1, dtype=dt.int64)
        return count, b.multiply(places, split), split
    below = b.sum(b.cast(b.less(split, b.constant(0, dt.int64)), dtype=dt.int64), axis=(0,))
    b.require(b.dim(below, "parts"), const(0), "parts of extents below 0")
    b.require(b.dim(b.sum(split, axis=(0,)), "the extents of the parts"), extent, "extents of the parts")
    return b.dims_of(split)[0], b.cumsum(split, axis=0), split


def _part(b: Emitter, x: Expr, axis: int, begin: Expr, end: Expr | None) -> Expr:
    """What is between two positions, or, without `end`, at one."""
    if end is None:
        return b.take(x, begin, axis=axis, mode="fast")
    first, last = bounds_of_slice(b, begin, end, b.dims_of(x)[axis], 1)
    return b.strided_slice(x, begin=(first,), end=(last,), strides=(1,), axes=(axis,))


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
