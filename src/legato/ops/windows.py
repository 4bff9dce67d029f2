"""Windows, holes and mirrors: sliding_window, nn.dilate, nn.mirror_pad, nn.fifo_buffer.

All are made of other operators (`expand`).
"""

from __future__ import annotations

import numpy as np

from legato.arith.expr import const, floordiv
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._dtypes import convert
from legato.ops._families import Array
from legato.ops._gradients import dtype_of, extent_of, extents, in_shape, shape_of
from legato.ops._rules import NUMBER, at_least, known_dim, normalize_axis, require_dtype, same_dtype, tensor
from legato.ops._tensors import require_choice
from legato.ops._window import check_positive

__all__ = ["DilateAttrs", "FIFOBufferAttrs", "MirrorPadAttrs", "SlidingWindowAttrs", "dilate", "fifo_buffer",
           "mirror_pad", "sliding_window"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SlidingWindowAttrs(Attrs):
    """`axis`: the first that a window moves along; it moves along all behind it. `window_shape`: its extents there;
    `strides`: the distances of one window to the next.
    """

    axis: int
    window_shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DilateAttrs(Attrs):
    """`strides`: the distance of an element to the next, of each dim; `dilation_value`: what stands between them."""

    strides: tuple[int, ...]
    dilation_value: float = 0.0


@dataclass(frozen=True, slots=True)
class MirrorPadAttrs(Attrs):
    """`mode`: SYMMETRIC, which repeats the edge, or REFLECT, which does not; `pad_width`: (before, after) of each
    dim.
    """

    pad_width: tuple[tuple[int, int], ...]
    mode: str = "SYMMETRIC"


@dataclass(frozen=True, slots=True)
class FIFOBufferAttrs(Attrs):
    """`axis`: that of the steps."""

    axis: int


# ------------------------------------------------------------------------------- sliding_window


def _window_relation(rel: Relation, data: Type, a: SlidingWindowAttrs) -> Type:
    x = tensor(rel, data, "data")
    axis = normalize_axis(rel, a.axis, x.rank)
    for what, value in (("window_shape", a.window_shape), ("strides", a.strides)):
        check_positive(rel, what, value, x.rank - axis)
    found = []
    for n, (size, step) in enumerate(zip(a.window_shape, a.strides, strict=True), axis):
        d = known_dim(x.shape[n])
        at_least(rel, d, size, f"dim {n}, which a window has to fit in")
        found.append(simplify(floordiv(d - size, const(step)) + 1))
    return TensorType((*x.shape[:axis], *found, *map(const, a.window_shape)), x.dtype)


def _window_reference(data: Array, a: SlidingWindowAttrs) -> Array:
    axis = a.axis % data.ndim
    axes = tuple(range(axis, data.ndim))
    numbers = np.arange(data.size).reshape(data.shape)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, a.window_shape, axes)
    return np.asarray(data.reshape(-1)[windows[(*(slice(None),) * axis, *(slice(None, None, s) for s in a.strides))]])


def _window_expand(b: Builder, data: Expr, a: SlidingWindowAttrs) -> Expr:
    shape, rank = shape_of(data), len(shape_of(data))
    axis, count = a.axis % rank, rank - a.axis % rank
    for n in reversed(range(count)):  # the dims of axis + n: that of the windows, that within one
        size, step = a.window_shape[n], a.strides[n]
        number = simplify(floordiv(shape[axis + n] - size, const(step)) + 1)
        first = b.multiply(b.arange(start=0, stop=number, step=1, dtype=dt.int64), b.constant(step, dt.int64))
        within = b.constant(np.arange(size, dtype=np.int64))
        data = b.take(data, b.add(b.expand_dims(first, axis=1), within), axis=axis + n)
    outer, inner = (range(axis + n, axis + 2 * count, 2) for n in (0, 1))
    return b.transpose(data, axes=(*range(axis), *outer, *inner))


sliding_window = Op(
    name="sliding_window",
    args=("data",),
    attrs=SlidingWindowAttrs,
    type_rel=_window_relation,
    reference=_window_reference,
    expand=_window_expand,
    storage=True,
    samples=(
        Sample((((2, 5, 6), "float32"),), {"axis": 1, "window_shape": (3, 2), "strides": (2, 3)}, exact=True),
        Sample((((2, 3, 5), "int8"),), {"axis": -1, "window_shape": (5,), "strides": (1,)}, exact=True),
        Sample((((4, 3), "float32"),), {"axis": 0, "window_shape": (2, 1), "strides": (1, 1)}, exact=True),
        Sample((((0, 3), "float32"),), {"axis": 1, "window_shape": (2,), "strides": (1,)}, exact=True),
    ),
    doc="(leading dims…, numbers of windows…, window…): the windows that move along `axis` and all axes behind it.",
)

# ------------------------------------------------------------------------------- nn.dilate


def _dilate_relation(rel: Relation, data: Type, a: DilateAttrs) -> Type:
    x = tensor(rel, data, "data")
    require_dtype(rel, x, NUMBER, "data")
    check_positive(rel, "strides", a.strides, x.rank)
    found = []
    for n, (d, step) in enumerate(zip(x.shape, a.strides, strict=True)):
        if step > 1:
            at_least(rel, d, 1, f"dim {n}, which has strides {step}")
        found.append(d if step == 1 else simplify((known_dim(d) - 1) * step + 1))
    return TensorType(tuple(found), x.dtype)


def _dilate_reference(data: Array, a: DilateAttrs) -> Array:
    shape = [(n - 1) * step + 1 if step > 1 else n for n, step in zip(data.shape, a.strides, strict=True)]
    out = np.full(shape, convert(np.asarray(a.dilation_value), dt.dtype(data.dtype)), data.dtype)
    out[tuple(slice(None, None, step) for step in a.strides)] = data
    return out


def _dilate_expand(b: Builder, data: Expr, a: DilateAttrs) -> Expr:
    shape, cut, width = shape_of(data), list[Dim](), list[tuple[int, int]]()
    if all(step == 1 for step in a.strides):
        return data
    for d, step in zip(shape, a.strides, strict=True):
        cut += [d, const(1)]
        width += [(0, 0), (0, step - 1)]
    value = b.constant(convert(np.asarray(a.dilation_value), dtype_of(data)), dtype_of(data))
    wide = b.nn.pad(in_shape(b, data, cut), value, pad_width=tuple(width))
    whole = in_shape(b, wide, [simplify(d * step) for d, step in zip(shape, a.strides, strict=True)])
    ends = [simplify(d * step - (step - 1)) for d, step in zip(shape, a.strides, strict=True)]
    return b.strided_slice(whole, begin=(0,) * len(ends), end=extents(ends))


dilate = Op(
    name="nn.dilate",
    args=("data",),
    attrs=DilateAttrs,
    type_rel=_dilate_relation,
    reference=_dilate_reference,
    expand=_dilate_expand,
    samples=(
        Sample((((2, 3, 4), "float32"),), {"strides": (1, 2, 3)}, exact=True),
        Sample((((3, 1), "int8"),), {"strides": (2, 2), "dilation_value": -3.0}, exact=True),
        Sample((((0, 3), "float32"),), {"strides": (1, 2)}, exact=True),
        Sample((((), "float32"),), {"strides": ()}, exact=True),
    ),
    doc="`data` with `dilation_value` between its elements, strides − 1 times along each dim.",
)

# ------------------------------------------------------------------------------- nn.mirror_pad


def _mirror_relation(rel: Relation, data: Type, a: MirrorPadAttrs) -> Type:
    x = tensor(rel, data, "data")
    require_choice(rel, "mode", a.mode, ("SYMMETRIC", "REFLECT"))
    if len(a.pad_width) != x.rank or any(min(w) < 0 for w in a.pad_width):
        raise rel.fail(f"pad_width is {a.pad_width}, wanted (before, after), 0 or more, of each of {x.rank} dims")
    least = int(a.mode == "REFLECT")
    found = []
    for n, (d, width) in enumerate(zip(x.shape, a.pad_width, strict=True)):
        if max(width):
            at_least(rel, d, max(width) + least, f"dim {n}, whose mirror image is as long as pad_width")
        found.append(simplify(known_dim(d) + sum(width)))
    return TensorType(tuple(found), x.dtype)


def _mirror_reference(data: Array, a: MirrorPadAttrs) -> Array:
    return np.pad(data, a.pad_width, "symmetric" if a.mode == "SYMMETRIC" else "reflect") if data.ndim else data


def _mirror_expand(b: Builder, data: Expr, a: MirrorPadAttrs) -> Expr:
    for axis, (before, after) in enumerate(a.pad_width):
        if not before and not after:
            continue
        d, n = shape_of(data)[axis], extent_of(b, data, axis)
        i = b.arange(start=-before, stop=simplify(d + after), step=1, dtype=dt.int64)
        edge = b.constant(int(a.mode == "SYMMETRIC"), dt.int64)
        i = b.where(b.less(i, b.constant(0, dt.int64)), b.subtract(b.negative(i), edge), i)
        behind = b.add(b.subtract(b.multiply(n, b.constant(2, dt.int64)), b.constant(2, dt.int64)), edge)
        i = b.where(b.less(i, n), i, b.subtract(behind, i))
        data = b.take(data, i, axis=axis)
    return data


mirror_pad = Op(
    name="nn.mirror_pad",
    args=("data",),
    attrs=MirrorPadAttrs,
    type_rel=_mirror_relation,
    reference=_mirror_reference,
    expand=_mirror_expand,
    storage=True,
    samples=(
        Sample((((3, 4), "float32"),), {"pad_width": ((1, 3), (0, 4))}, exact=True),
        Sample((((3, 4), "int8"),), {"pad_width": ((2, 1), (3, 0)), "mode": "REFLECT"}, exact=True),
        Sample((((1, 0), "float32"),), {"pad_width": ((1, 1), (0, 0))}, exact=True),
        Sample((((), "float32"),), {"pad_width": ()}, exact=True),
    ),
    doc="`data` with its mirror image before and behind it along each dim.",
)

# ------------------------------------------------------------------------------- nn.fifo_buffer


def _fifo_relation(rel: Relation, data: Type, buffer: Type, a: FIFOBufferAttrs) -> Type:
    x, held = tensor(rel, data, "data"), tensor(rel, buffer, "buffer")
    same_dtype(rel, x, held)
    if x.rank != held.rank:
        raise rel.fail(f"data has rank {x.rank}, buffer {held.rank}, wanted one rank")
    axis = normalize_axis(rel, a.axis, x.rank)
    for n, (own, other) in enumerate(zip(held.shape, x.shape, strict=True)):
        if n != axis:
            rel.same(own, other, f"dim {n} of buffer and data")
    at_least(rel, held.shape[axis], known_dim(x.shape[axis]), "the steps that the buffer holds")
    return held


def _fifo_reference(data: Array, buffer: Array, a: FIFOBufferAttrs) -> Array:
    axis = a.axis % data.ndim
    whole = np.concatenate([buffer, data], axis)
    return np.ascontiguousarray(np.take(whole, np.arange(data.shape[axis], whole.shape[axis]), axis))


def _fifo_expand(b: Builder, data: Expr, buffer: Expr, a: FIFOBufferAttrs) -> Expr:
    axis = a.axis % len(shape_of(data))
    new, held = shape_of(data)[axis], shape_of(buffer)[axis]
    kept = b.strided_slice(buffer, begin=extents([new]), end=extents([held]), axes=(axis,))
    return b.concatenate((kept, data), axis=axis)


fifo_buffer = Op(
    name="nn.fifo_buffer",
    args=("data", "buffer"),
    attrs=FIFOBufferAttrs,
    type_rel=_fifo_relation,
    reference=_fifo_reference,
    expand=_fifo_expand,
    storage=True,
    samples=(
        Sample((((2, 1), "float32"), ((2, 4), "float32")), {"axis": 1}, exact=True),
        Sample((((3, 2, 2), "int8"), ((3, 2, 2), "int8")), {"axis": -3}, exact=True),
        Sample((((0, 2), "float32"), ((3, 2), "float32")), {"axis": 0}, exact=True),
    ),
    doc="The last steps that came: `buffer` without as many of its first as `data` has, then `data`.",
)
