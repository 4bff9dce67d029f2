"""TensorProto to NumPy: every size is checked against the bytes that are there before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.external import Folder
from legato.frontend.onnx.proto import TensorProto

__all__ = ["MAX_ELEMENTS", "element_code", "element_count", "element_type", "stored_bytes", "to_array", "type_name"]

Array = NDArray[Any]

MAX_RANK = 64  # NumPy's
MAX_ELEMENTS = 1 << 36  # of one tensor; beyond it a shape is taken for an error

_DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: dt.float32,
    TensorProto.UINT8: dt.uint8,
    TensorProto.INT8: dt.int8,
    TensorProto.UINT16: dt.uint16,
    TensorProto.INT16: dt.int16,
    TensorProto.INT32: dt.int32,
    TensorProto.INT64: dt.int64,
    TensorProto.BOOL: dt.bool_,
    TensorProto.FLOAT16: dt.float16,
    TensorProto.DOUBLE: dt.float64,
    TensorProto.UINT32: dt.uint32,
    TensorProto.UINT64: dt.uint64,
    TensorProto.BFLOAT16: dt.bfloat16,
    TensorProto.STRING: dt.string,
}
_STORED = {"FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz", "FLOAT8E5M2": "float8_e5m2",
           "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT8E8M0": "float8_e8m0fnu", "FLOAT6E2M3": "float6_e2m3fn",
           "FLOAT6E3M2": "float6_e3m2fn", "FLOAT4E2M1": "float4_e2m1fn", "INT4": "int4", "UINT4": "uint4",
           "INT2": "int2", "UINT2": "uint2"}  # fmt: skip
_NUMBERS = dict(TensorProto.DataType.items())  # older versions of the package do not have them all
_DTYPES |= {_NUMBERS[name]: dt.BY_NAME[dtype] for name, dtype in _STORED.items() if name in _NUMBERS}
# The field that holds the elements of a dtype where there is no raw data; int32_data also holds 16-bit floats, as bits.
_FIELDS = {dt.float32: "float_data", dt.float64: "double_data", dt.int64: "int64_data", dt.uint32: "uint64_data",
           dt.uint64: "uint64_data"}  # fmt: skip


def type_name(code: int) -> str:
    """ONNX's name of an element type."""
    return str(TensorProto.DataType.Name(code)) if code in TensorProto.DataType.values() else f"number {code}"


def element_type(code: int, what: str) -> DType:
    """The dtype of an ONNX element type; UnsupportedError for complex numbers."""
    found = _DTYPES.get(code)
    if found is not None:
        return found
    if code == TensorProto.UNDEFINED or code not in TensorProto.DataType.values():
        raise ImportModelError(f"{what}: unknown element type {code}")
    hint = "export the model with real and imaginary parts as tensors of floats"
    raise UnsupportedError(f"{what}: element type {type_name(code)}", hint=hint)


def element_code(dtype: DType) -> int:
    """The ONNX element type of a dtype."""
    return next(code for code, own in _DTYPES.items() if own == dtype)


def element_count(shape: Sequence[int], what: str) -> int:
    """The product of `shape`; ImportModelError for negative dimensions and absurd sizes, beside 0s too."""
    if any(d < 0 for d in shape):
        raise ImportModelError(f"{what}: negative dimension in shape {_show(shape)}")
    if len(shape) > MAX_RANK:
        raise ImportModelError(f"{what}: {len(shape)} dimensions; at most {MAX_RANK} are accepted")
    count = math.prod(d for d in shape if d)
    if count > MAX_ELEMENTS:
        has = f"shape {_show(shape)} has {count} elements" + (" but for its dimensions of 0" if 0 in shape else "")
        raise ImportModelError(f"{what}: {has}; at most {MAX_ELEMENTS} are accepted")
    return 0 if 0 in shape else count


def stored_bytes(tensor: TensorProto, data: NDArray[np.uint8] | None = None) -> int:
    """The size of a tensor's elements; of a type that Legato does not have, that of its data in the file, which is
    `data` where the message lacks it."""
    dtype = _DTYPES.get(tensor.data_type)
    if dtype is None:
        return int(data.size) if data is not None else len(bytes(tensor.raw_data))
    return _size(int(math.prod(tensor.dims)), dtype)


def _size(count: int, dtype: DType) -> int:
    """The bytes of `count` elements in a file, where those of less than 8 bits lie one behind the other."""
    return -(-count * dtype.width // 8)


def _show(shape: Sequence[int]) -> str:
    shown = [str(d) for d in shape[:8]] + ["…"] * (len(shape) > 8)
    return f"({', '.join(shown)})"


def to_array(tensor: TensorProto, folder: Folder | None, what: str, data: NDArray[np.uint8] | None = None) -> Array:
    """The tensor's elements, read-only where they are not copied.

    `what` names the tensor in messages; `data` is its raw data where the message lacks that. ImportModelError where
    data and shape disagree or external data cannot be read.
    """
    dtype = element_type(tensor.data_type, what)
    shape = tuple(tensor.dims)
    count = element_count(shape, what)
    if tensor.HasField("segment"):
        hint = "save the model again with the tensor in one piece, or as external data (onnx.save)"
        raise UnsupportedError(f"{what}: a tensor stored in segments", hint=hint)
    if dtype.is_string:
        return np.reshape(_strings(tensor, count, what), shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        flat = _decoded(_external(tensor, folder, _size(count, dtype), what), dtype, count)
    elif data is not None or tensor.HasField("raw_data"):
        raw = np.frombuffer(tensor.raw_data, np.uint8) if data is None else data
        if len(raw) != _size(count, dtype):
            needs = f"{dtype} of shape {_show(shape)} needs {_size(count, dtype)}"
            raise ImportModelError(f"{what}: {len(raw)} bytes of data, but {needs}")
        flat = _decoded(raw, dtype, count)
    else:
        flat = _typed(tensor, dtype, count, what)
    return np.reshape(flat, shape)


def _strings(tensor: TensorProto, count: int, what: str) -> Array:
    """The elements of a tensor of strings, which lie in the message itself."""
    values = tensor.string_data
    if tensor.data_location == TensorProto.EXTERNAL or tensor.HasField("raw_data"):
        raise ImportModelError(f"{what}: strings as bytes", hint="the standard has them in string_data")
    if len(values) != count:
        raise ImportModelError(f"{what}: {len(values)} elements, but its shape has {count}")
    found = np.empty(count, object)
    for n, value in enumerate(values):
        try:
            found[n] = value.decode()
        except UnicodeDecodeError as error:
            raise ImportModelError(f"{what}: string {n} is not UTF-8: {error.reason}") from None
    return found


def _external(tensor: TensorProto, folder: Folder | None, size: int, what: str) -> NDArray[np.uint8]:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        message = f"{what}: external data file {entries.get('location', '')!r}, but the model has no folder"
        raise ImportModelError(message, hint="give the path of the model file, not its content")
    return folder.slice(entries, size, what)


def _decoded(raw: NDArray[np.uint8], dtype: DType, count: int) -> Array:
    """Little-endian bytes as `count` elements; a copy only where these have less than 8 bits or are not aligned."""
    if dtype.width < 8:
        return _unpacked(raw, dtype.width, count).view(dtype.numpy)
    if dtype.is_bool:
        return np.not_equal(raw, 0)  # any other byte than 0 and 1 must not reach a bool array
    elements = raw.view(dtype.numpy)
    return elements if elements.flags.aligned else elements.copy()


def _unpacked(raw: NDArray[np.uint8], width: int, count: int) -> NDArray[np.uint8]:
    """Numbers of `width` bits that lie one behind the other, from the last bit of each byte on, in a byte each."""
    group = math.lcm(width, 8) // 8  # bytes of which whole numbers are made
    rows = np.zeros((-(-len(raw) // group), group), np.uint8)
    rows.reshape(-1)[: len(raw)] = raw
    words: Array = np.zeros(len(rows), np.uint32 if group > 1 else np.uint8)
    for n in range(group):
        words |= rows[:, n].astype(words.dtype) << (8 * n)
    found = np.empty((len(words), group * 8 // width), np.uint8)
    for n in range(found.shape[1]):
        found[:, n] = words >> (n * width) & ((1 << width) - 1)
    return found.reshape(-1)[:count]


def _typed(tensor: TensorProto, dtype: DType, count: int, what: str) -> Array:
    values = getattr(tensor, _FIELDS.get(dtype, "int32_data"))
    if dtype.width in (2, 4):
        return _stored_in_bytes(values, dtype, count, what)
    if len(values) != count:
        raise ImportModelError(f"{what}: {len(values)} elements, but its shape has {count}")
    if dtype in (dt.float16, dt.bfloat16):
        return _fitting(np.array(values, np.int64), dt.uint16, what).view(dtype.numpy)
    if dtype.is_storage:
        codes = _fitting(np.array(values, np.int64), dt.uint8, what)
        if (codes >> dtype.width).any():
            raise ImportModelError(f"{what}: values that do not fit its element type {dtype}")
        return codes.view(dtype.numpy)
    if dtype.is_float or dtype in (dt.int64, dt.uint64):
        return np.array(values, dtype.numpy)
    return _fitting(np.array(values, np.uint64 if dtype == dt.uint32 else np.int64), dtype, what)


def _stored_in_bytes(values: Sequence[int], dtype: DType, count: int, what: str) -> Array:
    if len(values) != _size(count, dtype):
        wanted = f"{count} elements of {dtype} need {_size(count, dtype)}"
        raise ImportModelError(f"{what}: {len(values)} bytes of data, but {wanted}")
    return _decoded(_fitting(np.array(values, np.int64), dt.uint8, what), dtype, count)


def _fitting(values: Array, dtype: DType, what: str) -> Array:
    if values.size and (values.min() < dtype.min or values.max() > dtype.max):
        raise ImportModelError(f"{what}: values that do not fit its element type {dtype}")
    return values.astype(dtype.numpy)
