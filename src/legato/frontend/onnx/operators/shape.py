"""Shapes: asking for them, changing them, making tensors of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legato.arith.assume import surely_equal
from legato.arith.broadcast import broadcast
from legato.arith.expr import Const, cdiv, const, eq, expr, lt, max_, min_, select
from legato.arith.prove import provably_different, prove, prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.axes import by_axis, known_axes, over_axes
from legato.frontend.onnx.computed import (
    bounds_of_slice,
    copied_for_zeros,
    places_of_slice,
    range_of,
    reshaped_dims,
    signed_dims,
)
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr
from legato.ir.types import Dim, TensorType

Array = NDArray[Any]

_TO_THE_END = 10**9

# ------------------------------------------------------------------ constants and shapes as tensors


def constant(
    b: Emitter,
    *,
    sparse_value: Array | None = None,
    value: Array | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
    value_string: str | None = None,
    value_strings: tuple[str, ...] | None = None,
) -> Expr:
    number: Array | None = sparse_value if value is None else value
    if value_float is not None or value_floats is not None:
        number = np.array(value_floats if value_float is None else value_float, np.float32)
    if value_int is not None or value_ints is not None:
        number = np.array(value_ints if value_int is None else value_int, np.int64)
    if value_string is not None or value_strings is not None:
        number = np.array(value_strings if value_string is None else value_string, object)
    if number is None:
        raise ImportModelError("Constant has no value")
    return b.weight(number, b.span.source if b.span else "")


def shape(b: Emitter, x: Expr, *, start: int = 0, end: int | None = None) -> Expr:
    rank = b.rank(x)
    first, last, _ = slice(start, end).indices(rank)
    whole = b.call("shape_of", x, dtype="int64")
    if (first, last) == (0, rank):
        return whole
    return b.strided_slice(whole, begin=(first,), end=(max(first, last),), strides=(1,), axes=(0,))


def size(b: Emitter, x: Expr) -> Expr:
    return b.ndarray_size(x, dtype="int64")


def constant_of_shape(b: Emitter, shape: Expr, *, value: Array | None = None) -> Expr:
    if value is not None and value.size != 1:
        raise ImportModelError(f"value has {value.size} elements, wanted one")
    fill = np.float32(0) if value is None else value.reshape(())
    return b.full(b.constant(fill), shape=b.dims(shape, "the shape"))


def range_(b: Emitter, start: Expr, limit: Expr, delta: Expr) -> Expr:
    dtype = b.dtype(start)
    start, limit, delta = (b.reshape(v, newshape=()) if b.rank(v) else v for v in (start, limit, delta))
    if dtype.is_float and all(b.array(v) is not None for v in (start, limit, delta)):
        first, last, by = (b.scalar(v, "a bound of Range") for v in (start, limit, delta))
        return b.arange(start=float(first), stop=float(last), step=float(by), dtype=dtype)
    begin, end, step = (None if dtype.is_float else b.known_dims(v) for v in (start, limit, delta))
    if begin is None or end is None or step is None or not isinstance(step[0], Const):
        return range_of(b, start, limit, delta)
    if step[0].value == 0:
        raise ImportModelError("delta is 0")
    return b.arange(start=begin[0], stop=end[0], step=int(step[0].value), dtype=dtype)


def range_27(b: Emitter, start: Expr, limit: Expr, delta: Expr, *, stash_type: int = 1) -> Expr:
    """16-bit floats are computed in the type `stash_type`."""
    dtype = b.dtype(start)
    if not dtype.is_float or dtype.bits != 16:
        return range_(b, start, limit, delta)
    wide = element_type(stash_type, "stash_type")
    return b.to(range_(b, b.to(start, wide), b.to(limit, wide), b.to(delta, wide)), dtype)


def eye_like(b: Emitter, x: Expr, *, dtype: int | None = None, k: int = 0) -> Expr:
    if b.rank(x) != 2:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted a matrix")
    row, column = _diagonal(b, x, k)
    return b.to(b.equal(row, column), b.dtype(x) if dtype is None else element_type(dtype, "the result"))


def _diagonal(b: Emitter, x: Expr, k: int) -> tuple[Expr, Expr]:
    """Numbers of the rows and columns of a matrix that are equal on its k-th diagonal; they broadcast to its shape."""
    if not -(1 << 40) < k < 1 << 40:
        raise ImportModelError(f"a diagonal {k} away from the main one")
    rows, columns = b.dims_of(x)[-2:]
    row = b.expand_dims(b.arange(start=0, stop=rows, step=1, dtype="int64"), axis=1, num_newaxis=1)
    return row, b.arange(start=-k, stop=columns - k, step=1, dtype="int64")


# ------------------------------------------------------------------ the same elements, another shape


def reshape_5(b: Emitter, x: Expr, shape: Expr, *, allowzero: bool = False) -> Expr:
    known = b.known_dims(shape)
    if known is None:
        computed = reshaped_dims(b, x, shape, allowzero)
        return b.reshape(x, newshape=computed, allowzero=True)
    codes = tuple(map(_literal, known if allowzero else copied_for_zeros(b, x, known)))
    if any(isinstance(code, int) and code < -1 for code in codes):  # Relay's reshape gives these a meaning
        raise ImportModelError(f"the new shape is [{', '.join(map(str, codes))}], wanted extents, 0 or -1")
    return b.reshape(x, newshape=codes, allowzero=allowzero)


def flatten(b: Emitter, x: Expr, *, axis: int = 1) -> Expr:
    rank, dims = b.rank(x), b.dims_of(x)
    axis = axis if axis == rank else b.axis(axis, rank)
    if axis == 1:
        return b.nn.batch_flatten(x)
    return b.reshape(x, newshape=(b.product(dims[:axis]), b.product(dims[axis:])), allowzero=True)


def squeeze(b: Emitter, x: Expr, *, axes: tuple[int, ...] | None = None) -> Expr:
    if axes is None:
        axes = tuple(n for n, d in enumerate(b.dims_of(x)) if _is_one_for_certain(b, d))
    found = tuple(b.axis(a, b.rank(x)) for a in axes)
    return b.squeeze(x, axis=found) if found else x


def _is_one_for_certain(b: Emitter, d: Dim) -> bool:
    """Whether `d` is 1. Where that is not known, the rank of the result is not: UnsupportedError for a dim of an input;
    one that is computed must be another."""
    if b.is_one(d) or provably_different(d, const(1)):
        return b.is_one(d)
    hint = b.way_out(d, 1, f"{d}:2..")
    if hint is not None:
        message = f"without axes, the rank of the result depends on whether the dim {d} is 1"
        raise UnsupportedError(message, hint=hint)
    b.require(select(eq(d, 1), const(0), const(1)), const(1), "Squeeze without axes: a computed extent is not 1")
    return False


def squeeze_13(b: Emitter, x: Expr, axes: Expr | None = None) -> Expr:
    return squeeze(b, x) if axes is None else over_axes(b, x, axes, lambda y, found: squeeze(b, y, axes=found))


def unsqueeze(b: Emitter, x: Expr, *, axes: tuple[int, ...]) -> Expr:
    rank = b.rank(x) + len(axes)
    found = sorted(b.axis(a, rank) for a in axes)
    if len(set(found)) != len(found):
        raise ImportModelError(f"axes {list(axes)} name one axis twice")
    for axis in found:
        x = b.expand_dims(x, axis=axis, num_newaxis=1)
    return x


def unsqueeze_13(b: Emitter, x: Expr, axes: Expr) -> Expr:
    rank = b.rank(x) + b.known(b.product(b.dims_of(axes)), "the number of axes")
    return over_axes(b, x, axes, lambda y, found: unsqueeze(b, y, axes=found), rank=rank)


def transpose(b: Emitter, x: Expr, *, perm: tuple[int, ...] | None = None) -> Expr:
    axes = tuple(reversed(range(b.rank(x)))) if perm is None else perm
    return x if axes == tuple(range(b.rank(x))) else b.transpose(x, axes=axes)


def expand(b: Emitter, x: Expr, shape: Expr) -> Expr:
    """Broadcasts both ways: where the shape says 1, the input's dim stays."""
    wanted, dims = list(b.dims(shape, "the shape")), list(b.dims_of(x))
    rank = max(len(wanted), len(dims))
    wanted, dims = ([const(1)] * (rank - len(d)) + d for d in (wanted, dims))
    return b.broadcast(x, [_broadcast_dim(d, w) for d, w in zip(dims, wanted, strict=True)])


def _broadcast_dim(own: Dim, wanted: Dim) -> Dim:
    """`own` where `wanted` is 1, else `wanted`, which `own` then has to fit."""
    found = broadcast(wanted, own)
    return wanted if surely_equal(found, wanted) else found


def tile_6(b: Emitter, x: Expr, repeats: Expr) -> Expr:
    return b.tile(x, reps=b.dims(b.counted(repeats, const(b.rank(x)), "repeats"), "the repeats"))


def depth_to_space(b: Emitter, x: Expr, *, blocksize: int, mode: str = "DCR") -> Expr:
    if mode not in ("DCR", "CRD"):
        raise ImportModelError(f"mode is {mode!r}, wanted DCR or CRD")
    n, c, h, w = _image(b, x)
    block = _positive(blocksize)
    depth = c // (block * block)
    if mode == "DCR":
        x = b.reshape(x, newshape=(n, block, block, depth, h, w), allowzero=True)
        x = b.transpose(x, axes=(0, 3, 4, 1, 5, 2))
    else:
        x = b.reshape(x, newshape=(n, depth, block, block, h, w), allowzero=True)
        x = b.transpose(x, axes=(0, 1, 4, 2, 5, 3))
    return b.reshape(x, newshape=(n, depth, h * block, w * block), allowzero=True)


def space_to_depth(b: Emitter, x: Expr, *, blocksize: int, mode: str = "DCR") -> Expr:
    if mode not in ("DCR", "CRD"):
        raise ImportModelError(f"mode is {mode!r}, wanted DCR or CRD")
    n, c, h, w = _image(b, x)
    block = _positive(blocksize)
    x = b.reshape(x, newshape=(n, c, h // block, block, w // block, block), allowzero=True)
    x = b.transpose(x, axes=(0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return b.reshape(x, newshape=(n, c * (block * block), h // block, w // block), allowzero=True)


def _image(b: Emitter, x: Expr) -> tuple[Dim, Dim, Dim, Dim]:
    if b.rank(x) != 4:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted 4")
    n, c, h, w = b.dims_of(x)
    return n, c, h, w


def _positive(block: int) -> int:
    if block < 1:
        raise ImportModelError(f"blocksize is {block}, wanted a positive number")
    return block


# ------------------------------------------------------------------ putting together and taking apart


def concat_4(b: Emitter, *xs: Expr, axis: int) -> Expr:
    if not xs:
        raise ImportModelError("Concat has no input")
    return b.concatenate(*xs, axis=b.axis(axis, b.rank(xs[0])))


def split_2(b: Emitter, x: Expr, *, axis: int = 0, split: tuple[int, ...] | None = None) -> Expr:
    axis = b.axis(axis, b.rank(x))
    return _equal_parts(b, x, axis) if split is None else _parts(b, x, axis, [const(size) for size in split])


def split_13(b: Emitter, x: Expr, split: Expr | None = None, *, axis: int = 0, num_outputs: int | None = None) -> Expr:
    axis = b.axis(axis, b.rank(x))
    if num_outputs is not None and num_outputs != b.outputs:
        raise ImportModelError(f"num_outputs is {num_outputs}, but the node has {b.outputs}")
    if split is not None:
        return _parts(b, x, axis, b.dims(b.counted(split, const(b.outputs), "parts"), "the sizes of the parts"))
    if num_outputs is None:
        return _equal_parts(b, x, axis)
    extent = b.dims_of(x)[axis]
    most = simplify(cdiv(extent, num_outputs))
    return _parts(b, x, axis, [*[most] * (num_outputs - 1), simplify(extent - most * (num_outputs - 1))])


def _equal_parts(b: Emitter, x: Expr, axis: int) -> Expr:
    return b.split(x, indices_or_sections=b.outputs, axis=axis)


def _parts(b: Emitter, x: Expr, axis: int, sizes: Sequence[Dim]) -> Expr:
    """Parts of the given sizes, which must add up to the extent."""
    shape, extent = b.dims_of(x), b.dims_of(x)[axis]
    total = simplify(sum(sizes, const(0)))
    if len(sizes) != b.outputs:
        raise ImportModelError(f"{len(sizes)} sizes of parts for {b.outputs} outputs")
    if provably_different(total, extent) or any(prove(lt(size, 0)) for size in sizes):
        raise ImportModelError(f"parts of sizes {', '.join(map(str, sizes))} for an extent of {extent}")
    if not prove_equal(total, extent):
        x = b.match_cast(x, TensorType((*shape[:axis], total, *shape[axis + 1 :]), b.dtype(x)))
    cuts = [simplify(sum(sizes[: n + 1], const(0))) for n in range(len(sizes) - 1)]
    return b.split(x, indices_or_sections=tuple(_literal(cut) for cut in cuts), axis=axis)


def pad_2(b: Emitter, x: Expr, *, mode: str = "constant", pads: tuple[int, ...], value: float = 0.0) -> Expr:
    return _pad(b, x, pads, b.like(value, x), range(b.rank(x)), mode)


def pad_11(
    b: Emitter, x: Expr, pads: Expr, value: Expr | None = None, axes: Expr | None = None, *, mode: str = "constant"
) -> Expr:
    fill = b.like(0, x) if value is None else value
    if b.rank(fill):
        fill = b.reshape(fill, newshape=())
    rank = b.rank(x)
    known = tuple(range(rank)) if axes is None else known_axes(b, axes)
    if known is None and axes is not None:
        count = b.product(b.dims_of(axes))
        rows = b.reshape(b.counted(pads, count * 2, "pads"), newshape=(2, count), allowzero=True)
        _, before, behind = by_axis(b, rank, axes, *(b.take(rows, b.constant(n, dt.int64), axis=0) for n in range(2)))
        pads, known = b.concatenate(before, behind, axis=0), tuple(range(rank))
    along = [b.axis(a, rank) for a in known or ()]
    return _pad(b, x, signed_dims(b, b.counted(pads, const(2 * len(along)), "pads"), "pads"), fill, along, mode)


def _pad(b: Emitter, x: Expr, pads: Sequence[Dim | int], value: Expr, axes: Sequence[int], mode: str) -> Expr:
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise UnsupportedError(f"padding mode {mode!r}", hint="constant, edge, reflect or wrap")
    if len(pads) != 2 * len(axes):
        raise ImportModelError(f"{len(pads)} pads for {len(axes)} axes")
    width: list[tuple[Dim | int, Dim | int]] = [(0, 0)] * b.rank(x)
    for n, axis in enumerate(axes):
        width[axis] = (_literal(pads[n]), _literal(pads[n + len(axes)]))
    if mode == "wrap":
        for axis, (before, after) in enumerate(width):
            x = _wrapped(b, x, axis, expr(before), expr(after))
        return x
    return b.nn.pad(x, value, pad_width=tuple(width), pad_mode=mode)


def _wrapped(b: Emitter, x: Expr, axis: int, before: Dim, after: Dim) -> Expr:
    """`x` beginning `before` and ending `after` its own elements of a dim, which come again and again; below 0 as many
    are cut off first."""
    zero, extent = const(0), b.dims_of(x)[axis]
    if prove_equal(before, zero) and prove_equal(after, zero):
        return x
    cut, end = simplify(max_(-before, zero)), simplify(extent + min_(after, zero))
    kept = simplify(end - cut)
    start, stop = simplify(-max_(before, zero)), simplify(kept + max_(after, zero))
    b.require_least(kept, simplify(min_(stop - start, const(1))), "the extent of what wraps around")
    x = _slice(b, x, (cut,), (end,), (axis,), (1,))
    return b.take(x, b.arange(start=start, stop=stop, step=1, dtype=dt.int64), axis=axis, mode="wrap")


def center_crop_pad(b: Emitter, x: Expr, shape: Expr, *, axes: tuple[int, ...] | None = None) -> Expr:
    """The middle of the dims that become smaller; zeros around those that become larger, one more behind than before
    where their number is odd."""
    rank = b.rank(x)
    along = range(rank) if axes is None else [b.axis(a, rank) for a in axes]
    wanted = b.dims(b.counted(shape, const(len(along)), "the extents"), "the extents")
    if len(wanted) != len(along) or len(set(along)) != len(along):
        raise ImportModelError(f"{len(wanted)} extents for axes {list(along)}")
    width: list[tuple[Dim | int, Dim | int]] = [(0, 0)] * rank
    for axis, size in zip(along, wanted, strict=True):
        extent = b.dims_of(x)[axis]
        kept = simplify(min_(extent, size))
        first, more = simplify((extent - kept) // 2), simplify(size - kept)
        x = _slice(b, x, (first,), (simplify(first + kept),), (axis,), (1,))
        width[axis] = (_literal(simplify(more // 2)), _literal(simplify(more - more // 2)))
    return x if all(pair == (0, 0) for pair in width) else b.nn.pad(x, b.like(0, x), pad_width=tuple(width))


def _literal(d: Dim | int) -> Dim | int:
    return int(d.value) if isinstance(d, Const) else d


def slice_(
    b: Emitter, x: Expr, *, axes: tuple[int, ...] | None = None, ends: tuple[int, ...], starts: tuple[int, ...]
) -> Expr:
    found = tuple(range(len(starts))) if axes is None else axes
    return _slice(b, x, starts, ends, found, (1,) * len(starts))


def slice_10(
    b: Emitter, x: Expr, starts: Expr, ends: Expr, axes: Expr | None = None, steps: Expr | None = None
) -> Expr:
    if axes is None:
        axes = b.arange(start=const(0), stop=b.dim_of(starts, 0), step=1, dtype=dt.int64)
    along, count = known_axes(b, axes), b.product(b.dims_of(axes))
    starts, ends = b.counted(starts, count, "starts"), b.counted(ends, count, "ends")
    steps = None if steps is None else b.counted(steps, count, "steps")
    if along is not None:
        return _slice_along(b, x, starts, ends, along, steps)
    ones = steps is None or ((known := b.array(steps)) is not None and bool(np.all(known == 1)))
    listed, first, last, *by = by_axis(b, b.rank(x), axes, starts, ends, *([] if steps is None or ones else [steps]))
    is_listed = b.cast(listed, dtype=dt.bool_)
    last = b.where(is_listed, last, b.call("shape_of", x, dtype="int64"))
    each = b.where(is_listed, by[0], b.constant(1, dt.int64)) if by else None
    return _slice_along(b, x, first, last, range(b.rank(x)), each)


def _slice_along(b: Emitter, x: Expr, starts: Expr, ends: Expr, along: Sequence[int], steps: Expr | None) -> Expr:
    begin, end = b.positions(starts), b.positions(ends)
    by = (const(1),) * len(along) if steps is None else b.positions(steps)
    if begin is None or end is None or by is None:
        raise UnsupportedError(
            f"starts {starts.ty} and ends {ends.ty}: it must be known how many there are",
            hint="give starts and ends of a known shape: [1] for one axis",
        )
    if not len(begin) == len(end) == len(along) == len(by):
        raise ImportModelError(f"{len(begin)} starts, {len(end)} ends, {len(along)} axes and {len(by)} steps")
    fixed: list[tuple[Dim, Dim, int, int]] = []
    for n, (first, last, axis, step) in enumerate(zip(begin, end, along, by, strict=True)):
        if isinstance(step, Const) and b.is_known(first) and b.is_known(last):
            fixed.append((first, last, axis, int(step.value)))
            continue
        at, to, *each = (b.take(v, b.constant(n, "int64"), axis=0) for v in (starts, ends, steps) if v is not None)
        axis = b.axis(axis, b.rank(x))
        if isinstance(step, Const):
            x = _slice_at(b, x, (at, first), (to, last), axis, int(step.value))
        else:
            x = b.take(x, places_of_slice(b, at, to, each[0], b.dims_of(x)[axis]), axis=axis, mode="fast")
    return _slice(b, x, *zip(*fixed, strict=True)) if fixed else x


def _slice_at(b: Emitter, x: Expr, start: tuple[Expr, Dim], end: tuple[Expr, Dim], axis: int, step: int) -> Expr:
    """The elements between positions that only the data decides, each as a tensor and as an element of `positions`."""
    extent, length = b.dims_of(x)[axis], simplify(end[1] - start[1])
    if step == 1 and b.is_known(length) and b.is_within(start[1], length, extent):
        places = b.add(b.to(start[0], dt.int64), b.arange(start=0, stop=length, step=1, dtype="int64"))
        return b.take(x, places, axis=axis, mode="fast")
    if step == 0:
        raise ImportModelError("a step is 0")
    first, last = bounds_of_slice(b, start[0], end[0], extent, step)
    if step < 0:
        x = b.reverse(x, axis=axis)
    return b.strided_slice(x, begin=(first,), end=(last,), strides=(abs(step),), axes=(axis,))


def _slice(
    b: Emitter, x: Expr, begin: Sequence[Dim | int], end: Sequence[Dim | int], axes: Sequence[int], steps: Sequence[int]
) -> Expr:
    if not len(begin) == len(end) == len(axes) == len(steps):
        raise ImportModelError(f"{len(begin)} starts, {len(end)} ends, {len(axes)} axes and {len(steps)} steps")
    if 0 in steps:
        raise ImportModelError("a step is 0")
    along = tuple(b.axis(a, b.rank(x)) for a in axes)
    if len(set(along)) != len(along):
        raise ImportModelError(f"axes {list(axes)} name one axis twice")
    cut = [
        (axis, _start(first, b.dims_of(x)[axis], step), _end(last, b.dims_of(x)[axis], step), step)
        for axis, first, last, step in zip(along, begin, end, steps, strict=True)
    ]
    cut = [(axis, first, last, step) for axis, first, last, step in cut
           if not (step == 1 and isinstance(first, int) and first == 0 and last is b.dims_of(x)[axis])]  # fmt: skip
    if not cut:
        return x
    axes, begin, end, steps = zip(*cut, strict=True)
    return b.strided_slice(x, begin=begin, end=end, strides=steps, axes=axes)


def _start(start: Dim | int, extent: Dim, step: int) -> Dim | int:
    """Where a slice starts: going backwards at element 0 at least, where Python's would be empty."""
    start = _literal(start)
    if step > 0 or (isinstance(start, int) and start >= 0):
        return start
    counted = extent + start if isinstance(start, int) else select(lt(start, 0), extent + start, start)
    return _literal(simplify(max_(counted, const(0))))


def _end(end: Dim | int, extent: Dim, step: int) -> Dim | int:
    """Where a slice ends; a large number, which exporters write for the end, is the end."""
    end = _literal(end)
    return extent if step > 0 and isinstance(end, int) and end >= _TO_THE_END else end


def trilu(b: Emitter, x: Expr, k: Expr | None = None, *, upper: bool = True) -> Expr:
    """The part on and above (below) the k-th diagonal; elsewhere 0."""
    if b.rank(x) < 2:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted a matrix or more")
    at = b.constant(0, dt.int64) if k is None else b.reshape(b.single(k, "k"), newshape=())
    return b.trilu(x, at, upper=upper)
