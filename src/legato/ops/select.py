"""Elementwise choice and conversion: where, clip, cast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.storage import reinterpreted
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._dtypes import convert
from legato.ops._families import EDGES, Array, broadcast_index, broadcast_value, elementwise, number, quiet
from legato.ops._gradients import dtype_of, no_gradient, only, shape_of, sum_to
from legato.ops._rules import NUMBER, broadcast_shapes, require_dtype, same_dtype, tensor
from legato.te.tensor import Tensor, compute

__all__ = ["CastAttrs", "ClipAttrs"]

# ------------------------------------------------------------------ where


def _where_type(relation: Relation, condition: Type, x: Type, y: Type) -> Type:
    choose = tensor(relation, condition, "condition")
    a, b = tensor(relation, x, "x"), tensor(relation, y, "y")
    if not choose.dtype.is_bool:
        raise relation.fail(f"the condition has dtype {choose.dtype}, wanted bool", hint="use cast or a comparison")
    return TensorType(broadcast_shapes(relation, choose.shape, a.shape, b.shape), same_dtype(relation, a, b))


def _where_compute(condition: Tensor, x: Tensor, y: Tensor, out_type: TensorType) -> Tensor:
    def body(*i: Expr) -> Expr:
        choose, a, b = (t[broadcast_index(i, t.shape, out_type.shape)] for t in (condition, x, y))
        return te.select(choose, a, b)

    return compute(out_type.shape, body, "where")


def _where_dim(choose: Dim, a: Dim, b: Dim) -> Dim:
    return a if a is b else te.select(te.ne(choose, const(0)), a, b)


def _where_gradient(b: Builder, call: Call, dy: Node) -> list[Node | None]:
    condition, x, y = call.args
    chosen = (only(b, condition, dy), x), (b.where(condition, 0, dy), y)
    return [None, *(sum_to(b, part, shape_of(operand)) for part, operand in chosen)]


_CHOICE = np.array([[True], [False], [True]])
where = Op(
    name="where",
    args=("condition", "x", "y"),
    type_rel=_where_type,
    reference=np.where,
    compute=_where_compute,
    grad=_where_gradient,
    value=broadcast_value(_where_dim),
    fusion=Fusion.BROADCAST,
    storage=True,
    samples=(
        Sample((_CHOICE, ((3, 4), "float32"), ((4,), "float32")), exact=True),
        Sample((_CHOICE, ((), "int64"), ((1, 2), "int64")), exact=True),
        Sample(
            (np.array([True, False]), np.array([np.nan, 1], np.float32), np.array([2, np.inf], np.float32)), exact=True
        ),
    ),
    doc="x where the condition holds, else y; all three are broadcast.",
)


# ------------------------------------------------------------------ clip


@dataclass(frozen=True, slots=True)
class ClipAttrs(Attrs):
    """`a_min`: the lower bound, -∞ leaves it open; `a_max`: the upper bound, ∞ leaves it open."""

    a_min: float = -math.inf
    a_max: float = math.inf


def _clip_type(relation: Relation, x: Type, attrs: ClipAttrs) -> Type:
    ty = tensor(relation, x, "data")
    require_dtype(relation, ty, NUMBER, "data")
    if math.isnan(attrs.a_min) or math.isnan(attrs.a_max):
        raise relation.fail(f"a bound is NaN: a_min={attrs.a_min}, a_max={attrs.a_max}")
    return ty


def _bound(value: float, d: DType, up: bool) -> int | float:
    """The bound as a number of the dtype: for integers rounded inwards and clamped to the range."""
    if d.is_float:
        return value
    if math.isinf(value):
        return d.max if value > 0 else d.min
    return min(max(math.ceil(value) if up else math.floor(value), d.min), d.max)


def _clip_reference(x: Array, attrs: ClipAttrs) -> Array:
    d = dt.dtype(x.dtype)
    lo, hi = (x.dtype.type(_bound(v, d, up)) for v, up in ((attrs.a_min, True), (attrs.a_max, False)))
    return np.asarray(np.minimum(np.maximum(x, lo), hi), x.dtype)


def _clip_compute(x: Tensor, attrs: ClipAttrs, out_type: TensorType) -> Tensor:
    lo, hi = (te.literal(_bound(v, x.dtype, up), x.dtype) for v, up in ((attrs.a_min, True), (attrs.a_max, False)))

    def body(v: Expr) -> Expr:
        low = v if attrs.a_min == -math.inf else te.max_(v, lo)
        return low if attrs.a_max == math.inf else te.min_(low, hi)

    return elementwise(x, body, "clip")


def _clip_value(x: Sequence[Dim] | None, attrs: ClipAttrs, ty: TensorType) -> tuple[Dim, ...] | None:
    if x is None:
        return None
    lo, hi = (const(int(_bound(v, ty.dtype, up))) for v, up in ((attrs.a_min, True), (attrs.a_max, False)))
    low = x if attrs.a_min == -math.inf else [te.max_(d, lo) for d in x]
    return tuple(low if attrs.a_max == math.inf else [te.min_(d, hi) for d in low])


def _clip_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """All within the bounds and on them."""
    (x,), a = call.args, call.attrs
    if a.a_min != -math.inf:
        dy = only(b, b.greater_equal(x, a.a_min), dy)
    return [dy if a.a_max == math.inf else only(b, b.less_equal(x, a.a_max), dy)]


clip = Op(
    name="clip",
    args=("data",),
    attrs=ClipAttrs,
    type_rel=_clip_type,
    reference=quiet(_clip_reference),
    compute=_clip_compute,
    grad=_clip_gradient,
    value=_clip_value,
    fusion=Fusion.ELEMWISE,
    samples=(
        Sample((((3, 4), "float32"),), {"a_min": -0.5, "a_max": 0.5}, exact=True),
        Sample((EDGES,), {"a_min": 0.0, "a_max": 6.0}, exact=True),
        Sample((EDGES,), {"a_min": 0.0}, exact=True),
        Sample((np.array([-128, -3, 0, 4, 127], np.int8),), {"a_min": -2.5, "a_max": 300.0}, exact=True),
        Sample((((3,), "float32"),), {"a_min": 1.0, "a_max": -1.0}, exact=True),
    ),
    doc="Elements below a_min become a_min, those above a_max (then) a_max; NaN stays NaN.",
)


# ------------------------------------------------------------------ cast, reinterpret


@dataclass(frozen=True, slots=True)
class CastAttrs(Attrs):
    """The dtype to convert to."""

    dtype: DType


def _cast_type(relation: Relation, x: Type, attrs: CastAttrs) -> Type:
    ty = tensor(relation, x, "data")
    if ty.dtype.is_string or attrs.dtype.is_string:
        hint = "strings.format writes numbers, strings.parse reads them"
        raise relation.fail(f"{ty.dtype} to {attrs.dtype}", hint=hint)
    return TensorType(ty.shape, attrs.dtype)


def _cast_compute(x: Tensor, attrs: CastAttrs, out_type: TensorType) -> Tensor:
    def body(v: Expr) -> Expr:
        if attrs.dtype.is_bool and not v.dtype.is_bool:
            v = number(v)
            return te.ne(v, te.literal(0, v))
        return te.cast(v, attrs.dtype)

    return elementwise(x, body, "cast")


def _cast_value(x: Sequence[Dim] | None, attrs: CastAttrs, ty: TensorType) -> tuple[Dim, ...] | None:
    if x is None or not attrs.dtype.is_bool or ty.dtype.is_bool:
        return None if x is None else tuple(x)
    return tuple(te.select(te.ne(d, const(0)), const(1), const(0)) for d in x)


def _cast_reference(x: Array, attrs: CastAttrs) -> Any:
    return convert(x, attrs.dtype)


_TO_INT = np.array([0.0, 1.9, -1.9, 300.0, -300.0, 3e9, -3e9, 1e20, np.inf, -np.inf, np.nan], np.float32)
cast = Op(
    name="cast",
    args=("data",),
    attrs=CastAttrs,
    type_rel=_cast_type,
    reference=quiet(_cast_reference),
    compute=_cast_compute,
    grad=lambda b, call, dy: [b.cast(dy, dtype=d) if (d := dtype_of(call.args[0])).is_float else None],
    value=_cast_value,
    fusion=Fusion.ELEMWISE,
    storage=True,
    samples=(
        *(Sample((_TO_INT,), {"dtype": d}, exact=True) for d in ("int8", "uint8", "int32", "int64", "bool", "float64")),
        Sample((np.array([-1, 0, 300, -(2**31)], np.int32),), {"dtype": "uint8"}, exact=True),
        Sample((np.array([-1, 0, 7], np.int64),), {"dtype": "float32"}, exact=True),
        Sample((np.array([True, False]),), {"dtype": "int32"}, exact=True),
        Sample((np.array([2, 0, -1], np.int32),), {"dtype": "bool"}, exact=True),
        Sample((((3, 4), "float32"),), {"dtype": "float16"}, exact=True),
        Sample((((3, 4), "float32"),), {"dtype": "bfloat16"}, exact=True),
        Sample((((3, 4), "float16"),), {"dtype": "float32"}, exact=True),
    ),
    doc="Converts elements. Float to integer truncates and saturates, NaN gives 0; integers wrap; to bool: is not 0.",
)


def _reinterpret_type(relation: Relation, x: Type, attrs: CastAttrs) -> Type:
    ty = tensor(relation, x, "data")
    if ty.dtype.is_string or attrs.dtype.is_string:
        raise relation.fail(f"{ty.dtype} as {attrs.dtype}: strings have no bits")
    if ty.dtype.width != attrs.dtype.width:
        wide = f"{ty.dtype.width} bits, and of {attrs.dtype} {attrs.dtype.width}"
        raise relation.fail(f"an element of {ty.dtype} has {wide}", hint="cast converts values")
    return TensorType(ty.shape, attrs.dtype)


def _reinterpret_compute(x: Tensor, attrs: CastAttrs, out_type: TensorType) -> Tensor:
    return elementwise(x, lambda v: te.reinterpret(v, attrs.dtype), "reinterpret")


def _reinterpret_reference(x: Array, attrs: CastAttrs) -> Any:
    return reinterpreted(x, attrs.dtype)


_NAN_BITS = np.array([0, 1, -1, 0x3C00, 0x7E00, 0x7FC1, -0x3F], np.int16)
reinterpret = Op(
    name="reinterpret",
    args=("data",),
    attrs=CastAttrs,
    type_rel=_reinterpret_type,
    reference=_reinterpret_reference,
    compute=_reinterpret_compute,
    grad=no_gradient,
    fusion=Fusion.ELEMWISE,
    storage=True,
    samples=(
        Sample((EDGES,), {"dtype": "int32"}, exact=True),
        Sample((((2, 3), "int64"),), {"dtype": "float64"}, exact=True),
        Sample((((), "float64"),), {"dtype": "uint64"}, exact=True),
        Sample((((0, 3), "float16"),), {"dtype": "int16"}, exact=True),
        *(Sample((_NAN_BITS,), {"dtype": d}, exact=True) for d in ("float16", "bfloat16", "uint16")),
        Sample((np.array([True, False]),), {"dtype": "uint8"}, exact=True),
        Sample((np.array([2, 0, 255], np.uint8),), {"dtype": "bool"}, exact=True),
        Sample((np.arange(256, dtype=np.uint8),), {"dtype": "float8_e4m3fn"}, exact=True),
    ),
    doc="The bits of each element as one of another dtype of that width. A byte as a bool is True unless it is 0.",
)
