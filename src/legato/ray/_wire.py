"""One row as a request carries it: JSON, or a .npz file. Pure functions: what a server does without its network."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.base.codes import decode, encode, restored, stored
from legato.base.dtype import DType, dtype
from legato.base.errors import RunError
from legato.base.formats import IntFormat
from legato.ray._rows import Array, require_names
from legato.runtime.program import FunctionInfo, TensorInfo

__all__ = ["JSON", "MAX_JSON", "MAX_NPZ", "NPZ", "described", "from_json", "from_npz", "to_json", "to_npz"]

JSON: Final = "application/json"
NPZ: Final = "application/x-npz"
MAX_JSON: Final = 1 << 26  # bytes of a request; lists take twenty times as much
MAX_NPZ: Final = 1 << 28  # bytes of a request, and of what it unpacks to where the size of a row is not known
_HEADER: Final = 1 << 14  # bytes of a .npy file before its elements
_WIDEST: Final = 16  # bytes of an element of NumPy's
_WORDS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}  # as protobuf's JSON has them


def described(info: FunctionInfo) -> dict[str, Any]:
    """What a row is: name, dtype and shape of each of its inputs and outputs."""

    def rows(tensors: tuple[TensorInfo, ...]) -> list[dict[str, Any]]:
        return [{"name": t.name, "type": TensorInfo(t.name, t.dtype, t.shape[1:]).type} for t in tensors]

    return {"inputs": rows(info.inputs), "outputs": rows(info.outputs)}


def from_json(body: bytes, info: FunctionInfo) -> dict[str, Array]:
    """The row in `{"inputs": {NAME: nested lists of numbers}}`; RunError where it is none."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RunError(f"the request is not readable as JSON: {error}") from None
    inputs = data.get("inputs") if isinstance(data, dict) else None
    if not isinstance(inputs, dict):
        raise RunError('the request is no object with a member "inputs", an object of arrays by name')
    require_names(inputs, info)
    return {tensor.name: _array(inputs[tensor.name], tensor) for tensor in info.inputs}


def _array(value: object, tensor: TensorInfo) -> Array:
    kind = dtype(tensor.dtype)
    wanted = f'input "{tensor.name}": wanted nested lists of {kind}'
    try:
        if kind.is_string:
            return np.asarray(value, object)
        is_whole, found = _is_whole(kind), np.asarray(value)
        if found.dtype.kind == "U" and not is_whole:  # "NaN" and its like
            found = np.asarray(value, np.float64)
        if is_whole and found.dtype.kind in "fO" and all(isinstance(n, int) for n in np.asarray(value, object).flat):
            found = np.asarray(value, np.uint64)  # small ones beside such that int64 lacks make floats
        if found.size and found.dtype.kind not in ("biu" if is_whole else "biuf"):
            raise RunError(f"{wanted}, got {found.dtype}")
        beyond = found[(found < kind.min) | (found > kind.max)] if is_whole else found[:0]
        if beyond.size:
            raise RunError(f"{wanted}: {beyond[0]} is not from {kind.min} to {kind.max}")
        return encode(found, kind)
    except (ValueError, TypeError, OverflowError) as error:
        raise RunError(f"{wanted}: {error}") from None


def _is_whole(kind: DType) -> bool:
    """Whether its numbers are integers of a range; 0 and 1 of bool."""
    return kind.is_int or kind.is_bool or (kind.is_storage and isinstance(kind.format, IntFormat))


def to_json(outputs: Mapping[str, Array]) -> bytes:
    """`{"outputs": {NAME: nested lists}}`; infinities and NaN are "Infinity", "-Infinity", "NaN"."""
    return json.dumps({"outputs": {name: _lists(array) for name, array in outputs.items()}}).encode()


def _lists(array: Array) -> Any:
    numbers = decode(array)
    if numbers.dtype.kind in "biuO":
        return numbers.tolist()
    wide = numbers.astype(np.float64)
    if np.isfinite(wide).all():
        return wide.tolist()
    words = [value if np.isfinite(value) else _WORDS[str(value)] for value in wide.ravel().tolist()]
    found = np.empty(len(words), object)
    found[:] = words
    return found.reshape(wide.shape).tolist()


def from_npz(body: bytes, info: FunctionInfo) -> dict[str, Array]:
    """The row in a .npz file of arrays by name; RunError where it is none. Nothing is unpacked but inputs, and of those
    no more bytes than a row has."""
    inputs = {tensor.name: tensor for tensor in info.inputs}
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as members:
            _require_small(members.infolist(), info, inputs)
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            return {name: restored(file[name], dtype(inputs[name].dtype)) for name in file.files}
    except RunError:
        raise
    except Exception as error:  # whatever NumPy makes of other bytes
        raise RunError(f"the request is no .npz file of arrays: {error}") from None


def _require_small(members: Sequence[zipfile.ZipInfo], info: FunctionInfo, inputs: Mapping[str, TensorInfo]) -> None:
    """RunError where the members are others than the inputs, or their arrays larger than those may be: some bytes
    unpack to a thousand times as many."""
    sizes = {member.filename.removesuffix(".npy"): member.file_size for member in members}
    require_names(sizes, info)
    if len(members) > len(sizes):
        raise RunError("the request has two arrays of one name")
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise RunError("the request is packed in another way than numpy.savez and numpy.savez_compressed do")
    for name, size in sizes.items():
        most = _most_bytes(inputs[name])
        if size > most:
            raise RunError(f'input "{name}": got {size} bytes, wanted at most {most}: it is {inputs[name]}')
    if sum(sizes.values()) > max(MAX_NPZ, sum(map(_most_bytes, inputs.values()))):
        raise RunError(f"the request has arrays of {sum(sizes.values())} bytes, wanted at most {MAX_NPZ}")


def _most_bytes(tensor: TensorInfo) -> int:
    """How long the file of an array may be that is given for an input: of a known shape what it needs, in whatever
    dtype it comes."""
    count = 1
    for size in tensor.shape[1:]:
        if not isinstance(size, int):
            return MAX_NPZ
        count *= size
    return MAX_NPZ if dtype(tensor.dtype).is_string else _HEADER + count * _WIDEST


def to_npz(outputs: Mapping[str, Array]) -> bytes:
    """A .npz file of the outputs; codes as bytes."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: stored(array, name) for name, array in outputs.items()})
    return file.getvalue()
