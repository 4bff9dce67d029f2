"""C functions that programs call.

    int f(DLTensor **args, int n);

`args` are `n` tensors as DLPack has them (dlpack.h), on the CPU, their rows one behind the other: what the function is
given, tuples one part after the other and dims as int64 scalars, and behind that what it fills, which holds zeros. They
are there during the call. Codes of less than 8 bits are uint8, each in the low bits of a byte. It returns 0; whatever
else it returns is its failure. It may run in several threads at once.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from legato.base.dtype import DType, dtype
from legato.base.formats import IntFormat

__all__ = ["fill"]

_CPU: Final = 1  # kDLCPU
_CODES: Final = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.POINTER(_Tensor)), ctypes.c_int)


def fill(function: Any, args: Sequence[np.ndarray | int], outs: Sequence[np.ndarray]) -> int:
    """What a C function returns for `args` and the contiguous `outs` that it fills."""
    inputs = [np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a, getattr(a, "dtype", np.int64)) for a in args]
    tensors = [_tensor(array) for array in (*inputs, *outs)]
    pointers = (ctypes.POINTER(_Tensor) * len(tensors))(*map(ctypes.pointer, tensors))
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return int(_PROTOTYPE(address)(pointers, len(tensors)))


def _data_type(kind: DType) -> _DataType:
    if not kind.is_storage:
        return _DataType(_CODES[kind.kind], kind.bits, 1)
    code = _CODES["uint"] if kind.width < kind.bits or isinstance(kind.format, IntFormat) else kind.format.dlpack
    return _DataType(code, kind.bits, 1)


def _tensor(array: np.ndarray) -> _Tensor:
    rank = array.ndim
    strides = [math.prod(array.shape[axis + 1 :]) for axis in range(rank)]
    numbers = ctypes.c_int64 * rank
    return _Tensor(
        array.ctypes.data, _Device(_CPU, 0), rank, _data_type(dtype(array.dtype)),
        numbers(*array.shape), numbers(*strides), 0,
    )  # fmt: skip
