"""Numbers to codes and back: qnn.quantize, qnn.dequantize, and their simulations in floats.

Scales and zero points are scalars, vectors along `axis`, of blocks of it, or of the data's rank and broadcast.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from legato.arith.expr import cdiv, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._computed import steps
from legato.ops._families import quiet
from legato.ops._gradients import dtype_of, extents, shape_of
from legato.ops._qnn import (
    CODES,
    along,
    check_parameters,
    codes,
    codes_array,
    numbers,
    numbers_array,
    spread_array,
)
from legato.ops._rules import FLOAT, INT, NUMBER, normalize_axis, require_dtype, require_rank, stretch, tensor
from legato.ops._tensors import Array, DtypeName, known_int, result_dtype

__all__ = ["DequantizeAttrs", "QuantizeAttrs", "SimulatedAttrs", "dequantize", "quantize", "simulated_dequantize",
           "simulated_quantize"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuantizeAttrs(Attrs):
    """`out_dtype`: that of the codes; `axis`: that of scales that are a vector, or of blocks; `block_size`: how many
    elements along it share a scale, which has the rank of the data then; 0: there are no blocks."""

    out_dtype: DtypeName = dt.int8
    axis: int = -1
    block_size: int = 0


@dataclass(frozen=True, slots=True)
class DequantizeAttrs(Attrs):
    """As QuantizeAttrs; `out_dtype`: that of the numbers, "" is the scale's."""

    out_dtype: DtypeName = ""
    axis: int = -1
    block_size: int = 0


Blocked = QuantizeAttrs | DequantizeAttrs


def _check(rel: Relation, data: TensorType, scale: Type, zero: Type, a: Blocked) -> None:
    if a.block_size < 0:
        raise rel.fail(f"block_size is {a.block_size}, wanted at least 0")
    if not a.block_size and data.rank > 1 and all(tensor(rel, p).rank in (0, data.rank) for p in (scale, zero)):
        return _check_broadcast(rel, data, scale, zero)
    if not a.block_size:
        return check_parameters(rel, data, scale, zero, a.axis if data.rank else None)
    at = normalize_axis(rel, a.axis, data.rank)
    for name, given, test in (("scale", scale, FLOAT), ("zero point", zero, CODES)):
        ty = tensor(rel, given, name)
        require_dtype(rel, ty, test, name)
        if name == "zero point" and ty.rank == 0:
            continue
        require_rank(rel, ty, data.rank, what=name)
        for n, (d, of) in enumerate(zip(ty.shape, data.shape, strict=True)):
            rel.same(d, cdiv(of, const(a.block_size)) if n == at else of, f"the {name}, dim {n}")
    return None


def _check_broadcast(rel: Relation, data: TensorType, scale: Type, zero: Type) -> None:
    """Parameters of the rank of the data, which broadcast."""
    for name, given, test in (("scale", scale, FLOAT), ("zero point", zero, CODES)):
        ty = tensor(rel, given, name)
        require_dtype(rel, ty, test, name)
        for n, (d, wanted) in enumerate(zip(ty.shape, data.shape, strict=False)):
            stretch(rel, d, wanted, f"the {name}, dim {n}")


def _laid_array(p: Array, x: Array, a: Blocked) -> Array:
    """A parameter as it broadcasts against the data."""
    if not a.block_size or not p.ndim:
        return spread_array(p, x.ndim, a.axis)
    return np.repeat(p, _times(a.block_size, x.shape[a.axis]), a.axis)[tuple(slice(n) for n in x.shape)]


def _times(block: int, extent: int | None) -> int:
    """How often a parameter is there: a block may be longer than the dim."""
    return block if extent is None else min(block, max(extent, 1))


def _laid(b: Builder, p: Expr, x: Expr, a: Blocked) -> Expr:
    shape = shape_of(x)
    if not a.block_size or not shape_of(p):
        return along(b, p, len(shape), a.axis)
    at = a.axis % len(shape)
    extent = known_int(shape[at])
    if extent is None:  # repeated, a block that is longer than any dim would be made
        blocks = b.floor_divide(steps(b, shape[at]), b.constant(a.block_size, dt.int64))
        return b.take(p, blocks, axis=at)
    whole = b.repeat(p, repeats=_times(a.block_size, extent), axis=at)
    return b.strided_slice(whole, begin=(0,), end=extents([shape[at]]), strides=(1,), axes=(at,))


def _quantize_relation(rel: Relation, data: Type, scale: Type, zero: Type, a: QuantizeAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, NUMBER, "data")
    _check(rel, ty, scale, zero, a)
    made = TensorType(ty.shape, dt.dtype(a.out_dtype or "int8"))
    require_dtype(rel, made, CODES, "result")
    return made


def _dequantize_relation(rel: Relation, data: Type, scale: Type, zero: Type, a: DequantizeAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, CODES, "data")
    _check(rel, ty, scale, zero, a)
    made = TensorType(ty.shape, result_dtype(a.out_dtype, tensor(rel, scale, "scale").dtype))
    require_dtype(rel, made, FLOAT, "result")
    return made


def _quantize_reference(x: Array, scale: Array, zero: Array, a: QuantizeAttrs) -> Array:
    return codes_array(x, _laid_array(scale, x, a), _laid_array(zero, x, a), dt.dtype(a.out_dtype or "int8"))


def _quantize_expand(b: Builder, x: Expr, scale: Expr, zero: Expr, a: QuantizeAttrs) -> Expr:
    return codes(b, x, _laid(b, scale, x, a), _laid(b, zero, x, a), dt.dtype(a.out_dtype or "int8"))


def _dequantize_reference(x: Array, scale: Array, zero: Array, a: DequantizeAttrs) -> Array:
    return numbers_array(
        x, _laid_array(scale, x, a), _laid_array(zero, x, a), result_dtype(a.out_dtype, dt.dtype(scale.dtype))
    )


def _dequantize_expand(b: Builder, x: Expr, scale: Expr, zero: Expr, a: DequantizeAttrs) -> Expr:
    return numbers(b, x, _laid(b, scale, x, a), _laid(b, zero, x, a), result_dtype(a.out_dtype, dtype_of(scale)))


_SCALE, _ZERO = np.array(0.05, np.float32), np.array(3, np.int32)
_SCALES = np.array([0.01, 0.1, 1.0], np.float32)
_ZEROS = np.array([0, -7, 30], np.int32)
_HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
_ONE = np.array(1.0, np.float32)
_BLOCKS = np.array([[0.1, 0.2, 0.3]] * 2, np.float32)

quantize = Op(
    name="qnn.quantize",
    args=("data", "output_scale", "output_zero_point"),
    attrs=QuantizeAttrs,
    type_rel=_quantize_relation,
    reference=quiet(_quantize_reference),
    expand=_quantize_expand,
    samples=(
        Sample((((3, 4), "float32"), _SCALE, _ZERO)),
        Sample((_HALVES, _ONE, np.array(0, np.int8))),
        Sample((_HALVES, _ONE, np.array(7, np.uint8)), {"out_dtype": "uint8"}),
        Sample((_HALVES, _ONE, np.array(9, np.int32)), {"out_dtype": "int32"}),
        Sample((((2, 3, 4), "float32"), _SCALES, _ZEROS), {"axis": 1, "out_dtype": "uint16"}),
        Sample((((3,), "float16"), _SCALES.astype(np.float16), _ZEROS), {"out_dtype": "int16", "axis": 0}),
        Sample((((2, 5), "float32"), _BLOCKS, np.array([[1, 2, 3]] * 2, np.int8)), {"block_size": 2}),
        Sample((((2, 3, 3), "float32"), _BLOCKS[:, :, None], np.array([[[1]], [[2]]], np.int32))),
        Sample((((), "float64"), _SCALE.astype(np.float64), _ZERO)),
        Sample((((0, 3), "float32"), _SCALES, _ZEROS)),
        Sample((((2, 3), "int32"), _SCALE, _ZERO)),
    ),
    doc="""The codes of numbers: saturate(round(data / output_scale) + output_zero_point) in `out_dtype`.

Halves are rounded to the even integer; NaN becomes the zero point.""",
)

_WORDS = np.array([[-128, -1, 0], [1, 100, 127]], np.int8)

dequantize = Op(
    name="qnn.dequantize",
    args=("data", "input_scale", "input_zero_point"),
    attrs=DequantizeAttrs,
    type_rel=_dequantize_relation,
    reference=quiet(_dequantize_reference),
    expand=_dequantize_expand,
    samples=(
        Sample((_WORDS, _SCALE, _ZERO), exact=True),
        Sample((_WORDS.astype(np.uint8), _SCALES, _ZEROS), {"axis": 1}, exact=True),
        Sample((np.array([100, -101], np.int32), _SCALE, np.array(0, np.int32)), exact=True),
        Sample((np.array([100, -101], np.int32), _SCALE, _ZERO), exact=True),
        Sample((((2, 5), "int8"), _BLOCKS, np.array(0, np.int8)), {"block_size": 2}, exact=True),
        Sample((((2, 5), "int8"), _BLOCKS[:, :1], np.array(0, np.int8)), {"block_size": 1 << 40}, exact=True),
        Sample((((3,), "uint16"), _SCALE.astype(np.float16), _ZERO), {"out_dtype": "float16"}, exact=True),
        Sample((((0, 3), "int8"), _SCALES, _ZEROS), exact=True),
    ),
    doc="""The numbers that codes stand for: (data − input_zero_point) · input_scale.""",
)

# ------------------------------------------------------------------------------- simulations

_KINDS: Final = {1: dt.int8, 2: dt.uint8, 3: dt.int32}  # what a scalar says that names a dtype; others: none


@dataclass(frozen=True, slots=True)
class SimulatedAttrs(Attrs):
    """`axis`: that of the scales, where they are a vector."""

    axis: int = -1


def _simulated_relation(rel: Relation, data: Type, kind: Type, scale: Type, zero: Type, a: SimulatedAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    named = tensor(rel, kind, "dtype")
    require_rank(rel, named, 0, what="dtype")
    require_dtype(rel, named, INT, "dtype")
    for name, given in (("scale", scale), ("zero point", zero)):
        require_dtype(rel, tensor(rel, given, name), NUMBER, name)
    whole = tensor(rel, zero, "zero point")
    check_parameters(rel, ty, scale, TensorType(whole.shape, dt.int32), a.axis if ty.rank else None)
    return ty


def _simulated_quantize(x: Array, kind: Array, scale: Array, zero: Array, a: SimulatedAttrs) -> Array:
    named = _KINDS.get(int(kind))
    if named is None:
        return x.copy()
    s, z = (spread_array(p, x.ndim, a.axis).astype(x.dtype) for p in (scale, zero))
    lo, hi = x.dtype.type(named.min), x.dtype.type(named.max)
    return np.asarray(np.minimum(np.maximum(np.rint(x / s) + z, lo), hi))


def _simulated_dequantize(x: Array, kind: Array, scale: Array, zero: Array, a: SimulatedAttrs) -> Array:
    s, z = (spread_array(p, x.ndim, a.axis).astype(x.dtype) for p in (scale, zero))
    return np.asarray((x - z) * s) if int(kind) in _KINDS else x.copy()


def _bound(b: Builder, kind: Expr, x: Expr, side: str) -> Expr:
    """The smallest or largest code of the dtype that `kind` names."""
    found: Expr = b.constant(float(getattr(dt.int32, side)), dtype_of(x))
    for code in (1, 2):
        found = b.where(b.equal(kind, code), b.constant(float(getattr(_KINDS[code], side)), dtype_of(x)), found)
    return found


def _is_named(b: Builder, kind: Expr) -> Expr:
    return b.logical_and(b.greater_equal(kind, 1), b.less_equal(kind, 3))


def _simulated_parts(b: Builder, x: Expr, a: SimulatedAttrs, *parameters: Expr) -> list[Expr]:
    spread = (along(b, p, len(shape_of(x)), a.axis) for p in parameters)
    return [b.cast(p, dtype=dtype_of(x)) for p in spread]


def _simulated_quantize_expand(b: Builder, x: Expr, kind: Expr, scale: Expr, zero: Expr, a: SimulatedAttrs) -> Expr:
    s, z = _simulated_parts(b, x, a, scale, zero)
    found = b.maximum(b.add(b.round(b.divide(x, s)), z), _bound(b, kind, x, "min"))
    return b.where(_is_named(b, kind), b.minimum(found, _bound(b, kind, x, "max")), x)


def _simulated_dequantize_expand(b: Builder, x: Expr, kind: Expr, scale: Expr, zero: Expr, a: SimulatedAttrs) -> Expr:
    s, z = _simulated_parts(b, x, a, scale, zero)
    return b.where(_is_named(b, kind), b.multiply(b.subtract(x, z), s), x)


def _simulated(name: str, kind: str, of: str, reference: Any, expand: Any, doc: str) -> Op:
    x = np.array([[-200.3, 0.26, 3.5], [1e9, 300.0, -1.5]], np.float32)
    return Op(
        name=name,
        args=("data", kind, f"{of}_scale", f"{of}_zero_point"),
        attrs=SimulatedAttrs,
        type_rel=_simulated_relation,
        reference=quiet(reference),
        expand=expand,
        samples=(
            *(Sample((x, np.array(n, np.int32), _SCALE, _ZERO), exact=True) for n in range(4)),
            Sample((x, np.array(1, np.int32), _SCALES, _ZEROS), {"axis": 1}, exact=True),
        ),
        doc=doc,
    )


simulated_quantize = _simulated(
    "qnn.simulated_quantize", "out_dtype", "output", _simulated_quantize, _simulated_quantize_expand,
    """qnn.quantize in the dtype of the data, to codes that a scalar names: 1 int8, 2 uint8, 3 int32; else the data.""",
)  # fmt: skip
simulated_dequantize = _simulated(
    "qnn.simulated_dequantize", "in_dtype", "input", _simulated_dequantize, _simulated_dequantize_expand,
    """qnn.dequantize in the dtype of the data, from codes that a scalar names: 1 int8, 2 uint8, 3 int32; else the
data.""",
)  # fmt: skip
