"""Operators that make tensors from shapes and numbers: full, zeros, ones, …_like, arange, shape_of, ndarray_size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Const, Expr, cdiv, const, max_
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._families import Array
from legato.ops._gradients import no_gradient
from legato.ops._moving import as_dim, as_int
from legato.ops._rules import at_least, product, tensor
from legato.te.tensor import Tensor, compute

__all__ = ["ArangeAttrs", "InitAttrs", "ShapeOfAttrs"]


@dataclass(frozen=True, slots=True)
class InitAttrs(Attrs):
    """`shape`: that of the result; `dtype`: that of the result; None: float32, of `full` that of its argument."""

    shape: tuple[Dim | int, ...]
    dtype: DType | None = None


def _shape(attrs: InitAttrs) -> list[int]:
    return [as_int(as_dim(d)) for d in attrs.shape]


def _check_shape(relation: Relation, attrs: InitAttrs) -> tuple[Dim, ...]:
    shape = dims(attrs.shape)
    if any(isinstance(d, Const) and d.value < 0 for d in shape):
        raise relation.fail(f"a dim is negative: {', '.join(map(str, shape))}")
    for d in shape:
        at_least(relation, d, 0, "a dim")
    return shape


def _written(args: Any, out: Type, attrs: Any) -> Cost:
    """No arithmetic; the result is written."""
    assert isinstance(out, TensorType)
    return Cost(const(0), product(out.shape) * out.dtype.bytes)


# ------------------------------------------------------------------ full, zeros, ones


def _full_type(relation: Relation, fill_value: Type, attrs: InitAttrs) -> Type:
    ty = tensor(relation, fill_value, "fill_value")
    if ty.rank:
        raise relation.fail(f"fill_value has rank {ty.rank}, wanted a scalar")
    if attrs.dtype is not None and attrs.dtype != ty.dtype:
        raise relation.fail(f"fill_value has dtype {ty.dtype}, wanted {attrs.dtype}", hint="use cast")
    return TensorType(_check_shape(relation, attrs), ty.dtype)


def _full_value(fill: tuple[Dim, ...] | None, attrs: InitAttrs, ty: Type) -> tuple[Dim, ...] | None:
    return None if fill is None else _filled(fill[0], attrs)


def _filled(value: Dim, attrs: InitAttrs) -> tuple[Dim, ...] | None:
    count = product(dims(attrs.shape))
    return (value,) * int(count.value) if isinstance(count, Const) else None


def _full_reference(fill_value: Array, attrs: InitAttrs) -> Array:
    return np.full(_shape(attrs), fill_value[()], fill_value.dtype)


full = Op(
    name="full",
    args=("fill_value",),
    attrs=InitAttrs,
    type_rel=_full_type,
    reference=_full_reference,
    compute=lambda fill_value, attrs, out_type: compute(out_type.shape, lambda *i: fill_value[()], "full"),
    grad=lambda b, call, dy: [b.sum(dy)],
    value=_full_value,
    fusion=Fusion.ELEMWISE,
    cost=_written,
    storage=True,
    samples=(
        Sample((((), "float32"),), {"shape": (2, 3), "dtype": "float32"}, exact=True),
        Sample((((), "int64"),), {"shape": ()}, exact=True),
        Sample((((), "bool"),), {"shape": (0, 2)}, exact=True),
    ),
    doc="A tensor filled with a scalar.",
)


def _init(name: str, number: int, doc: str) -> Op:
    def type_rel(relation: Relation, attrs: InitAttrs) -> Type:
        return TensorType(_check_shape(relation, attrs), attrs.dtype or dt.float32)

    def reference(attrs: InitAttrs) -> Array:
        return np.full(_shape(attrs), number, (attrs.dtype or dt.float32).numpy)

    def build(attrs: InitAttrs, out_type: TensorType) -> Tensor:
        return compute(out_type.shape, lambda *i: te.literal(number, out_type.dtype), name)

    return Op(
        name=name,
        args=(),
        attrs=InitAttrs,
        type_rel=type_rel,
        reference=reference,
        compute=build,
        grad=no_gradient,
        value=lambda attrs: _filled(const(number), attrs),
        fusion=Fusion.ELEMWISE,
        cost=_written,
        samples=(
            Sample((), {"shape": (2, 3)}, exact=True),
            Sample((), {"shape": (), "dtype": "int64"}, exact=True),
            Sample((), {"shape": (3,), "dtype": "bool"}, exact=True),
        ),
        doc=doc,
    )


zeros = _init("zeros", 0, "A tensor of zeros; float32 unless `dtype` says otherwise.")
ones = _init("ones", 1, "A tensor of ones; float32 unless `dtype` says otherwise.")


# ------------------------------------------------------------------ …_like


def _full_like_type(relation: Relation, data: Type, fill_value: Type) -> Type:
    ty = tensor(relation, data, "data")
    relation.unify(fill_value, TensorType((), ty.dtype), "fill_value")
    return ty


def _full_like_reference(data: Array, fill_value: Array) -> Array:
    return np.full(data.shape, fill_value[()], data.dtype)


full_like = Op(
    name="full_like",
    args=("data", "fill_value"),
    type_rel=_full_like_type,
    reference=_full_like_reference,
    compute=lambda data, fill_value, out_type: compute(out_type.shape, lambda *i: fill_value[()], "full_like"),
    grad=lambda b, call, dy: [None, b.sum(dy)],
    fusion=Fusion.ELEMWISE,
    cost=_written,
    storage=True,
    samples=(
        Sample((((2, 3), "float32"), ((), "float32")), exact=True),
        Sample((((), "int8"), ((), "int8")), exact=True),
    ),
    doc="A scalar in every place of a tensor's shape.",
)


def _like(name: str, number: int, doc: str) -> Op:
    def reference(data: Array) -> Array:
        return np.full(data.shape, number, data.dtype)

    def build(data: Tensor, out_type: TensorType) -> Tensor:
        return compute(out_type.shape, lambda *i: te.literal(number, out_type.dtype), name)

    return Op(
        name=name,
        args=("data",),
        type_rel=lambda relation, data: tensor(relation, data, "data"),
        reference=reference,
        compute=build,
        grad=no_gradient,
        fusion=Fusion.ELEMWISE,
        cost=_written,
        samples=(Sample((((2, 3), "float32"),), exact=True), Sample((((2,), "bool"),), exact=True)),
        doc=doc,
    )


zeros_like = _like("zeros_like", 0, "Zeros in a tensor's shape and dtype.")
ones_like = _like("ones_like", 1, "Ones in a tensor's shape and dtype.")


# ------------------------------------------------------------------ arange


@dataclass(frozen=True, slots=True)
class ArangeAttrs(Attrs):
    """start, start + step, … up to but without stop; integers, or dims with a literal step, or floats.

    `stop`: where the numbers end, it is none of them. `start`: the first number. `step`: the distance of one to the
    next. `dtype`: that of the result; None: float32 if any of the three is a float, else int64.
    """

    stop: Dim | int | float
    start: Dim | int | float = 0
    step: int | float = 1
    dtype: DType | None = None

    def result(self) -> DType:
        """The dtype of the result."""
        floats = any(isinstance(v, float) for v in (self.start, self.stop, self.step))
        return self.dtype or (dt.float32 if floats else dt.int64)


def _arange_count(attrs: ArangeAttrs) -> Dim:
    start, stop, step = attrs.start, attrs.stop, attrs.step
    if isinstance(start, Const):
        start = int(start.value)
    if isinstance(stop, Const):
        stop = int(stop.value)
    if not isinstance(start, Expr) and not isinstance(stop, Expr):
        return const(max(0, math.ceil((stop - start) / step)))
    up = (as_dim_of(stop) - as_dim_of(start)) if step > 0 else (as_dim_of(start) - as_dim_of(stop))
    count = simplify(cdiv(up, abs(int(step))))
    return simplify(max_(count, const(0)))


def as_dim_of(value: Dim | float) -> Dim:
    """A bound beside a symbolic one as a dim."""
    return value if isinstance(value, Expr) else const(int(value))


def _arange_type(relation: Relation, attrs: ArangeAttrs) -> Type:
    if attrs.step == 0:
        raise relation.fail("step must not be 0")
    bounds = (attrs.start, attrs.stop, attrs.step)
    if any(isinstance(b, float) and not math.isfinite(b) for b in bounds):
        raise relation.fail(f"start, stop and step must be finite, got {attrs.start}, {attrs.stop}, {attrs.step}")
    if any(isinstance(b, Expr) for b in bounds) and any(isinstance(b, float) for b in bounds):
        raise relation.fail("symbolic bounds need integers beside them")
    if attrs.result().is_bool:
        raise relation.fail("the result cannot be bool")
    return TensorType((_arange_count(attrs),), attrs.result())


def _arange_reference(attrs: ArangeAttrs) -> Array:
    n, d = np.arange(as_int(_arange_count(attrs))), attrs.result()
    start = as_int(attrs.start) if isinstance(attrs.start, Expr) else attrs.start
    if d.is_float:
        return np.asarray(d.numpy.type(start) + n.astype(d.numpy) * d.numpy.type(attrs.step), d.numpy)
    return np.asarray(math.trunc(start) + np.trunc(n * attrs.step).astype(np.int64)).astype(d.numpy)


def _arange_compute(attrs: ArangeAttrs, out_type: TensorType) -> Tensor:
    d = out_type.dtype

    def body(i: Expr) -> Expr:
        if d.is_float:
            start = te.cast(as_dim_of(attrs.start), d) if isinstance(attrs.start, Expr) else te.literal(attrs.start, d)
            return start + te.cast(i, d) * te.literal(attrs.step, d)
        if isinstance(attrs.step, float):
            position = te.cast(te.cast(i, dt.float64) * te.literal(attrs.step, dt.float64), dt.int64)
            start = te.literal(math.trunc(attrs.start), dt.int64) if not isinstance(attrs.start, Expr) else const(0)
            return te.cast(start + position, d)
        return te.cast(as_dim_of(attrs.start) + i * attrs.step, d)

    return compute(out_type.shape, body, "arange")


def _arange_value(attrs: ArangeAttrs) -> tuple[Dim, ...] | None:
    count = _arange_count(attrs)
    if not isinstance(count, Const) or any(isinstance(b, float) for b in (attrs.start, attrs.step)):
        return None
    return tuple(as_dim_of(attrs.start) + n * int(attrs.step) for n in range(int(count.value)))


arange = Op(
    name="arange",
    args=(),
    attrs=ArangeAttrs,
    type_rel=_arange_type,
    reference=_arange_reference,
    compute=_arange_compute,
    grad=no_gradient,
    value=_arange_value,
    fusion=Fusion.INJECTIVE,
    cost=_written,
    samples=(
        Sample((), {"stop": 5}, exact=True),
        Sample((), {"start": 7, "stop": -2, "step": -3, "dtype": "int32"}, exact=True),
        Sample((), {"start": 0.5, "stop": 2.0, "step": 0.25}),
        Sample((), {"start": 3, "stop": 3}, exact=True),
        Sample((), {"stop": 4, "dtype": "float16"}, exact=True),
    ),
    doc="Numbers at equal distances.",
)


# ------------------------------------------------------------------ shape_of, ndarray_size


@dataclass(frozen=True, slots=True)
class ShapeOfAttrs(Attrs):
    """The integer dtype of the result."""

    dtype: DType = dt.int32


def _integer(relation: Relation, attrs: ShapeOfAttrs) -> DType:
    if not attrs.dtype.is_int:
        raise relation.fail(f"dtype must be an integer dtype, got {attrs.dtype}")
    return attrs.dtype


def _shape_of_type(relation: Relation, data: Type, attrs: ShapeOfAttrs) -> Type:
    return TensorType((const(tensor(relation, data, "data").rank),), _integer(relation, attrs))


def _shape_of_compute(data: Tensor, attrs: ShapeOfAttrs, out_type: TensorType) -> Tensor:
    def body(i: Expr) -> Expr:
        extent: Expr = data.shape[-1] if data.shape else const(0)
        for n in reversed(range(len(data.shape) - 1)):
            extent = te.select(te.eq(i, const(n)), data.shape[n], extent)
        return te.cast(extent, attrs.dtype)

    return compute(out_type.shape, body, "shape_of")


shape_of = Op(
    name="shape_of",
    args=("data",),
    attrs=ShapeOfAttrs,
    type_rel=_shape_of_type,
    reference=lambda data, attrs: np.array(data.shape, attrs.dtype.numpy),
    compute=_shape_of_compute,
    value=lambda data, attrs, ty: ty.shape,
    fusion=Fusion.OPAQUE,
    cost=_written,
    of_extents=True,
    storage=True,
    samples=(
        Sample((((2, 3, 4), "float32"),), exact=True),
        Sample((((), "bool"),), {"dtype": "int64"}, exact=True),
        Sample((((0, 5), "int8"),), {"dtype": "int64"}, exact=True),
    ),
    doc="The dims of a tensor, as a tensor.",
)


def _size_type(relation: Relation, data: Type, attrs: ShapeOfAttrs) -> Type:
    tensor(relation, data, "data")
    return TensorType((), _integer(relation, attrs))


def _size_compute(data: Tensor, attrs: ShapeOfAttrs, out_type: TensorType) -> Tensor:
    return compute((), lambda: te.cast(product(data.shape), attrs.dtype), "ndarray_size")


ndarray_size = Op(
    name="ndarray_size",
    args=("data",),
    attrs=ShapeOfAttrs,
    type_rel=_size_type,
    reference=lambda data, attrs: np.array(data.size, attrs.dtype.numpy),
    compute=_size_compute,
    value=lambda data, attrs, ty: (product(ty.shape),),
    fusion=Fusion.OPAQUE,
    cost=_written,
    of_extents=True,
    storage=True,
    samples=(Sample((((2, 3, 4), "float32"),), exact=True), Sample((((), "bool"),), {"dtype": "int64"}, exact=True)),
    doc="The number of elements of a tensor.",
)
