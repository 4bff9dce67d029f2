"""Modules in files, as text or as JSON, with their large constants in a safetensors file beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.errors import ImportModelError, ParseError
from legato.base.files import open_regular, replace_file
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors

__all__ = ["load_json_file", "load_text", "load_with_tensors", "save_json_file", "save_text", "save_with_tensors",
           "side_file", "tensor_bytes", "tensors_of"]  # fmt: skip

Array = np.ndarray[Any, Any]


def side_file(path: str | Path) -> Path:
    """Where the large constants of a module saved as `path` lie: `model.relay.safetensors` beside `model.relay`."""
    return Path(f"{path}.safetensors")


def save_text(module: Module, path: str | Path) -> None:
    """Writes a module as text, and its constants of more than 1 KB into `side_file(path)`.

    Each file is replaced at once or not at all; a side file that is not needed any more is removed. OSError where
    writing fails.
    """
    text, tensors = show_with_tensors(module)
    save_with_tensors(text, tensors, path)


def save_json_file(module: Module, path: str | Path) -> None:
    """Writes a module as JSON (see `json_format`), which keeps what text does not: types, spans, all sharing.

    As `save_text` otherwise; CompileError for what has no JSON form.
    """
    tensors: dict[str, Array] = {}
    save_with_tensors(save_json(module, tensors=tensors), tensors, path)


def save_with_tensors(text: str, tensors: Mapping[str, Array], path: str | Path) -> None:
    """Writes a text, and the arrays that it names into `side_file(path)`, as `save_text` does."""
    side = side_file(path)
    if tensors:
        replace_file(side, lambda temporary: _write_tensors(tensors, temporary))
    replace_file(Path(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))
    if not tensors:
        side.unlink(missing_ok=True)


def load_text(path: str | Path, *, ops: Mapping[str, Op] | Sequence[Op], read: Callable[..., Module] = parse) -> Module:
    """The module that `save_text` wrote, untyped; `ops` are the operators that it may use.

    `read` reads the text and is called as `parse` is.
    ParseError for a text or side file that is damaged or does not fit the other; ImportModelError where reading fails.
    """
    text, tensors = load_with_tensors(path)
    return read(text, source=str(path), ops=ops, constants=tensors)


def load_json_file(path: str | Path, *, ops: Mapping[str, Op] | Sequence[Op]) -> Module:
    """The module that `save_json_file` wrote; `ops` are the operators that it may use.

    ParseError and VerifyError for a damaged file, ParseError for a side file that does not fit; ImportModelError where
    reading fails.
    """
    text, tensors = load_with_tensors(path)
    return load_json(text, ops=ops, name=str(path), tensors=tensors)


def load_with_tensors(path: str | Path) -> tuple[str, dict[str, Array] | None]:
    """A text, with the arrays that lie beside it, if any."""
    try:
        text = _content(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ParseError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    side = side_file(path)
    return text, tensors_of(_content(side), side) if side.exists() else None


def _content(path: str | Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except OSError as error:
        raise ImportModelError(f"{path}: {error.strerror or error}") from None


def _write_tensors(tensors: Mapping[str, Array], path: Path) -> None:
    from safetensors import serialize_file  # imported on use: it costs start-up time

    arrays = _together(tensors)
    serialize_file(_specs(arrays), path)


def tensor_bytes(tensors: Mapping[str, Array]) -> bytes:
    """Arrays as the bytes of a safetensors file."""
    from safetensors import serialize

    arrays = _together(tensors)
    return bytes(serialize(_specs(arrays)))


def _together(tensors: Mapping[str, Array]) -> dict[str, Array]:
    return {name: _known(np.asarray(data, order="C")) for name, data in tensors.items()}


def _known(data: Array) -> Array:
    """Codes of dtypes that only store as bytes: the format does not have them all."""
    return data.view(np.uint8) if dt.dtype(data.dtype).is_storage else data


def _specs(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Where arrays, which must live as long, lie in memory."""
    from safetensors import TensorSpec

    return {
        name: TensorSpec(dtype=data.dtype.name, shape=data.shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
        for name, data in arrays.items()
    }


def tensors_of(data: bytes, source: str | Path) -> dict[str, Array]:
    """The arrays in the bytes of a safetensors file; ParseError for other bytes, which come from `source`."""
    from safetensors import SafetensorError, deserialize

    try:
        found: list[tuple[str, dict[str, Any]]] = deserialize(data)  # type: ignore[no-untyped-call]  # a C function
    except SafetensorError as error:
        raise ParseError(f"{source} is not a safetensors file: {error}") from None
    return {name: _array(source, name, tensor) for name, tensor in found}


_NAMES = {f"{d.kind[0].upper()}{d.bits}": d for d in dt.ALL_DTYPES if d.kind in ("int", "uint", "float")} | {
    "BF16": dt.bfloat16,
    "BOOL": dt.bool_,
    "F8_E4M3": dt.BY_NAME["float8_e4m3fn"],
    "F8_E4M3FNUZ": dt.BY_NAME["float8_e4m3fnuz"],
    "F8_E5M2": dt.BY_NAME["float8_e5m2"],
    "F8_E5M2FNUZ": dt.BY_NAME["float8_e5m2fnuz"],
    "F8_E8M0": dt.BY_NAME["float8_e8m0fnu"],
}


def _array(source: str | Path, name: str, tensor: Mapping[str, Any]) -> Array:
    dtype = _NAMES.get(tensor["dtype"])
    if dtype is None:
        raise ParseError(f"{source}: tensor {name!r} has dtype {tensor['dtype']}, which no tensor type has")
    try:
        return np.frombuffer(tensor["data"], dtype.numpy).reshape(tensor["shape"])
    except ValueError as error:  # extents beyond NumPy's, beside one of 0, or more than it has dimensions for
        raise ParseError(f"{source}: tensor {name!r} has the shape {_short(tensor['shape'])}: {error}") from None


def _short(shape: Sequence[int]) -> str:
    return str(list(shape)) if len(shape) <= 8 else f"[{', '.join(map(str, shape[:8]))}, …] of rank {len(shape)}"
