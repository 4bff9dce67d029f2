"""Codes at another scale: qnn.requantize, and the fixed-point products that it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, shape_of
from legato.ops._qnn import (
    CODES,
    COMPUTE_DTYPES,
    ROUNDINGS,
    along,
    centred,
    centred_array,
    check_parameters,
    ratio,
    ratio_array,
    reach,
    rescaled,
    rescaled_array,
    spread_array,
)
from legato.ops._rules import INT, normalize_axis, require_dtype, require_rank, tensor
from legato.ops._tensors import Array, DtypeName, require_choice

__all__ = ["FixedPointAttrs", "FixedPointPerAxisAttrs", "RequantizeAttrs", "fixed_point_multiply",
           "fixed_point_multiply_per_axis", "requantize"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequantizeAttrs(Attrs):
    """`axis`: that of vectors of input scales; `rounding`: of halves, UPWARD, TONEAREST (away from 0), TONEVEN (to the
    even integer, as ONNX rounds), None is UPWARD; `compute_dtype`: int64 (fixed-point, with factors of 31 bits),
    float32 (as ONNX Runtime computes) or float64, None is int64; `out_dtype`: that of the codes."""

    axis: int = -1
    rounding: str = "None"
    compute_dtype: DtypeName = "None"
    out_dtype: DtypeName = dt.int8


def _how(a: RequantizeAttrs) -> tuple[str, str, dt.DType]:
    rounding = "UPWARD" if a.rounding == "None" else a.rounding
    return rounding, _computed(a), dt.dtype(a.out_dtype or "int8")


def _computed(a: RequantizeAttrs) -> str:
    return "int64" if a.compute_dtype in (None, "", "None") else str(a.compute_dtype)


def _relation(
    rel: Relation, data: Type, in_scale: Type, in_zero: Type, out_scale: Type, out_zero: Type, a: RequantizeAttrs
) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, CODES, "data")
    require_choice(rel, "rounding", a.rounding, ("None", *ROUNDINGS))
    require_choice(rel, "compute_dtype", _computed(a), COMPUTE_DTYPES)
    axis = a.axis if ty.rank else None
    check_parameters(rel, ty, in_scale, in_zero, axis, "input")
    check_parameters(rel, ty, out_scale, out_zero, axis, "output")
    made = TensorType(ty.shape, _how(a)[2])
    require_dtype(rel, made, CODES, "result")
    return made


def _reference(x: Array, in_scale: Array, in_zero: Array, out_scale: Array, out_zero: Array, a: Any) -> Array:
    si, zi, so, zo = (spread_array(p, x.ndim, a.axis) for p in (in_scale, in_zero, out_scale, out_zero))
    return rescaled_array(centred_array(x, zi), ratio_array(si, so), zo, *_how(a))


def _expand(b: Builder, x: Expr, in_scale: Expr, in_zero: Expr, out_scale: Expr, out_zero: Expr, a: Any) -> Expr:
    rank, factor = len(shape_of(x)), ratio(b, in_scale, out_scale)
    zi, zo = (along(b, p, rank, a.axis) for p in (in_zero, out_zero))
    return rescaled(b, centred(b, x, zi), along(b, factor, rank, a.axis), zo, *_how(a), reach(x, in_zero))


def _real(value: float) -> Array:
    return np.array(value, np.float32)


def _whole(value: int) -> Array:
    return np.array(value, np.int32)


_SUMS = np.array([[-(2**31), -1001, -5, -3, -1, 0], [1, 3, 5, 7, 999, 2**31 - 1]], np.int32)
_HALF = (_real(0.5), _whole(0), _real(1.0), _whole(0))
_LONG = np.array([2**24 + 1, -(2**24) - 1, 2**31 - 65], np.int32)  # longer than a mantissa of float32
_SAME = (_real(0.3), _whole(0), _real(0.3), _whole(0))
_ODD = (_real(0.037), _whole(3), _real(0.41), _whole(-5))
_EACH = (np.array([0.5, 2.0, 0.001], np.float32), np.array([0, 1, -2], np.int32), _real(0.7), _whole(1))

requantize = Op(
    name="qnn.requantize",
    args=("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point"),
    attrs=RequantizeAttrs,
    type_rel=_relation,
    reference=quiet(_reference),
    expand=_expand,
    samples=(
        *(
            Sample((_SUMS, *scales), {"rounding": rounding, "compute_dtype": compute, "out_dtype": "int32"})
            for scales in (_HALF, _ODD)
            for rounding in ROUNDINGS
            for compute in COMPUTE_DTYPES
        ),
        Sample((_LONG, *_SAME), {"compute_dtype": "float32", "out_dtype": "int32"}),
        Sample((((2, 3, 4), "int32"), *_EACH), {"axis": 1}),
        Sample((((2, 3, 4), "uint8"), *_EACH), {"axis": 1, "out_dtype": "uint8"}),
        Sample((((5,), "int8"), _real(0.5), _whole(1), _real(0.5), _whole(-2)), {"out_dtype": "int16"}),
        Sample((((5,), "int8"), _real(1e20), _whole(1), _real(1e-20), _whole(-2))),
        Sample((((0, 3), "int32"), *_ODD)),
    ),
    doc="""Codes at another scale and zero point, saturated to `out_dtype`:

round((data − input_zero_point) · input_scale / output_scale) + output_zero_point.""",
)

# ------------------------------------------------------------------------------- fixed-point products


@dataclass(frozen=True, slots=True)
class FixedPointAttrs(Attrs):
    """`multiplier`: of 32 bits, the factor is this / 2³¹ · 2^shift; `shift`: to the left, from -31 to 30."""

    multiplier: int
    shift: int


@dataclass(frozen=True, slots=True)
class FixedPointPerAxisAttrs(Attrs):
    """`is_lshift_required`: whether data are shifted to the left first; `is_rshift_required`: whether products are to
    the right; `axes`: those of the data along which there are factors."""

    is_lshift_required: bool = False
    is_rshift_required: bool = False
    axes: tuple[int, ...] = ()


def _fixed_relation(rel: Relation, data: Type, a: FixedPointAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, INT, "data")
    if not -31 <= a.shift <= 30 or not -(2**31) <= a.multiplier < 2**31:
        raise rel.fail(f"multiplier {a.multiplier} and shift {a.shift}: wanted 32 bits, and a shift from -31 to 30")
    return ty


def _fixed_reference(x: Array, a: FixedPointAttrs) -> Array:
    product, shift = x.astype(np.int64) * np.int64(a.multiplier), np.int64(31 - a.shift)
    return ((product + (np.int64(1) << (shift - 1))) >> shift).astype(x.dtype)


def _fixed_expand(b: Builder, x: Expr, a: FixedPointAttrs) -> Expr:
    product, shift = b.multiply(b.cast(x, dtype=dt.int64), a.multiplier), 31 - a.shift
    return b.cast(b.right_shift(b.add(product, 1 << (shift - 1)), shift), dtype=dtype_of(x))


_X = np.array([[-(2**31), -1001, -5], [3, 999, 2**31 - 1]], np.int32)

fixed_point_multiply = Op(
    name="fixed_point_multiply",
    args=("data",),
    attrs=FixedPointAttrs,
    type_rel=_fixed_relation,
    reference=_fixed_reference,
    expand=_fixed_expand,
    samples=(
        Sample((_X,), {"multiplier": 1 << 30, "shift": 0}),
        Sample((_X,), {"multiplier": 1518500250, "shift": -9}),
        Sample((((4,), "int32"),), {"multiplier": 1 << 30, "shift": 3}),
    ),
    doc="""data · multiplier / 2³¹ · 2^shift, rounded to the nearest integer, halves upwards.

Products are formed in int64; the result wraps.""",
)


def _per_axis_relation(
    rel: Relation, data: Type, factor: Type, left: Type, right: Type, a: FixedPointPerAxisAttrs
) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, INT, "data")
    axes = [normalize_axis(rel, n, ty.rank) for n in a.axes]
    if sorted(set(axes)) != axes:
        raise rel.fail(f"axes are {a.axes}, wanted each once, in ascending order")
    for name, given in (("multiplier", factor), ("left shift", left), ("right shift", right)):
        of = tensor(rel, given, name)
        require_dtype(rel, of, INT, name)
        require_rank(rel, of, len(axes), what=name)
        for n, d in zip(axes, of.shape, strict=True):
            rel.same(d, ty.shape[n], f"the {name} along axis {n}")
    return ty


def _per_axis_reference(x: Array, factor: Array, left: Array, right: Array, a: FixedPointPerAxisAttrs) -> Array:
    axes = {n % x.ndim for n in a.axes}
    shape = [x.shape[n] if n in axes else 1 for n in range(x.ndim)]
    m, before, behind = (p.astype(np.int64).reshape(shape) for p in (factor, left, right))
    wide = x.astype(np.int64) << before % 64 if a.is_lshift_required else x.astype(np.int64)
    shift = behind + 31 if a.is_rshift_required else np.int64(31)
    return ((wide * m + (np.int64(1) << (shift - 1) % 64)) >> shift % 64).astype(x.dtype)


def _per_axis_expand(b: Builder, x: Expr, factor: Expr, left: Expr, right: Expr, a: FixedPointPerAxisAttrs) -> Expr:
    rank = len(shape_of(x))
    axes = sorted(n % rank for n in a.axes)
    others = tuple(n for n in range(rank) if n not in axes)

    def laid(p: Expr) -> Expr:
        for n in others:
            p = b.expand_dims(p, axis=n)
        return b.cast(p, dtype=dt.int64)

    wide = b.cast(x, dtype=dt.int64)
    wide = b.left_shift(wide, laid(left)) if a.is_lshift_required else wide
    shift = b.add(laid(right), 31) if a.is_rshift_required else b.constant(31, dt.int64)
    half = b.left_shift(b.constant(1, dt.int64), b.subtract(shift, 1))
    return b.cast(b.right_shift(b.add(b.multiply(wide, laid(factor)), half), shift), dtype=dtype_of(x))


_FACTORS = np.array([1 << 30, 1518500250, 2147483647], np.int32)
_SHIFTS = np.array([0, 1, 7], np.int32)

fixed_point_multiply_per_axis = Op(
    name="fixed_point_multiply_per_axis",
    args=("data", "multiplier", "lshift", "rshift"),
    attrs=FixedPointPerAxisAttrs,
    type_rel=_per_axis_relation,
    reference=_per_axis_reference,
    expand=_per_axis_expand,
    samples=(
        Sample((_X, _FACTORS, _SHIFTS, _SHIFTS), {"axes": (1,), "is_rshift_required": True}),
        Sample((((2, 3, 2), "int32"), _FACTORS, _SHIFTS, _SHIFTS), {"axes": (1,), "is_lshift_required": True}),
        Sample((((3,), "int32"), _FACTORS, _SHIFTS, _SHIFTS),
               {"axes": (0,), "is_lshift_required": True, "is_rshift_required": True}),
        Sample((_X, _FACTORS, np.array([64, -1, 63], np.int32), np.array([33, 40, -32], np.int32)),
               {"axes": (1,), "is_lshift_required": True, "is_rshift_required": True}),
    ),
    doc="""fixed_point_multiply with factors along axes: data · 2^lshift · multiplier / 2³¹ / 2^rshift, halves upwards.

Shifts count only where the attributes say that they are required, modulo 64 as those of right_shift.""",
)  # fmt: skip
