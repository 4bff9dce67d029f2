"""Integers of few bits: nn.bitpack, nn.bitserial_dense, nn.bitserial_conv2d, made of other operators (`expand`).

Of data of `n` bits the n lowest count, as a number of 0 … 2ⁿ − 1. A weight is such a number, too, or where it is
unipolar has the digits −1 and 1: it is 2·w − (2ⁿ − 1), as 1 for the bit 1 and −1 for 0 where n is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.attrs import make_attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._dynamic import evaluated
from legato.ops._families import Array
from legato.ops._gradients import in_shape, shape_of
from legato.ops._rules import INT, divides, normalize_axis, require_dtype, require_rank, tensor
from legato.ops.conv import conv2d
from legato.ops.linalg import dense

__all__ = ["BitPackAttrs", "BitserialConv2DAttrs", "BitserialDenseAttrs", "bitpack", "bitserial_conv2d",
           "bitserial_dense"]  # fmt: skip

_WORDS = (dt.uint8, dt.uint16, dt.uint32, dt.uint64)


@dataclass(frozen=True, slots=True)
class BitPackAttrs(Attrs):
    """`bits`: how many of the lowest bits are kept; `pack_axis`: whose elements are put together; `bit_axis`: where the
    result counts the bits; `pack_type`: of its elements. `name`: means nothing.
    """

    bits: int = 1
    pack_axis: int = 1
    bit_axis: int = -1
    pack_type: DType = dt.uint32
    name: str = "BitPack"


@dataclass(frozen=True, slots=True)
class BitserialDenseAttrs(Attrs):
    """`units`: rows of the weight, as its type says, too; `data_bits`, `weight_bits`: how many bits of each count;
    `pack_dtype`: means nothing here; `out_dtype`: that of the result; `unipolar`: what bits of weights are.
    """

    units: int | None = None
    data_bits: int = 1
    weight_bits: int = 1
    pack_dtype: DType = dt.uint32
    out_dtype: DType = dt.int16
    unipolar: bool = True


@dataclass(frozen=True, slots=True)
class BitserialConv2DAttrs(Attrs):
    """As BitserialDenseAttrs. `activation_bits`: how many bits of the data count; `strides`: the distances of windows;
    `padding`: one number, one per dimension, or all befores then all afters. `channels`: those of the result;
    `kernel_size`: the extents of a window; both are needed only where the weight's type is to be inferred.
    `data_layout`: of the data; `kernel_layout`: of the weight.
    """

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    activation_bits: int = 1
    weight_bits: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    pack_dtype: DType = dt.uint32
    out_dtype: DType = dt.int16
    unipolar: bool = True


# ------------------------------------------------------------------------------- nn.bitpack


def _pack_axes(rel: Relation, rank: int, a: BitPackAttrs) -> tuple[int, int]:
    return normalize_axis(rel, a.pack_axis, rank, "pack_axis"), normalize_axis(rel, a.bit_axis, rank + 1, "bit_axis")


def _pack_relation(rel: Relation, data: Type, a: BitPackAttrs) -> Type:
    x = tensor(rel, data, "data")
    require_dtype(rel, x, INT, "data")
    pack, bit = _pack_axes(rel, x.rank, a)
    if a.pack_type not in _WORDS or not 1 <= a.bits <= x.dtype.bits:
        raise rel.fail(f"{a.bits} bits of {x.dtype} in {a.pack_type}, wanted bits that it has, in an unsigned dtype")
    shape = list(x.shape)
    shape[pack] = divides(rel, shape[pack], a.pack_type.bits, f"dim {pack}, in parts of {a.pack_type.bits}")
    shape.insert(bit, const(a.bits))
    return TensorType(tuple(shape), a.pack_type)


def _pack_reference(data: Array, a: BitPackAttrs) -> Array:
    axis, width = a.pack_axis % data.ndim, a.pack_type.bits
    shape = (*data.shape[:axis], data.shape[axis] // width, width, *data.shape[axis + 1 :])
    parts = np.moveaxis(data.astype(np.int64).reshape(shape), axis + 1, -1)
    powers = np.array([1 << (width - 1 - k) for k in range(width)], np.uint64)
    words = [(((parts >> n) & 1).astype(np.uint64) * powers).sum(-1, dtype=np.uint64) for n in range(a.bits)]
    return np.ascontiguousarray(np.stack(words, a.bit_axis % (data.ndim + 1)).astype(a.pack_type.numpy))


def _pack_expand(b: Builder, data: Expr, a: BitPackAttrs) -> Expr:
    shape, width = shape_of(data), a.pack_type.bits
    axis = a.pack_axis % len(shape)
    count = _divided(shape[axis], width)
    parts = in_shape(b, b.cast(data, dtype=dt.uint64), (*shape[:axis], count, const(width), *shape[axis + 1 :]))
    powers = np.array([1 << (width - 1 - k) for k in range(width)], np.uint64)
    behind = len(shape) - axis - 1
    weights = b.constant(powers.reshape(width, *(1,) * behind))
    one = b.constant(1, dt.uint64)
    words = []
    for n in range(a.bits):
        digits = b.bitwise_and(b.right_shift(parts, b.constant(n, dt.uint64)), one)
        words.append(b.cast(b.sum(b.multiply(digits, weights), axis=axis + 1), dtype=a.pack_type))
    return b.stack(tuple(words), axis=a.bit_axis % (len(shape) + 1))


def _divided(d: Any, by: int) -> Any:
    """d / by, which is a whole number."""
    return simplify(d // const(by))


bitpack = Op(
    name="nn.bitpack",
    args=("data",),
    attrs=BitPackAttrs,
    type_rel=_pack_relation,
    reference=_pack_reference,
    expand=_pack_expand,
    samples=(
        Sample((((2, 32), "int8"),), exact=True),
        Sample((((16, 3), "uint8"),), {"bits": 3, "pack_axis": 0, "bit_axis": 1, "pack_type": "uint8"}, exact=True),
        Sample((((1, 64, 2), "int32"),), {"bits": 2, "pack_type": "uint64", "bit_axis": 0}, exact=True),
    ),
    doc="""The lowest bits of integers, as many as fit along `pack_axis` in one number, the first as its highest bit.

The result has a dim more, for the number of the bit.""",
)

# ------------------------------------------------------------------------------- products


def _product(
    name: str, of: Op, attrs: type, bits: str, given: tuple[str, ...], *, doc: str, samples: tuple[Sample, ...]
) -> Op:
    """`of`, whose attributes `given` it has, on numbers of few bits."""

    def own(a: Any) -> Any:
        return make_attrs(of, {k: a[k] for k in given} | {"out_dtype": dt.int32})

    def relation(rel: Relation, data: Type, weight: Type, a: Any) -> Type | None:
        x, w = tensor(rel, data, "data"), tensor(rel, weight, "weight")
        rank = 4 if of is conv2d else 2
        for ty, what, n in ((x, "data", a[bits]), (w, "weight", a.weight_bits)):
            require_dtype(rel, ty, INT, what)
            require_rank(rel, ty, rank, what=f"{what}, which is not packed yet,")
            if not 1 <= n <= 8:
                raise rel.fail(f"the {what} has {n} bits, wanted 1 to 8")
        if not a.out_dtype.is_int or a.out_dtype.bits > 32:
            raise rel.fail(f"out_dtype is {a.out_dtype}, wanted integers of 32 bits at most")
        found = of.type_rel(rel, TensorType(x.shape, dt.int32), TensorType(w.shape, dt.int32), own(a))
        return TensorType(found.shape, a.out_dtype) if isinstance(found, TensorType) else None

    def run(data: Array, weight: Array, a: Any) -> Array:
        w = weight.astype(np.int32) & ((1 << a.weight_bits) - 1)
        w = 2 * w - ((1 << a.weight_bits) - 1) if a.unipolar else w
        found = evaluated(of, [data.astype(np.int32) & ((1 << a[bits]) - 1), w], own(a))
        return np.asarray(found.astype(a.out_dtype.numpy))

    def expand(b: Builder, data: Expr, weight: Expr, a: Any) -> Expr:
        def low(x: Expr, n: int) -> Expr:
            return b.bitwise_and(b.cast(x, dtype=dt.int32), b.constant((1 << n) - 1, dt.int32))

        w = low(weight, a.weight_bits)
        if a.unipolar:
            most = b.constant((1 << a.weight_bits) - 1, dt.int32)
            w = b.subtract(b.multiply(w, b.constant(2, dt.int32)), most)
        found = b.call_op(of, (low(data, a[bits]), w), own(a))
        return found if a.out_dtype == dt.int32 else b.cast(found, dtype=a.out_dtype)

    return Op(
        name=name,
        args=("data", "weight"),
        attrs=attrs,
        type_rel=relation,
        reference=run,
        expand=expand,
        samples=samples,
        doc=doc,
    )


bitserial_dense = _product(
    "nn.bitserial_dense",
    dense,
    BitserialDenseAttrs,
    "data_bits",
    ("units",),
    samples=(
        Sample((((2, 32), "int8"), ((3, 32), "int8")), {"units": 3}, exact=True),
        Sample((((4, 5), "uint8"), ((2, 5), "int8")),
               {"data_bits": 2, "weight_bits": 3, "out_dtype": "int32", "unipolar": False}, exact=True),
        Sample((((2, 5), "int32"), ((2, 5), "int32")), {"data_bits": 8, "weight_bits": 8, "out_dtype": "int8"},
               exact=True),
    ),
    doc="data · weightᵀ of numbers of few bits. The operands are not packed: the compiler decides how they are kept.",
)  # fmt: skip

bitserial_conv2d = _product(
    "nn.bitserial_conv2d",
    conv2d,
    BitserialConv2DAttrs,
    "activation_bits",
    ("strides", "padding", "channels", "kernel_size", "data_layout", "kernel_layout"),
    samples=(
        Sample((((1, 4, 5, 5), "uint8"), ((3, 4, 3, 3), "int8")), {"padding": (1, 1)}, exact=True),
        Sample((((2, 5, 4, 3), "int8"), ((2, 2, 3, 2), "int8")),
               {"activation_bits": 2, "weight_bits": 2, "data_layout": "NHWC", "kernel_layout": "HWIO",
                "strides": (2, 1), "unipolar": False, "out_dtype": "int32"}, exact=True),
    ),
    doc="A convolution of numbers of few bits. Padding is 0. The operands are not packed.",
)  # fmt: skip
