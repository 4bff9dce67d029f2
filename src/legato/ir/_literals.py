"""Scalar constants as literals: `1`, `2i64`, `0.5f`, `-inff16`, `True`; every one gives back the same bits.

The suffix names the dtype: i8 i16 i32 i64 u8 u16 u32 u64, f (or f32) f16 bf16 f64. An integer without one is int32,
or int64 where it does not fit. NaN with another than NumPy's bits has no literal.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.runtime.floats import float_environment

__all__ = ["array_of", "float_text", "scalar_text"]

Array = np.ndarray[Any, Any]

_FLOAT_SUFFIX: Final = {dt.float32: "f", dt.float64: "f64", dt.float16: "f16", dt.bfloat16: "bf16"}


@float_environment()
def scalar_text(data: Array) -> str | None:
    """The literal of a rank-0 array; None where it has none (a string, a code, a NaN with a payload or a sign)."""
    dtype = dt.dtype(data.dtype)
    if not dtype.is_computed:
        return None
    if dtype.is_bool:
        return str(bool(data))
    if dtype.is_int:
        return f"{int(data)}{'' if dtype == dt.int32 else dtype.name[0] + str(dtype.bits)}"
    value = float(data)
    if math.isnan(value) and data.tobytes() != np.array(math.nan, dtype.numpy).tobytes():
        return None
    short = np.array(float(str(data[()])), dtype.numpy)  # the shortest text that NumPy tells apart from its neighbours
    text = str(data[()]) if short.tobytes() == data.tobytes() else repr(value)
    return text.removesuffix(".0") + _FLOAT_SUFFIX[dtype]


def float_text(value: float) -> str:
    """A Python float of an attribute, with the suffix that Relay gives it: `1e-05f`. Nothing is rounded to float32."""
    return repr(value).removesuffix(".0") + "f"


@float_environment()
def array_of(value: float | bool, dtype: DType) -> Array | None:
    """`value` as a read-only rank-0 array; None where it does not fit the dtype."""
    if dtype.is_int and not dtype.min <= value <= dtype.max:
        return None
    data = np.array(value, dtype.numpy)
    if dtype.is_float and math.isinf(float(data)) and not math.isinf(value):
        return None
    data.setflags(write=False)
    return data
