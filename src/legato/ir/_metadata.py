"""The `#[metadata]` section: the arrays that a text refers to as `meta[relay.Constant][i]`.

It is JSON. TVM's form is read and not written, see `_relay_metadata`. Ours is one object whose key "relay.Constant"
holds a list. Each entry has "dtype", "shape" and one of

    "data":   the elements in row-major order, as numbers, booleans or strings
    "bits":   the elements in row-major order, as the hexadecimal digits of their little-endian bytes
    "tensor": the name of an array in the safetensors file beside the text; for arrays of more than 1024 bytes, unless
              the printer is told otherwise

"data" is written for strings, and for small arrays where it gives back the same bits, "bits" otherwise (NaN, ±Inf).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, ParseError
from legato.base.strings import is_text, string_array
from legato.ir._json_checks import Bad
from legato.ir._json_checks import text as string
from legato.ir._relay_metadata import NodeGraph, is_node_graph

__all__ = ["INLINE_BYTES", "KEY", "Metadata", "Table", "read", "side_tensor"]

Array = np.ndarray[Any, Any]
Fail = Callable[[str, int], ParseError]  # (message, offset into the section) -> the error

KEY: Final = "relay.Constant"
INLINE_BYTES: Final = 1024


class Metadata:
    """The arrays that a text being printed refers to, in order of their first occurrence."""

    def __init__(self, inline: int | None = INLINE_BYTES) -> None:
        self._inline = inline  # larger arrays are only named; None: none is
        self._arrays: list[Array] = []
        self._index: dict[int, int] = {}

    def refer(self, owner: object, data: Array) -> str:
        """The text of a reference to `data`; the same for the same `owner`, an object that the caller keeps alive."""
        found = self._index.setdefault(id(owner), len(self._arrays))
        if found == len(self._arrays):
            self._arrays.append(data)
        return f"meta[{KEY}][{found}]"

    def section(self) -> str:
        """The section's text; empty if nothing was referred to."""
        if not self._arrays:
            return ""
        entries = ",\n  ".join(json.dumps(self._entry(i, a)) for i, a in enumerate(self._arrays))
        return f'#[metadata]\n{{"{KEY}": [\n  {entries}\n]}}\n'

    def tensors(self) -> dict[str, Array]:
        """The arrays that the section only names, by name."""
        return {_tensor_name(i): a for i, a in enumerate(self._arrays) if self._is_apart(a)}

    def _is_apart(self, data: Array) -> bool:
        return self._inline is not None and data.nbytes > self._inline and not is_text(data)

    def _entry(self, index: int, data: Array) -> dict[str, Any]:
        entry: dict[str, Any] = {"dtype": dt.dtype(data.dtype).name, "shape": list(data.shape)}
        if self._is_apart(data):
            return entry | {"tensor": _tensor_name(index)}
        numbers = _numbers(data) if data.nbytes <= INLINE_BYTES or is_text(data) else None
        if numbers is not None:
            return entry | {"data": numbers}
        return entry | {"bits": data.tobytes().hex()}


def _tensor_name(index: int) -> str:
    return f"constant_{index}"


def _numbers(data: Array) -> list[Any] | None:
    """The elements as JSON numbers, booleans or strings that give back the same bits, or None."""
    dtype = dt.dtype(data.dtype)
    if dtype.is_storage:
        return None
    if not dtype.is_float:
        values: list[Any] = data.ravel().tolist()
        return values
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        if not np.isfinite(data).all():
            return None
    short = [float(str(v)) for v in data.ravel()]
    again = np.array(short, data.dtype)
    return short if again.tobytes() == data.tobytes() else None


@dataclass(frozen=True, slots=True)
class Table:
    """What references mean: values by key and number. A section of our form has arrays under `KEY`, nothing else."""

    entries: Mapping[str, Sequence[Any]]

    def count(self, key: str) -> int:
        """How many entries `meta[key]` has."""
        return len(self.entries.get(key, ()))

    def get(self, key: str, index: int) -> Any:
        """The value of `meta[key][index]`."""
        return self.entries[key][index]


def read(text: str, tensors: Mapping[str, Array] | None, fail: Fail) -> Table | NodeGraph:
    """What the section `text` holds; arrays are read-only. `tensors` are those of the side file; `fail` makes a

    ParseError. What a section of TVM's form holds is decoded when it is asked for.
    """
    try:
        section = json.loads(text)
    except json.JSONDecodeError as error:
        raise fail(f"the metadata section is not JSON: {error.msg}", error.pos) from None
    except ValueError as error:
        raise fail(f"the metadata section cannot be read: {error}", 0) from None
    except RecursionError:
        raise fail("the metadata section is nested too deeply", 0) from None
    if is_node_graph(section):
        try:
            return NodeGraph(section)
        except Bad as error:
            raise fail(f"the metadata section is damaged: {error}", 0) from None
    if not isinstance(section, dict) or not isinstance(section.get(KEY, []), list):
        raise fail(f'the metadata section is not of the form {{"{KEY}": [ … ]}}', 0)
    arrays = []
    for i, entry in enumerate(section.get(KEY, [])):
        try:
            data = _array(entry, tensors)
        except (Bad, CompileError) as error:
            reason = error.message if isinstance(error, CompileError) else str(error)
            raise fail(f"meta[{KEY}][{i}]: {reason}", 0) from None
        data.setflags(write=False)
        arrays.append(data)
    return Table({KEY: arrays})


def _array(entry: Any, tensors: Mapping[str, Array] | None) -> Array:
    if not isinstance(entry, dict):
        raise Bad("expected an object with dtype, shape and data")
    shape, name = entry.get("shape"), entry.get("dtype")
    if not isinstance(name, str):
        raise Bad('"dtype" is missing')
    if not isinstance(shape, list) or not all(type(d) is int and d >= 0 for d in shape) or len(shape) > 64:
        raise Bad('"shape" is not a list of at most 64 sizes')
    dtype = dt.dtype(name)
    if "tensor" in entry:
        how = "read the text with load_text, or pass constants="
        return side_tensor(string(entry["tensor"]), shape, dtype, tensors, how)
    has_bits = "bits" in entry and not dtype.is_string
    flat = _from_bits(entry["bits"], dtype) if has_bits else _from_data(entry.get("data"), dtype)
    if flat.size != math.prod(shape):
        raise Bad(f"shape {tuple(shape)} has {math.prod(shape)} elements, got {flat.size}")
    try:
        return flat.reshape(shape)
    except ValueError:
        raise Bad(f"shape {tuple(shape)} is too large") from None


def side_tensor(name: str, shape: list[int], dtype: dt.DType, tensors: Mapping[str, Array] | None, how: str) -> Array:
    """The array `name` of the side file, of that shape and dtype, or Bad; `how` says what to do where there is none."""
    if tensors is None:
        raise Bad(f"{name!r} lies in a side file: {how}")
    data = tensors.get(name)
    if data is None:
        raise Bad(f"the side file has no tensor {name!r}")
    if dtype.is_storage and data.dtype == np.uint8:
        data = data.view(dtype.numpy)
    if list(data.shape) != shape or dt.dtype(data.dtype) != dtype:
        raise Bad(f"tensor {name!r} is {data.dtype}{list(data.shape)}, expected {dtype}{shape}")
    return data.view()  # the caller's array stays writable


def _from_bits(bits: Any, dtype: dt.DType) -> Array:
    try:
        raw = bytes.fromhex(bits) if isinstance(bits, str) else b""
    except ValueError:
        raise Bad('"bits" is not hexadecimal') from None
    if not isinstance(bits, str) or len(raw) % dtype.bytes:
        raise Bad(f'"bits" is not the hexadecimal text of {dtype} elements')
    if dtype.is_bool and raw.strip(b"\x00\x01"):
        raise Bad('"bits" of bool has a byte that is neither 0 nor 1')
    return np.frombuffer(raw, dtype.numpy).copy()


def _from_data(data: Any, dtype: dt.DType) -> Array:
    wanted = (str,) if dtype.is_string else (bool,) if dtype.is_bool else (int, float) if dtype.is_float else (int,)
    if not isinstance(data, list) or not all(type(v) in wanted for v in data):
        raise Bad(f'"data" is not a list of {dtype} elements')
    if dtype.is_int and not all(dtype.min <= v <= dtype.max for v in data):
        raise Bad(f'"data" has an element that does not fit {dtype}')
    if dtype.is_string:
        return string_array(np.array(data, object), '"data"', Bad)
    try:
        return np.array(data, dtype.numpy)
    except OverflowError:
        raise Bad(f'"data" has an element that does not fit {dtype}') from None
