"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import legato.te.math as te
from legato.arith.expr import Const, Expr, const, min_
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._dtypes import convert
from legato.ops._families import Array
from legato.ops._gradients import Contribution, dtype_of, extents, narrowed, shape_of
from legato.ops._moving import as_dim, as_int
from legato.ops._rules import NUMBER, at_least, known_dim, tensor
from legato.te.tensor import Tensor, compute

__all__ = ["PadAttrs"]

MODES = ("constant", "edge", "reflect")


@dataclass(frozen=True, slots=True)
class PadAttrs(Attrs):
    """`pad_width`: (before, after) of each dim; a literal below 0 cuts off. `pad_mode`: constant, edge, or reflect
    (without the edge).
    """

    pad_width: tuple[tuple[Dim | int, Dim | int], ...]
    pad_mode: str = "constant"


def _widths(attrs: PadAttrs) -> list[tuple[Dim, Dim]]:
    return [(as_dim(a), as_dim(b)) for a, b in attrs.pad_width]


def _pad_type(relation: Relation, x: Type, pad_value: Type, attrs: PadAttrs) -> Type:
    ty = tensor(relation, x, "data")
    is_number = isinstance(pad_value, TensorType) and pad_value.rank == 0 and NUMBER(pad_value.dtype)
    if ty.dtype.is_string or not is_number:
        relation.unify(pad_value, TensorType((), ty.dtype), "pad_value")
    if len(attrs.pad_width) != ty.rank:
        raise relation.fail(f"pad_width has {len(attrs.pad_width)} entries for rank {ty.rank}")
    if attrs.pad_mode not in MODES:
        raise relation.fail(f"pad_mode must be one of {', '.join(MODES)}, got {attrs.pad_mode!r}")
    shape = tuple(simplify(known_dim(d) + a + b) for d, (a, b) in zip(ty.shape, _widths(attrs), strict=True))
    for n, (d, out) in enumerate(zip(ty.shape, shape, strict=True)):
        if isinstance(out, Const) and out.value < 0:
            raise relation.fail(f"pad_width cuts more from dim {n} than its extent {d}")
        if attrs.pad_mode != "constant" and isinstance(d, Const) and d.value == 0 and out is not d:
            raise relation.fail(f"dim {n} has extent 0: pad_mode {attrs.pad_mode!r} has nothing to repeat")
        at_least(relation, out, 0, f"what pad_width leaves of dim {n}")
        if attrs.pad_mode != "constant":
            at_least(relation, d, min_(out, const(1)), f"pad_mode {attrs.pad_mode!r} repeats elements of dim {n}")
    return TensorType(shape, ty.dtype)


def _source_index(i: Array, extent: int, mode: str) -> Array:
    """Which element stands at unpadded position i."""
    if mode == "edge":
        return np.clip(i, 0, max(extent - 1, 0))
    period = max(2 * (extent - 1), 1)
    folded = np.mod(i, period)
    return np.minimum(folded, period - folded) if extent > 1 else np.zeros_like(i)


def _pad_reference(x: Array, pad_value: Array, attrs: PadAttrs) -> Array:
    for axis, (before, after) in enumerate(_widths(attrs)):
        a, extent = as_int(before), x.shape[axis]
        i = np.arange(extent + a + as_int(after)) - a
        if attrs.pad_mode != "constant":
            x = np.take(x, _source_index(i, extent, attrs.pad_mode), axis)
            continue
        inside = (i >= 0) & (i < extent)
        shape = (*x.shape[:axis], len(i), *x.shape[axis + 1 :])
        padded = np.full(shape, convert(pad_value, dt.dtype(x.dtype))[()], x.dtype)
        place = (slice(None),) * axis
        padded[(*place, inside)] = np.take(x, i[inside], axis)
        x = padded
    return x


def _pad_compute(x: Tensor, pad_value: Tensor, attrs: PadAttrs, out_type: TensorType) -> Tensor:
    widths = _widths(attrs)
    if attrs.pad_mode == "constant":
        return compute(out_type.shape, lambda *i: _constant(x, pad_value, widths, i), "pad")

    def body(*i: Expr) -> Expr:
        parts = zip(i, x.shape, widths, strict=True)
        return x[tuple(_source(v, d, w, attrs.pad_mode) for v, d, w in parts)]

    return compute(out_type.shape, body, "pad")


def _constant(x: Tensor, pad_value: Tensor, widths: Sequence[tuple[Dim, Dim]], i: Sequence[Expr]) -> Expr:
    inside: Expr | None = None
    for v, d, (before, after) in zip(i, x.shape, widths, strict=True):
        tests = [] if _never_pads(before) else [te.le(before, v)]
        tests += [] if _never_pads(after) else [te.lt(v, d + before)]
        for test in tests:
            inside = test if inside is None else te.land(inside, test)
    element = x[tuple(v - before for v, (before, _) in zip(i, widths, strict=True))]
    outside = pad_value[()] if pad_value.dtype == x.dtype else te.cast(pad_value[()], x.dtype)
    return element if inside is None else te.select(inside, element, outside)


def _never_pads(width: Dim) -> bool:
    return isinstance(width, Const) and width.value <= 0


def _source(v: Expr, extent: Dim, width: tuple[Dim, Dim], mode: str) -> Expr:
    """The index of the element that stands at padded position v; extents are at least 1 where there is one."""
    if all(isinstance(w, Const) and w.value == 0 for w in width):
        return v
    i, last = v - width[0], extent - 1
    if mode == "edge":
        return te.min_(te.max_(i, const(0)), last)
    if isinstance(extent, Const) and extent.value <= 1:
        return const(0)
    if isinstance(extent, Const) and all(isinstance(w, Const) and w.value < extent.value for w in width):
        return te.select(te.lt(i, const(0)), const(0) - i, te.select(te.lt(last, i), last * 2 - i, i))
    period = te.max_(last * 2, const(1))
    folded = i % period
    return te.min_(te.min_(folded, period - folded), te.max_(last, const(0)))


def _pad_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    data, fill = call.args
    if call.attrs.pad_mode != "constant":
        return [_folded(b, dy, shape_of(data), call.attrs), None]
    zero = b.constant(0.0, dtype_of(dy))
    width = tuple(extents((simplify(-a), simplify(-c))) for a, c in _widths(call.attrs))
    return [b.nn.pad(dy, zero, pad_width=width), _filled(b, call, dy) if dtype_of(fill).is_float else None]


def _filled(b: Builder, call: Call, dy: Node) -> Node:
    """The sum of `dy` where the value of padding stands."""
    data, fill = call.args
    inside = b.zeros(shape=extents(shape_of(data)), dtype=dtype_of(dy))
    around = b.nn.pad(inside, b.constant(1.0, dtype_of(dy)), pad_width=call.attrs.pad_width)
    return narrowed(b, b.sum(b.multiply(dy, around)), fill)


def _folded(b: Builder, dy: Node, shape: Sequence[Dim], a: PadAttrs) -> Node:
    """`dy` added up where each element was taken from: padded positions say where that is."""
    for axis, (d, width) in enumerate(zip(shape, a.pad_width, strict=True)):
        if all(w == 0 for w in width):
            continue
        places = b.nn.pad(b.arange(stop=d, dtype="int64"), 0, pad_width=(width,), pad_mode=a.pad_mode)
        new = (*shape_of(dy)[:axis], d, *shape_of(dy)[axis + 1 :])
        dy = b.take_grad(dy, places, shape=extents(new), axis=axis)
    return dy


pad = Op(
    name="nn.pad",
    args=("data", "pad_value"),
    attrs=PadAttrs,
    type_rel=_pad_type,
    reference=_pad_reference,
    compute=_pad_compute,
    grad=_pad_grad,
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    storage=True,
    samples=(
        Sample((((2, 3), "float32"), ((), "float32")), {"pad_width": ((1, 2), (0, 1))}, exact=True),
        Sample((((2, 3), "float32"), ((), "float32")), {"pad_width": ((0, 0), (-1, 2))}, exact=True),
        Sample((((0, 2), "int8"), ((), "int8")), {"pad_width": ((1, 1), (0, 0))}, exact=True),
        Sample((((3, 4), "float32"), ((), "float32")), {"pad_width": ((1, 2), (3, 0)), "pad_mode": "edge"}, exact=True),
        Sample(
            (((3, 4), "float32"), ((), "float32")), {"pad_width": ((2, 1), (0, 3)), "pad_mode": "reflect"}, exact=True
        ),
        Sample(
            (((3, 1), "float32"), ((), "float32")), {"pad_width": ((7, 9), (1, 1)), "pad_mode": "reflect"}, exact=True
        ),
        Sample((((), "float32"), ((), "float32")), {"pad_width": ()}, exact=True),
        Sample(
            (((3, 2), "float32"), ((), "float32")), {"pad_width": ((2, -1), (0, 0)), "pad_mode": "edge"}, exact=True
        ),
        Sample((((2, 3), "float32"), ((), "int32")), {"pad_width": ((1, 2), (0, 1))}, exact=True),
        Sample((((2, 3), "int8"), ((), "float32")), {"pad_width": ((0, 2), (1, 1))}, exact=True),
    ),
    doc="""Adds elements around a tensor: `pad_value`, the nearest element (edge), or the mirrored tensor (reflect).

The value is converted to the tensor's dtype.""",
)
