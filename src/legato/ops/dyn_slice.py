"""Slices and ranges whose bounds the program computes: dyn.strided_slice and dyn.arange."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from legato.arith.expr import Const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import RunError
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._computed import (
    as_dims,
    range_count,
    require,
    slice_bounds,
    slice_places,
    stacked,
    wide,
)
from legato.ops._dynamic import Dynamic, known_count, known_numbers
from legato.ops._families import quiet
from legato.ops._rules import NUMBER, normalize_axes, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array
from legato.ops.create import ArangeAttrs
from legato.ops.create import arange as arange_
from legato.ops.slice import strided_slice as slice_

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["DynArangeAttrs", "DynStridedSliceAttrs"]

# ------------------------------------------------------------------ strided_slice


@dataclass(frozen=True, slots=True)
class DynStridedSliceAttrs(Attrs):
    """`axes`: those that are cut (None: the first ones); `slice_mode`: "end", or "size": `end` holds extents."""

    axes: tuple[int, ...] | None = None
    slice_mode: str = "end"


def _shape(rel: Relation, types: dict[str, Any], own: DynStridedSliceAttrs) -> Type:
    ty = tensor(rel, types["data"], "data")
    counts = [known_count(rel, types[name], name) for name in ("begin", "end", "strides")]
    axes = range(counts[0]) if own.axes is None else own.axes
    if len({len(axes), *counts[:2]}) > 1 or not counts[2] or counts[2] not in (1, len(axes)):
        raise rel.fail(f"begin, end, strides and axes have {', '.join(map(str, counts))} and {len(axes)} entries")
    if own.slice_mode not in ("end", "size"):
        raise rel.fail(f"slice_mode must be 'end' or 'size', got {own.slice_mode!r}")
    along = normalize_axes(rel, tuple(axes), ty.rank)
    return TensorType(tuple(rel.fresh("cut") if n in along else d for n, d in enumerate(ty.shape)), ty.dtype)


def _expand(b: Builder, args: dict[str, Expr], own: DynStridedSliceAttrs) -> Expr:
    x, steps = args["data"], known_numbers(b, args["strides"])
    assert isinstance(x.ty, TensorType)
    begin, end = (wide(b, b.reshape(args[name], newshape=(-1,))) for name in ("begin", "end"))
    assert isinstance(begin.ty, TensorType)
    count = begin.ty.static_shape()[0]
    axes = tuple(a % x.ty.rank for a in (range(count) if own.axes is None else own.axes))
    extents = b.take(b.shape_of(x, dtype=dt.int64), b.constant(np.array(axes, np.int64)), axis=0, mode="fast")
    if own.slice_mode == "size":
        return _of_size(b, args, axes, extents)
    if steps is not None and all(s > 0 for s in steps):
        first, last = (as_dims(b, p, "bound") for p in slice_bounds(b, begin, end, extents))
        return b.strided_slice(x, begin=first, end=last, strides=steps, axes=axes)
    strides = b.broadcast_to(wide(b, b.reshape(args["strides"], newshape=(-1,))), shape=(count,))
    starts, counts = slice_places(b, begin, end, strides, extents, least=-1)
    for n, (axis, length) in enumerate(zip(axes, as_dims(b, counts, "cut"), strict=True)):
        at, step = (b.take(v, b.constant(n, dt.int64), axis=0, mode="fast") for v in (starts, strides))
        places = b.add(at, b.multiply(b.arange(stop=length, dtype=dt.int64), step))
        x = b.take(x, places, axis=axis, mode="fast")
    return x


def _of_size(b: Builder, args: dict[str, Expr], axes: tuple[int, ...], extents: Expr) -> Expr:
    """Sizes behind each begin; -1 goes to the end. Steps are 1."""
    one, steps = b.constant(1, dt.int64), wide(b, b.reshape(args["strides"], newshape=(-1,)))
    require(b, b.all(b.equal(steps, one), axis=(0,)), "strides")
    begin, size = (wide(b, b.reshape(args[name], newshape=(-1,))) for name in ("begin", "end"))
    first, _ = slice_bounds(b, begin, extents, extents)
    behind = b.minimum(b.add(first, b.minimum(size, extents)), extents)
    last = b.where(b.equal(size, b.constant(-1, dt.int64)), extents, b.maximum(behind, first))
    bounds = [as_dims(b, p, "bound") for p in (first, last)]
    return b.strided_slice(args["data"], begin=bounds[0], end=bounds[1], strides=(1,) * len(axes), axes=axes)


_X = ((5, 6), "float32")
strided_slice = Dynamic(
    slice_,
    ("data", "begin", "end", "strides"),
    DynStridedSliceAttrs,
    shape=_shape,
    expand=_expand,
    extents=False,
).record(
    "dyn.strided_slice",
    samples=(
        Sample((_X, np.array([1, 2]), np.array([4, -1]), np.array([1, 2])), exact=True),
        Sample((_X, np.array([-1]), np.array([-9]), np.array([-2])), {"axes": (1,)}, exact=True),
        Sample((_X, np.array([1, 1]), np.array([2, -1]), np.array([1])), {"slice_mode": "size"}, exact=True),
    ),
    doc="""A rectangular part of a tensor, with steps.

As in Python: bounds below 0 count from the end, and bounds outside are clamped.""",
)

# ------------------------------------------------------------------ arange


@dataclass(frozen=True, slots=True)
class DynArangeAttrs(Attrs):
    """The dtype of the arguments, where it is said."""

    dtype: DType | None = None


def _arange_type(rel: Relation, start: Type, stop: Type, step: Type, a: DynArangeAttrs) -> Type | None:
    types = [tensor(rel, ty, name) for ty, name in ((start, "start"), (stop, "stop"), (step, "step"))]
    for ty in types:
        require_rank(rel, ty, 0, what="bounds and the step")
    dtype = same_dtype(rel, *types)
    require_dtype(rel, types[0], NUMBER, "start")
    if a.dtype is not None and a.dtype != dtype:
        raise rel.fail(f"the arguments have dtype {dtype}, wanted {a.dtype}", hint="use cast")
    first, last, by = (v[0] if (v := rel.value(n)) is not None else None for n in range(3))
    if first is None or last is None or not isinstance(by, Const):
        return TensorType((rel.fresh("numbers"),), dtype)
    return arange_.type_rel(rel, ArangeAttrs(last, first, int(by.value), dtype))


def _arange_reference(start: Array, stop: Array, step: Array, a: DynArangeAttrs) -> Array:
    numbers = [v.astype(np.float64 if dt.dtype(v.dtype).is_float else object).item() for v in (start, stop, step)]
    if numbers[2] == 0 or not all(map(math.isfinite, numbers)):
        raise RunError(f"dyn.arange: got {start}, {stop} and {step}, wanted finite numbers and a step that is not 0")
    first, last, by = numbers
    count = max(math.ceil((last - first) / by) if isinstance(by, float) else -((first - last) // by), 0)
    return np.asarray(start + np.arange(count).astype(start.dtype) * step).astype(start.dtype)


def _arange(b: Builder, start: Expr, stop: Expr, step: Expr, a: DynArangeAttrs) -> Expr:
    assert isinstance(start.ty, TensorType)
    dtype = start.ty.dtype
    (count,) = as_dims(b, stacked(b, [range_count(b, start, stop, step)]), "numbers")
    places = b.arange(stop=count, dtype=dtype if dtype.is_int else dt.int64)
    return b.add(start, b.multiply(places if dtype.is_int else b.cast(places, dtype=dtype), step))


arange = Op(
    name="dyn.arange",
    args=("start", "stop", "step"),
    attrs=DynArangeAttrs,
    type_rel=_arange_type,
    reference=quiet(_arange_reference),
    expand=_arange,
    samples=(
        Sample((np.array(7, np.int64), np.array(-2, np.int64), np.array(-3, np.int64)), exact=True),
        Sample((np.array(0.5, np.float32), np.array(2, np.float32), np.array(0.25, np.float32))),
        Sample((np.array(3, np.int32), np.array(3, np.int32), np.array(1, np.int32)), exact=True),
    ),
    doc="start, start + step, … up to but without stop.",
)
