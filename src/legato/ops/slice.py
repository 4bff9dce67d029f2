"""Rectangular parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Binary, Const, cdiv, const, eq, lt, max_, min_, select
from legato.arith.expr import Op as Arith
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._families import Array
from legato.ops._gradients import Contribution, dtype_of, extents, in_shape, shape_of
from legato.ops._moving import as_dim, as_int, by_reference, total
from legato.ops._rules import known_dim, normalize_axis, tensor
from legato.te.tensor import Tensor, compute

__all__ = ["StridedSliceAttrs"]

TO_THE_END = 2**31 - 1  # a bound at least this large means "to the end", as exporters write it


@dataclass(frozen=True, slots=True)
class StridedSliceAttrs(Attrs):
    """Where the slice begins and ends (exclusive) on each of `axes` (None: the first ones), and its steps.

    As in Python: bounds below 0 count from the end, and bounds outside are clamped, literal or symbolic. With
    slice_mode "size", `end` holds extents (-1: to the end) and steps must be 1.
    """

    begin: tuple[Dim | int, ...]
    end: tuple[Dim | int, ...]
    strides: tuple[int, ...] = (1,)
    axes: tuple[int, ...] | None = None
    slice_mode: str = "end"


@dataclass(frozen=True, slots=True)
class _Range:
    """Elements start, start + step, … of one dim; `count` of them."""

    start: Dim
    step: int
    count: Dim


def _bound(value: Dim | int, extent: Dim, step: int) -> Dim:
    """A bound clamped to where a slice with this step may begin or end: [0, extent], or [-1, extent - 1] going back.

    Below 0 it counts from the end; where its sign is not known, that is decided when the program runs.
    """
    value = as_dim(value)
    lowest, highest = (const(0), extent) if step > 0 else (const(-1), extent - 1)
    if isinstance(value, Const) and abs(int(value.value)) >= TO_THE_END:
        return simplify(highest if value.value > 0 else lowest)
    ahead, back = min_(value, highest), max_(extent + value, lowest)
    if isinstance(value, Const):
        return simplify(back if value.value < 0 else ahead)
    return simplify(select(lt(simplify(value), 0), back, ahead))


def _range(extent: Dim, begin: Dim | int, end: Dim | int, step: int, size: bool) -> _Range:
    start = _bound(begin, extent, step)
    stop = _stop_of_size(start, as_dim(end), extent) if size else _bound(end, extent, step)
    length = _gap(start, stop) if step > 0 else start - stop
    return _Range(start, step, simplify(max_(cdiv(length, abs(step)), const(0))))


def _gap(start: Dim, stop: Dim) -> Dim:
    """stop - start; the last elements of n, from max(n - 2, 0) on, are min(2, n)."""
    if isinstance(start, Binary) and start.op is Arith.MAX:
        return min_(simplify(stop - start.a), simplify(stop - start.b))
    return stop - start


def _stop_of_size(start: Dim, size: Dim, extent: Dim) -> Dim:
    """The end of `size` elements from `start` on, at most `extent`; of size -1, `extent` itself."""
    return simplify(select(eq(simplify(size), -1), extent, min_(start + size, extent)))


def ranges(shape: Sequence[Dim], attrs: StridedSliceAttrs) -> list[_Range]:
    """What the slice takes of each dim."""
    found = [_Range(const(0), 1, d) for d in shape]
    axes = range(len(attrs.begin)) if attrs.axes is None else [a % len(shape) for a in attrs.axes]
    for n, axis in enumerate(axes):
        step = attrs.strides[n] if n < len(attrs.strides) else attrs.strides[-1] if len(attrs.strides) == 1 else 1
        found[axis] = _range(shape[axis], attrs.begin[n], attrs.end[n], step, attrs.slice_mode == "size")
    return found


def _slice_type(relation: Relation, x: Type, attrs: StridedSliceAttrs) -> Type:
    ty = tensor(relation, x, "data")
    _check(relation, ty, attrs)
    for d in ty.shape:
        known_dim(d)
    return TensorType(tuple(r.count for r in ranges(ty.shape, attrs)), ty.dtype)


def _check(relation: Relation, ty: TensorType, attrs: StridedSliceAttrs) -> None:
    axes = tuple(range(len(attrs.begin))) if attrs.axes is None else attrs.axes
    if not len(attrs.begin) == len(attrs.end) == len(axes):
        raise relation.fail(f"begin, end and axes have {len(attrs.begin)}, {len(attrs.end)} and {len(axes)} entries")
    for axis in axes:
        normalize_axis(relation, axis, ty.rank)
    if not attrs.strides or 0 in attrs.strides:
        raise relation.fail(f"strides must not be empty or 0, got {attrs.strides}")
    if attrs.slice_mode not in ("end", "size"):
        raise relation.fail(f"slice_mode must be 'end' or 'size', got {attrs.slice_mode!r}")
    if attrs.slice_mode == "size" and any(s != 1 for s in attrs.strides):
        raise relation.fail("slice_mode 'size' takes steps of 1 only")


def _slice_reference(x: Array, attrs: StridedSliceAttrs) -> Array:
    for axis, r in enumerate(ranges(total(x), attrs)):
        start, count = as_int(r.start), as_int(r.count)
        if (start, r.step, count) != (0, 1, x.shape[axis]):
            x = np.take(x, start + r.step * np.arange(count), axis)
    return x


def _slice_compute(x: Tensor, attrs: StridedSliceAttrs, out_type: TensorType) -> Tensor:
    parts = ranges(x.shape, attrs)
    return compute(
        out_type.shape, lambda *i: x[tuple(r.start + v * r.step for r, v in zip(parts, i, strict=True))], "slice"
    )


def _slice_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """`dy` at its places, among zeros: turned where the step goes back, then spread by the step, then padded."""
    shape = shape_of(call.args[0])
    parts, zero = ranges(shape, call.attrs), b.constant(0.0, dtype_of(dy))
    steps = [abs(r.step) for r in parts]
    for axis, r in enumerate(parts):
        dy = b.reverse(dy, axis=axis) if r.step < 0 else dy
    dy = _spread(b, dy, steps, zero)
    width = []
    for r, d, step in zip(parts, shape, steps, strict=True):
        first = r.start if r.step > 0 else r.start + (r.count - 1) * r.step
        width.append(extents((simplify(first), simplify(d - first - r.count * step))))
    if all(w == (0, 0) for w in width):
        return [dy]
    return [b.nn.pad(dy, zero, pad_width=tuple(width))]


def _spread(b: Builder, x: Node, steps: Sequence[int], zero: Node) -> Node:
    """`x` with step − 1 zeros behind each element of a dim."""
    if all(step == 1 for step in steps):
        return x
    shape, cut, width = shape_of(x), list[Dim](), list[tuple[int, int]]()
    for d, step in zip(shape, steps, strict=True):
        cut += [d] if step == 1 else [d, const(1)]
        width += [(0, 0)] if step == 1 else [(0, 0), (0, step - 1)]
    wide = b.nn.pad(in_shape(b, x, cut), zero, pad_width=tuple(width))
    return in_shape(b, wide, [d * step for d, step in zip(shape, steps, strict=True)])


strided_slice = Op(
    name="strided_slice",
    args=("data",),
    attrs=StridedSliceAttrs,
    type_rel=_slice_type,
    reference=_slice_reference,
    compute=_slice_compute,
    grad=_slice_grad,
    value=by_reference(_slice_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    strings=True,
    samples=(
        Sample((((5, 6), "float32"),), {"begin": (1, 2), "end": (4, 6)}, exact=True),
        Sample((((5, 6), "float32"),), {"begin": (0,), "end": (5,), "strides": (2,), "axes": (1,)}, exact=True),
        Sample((((5,), "float32"),), {"begin": (-1,), "end": (-6,), "strides": (-1,)}, exact=True),
        Sample((((5, 6), "float32"),), {"begin": (-2, 5), "end": (-9, 0), "strides": (-3, -2)}, exact=True),
        Sample((((7, 2), "float32"),), {"begin": (1,), "end": (7,), "strides": (3,)}, exact=True),
        Sample((((3, 0), "float32"),), {"begin": (5, 0), "end": (0, 4), "strides": (-2, 3)}, exact=True),
        Sample((((5,), "int64"),), {"begin": (3,), "end": (-(2**31),), "strides": (-2,)}, exact=True),
        Sample((((5,), "float32"),), {"begin": (2,), "end": (2**31 - 1,)}, exact=True),
        Sample((((5,), "float32"),), {"begin": (4,), "end": (1,)}, exact=True),
        Sample((((5, 4), "float32"),), {"begin": (1, 1), "end": (2, -1), "slice_mode": "size"}, exact=True),
    ),
    doc="A rectangular part of a tensor, with steps.",
)
