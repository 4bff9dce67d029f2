"""Convolutions and products of codes, summed as integers: qnn.conv2d, conv2d_transpose, dense, batch_matmul.

    Σ (data − zero point of data) · (weight − zero point of weight)          in int32, not scaled

The numbers that the result stands for are these, times both scales; qnn.requantize makes codes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._gradients import shape_of
from legato.ops._qnn import CODES, along, centred, centred_array, check_parameters, spread_array
from legato.ops._rules import require_dtype, tensor
from legato.ops._tensors import Array, DtypeName
from legato.ops.conv import Conv2DAttrs, conv2d
from legato.ops.conv_transpose import Conv2DTransposeAttrs, conv2d_transpose
from legato.ops.linalg import (
    BatchMatmulAttrs,
    DenseAttrs,
    DensePackAttrs,
    batch_matmul,
    contrib_dense_pack,
    dense,
)

__all__ = ["QnnBatchMatmulAttrs", "QnnConv2DAttrs", "QnnConv2DTransposeAttrs", "QnnDenseAttrs", "QnnDensePackAttrs",
           "qnn_batch_matmul", "qnn_contrib_dense_pack", "qnn_conv2d", "qnn_conv2d_transpose",
           "qnn_dense"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class QnnConv2DAttrs(Conv2DAttrs):
    """As Conv2DAttrs; the sums are int32."""

    out_dtype: DtypeName = dt.int32


@dataclass(frozen=True, slots=True)
class QnnConv2DTransposeAttrs(Conv2DTransposeAttrs):
    """As Conv2DTransposeAttrs; the sums are int32."""

    out_dtype: DtypeName = dt.int32


@dataclass(frozen=True, slots=True)
class QnnDenseAttrs(DenseAttrs):
    """As DenseAttrs; the sums are int32."""

    out_dtype: DtypeName = dt.int32


@dataclass(frozen=True, slots=True)
class QnnDensePackAttrs(DensePackAttrs):
    """As DensePackAttrs; the sums are int32."""

    out_dtype: DtypeName = dt.int32


@dataclass(frozen=True, slots=True)
class QnnBatchMatmulAttrs(BatchMatmulAttrs):
    """As BatchMatmulAttrs; the sums are int32."""

    out_dtype: DtypeName = dt.int32


Axis = Callable[[Any], int | None]


def _plain(of: Op, a: Any) -> Any:
    """The attributes of the operator on numbers."""
    assert of.attrs is not None
    return of.attrs(**{f.name: a[f.name] for f in fields(of.attrs)})


def _relation(of: Op, axis: Axis) -> Callable[..., Type | None]:
    def relation(
        rel: Relation, data: Type, weight: Type, zero: Type, zeros: Type, scale: Type, scales: Type, a: Any
    ) -> Type | None:
        for name, given in (("data", data), ("weight", weight)):
            if name == "data" or isinstance(given, TensorType):
                require_dtype(rel, tensor(rel, given, name), CODES, name)
        if not dt.dtype(a.out_dtype or "int32").is_int:
            raise rel.fail(f"out_dtype is {a.out_dtype}, wanted integers")
        made = of.type_rel(rel, data, weight, _plain(of, a))
        if made is None:
            return None
        check_parameters(rel, tensor(rel, data), scale, zero, None, "input")
        check_parameters(rel, tensor(rel, weight, "weight"), scales, zeros, axis(a), "kernel")
        return made

    return relation


def _reference(of: Op, axis: Axis) -> Callable[..., Array]:
    def run(x: Array, w: Array, zero: Array, zeros: Array, scale: Array, scales: Array, a: Any) -> Array:
        laid = spread_array(zeros, w.ndim, axis(a) or 0)
        found = of.reference(
            centred_array(x, zero.reshape(()), dt.int32), centred_array(w, laid, dt.int32), _plain(of, a)
        )
        return np.asarray(found)

    return run


def _expand(of: Op, axis: Axis) -> Callable[..., Expr]:
    def expand(b: Builder, x: Expr, w: Expr, zero: Expr, zeros: Expr, scale: Expr, scales: Expr, a: Any) -> Expr:
        laid = along(b, zeros, len(shape_of(w)), axis(a) or 0)
        left = centred(b, x, along(b, zero, len(shape_of(x)), 0), dt.int32)
        return b.call_op(of, (left, centred(b, w, laid, dt.int32)), _plain(of, a))

    return expand


_PARAMETERS = ("input_zero_point", "kernel_zero_point", "input_scale", "kernel_scale")


def _contraction(
    of: Op,
    attrs: type,
    *,
    axis: Axis,
    samples: tuple[Sample, ...],
    doc: str,
    args: tuple[str, ...] = ("data", "weight", *_PARAMETERS),
) -> Op:
    """`of` on codes; `axis`: that of the weight along which zero points and scales may differ, None if none."""
    return Op(
        name=of.name.replace("nn.", "qnn.", 1),
        args=args,
        attrs=attrs,
        text_defaults=of.text_defaults,
        type_rel=_relation(of, axis),
        reference=_reference(of, axis),
        expand=_expand(of, axis),
        samples=samples,
        doc=doc,
    )


def _parameters(zero: int, zeros: Any) -> tuple[Array, ...]:
    scale = np.array(0.1, np.float32)
    each = np.asarray(zeros, np.int32)
    return np.array(zero, np.int32), each, scale, np.full(each.shape, 0.2, np.float32)


qnn_conv2d = _contraction(
    conv2d,
    QnnConv2DAttrs,
    axis=lambda a: a.kernel_layout.index("O"),
    samples=(
        Sample((((1, 3, 5, 6), "uint8"), ((4, 3, 3, 3), "int8"), *_parameters(5, 0)), {"padding": (1, 1)}),
        Sample((((1, 4, 5, 5), "int8"), ((6, 2, 3, 2), "int8"), *_parameters(0, 0)),
               {"groups": 2, "strides": (2, 1), "padding": (0, 1, 1, 0)}),
        Sample((((1, 4, 4, 3), "uint8"), ((2, 2, 3, 2), "uint8"), *_parameters(7, [3, -1])),
               {"data_layout": "NHWC", "kernel_layout": "HWIO", "dilation": (2, 1)}),
        Sample((((1, 3, 4, 4), "int16"), ((3, 1, 3, 3), "int8"), *_parameters(-2, [1, 2, 3])), {"groups": 3}),
    ),
    doc="""nn.conv2d of codes: (data − input_zero_point) with (weight − kernel_zero_point), in int32.

Padding is of the number 0. The kernel's zero point and scale are scalars, or vectors along its output channels.""",
)  # fmt: skip

qnn_conv2d_transpose = _contraction(
    conv2d_transpose,
    QnnConv2DTransposeAttrs,
    axis=lambda a: a.kernel_layout.index("O"),
    samples=(
        Sample((((1, 3, 4, 3), "uint8"), ((3, 2, 3, 3), "int8"), *_parameters(5, [1, 0])),
               {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 0)}),
        Sample((((1, 2, 3, 3), "int8"), ((2, 1, 2, 2), "int8"), *_parameters(0, 0)), {"groups": 2}),
    ),
    doc="""nn.conv2d_transpose of codes: (data − input_zero_point) with (weight − kernel_zero_point), in int32.

The kernel's zero point and scale are scalars, or vectors along the output channels of a group.""",
)  # fmt: skip

qnn_dense = _contraction(
    dense,
    QnnDenseAttrs,
    axis=lambda a: 0,
    samples=(
        Sample((((2, 5), "uint8"), ((3, 5), "int8"), *_parameters(9, [1, 2, -3]))),
        Sample((((2, 5), "int8"), ((3, 5), "int8"), *_parameters(0, 0)), {"units": 3}),
    ),
    doc="""nn.dense of codes: (data − input_zero_point) with (weight − kernel_zero_point), in int32.

The kernel's zero point and scale are scalars, or vectors along its rows.""",
)

qnn_contrib_dense_pack = _contraction(
    contrib_dense_pack,
    QnnDensePackAttrs,
    axis=lambda a: None,
    samples=(
        Sample((((2, 6), "uint8"), ((2, 6, 3), "int8"), *_parameters(9, 1)), {"weight_layout": "NC3n"}),
        Sample((((2, 5), "int8"), ((3, 5), "int8"), *_parameters(0, 0))),
    ),
    doc="""nn.contrib_dense_pack of codes: (data − input_zero_point) with (weight − kernel_zero_point), in int32.""",
)

qnn_batch_matmul = _contraction(
    batch_matmul,
    QnnBatchMatmulAttrs,
    axis=lambda a: None,
    args=("x", "y", "x_zero_point", "y_zero_point", "x_scale", "y_scale"),
    samples=(
        Sample((((2, 3, 4), "uint8"), ((2, 5, 4), "int8"), *_parameters(3, -1))),
        Sample((((1, 3, 4), "int8"), ((2, 4, 5), "int8"), *_parameters(0, 0)), {"transpose_b": False}),
    ),
    doc="""nn.batch_matmul of codes: (x − x_zero_point) with (y − y_zero_point), in int32.""",
)
