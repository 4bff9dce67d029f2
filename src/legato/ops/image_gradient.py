"""The transposes of resizing: image.resize1d_grad, resize2d_grad and resize3d_grad.

Each element of dy is added, with the weights of the forward operator, where that reads: dimension by dimension, in the
order of dy (`_writes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from legato.arith.expr import Expr, const, lor, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops import image
from legato.ops._families import quiet
from legato.ops._gradients import Contribution, dtype_of
from legato.ops._indexing import inside
from legato.ops._moving import as_dim, as_int
from legato.ops._resize import Axis
from legato.ops._rules import NUMBER, require_dtype, same_shape, tensor
from legato.ops._tensors import Array, DtypeName, accumulator, cast_to, narrowed, result_dtype
from legato.ops._writes import Free, Write, Writes
from legato.ops.image import Resize1DAttrs, Resize2DAttrs, Resize3DAttrs, resize_axes, spatial_dims
from legato.te.tensor import Tensor, compute, loops
from legato.tir.expr import cast

__all__ = ["Resize1DGradAttrs", "Resize2DGradAttrs", "Resize3DGradAttrs", "resize1d_grad", "resize2d_grad",
           "resize3d_grad"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resize2DGradAttrs(Attrs):
    """As Resize2DAttrs of the forward operator; `shape`: that of its data; `out_dtype`: the dtype of its data ("": that
    of dy).
    """

    size: tuple[int | Dim, ...]
    shape: tuple[int | Dim, ...]
    roi: tuple[float, ...] = ()
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    out_dtype: DtypeName = ""
    scale: tuple[float, ...] = ()
    ratio: tuple[int | Dim, ...] = ()
    crop: tuple[int | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Resize1DGradAttrs(Resize2DGradAttrs):
    """As Resize2DGradAttrs, in one dimension."""

    layout: str = "NCW"


@dataclass(frozen=True, slots=True)
class Resize3DGradAttrs(Resize2DGradAttrs):
    """As Resize2DGradAttrs, in three dimensions."""

    layout: str = "NCDHW"


def _forward(a: Resize2DGradAttrs) -> Resize2DAttrs:
    """The attributes of the forward operator, for floats of any dtype."""
    return Resize2DAttrs(**{k: a[k] for k in a if k not in ("shape", "out_dtype")})


def _relation(forward: Op, rel: Relation, dy: Type, a: Resize2DGradAttrs) -> Type | None:
    ty = tensor(rel, dy, "dy")
    require_dtype(rel, ty, NUMBER, "dy")
    data = TensorType(dims(a.shape), result_dtype(a.out_dtype, ty.dtype))
    result = forward.type_rel(rel, data, _forward(a))
    if not isinstance(result, TensorType):
        return None
    same_shape(rel, result.shape, ty.shape, f"dy and the result of {forward.name}")
    return data


def _is_crop(a: Resize2DGradAttrs) -> bool:
    return a.coordinate_transformation_mode == "tf_crop_and_resize"


def _reference(dy: Array, a: Resize2DGradAttrs) -> Array:
    dtype = result_dtype(a.out_dtype, dt.dtype(dy.dtype))
    work = accumulator(dtype)
    x, axes = cast_to(dy, work), resize_axes(_forward(a), [as_dim(n) for n in a.shape])
    if _is_crop(a):
        for d, axis in axes.items():
            outside = axis.outside_all().reshape([-1 if n == d else 1 for n in range(x.ndim)])
            x = np.where(outside, work.numpy.type(0), x)
    for d, axis in reversed(axes.items()):
        shape = [as_int(axis.n) if n == d else m for n, m in enumerate(x.shape)]
        found = np.zeros(shape, work.numpy)
        if found.size:
            for places, weights in _taps_all(axis, work):
                terms = x * weights.reshape([-1 if n == d else 1 for n in range(x.ndim)])
                np.add.at(np.moveaxis(found, d, 0), places, np.moveaxis(terms, d, 0))
        x = found
    return cast_to(x, dtype)


def _taps_all(axis: Axis, dtype: dt.DType) -> list[tuple[Array, Array]]:
    if axis.method.kind != "nearest":
        return axis.taps_all(dtype)
    return [(axis.nearest_all(), np.ones(as_int(axis.m), dtype.numpy))]


def _compute(dy: Tensor, a: Resize2DGradAttrs, out: TensorType) -> Tensor:
    dtype, axes = accumulator(out.dtype), resize_axes(_forward(a), out.shape)

    def first(*i: Expr) -> Expr:
        value = cast(dy[i], dtype)
        outside = [axis.outside(i[d]) for d, axis in axes.items()] if _is_crop(a) else []
        for condition in outside[1:]:
            outside[0] = lor(outside[0], condition)
        return select(outside[0], const(0, dtype), value) if outside else value

    x = compute(dy.shape, first, "dy") if _is_crop(a) or dy.dtype != dtype else dy
    for d, axis in reversed(axes.items()):
        x = _spread(x, d, axis, dtype)
    return narrowed(x if axes else compute(out.shape, first, "dx"), out.dtype)


def _spread(x: Tensor, d: int, axis: Axis, dtype: dt.DType) -> Tensor:
    """`x` added up along dimension `d` where the forward operator reads."""

    def write(before: Free, step: Free, after: Free) -> list[Write]:
        (o,), value = step, x[(*before, *step, *after)]
        if axis.method.kind == "nearest":
            return [Write((axis.nearest(o),), value, (), lambda at: [inside(at[0], axis.n)])]
        return [Write((place,), value * weight) for place, weight in axis.taps(o, dtype)]

    writes = Writes(x.shape[:d], (axis.n,), x.shape[d + 1 :], (axis.m,), write, True)
    shape = (*x.shape[:d], axis.n, *x.shape[d + 1 :])
    return loops(
        [(shape, dtype)],
        (x,),
        lambda y: writes.program(y, lambda i: const(0, dtype), lambda old, new: old + new),
        "spread",
    )[0]


def _grad(forward: str, b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The forward operator, without what stands outside of the data."""
    a, dtype = call.attrs, dtype_of(call.args[0])
    own = {k: a[k] for k in a if k not in ("shape", "out_dtype")}
    return [b.op(forward)(dy, **own, out_dtype="" if dtype == dtype_of(dy) else dtype)]


def _record(forward: Op, plain: type[Resize2DAttrs], attrs: type, samples: Sequence[Sample]) -> Op:
    return Op(
        name=f"{forward.name}_grad",
        args=("dy",),
        attrs=attrs,
        type_rel=partial(_relation, forward),
        reference=quiet(_reference),
        compute=_compute,
        grad=partial(_grad, forward.name),
        samples=(*(_transposed(plain, s) for s in forward.samples), *samples),
        doc=f"""The transpose of {forward.name}: dy added up in zeros of `shape`, with its weights, where that reads.

What comes to one place is added in the order of dy, in one dimension after the other.""",
    )


_VALUES = ("out_dtype", "extrapolation_value")  # which say nothing of places


def _transposed(attrs: type[Resize2DAttrs], sample: Sample) -> Sample:
    """The sample of the forward operator as one of its transpose."""
    (shape, dtype), own = sample.args[0], {k: v for k, v in sample.attrs.items() if k not in _VALUES}
    sizes = dict(zip(spatial_dims(attrs(**own).layout), own["size"], strict=True))
    result = tuple(sizes.get(n, d) for n, d in enumerate(shape))
    return Sample(((result, dtype if dtype != "uint8" else "float32"),), {**own, "shape": shape}, rtol=sample.rtol)


resize1d_grad = _record(image.resize1d, Resize1DAttrs, Resize1DGradAttrs, ())
resize2d_grad = _record(
    image.resize2d,
    Resize2DAttrs,
    Resize2DGradAttrs,
    (
        Sample((((1, 2, 4, 6), "float16"),), {"size": (4, 6), "shape": (1, 2, 2, 3), "out_dtype": "float32"}),
        Sample((((1, 2, 0, 6), "float32"),), {"size": (0, 6), "shape": (1, 2, 2, 3)}),
        Sample((((0, 2, 2, 2), "float32"),), {"size": (2, 2), "shape": (0, 2, 0, 3), "method": "cubic"}),
    ),
)
resize3d_grad = _record(image.resize3d, Resize3DAttrs, Resize3DGradAttrs, ())
