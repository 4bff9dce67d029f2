"""Sums, differences and products of codes: qnn.add, qnn.subtract, qnn.mul.

Operands of other scales are brought to the result's first, as qnn.requantize does with its defaults; a product is
formed exactly and brought there once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Constant, Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, shape_of
from legato.ops._qnn import (
    along,
    centred,
    centred_array,
    check_parameters,
    clamped,
    clamped_array,
    is_constant,
    is_known,
    ratio,
    ratio_array,
    reach,
    rescaled,
    rescaled_array,
    spread_array,
)
from legato.ops._rules import broadcast_shapes, require_dtype, same_dtype, tensor
from legato.ops._tensors import Array

__all__ = ["QnnBinaryAttrs", "qnn_add", "qnn_mul", "qnn_subtract"]

_DEFAULT = ("UPWARD", "int64", dt.int32)  # how operands are brought to another scale


@dataclass(frozen=True, slots=True)
class QnnBinaryAttrs(Attrs):
    """`lhs_axis`, `rhs_axis`: those of vectors of an operand's scales."""

    lhs_axis: int = -1
    rhs_axis: int = -1


def _short(d: DType) -> bool:
    return d.is_int and d.bits <= 16


_short.__name__ = "an integer of at most 16 bits"


def _relation(
    rel: Relation,
    lhs: Type,
    rhs: Type,
    lhs_scale: Type,
    lhs_zero: Type,
    rhs_scale: Type,
    rhs_zero: Type,
    scale: Type,
    zero: Type,
    a: QnnBinaryAttrs,
) -> Type:
    left, right = tensor(rel, lhs, "lhs"), tensor(rel, rhs, "rhs")
    dtype = same_dtype(rel, left, right)
    require_dtype(rel, left, _short, "lhs")
    check_parameters(rel, left, lhs_scale, lhs_zero, a.lhs_axis if left.rank else None, "lhs")
    check_parameters(rel, right, rhs_scale, rhs_zero, a.rhs_axis if right.rank else None, "rhs")
    check_parameters(rel, left, scale, zero, None, "output")
    return TensorType(broadcast_shapes(rel, left.shape, right.shape), dtype)


# ------------------------------------------------------------------------------- operands


def _operand_array(x: Array, scale: Array, zero: Array, to: tuple[Array, Array], axis: int) -> Array:
    """Codes at the scale `to` says, in int32."""
    s, z = spread_array(scale, x.ndim, axis), spread_array(zero, x.ndim, axis)
    return rescaled_array(centred_array(x, z), ratio_array(s, to[0]), to[1], *_DEFAULT)


def _operand(b: Builder, x: Expr, scale: Expr, zero: Expr, to: tuple[Expr, Expr], axis: int) -> Expr:
    """`_operand_array` in programs; codes at that scale already are as they are."""
    if is_constant(scale, zero, *to) and _all_equal(scale, to[0]) and _all_equal(zero, to[1]):
        return b.cast(x, dtype=dt.int32)
    rank, factor = len(shape_of(x)), ratio(b, scale, to[0])
    own = centred(b, x, along(b, zero, rank, axis))
    return rescaled(b, own, along(b, factor, rank, axis), to[1], *_DEFAULT, reach(x, zero))


def _all_equal(a: Expr, c: Expr) -> bool:
    assert isinstance(a, Constant)
    assert isinstance(c, Constant)
    return bool((a.data == c.data).all())


def _scalars_array(*values: Array) -> tuple[Array, ...]:
    return tuple(v.reshape(()) for v in values)


# ------------------------------------------------------------------------------- sums


def _sum(name: str, on_arrays: Callable[[Any, Any], Any], sign: int, doc: str) -> Op:
    """A sum or a difference: (lhs′ ± rhs′) without the zero point that is in both, or in neither."""

    def reference(
        lhs: Array, rhs: Array, ls: Array, lz: Array, rs: Array, rz: Array, s: Array, z: Array, a: QnnBinaryAttrs
    ) -> Array:
        s, z = _scalars_array(s, z)
        left = _operand_array(lhs, ls, lz, (s, z), a.lhs_axis).astype(np.int64)
        right = _operand_array(rhs, rs, rz, (s, z), a.rhs_axis).astype(np.int64)
        return clamped_array(on_arrays(left, right) - sign * z.astype(np.int64), dt.dtype(lhs.dtype))

    def expand(
        b: Builder, lhs: Expr, rhs: Expr, ls: Expr, lz: Expr, rs: Expr, rz: Expr, s: Expr, z: Expr, a: QnnBinaryAttrs
    ) -> Expr:
        s, z = along(b, s, 0, 0), along(b, z, 0, 0)
        left = b.cast(_operand(b, lhs, ls, lz, (s, z), a.lhs_axis), dtype=dt.int64)
        right = b.cast(_operand(b, rhs, rs, rz, (s, z), a.rhs_axis), dtype=dt.int64)
        found = b.add(left, right) if sign > 0 else b.subtract(left, right)
        if not is_known(z, 0):
            zero = b.cast(z, dtype=dt.int64)
            found = b.subtract(found, zero) if sign > 0 else b.add(found, zero)
        return clamped(b, found, dtype_of(lhs))

    return _binary(name, reference, expand, doc)


_ARGS = ("lhs", "rhs", "lhs_scale", "lhs_zero_point", "rhs_scale", "rhs_zero_point", "output_scale",
         "output_zero_point")  # fmt: skip


def _binary(name: str, reference: Callable[..., Array], expand: Callable[..., Expr], doc: str) -> Op:
    return Op(
        name=name,
        args=_ARGS,
        attrs=QnnBinaryAttrs,
        type_rel=_relation,
        reference=quiet(reference),
        expand=expand,
        samples=_SAMPLES,
        doc=doc,
    )


def _scale(scale: Any, zero: Any) -> tuple[Array, Array]:
    return np.asarray(scale, np.float32), np.asarray(zero, np.int32)


_CODES = np.arange(0, 250, 7, dtype=np.uint8)
_SAMPLES = (
    Sample((((3, 4), "int8"), ((3, 4), "int8"), *_scale(0.1, 2), *_scale(0.3, -1), *_scale(0.2, 5))),
    Sample((_CODES, _CODES[::-1].copy(), *_scale(0.1, 128), *_scale(0.1, 128), *_scale(0.1, 128))),
    Sample((_CODES, np.array(200, np.uint8), *_scale(0.1, 3), *_scale(0.5, 100), *_scale(0.01, 0))),
    Sample((((2, 3), "int8"), ((2, 1), "int8"), *_scale([0.1, 0.2, 0.3], [0, 1, 2]), *_scale(0.1, 0),
            *_scale(0.1, 0)), {"lhs_axis": 1}),
    Sample((((2, 3), "int8"), ((2, 1), "int8"), *_scale(0.1, 0), *_scale([0.1, 0.3], [4, -5]), *_scale(0.1, 0)),
           {"rhs_axis": 0}),
    Sample((((3, 2), "int8"), ((3, 3, 1), "int8"), *_scale([0.1, 0.2, 0.3], [0, 1, 2]),
            *_scale([0.1, 0.2, 0.3], [0, 1, 2]), *_scale(0.1, 0)), {"lhs_axis": 0, "rhs_axis": 1}),
    Sample((_CODES, _CODES[::-1].copy(), *_scale(0.1, 3), *_scale(1e-9, -(2**31)), *_scale(0.2, 1))),
    Sample((((0, 3), "int8"), ((3,), "int8"), *_scale(0.1, 0), *_scale(0.3, 0), *_scale(0.2, 0))),
)  # fmt: skip

qnn_add = _sum(
    "qnn.add", np.add, 1, doc="""The codes of lhs + rhs: operands at the result's scale, added, saturated."""
)
qnn_subtract = _sum(
    "qnn.subtract",
    np.subtract,
    -1,
    doc="""The codes of lhs − rhs: operands at the result's scale, subtracted, saturated.""",
)

# ------------------------------------------------------------------------------- products


def _mul_reference(
    lhs: Array, rhs: Array, ls: Array, lz: Array, rs: Array, rz: Array, s: Array, z: Array, a: QnnBinaryAttrs
) -> Array:
    s, z = _scalars_array(s, z)
    ls, lz = (spread_array(p, lhs.ndim, a.lhs_axis) for p in (ls, lz))
    rs, rz = (spread_array(p, rhs.ndim, a.rhs_axis) for p in (rs, rz))
    product = centred_array(lhs, lz, dt.int64) * centred_array(rhs, rz, dt.int64)
    how = ("UPWARD", "int64", dt.dtype(lhs.dtype))
    return rescaled_array(product, ratio_array(ls.astype(np.float64) * rs.astype(np.float64), s), z, *how)


def _mul_expand(
    b: Builder, lhs: Expr, rhs: Expr, ls: Expr, lz: Expr, rs: Expr, rz: Expr, s: Expr, z: Expr, a: QnnBinaryAttrs
) -> Expr:
    s, z = along(b, s, 0, 0), along(b, z, 0, 0)
    ranks = len(shape_of(lhs)), len(shape_of(rhs))
    left = b.cast(centred(b, lhs, along(b, lz, ranks[0], a.lhs_axis), dt.int64), dtype=dt.int64)
    right = b.cast(centred(b, rhs, along(b, rz, ranks[1], a.rhs_axis), dt.int64), dtype=dt.int64)
    both = _both(b, along(b, ls, ranks[0], a.lhs_axis), along(b, rs, ranks[1], a.rhs_axis))
    far = reach(lhs, lz) * reach(rhs, rz)
    return rescaled(b, b.multiply(left, right), ratio(b, both, s), z, "UPWARD", "int64", dtype_of(lhs), far)


def _both(b: Builder, left: Expr, right: Expr) -> Expr:
    """The product of scales, in float64."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return b.constant(left.data.astype(np.float64) * right.data.astype(np.float64))
    return b.multiply(b.cast(left, dtype=dt.float64), b.cast(right, dtype=dt.float64))


qnn_mul = _binary(
    "qnn.mul",
    _mul_reference,
    _mul_expand,
    doc="""The codes of lhs · rhs: the product of both without their zero points, brought to the result's scale.""",
)
