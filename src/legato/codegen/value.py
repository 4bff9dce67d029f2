"""Values of generated code: operands of LLVM instructions with what emission needs to know about them."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from legato.base.dtype import STORAGE_DTYPES, DType
from legato.base.errors import InternalError
from legato.base.storage import encoded

__all__ = [
    "TYPES",
    "Constant",
    "Value",
    "boolean",
    "float_text",
    "literal",
    "splat_text",
    "vector_constant",
    "vector_type",
]

Scalar = int | float | bool
Constant = Scalar | tuple[int, ...] | tuple[bool, ...]

# The LLVM type of a value of each dtype in registers. 16-bit floats are kept in float, rounded after every operation.
TYPES = {"float16": "float", "bfloat16": "float", "float32": "float", "float64": "double", "bool": "i1", "index": "i64",
         "handle": "i64", "string": "i64"}  # fmt: skip
TYPES |= {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
TYPES |= {d.name: "i8" for d in STORAGE_DTYPES}


class Value(NamedTuple):
    """An operand: `text` without its type, element type `ty`, and `lanes` (1: a scalar, the same in every lane).

    `level` says from where on it may be used: 2d means from the head of scope d on, 2d+1 from some point in the
    body of scope d on. `const` is its value, where known: a scalar, or one int or bool per lane.
    """

    text: str
    ty: str
    lanes: int
    level: int
    const: Constant | None = None


def vector_type(ty: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements of `ty`."""
    return ty if lanes == 1 else f"<{lanes} x {ty}>"


def float_text(value: float, ty: str) -> str:
    """A float literal of LLVM type float or double: the bits of the (rounded) value as a double."""
    return _float_text(struct.pack("<d", value), ty)


@lru_cache(maxsize=1 << 12)  # by bits, which tell -0.0 from 0.0: coefficients are written out thousands of times
def _float_text(bits: bytes, ty: str) -> str:
    (value,) = struct.unpack("<d", bits)
    if ty == "float":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if value != value:
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def literal(value: Scalar, dtype: DType) -> Value:
    """The literal `value` of `dtype`; floats are rounded to it first."""
    ty = TYPES[dtype.name]
    if dtype.is_float:
        with np.errstate(over="ignore"):
            rounded = float(np.asarray(value, np.float64).astype(dtype.numpy))
        return Value(float_text(rounded, ty), ty, 1, 0, rounded)
    if dtype.is_bool:
        return boolean(bool(value))
    if dtype.is_storage:
        value = int(encoded(np.asarray(value, np.float64), dtype).view(np.uint8))
    return Value(str(int(value)), ty, 1, 0, int(value))


def boolean(value: bool) -> Value:
    """A literal i1."""
    return Value("true" if value else "false", "i1", 1, 0, value)


def vector_constant(values: tuple[int, ...] | tuple[bool, ...], ty: str) -> Value:
    """One literal int or bool per lane; a scalar where all are equal."""
    if all(v == values[0] for v in values):
        return boolean(bool(values[0])) if ty == "i1" else Value(str(values[0]), ty, 1, 0, values[0])
    if ty == "i1":
        text = ", ".join("i1 true" if v else "i1 false" for v in values)
    else:
        text = ", ".join([f"{ty} {v}" for v in values])
    return Value(f"<{text}>", ty, len(values), 0, values)


def splat_text(value: Value) -> str:
    """A scalar literal repeated over a vector."""
    return f"splat ({value.ty} {value.text})"


def expect_const(value: Value, what: str) -> int:
    """The literal integer that `value` is; InternalError if it is not known."""
    if type(value.const) is not int:
        raise InternalError(f"{what} must be a literal once loops are unrolled, got {value.text}")
    return value.const
