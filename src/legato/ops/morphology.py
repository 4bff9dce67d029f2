"""Windows of images compared with something else than weights: image.dilation2d, nn.correlation.

Composed of takes, sums and maxima. 16-bit floats are computed in float32, and rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._computed import extent_scalar, steps
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, in_shape, narrowed, shape_of, widened
from legato.ops._rules import FLOAT, require_dtype, require_rank, same_dtype, same_shape, tensor
from legato.ops._tensors import Array, DtypeName, as_int, require_choice, result_dtype, wide
from legato.ops._window import Window, check_positive, check_sliding, pads, require_room, spread

__all__ = ["CorrelationAttrs", "Dilation2DAttrs", "correlation", "dilation2d"]


@dataclass(frozen=True, slots=True)
class Dilation2DAttrs(Attrs):
    """As of a convolution of each channel alone, where padding counts for nothing. `strides`: the distances of windows;
    `padding`: one number, one per dimension, or all befores then all afters; `dilations`: the distances of the elements
    in a window. `data_layout`: of data and result; `kernel_layout`: of the weight; `out_dtype`: that of the result ("":
    the data's).
    """

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilations: tuple[int, ...] = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "IHW"
    out_dtype: DtypeName = ""


_KERNELS = {"NCHW": "IHW", "NHWC": "HWI"}  # the layout of the kernel by that of the data


def _windows(shape: tuple[Dim, ...], kernel: tuple[Dim, ...], a: Dilation2DAttrs) -> list[Window]:
    """The windows along rows and columns of data and kernel of these shapes."""
    found = zip(spread(a.strides, 2), spread(a.dilations, 2), pads(a.padding, 2), "HW", strict=True)
    return [Window(shape[a.data_layout.index(d)], kernel[a.kernel_layout.index(d)], stride, dilation, before, after)
            for stride, dilation, (before, after), d in found]  # fmt: skip


def _dilation_relation(rel: Relation, data: Type, weight: Type, a: Dilation2DAttrs) -> Type:
    require_choice(rel, "data_layout", a.data_layout, _KERNELS)
    require_choice(rel, "kernel_layout", a.kernel_layout, (_KERNELS[a.data_layout],))
    check_sliding(rel, 2, a.strides, a.dilations, a.padding)
    ty, kernel = tensor(rel, data, "data"), tensor(rel, weight, "weight")
    require_rank(rel, ty, 4, what="data")
    require_rank(rel, kernel, 3, what="weight")
    require_dtype(rel, ty, FLOAT, "data")
    same_dtype(rel, ty, kernel)
    channel = a.data_layout.index("C")
    rel.same(ty.shape[channel], kernel.shape[a.kernel_layout.index("I")], "channels of data and weight")
    along = _windows(ty.shape, kernel.shape, a)
    require_room(rel, along, "HW", "weight")
    shape = list(ty.shape)
    for w, d in zip(along, "HW", strict=True):
        shape[a.data_layout.index(d)] = simplify(w.count)
    return TensorType(tuple(shape), result_dtype(a.out_dtype, ty.dtype))


def _dilation_reference(data: Array, weight: Array, a: Dilation2DAttrs) -> Array:
    x = wide(data).transpose([a.data_layout.index(d) for d in "NCHW"])
    w = wide(weight).transpose([a.kernel_layout.index(d) for d in "IHW"])
    along = _windows(tuple(const(n) for n in data.shape), tuple(const(n) for n in weight.shape), a)
    x = np.pad(x, ((0, 0), (0, 0), *((v.before, v.after) for v in along)), constant_values=-np.inf)
    places = [np.arange(as_int(v.count))[:, None] * v.stride + np.arange(as_int(v.kernel)) * v.dilation for v in along]
    read = x[:, :, places[0]][..., places[1]]  # n, c, row, tap, column, tap
    found = np.max(read + w[:, None, :, None, :], axis=(3, 5), initial=-np.inf)
    found = found.transpose(np.argsort([a.data_layout.index(d) for d in "NCHW"]))
    return np.ascontiguousarray(found).astype(result_dtype(a.out_dtype, dt.dtype(data.dtype)).numpy)


def _dilation_expand(b: Builder, data: Expr, weight: Expr, a: Dilation2DAttrs) -> Expr:
    x, w = widened(b, data), widened(b, weight)
    along = _windows(shape_of(data), shape_of(weight), a)
    if a.data_layout == "NHWC":
        x, w = b.transpose(x, axes=(0, 3, 1, 2)), b.transpose(w, axes=(2, 0, 1))
    lowest = b.constant(-math.inf, dtype_of(x))
    x = b.nn.pad(x, lowest, pad_width=((0, 0), (0, 0), *((v.before, v.after) for v in along)))
    for axis, v in zip((2, 4), along, strict=True):
        begins = b.multiply(steps(b, simplify(v.count)), b.constant(v.stride, dt.int64))
        taps = b.multiply(steps(b, v.kernel), b.constant(v.dilation, dt.int64))
        x = b.take(x, b.add(b.expand_dims(begins, axis=1), taps), axis=axis, mode="fast")
    shifts = b.expand_dims(b.expand_dims(w, axis=2), axis=1)
    found = b.max(b.add(x, shifts), axis=(3, 5))
    found = b.transpose(found, axes=(0, 2, 3, 1)) if a.data_layout == "NHWC" else found
    result = result_dtype(a.out_dtype, dtype_of(data))
    return found if dtype_of(found) == result else b.cast(found, dtype=result)


dilation2d = Op(
    name="image.dilation2d",
    args=("data", "weight"),
    attrs=Dilation2DAttrs,
    type_rel=_dilation_relation,
    reference=quiet(_dilation_reference),
    expand=_dilation_expand,
    samples=(
        Sample((((1, 2, 4, 5), "float32"), ((2, 2, 3), "float32"))),
        Sample((((1, 2, 5, 4), "float32"), ((2, 2, 2), "float32")), {"strides": (2, 1), "padding": (1, 0, 1, 1)}),
        Sample((((2, 4, 5, 3), "float32"), ((2, 2, 3), "float32")),
               {"data_layout": "NHWC", "kernel_layout": "HWI", "dilations": (2, 1)}),
        Sample((((1, 1, 3, 3), "float16"), ((1, 2, 2), "float16")), {"out_dtype": "float32"}),
    ),
    doc="""Morphological dilation of each channel: the largest sum of an element and its weight in each window.

Elements outside of the data count for nothing.""",
)  # fmt: skip

# ------------------------------------------------------------------------------- correlation


@dataclass(frozen=True, slots=True)
class CorrelationAttrs(Attrs):
    """`kernel_size`: of windows, odd; `max_displacement`: between them, in steps of `stride2`; `stride1`: the distance
    of windows of the first images; `stride2`: that of those of the second. `padding`: around both images; `layout`: of
    data and result; `is_multiply`: products, else absolute differences.
    """

    kernel_size: int = 1
    max_displacement: int = 1
    stride1: int = 1
    stride2: int = 1
    padding: tuple[int, ...] = (0, 0)
    is_multiply: bool = True
    layout: str = "NCHW"

    @property
    def reach(self) -> int:
        """How many displacements there are to either side."""
        return self.max_displacement // self.stride2

    def windows(self, shape: tuple[Dim, ...]) -> list[Window]:
        """The windows of the first image, which keep their distance from its edges."""
        around = 2 * self.max_displacement
        found = []
        for d, (before, after) in zip(shape[2:], pads(self.padding, 2), strict=True):
            inner = simplify(d + (before + after - around))
            found.append(Window(inner, const(self.kernel_size), self.stride1))
        return found

    def counts(self, shape: tuple[Dim, ...]) -> list[Dim]:
        """How many windows there are along rows and columns: as many as begin inside."""
        found = []
        for w in self.windows(shape):
            room = simplify(w.extent - (self.kernel_size - 1))
            found.append(simplify((room + (self.stride1 - 1)) // self.stride1))
        return found


def _correlation_relation(rel: Relation, data1: Type, data2: Type, a: CorrelationAttrs) -> Type:
    require_choice(rel, "layout", a.layout, ("NCHW",))
    check_positive(rel, "kernel_size, stride1 and stride2", (a.kernel_size, a.stride1, a.stride2), 3)
    check_sliding(rel, 2, 1, 1, a.padding)
    if a.kernel_size % 2 == 0 or a.max_displacement < 0:
        raise rel.fail(f"kernel_size is {a.kernel_size}, wanted odd; max_displacement {a.max_displacement}, 0 or more")
    x, y = tensor(rel, data1, "data1"), tensor(rel, data2, "data2")
    require_rank(rel, x, 4, what="data1")
    require_dtype(rel, x, FLOAT, "data1")
    same_dtype(rel, x, y)
    same_shape(rel, x.shape, y.shape, "data1 and data2")
    require_room(rel, a.windows(x.shape), "HW", "kernel between the displacements")
    rows, columns = a.counts(x.shape)
    return TensorType((x.shape[0], const((2 * a.reach + 1) ** 2), rows, columns), x.dtype)


def _correlation_reference(data1: Array, data2: Array, a: CorrelationAttrs) -> Array:
    sides = ((0, 0), (0, 0), *pads(a.padding, 2))
    x, y = (np.pad(wide(v), sides) for v in (data1, data2))
    rows, columns = (as_int(n) for n in a.counts(tuple(const(n) for n in data1.shape)))
    high, across = (rows - 1) * a.stride1 + a.kernel_size, (columns - 1) * a.stride1 + a.kernel_size
    m, size, found = a.max_displacement, a.kernel_size, []
    for i, j in np.ndindex(2 * a.reach + 1, 2 * a.reach + 1):
        up, left = (m + (k - a.reach) * a.stride2 for k in (i, j))
        p, q = x[:, :, m : m + high, m : m + across], y[:, :, up : up + high, left : left + across]
        each = (p * q if a.is_multiply else np.abs(p - q)).sum(1)
        parts = [each[:, u : u + high - size + 1 : a.stride1, v : v + across - size + 1 : a.stride1]
                 for u, v in np.ndindex(size, size)]  # fmt: skip
        found.append(sum(parts[1:], parts[0]))
    total = np.stack(found, 1) / x.dtype.type(max(size * size * data1.shape[1], 1))
    return np.ascontiguousarray(total).astype(data1.dtype)


def _correlation_expand(b: Builder, data1: Expr, data2: Expr, a: CorrelationAttrs) -> Expr:
    """Of every displacement the sums over channels of two shifted images; windows of these are added."""
    x, y = widened(b, data1), widened(b, data2)
    n, channels, *_ = shape_of(x)
    zero, sides = b.constant(0, dtype_of(x)), ((0, 0), (0, 0), *pads(a.padding, 2))
    x, y = (b.nn.pad(v, zero, pad_width=sides) for v in (x, y))
    inner = [simplify(w.extent) for w in a.windows(shape_of(data1))]
    shifts = b.multiply(b.subtract(steps(b, const(2 * a.reach + 1)), b.constant(a.reach, dt.int64)),
                        b.constant(a.stride2, dt.int64))  # fmt: skip
    for axis, d in zip((2, 4), inner, strict=True):
        places = b.add(steps(b, d), b.constant(a.max_displacement, dt.int64))
        moved = b.add(b.expand_dims(shifts, axis=1), places)
        x = b.take(x, b.expand_dims(places, axis=0), axis=axis, mode="fast")
        y = b.take(y, moved, axis=axis, mode="fast")  # n, c, shift, row, shift, column
    each = b.multiply(x, y) if a.is_multiply else b.abs(b.subtract(x, y))
    sums = b.sum(each, axis=(1,))
    for axis, count in zip((2, 5), a.counts(shape_of(data1)), strict=True):
        begins = b.multiply(steps(b, count), b.constant(a.stride1, dt.int64))
        taps = b.add(b.expand_dims(begins, axis=1), steps(b, const(a.kernel_size)))
        sums = b.take(sums, taps, axis=axis, mode="fast")
    sums = b.transpose(b.sum(sums, axis=(3, 6)), axes=(0, 1, 3, 2, 4))
    rows, columns = a.counts(shape_of(data1))
    found = in_shape(b, sums, (n, const((2 * a.reach + 1) ** 2), rows, columns))
    size = b.multiply(extent_scalar(b, channels, dtype_of(x)), b.constant(a.kernel_size**2, dtype_of(x)))
    return narrowed(b, b.divide(found, b.maximum(size, b.constant(1, dtype_of(x)))), data1)


_PAIR = ((1, 2, 5, 6), "float32"), ((1, 2, 5, 6), "float32")

correlation = Op(
    name="nn.correlation",
    args=("data1", "data2"),
    attrs=CorrelationAttrs,
    type_rel=_correlation_relation,
    reference=quiet(_correlation_reference),
    expand=_correlation_expand,
    samples=(
        Sample(_PAIR),
        Sample(_PAIR, {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2, "padding": (2, 3)}),
        Sample(_PAIR, {"max_displacement": 0, "is_multiply": False, "stride1": 2}),
        Sample((((1, 2, 3, 3), "float16"),) * 2, {"padding": (1, 1)}),
    ),
    doc="""[n, displacements, rows, columns]: of windows of data1 and displaced ones of data2, the mean of the
products (or absolute differences) of their elements over channels and elements.""",
)
