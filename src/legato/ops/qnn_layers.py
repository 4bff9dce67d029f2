"""Layers on codes: qnn.concatenate, qnn.avg_pool2d, qnn.softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Constant, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of
from legato.ops._qnn import (
    CODES,
    along,
    centred,
    centred_array,
    check_parameters,
    codes,
    codes_array,
    is_constant,
    numbers,
    numbers_array,
    ratio,
    ratio_array,
    reach,
    rescaled,
    rescaled_array,
)
from legato.ops._rules import require_dtype, tensor, tensors
from legato.ops._tensors import Array
from legato.ops.join import ConcatenateAttrs, concatenate
from legato.ops.pool import AvgPoolAttrs, avg_pool2d
from legato.ops.softmax import SoftmaxAttrs, softmax

__all__ = ["QnnAvgPool2DAttrs", "qnn_avg_pool2d", "qnn_concatenate", "qnn_softmax"]

# ------------------------------------------------------------------------------- concatenate


def _concatenate_relation(
    rel: Relation, data: Type, scales: Type, zeros: Type, scale: Type, zero: Type, a: ConcatenateAttrs
) -> Type | None:
    parts = tensors(rel, data, "data")
    each = tensors(rel, scales, "input scales"), tensors(rel, zeros, "input zero points")
    if not len(parts) == len(each[0]) == len(each[1]):
        raise rel.fail(f"{len(parts)} tensors, {len(each[0])} scales and {len(each[1])} zero points")
    require_dtype(rel, parts[0], CODES, "data")
    for n, (part, s, z) in enumerate(zip(parts, *each, strict=True)):
        check_parameters(rel, part, s, z, None, f"input {n}")
    check_parameters(rel, parts[0], scale, zero, None, "output")
    return concatenate.type_rel(rel, data, a)


def _concatenate_reference(
    data: tuple[Array, ...],
    scales: tuple[Array, ...],
    zeros: tuple[Array, ...],
    scale: Array,
    zero: Array,
    a: ConcatenateAttrs,
) -> Array:
    how, s, z = ("UPWARD", "int64", dt.dtype(data[0].dtype)), scale.reshape(()), zero.reshape(())
    each = zip(data, scales, zeros, strict=True)
    parts = [
        rescaled_array(centred_array(x, zi.reshape(())), ratio_array(si.reshape(()), s), z, *how) for x, si, zi in each
    ]
    return np.concatenate(parts, a.axis)


def _fields(b: Builder, value: Expr) -> list[Expr]:
    assert isinstance(value.ty, TupleType)
    return [b.get(value, n) for n in range(len(value.ty.fields))]


def _rescaled_part(b: Builder, x: Expr, scale: Expr, zero: Expr, to: tuple[Expr, Expr]) -> Expr:
    scale, zero = along(b, scale, 0, 0), along(b, zero, 0, 0)
    if is_constant(scale, zero, *to):
        same = [p.data == q.data for p, q in zip((scale, zero), to, strict=True)
                if isinstance(p, Constant) and isinstance(q, Constant)]  # fmt: skip
        if all(same):
            return x
    how = ("UPWARD", "int64", dtype_of(x))
    return rescaled(b, centred(b, x, zero), ratio(b, scale, to[0]), to[1], *how, reach(x, zero))


def _concatenate_expand(
    b: Builder, data: Expr, scales: Expr, zeros: Expr, scale: Expr, zero: Expr, a: ConcatenateAttrs
) -> Expr:
    to = along(b, scale, 0, 0), along(b, zero, 0, 0)
    each = zip(*(_fields(b, v) for v in (data, scales, zeros)), strict=True)
    return b.call_op(concatenate, (b.tuple_([_rescaled_part(b, x, s, z, to) for x, s, z in each]),), a)


def _real(value: float) -> Array:
    return np.array(value, np.float32)


def _whole(value: int) -> Array:
    return np.array(value, np.int32)


qnn_concatenate = Op(
    name="qnn.concatenate",
    args=("data", "input_scales", "input_zero_points", "output_scale", "output_zero_point"),
    attrs=ConcatenateAttrs,
    type_rel=_concatenate_relation,
    reference=quiet(_concatenate_reference),
    expand=_concatenate_expand,
    samples=(
        Sample(([((2, 3), "int8"), ((2, 2), "int8")], [_real(0.1), _real(0.3)], [_whole(1), _whole(2)], _real(0.2),
                _whole(-1)), {"axis": 1}),
        Sample(([((2, 3), "uint8"), ((1, 3), "uint8")], [_real(0.5), _real(0.2)], [_whole(1), _whole(2)], _real(0.5),
                _whole(1)), {"axis": 0}),
    ),
    doc="""concatenate of codes, each tensor brought to the result's scale as qnn.requantize does with its defaults.""",
)  # fmt: skip

# ------------------------------------------------------------------------------- avg_pool2d


@dataclass(frozen=True, slots=True)
class QnnAvgPool2DAttrs(AvgPoolAttrs):
    """As AvgPoolAttrs."""

    layout: str = "NHWC"
    count_include_pad: bool = True


def _unary_relation(of: Op, rel: Relation, data: Type, parameters: tuple[Type, ...], a: Any) -> Type | None:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, CODES, "data")
    scale, zero, out_scale, out_zero = parameters
    check_parameters(rel, ty, scale, zero, None, "input")
    check_parameters(rel, ty, out_scale, out_zero, None, "output")
    made = of.type_rel(rel, TensorType(ty.shape, dt.float32), a)
    return TensorType(made.shape, ty.dtype) if isinstance(made, TensorType) else None


def _pool_attrs(a: QnnAvgPool2DAttrs) -> AvgPoolAttrs:
    return AvgPoolAttrs(**a)


def _pool_reference(x: Array, scale: Array, zero: Array, out_scale: Array, out_zero: Array, a: Any) -> Array:
    s, z, so, zo = (p.reshape(()) for p in (scale, zero, out_scale, out_zero))
    means = avg_pool2d.reference(centred_array(x, z).astype(np.float32), _pool_attrs(a))
    return codes_array(np.asarray(means * s.astype(np.float32)), so, zo, dt.dtype(x.dtype))


def _pool_expand(b: Builder, x: Expr, scale: Expr, zero: Expr, out_scale: Expr, out_zero: Expr, a: Any) -> Expr:
    s, z, so, zo = (along(b, p, 0, 0) for p in (scale, zero, out_scale, out_zero))
    means = b.call_op(avg_pool2d, (b.cast(centred(b, x, z), dtype=dt.float32),), _pool_attrs(a))
    return codes(b, b.multiply(means, b.cast(s, dtype=dt.float32)), so, zo, dtype_of(x))


_PARAMETERS = (_real(0.1), _whole(3), _real(0.07), _whole(-2))

qnn_avg_pool2d = Op(
    name="qnn.avg_pool2d",
    args=("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point"),
    attrs=QnnAvgPool2DAttrs,
    type_rel=lambda rel, data, *rest: _unary_relation(avg_pool2d, rel, data, rest[:4], rest[4]),
    reference=quiet(_pool_reference),
    expand=_pool_expand,
    samples=(
        Sample((((1, 5, 5, 2), "int8"), *_PARAMETERS), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}),
        Sample((((1, 2, 4, 6), "uint8"), _real(0.1), _whole(3), _real(0.1), _whole(3)),
               {"pool_size": (2, 3), "layout": "NCHW", "count_include_pad": False, "padding": (1, 0)}),
        Sample((((1, 6, 6, 1), "int8"), *_PARAMETERS), {"pool_size": (3, 3), "strides": (2, 2), "ceil_mode": True}),
    ),
    doc="""nn.avg_pool2d of codes. Sums are exact up to 2²⁴, means formed in float32. Padding is of the number 0.""",
)  # fmt: skip

# ------------------------------------------------------------------------------- softmax


def _softmax_reference(x: Array, scale: Array, zero: Array, out_scale: Array, out_zero: Array, a: Any) -> Array:
    s, z, so, zo = (p.reshape(()) for p in (scale, zero, out_scale, out_zero))
    return codes_array(softmax.reference(numbers_array(x, s, z, dt.float32), a), so, zo, dt.dtype(x.dtype))


def _softmax_expand(b: Builder, x: Expr, scale: Expr, zero: Expr, out_scale: Expr, out_zero: Expr, a: Any) -> Expr:
    s, z, so, zo = (along(b, p, 0, 0) for p in (scale, zero, out_scale, out_zero))
    return codes(b, b.call_op(softmax, (numbers(b, x, s, z, dt.float32),), a), so, zo, dtype_of(x))


_SHARES = (_real(0.1), _whole(3), _real(1 / 256), _whole(-128))

qnn_softmax = Op(
    name="qnn.softmax",
    args=("x", "scale", "zero_point", "output_scale", "output_zero_point"),
    attrs=SoftmaxAttrs,
    type_rel=lambda rel, data, *rest: _unary_relation(softmax, rel, data, rest[:4], rest[4]),
    reference=quiet(_softmax_reference),
    expand=_softmax_expand,
    samples=(
        Sample((((2, 5), "int8"), *_SHARES)),
        Sample((((2, 3, 2), "int8"), *_SHARES), {"axis": 1}),
    ),
    doc="""nn.softmax of the numbers that x stands for, in float32, as codes.""",
)
