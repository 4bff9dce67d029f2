"""From a path, bytes or a ModelProto to a model that is known to be ONNX, of versions that Legato reads.

Protobuf's own parser sees the bytes, but for those of large weights (`weights`): a bounded message, no recursion of
ours, nothing executed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf has no types of its own
from numpy.typing import NDArray

from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx.external import Folder
from legato.frontend.onnx.graph import subgraphs
from legato.frontend.onnx.proto import IR_VERSION, FunctionProto, ModelProto
from legato.frontend.onnx.weights import Apart, split

__all__ = ["MAX_BYTES", "MICROSOFT", "MIN_OPSET", "Source", "data_files", "opsets_of", "read", "version_of"]

MAX_BYTES = (1 << 31) - 1  # protobuf's limit for one message
LARGE = 1 << 20  # bytes from which a file is worth splitting
MICROSOFT = "com.microsoft"  # ONNX Runtime's own domain has one version, which files of its tools need not name
MIN_OPSET = 1
MAX_OPSET = 28  # that of onnx 1.23, whose node tests the operators pass

_FIRST = b"\x08"  # every exporter writes the IR version first: field 1, a varint
_MAGIC = {
    b"PK\x03\x04": "a zip archive (PyTorch, Keras and NumPy files are such)",
    b"\x89HDF": "an HDF5 file (older Keras models are such)",
    b"\x80\x02": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x1f\x8b": "a gzip file",
    b"\x7fELF": "a native library or program",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A model as read: its protobuf message, what to call it in messages, and the folder of its external data.

    `weights` has the bytes of initializers, by their numbers, whose data the message lacks.
    """

    model: ModelProto
    name: str
    folder: Folder | None
    opsets: Mapping[str, int]  # version by domain; the default domain is ""
    weights: Mapping[int, NDArray[np.uint8]] = field(default_factory=dict)


def read(model: str | os.PathLike[str] | bytes | ModelProto) -> Source:
    """Reads a model from a path, the content of a file, or a message.

    ImportModelError where it is not ONNX, truncated or corrupt; UnsupportedError for versions that are not read.
    External data is found only where a path is given.
    """
    if isinstance(model, ModelProto):
        return _checked(model, "the model", None)
    if isinstance(model, bytes):
        return _checked(_parse(model, "the model"), "the model", None)
    if not isinstance(model, str | os.PathLike):
        wanted = "a path, bytes or an onnx.ModelProto"
        raise ImportModelError(f"from_onnx: got {type(model).__name__}, wanted {wanted}")
    path = Path(model)
    try:
        folder = Folder(path.parent)
        content = _content(folder.open(path.name), path)
    except OSError as error:
        raise ImportModelError(f"{path}: {error.strerror}") from None
    except ValueError:  # a NUL in it
        raise ImportModelError(f"{str(path)!r}: the name of a file holds no NUL") from None
    return _checked(_parse(content.message, str(path)), str(path), folder, content.weights)


def _content(descriptor: int, path: Path) -> Apart:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ImportModelError(f"{path}: not a regular file")
        if status.st_size > MAX_BYTES:
            message = f"{path}: {status.st_size} bytes, but an ONNX file has at most {MAX_BYTES}"
            raise ImportModelError(message, hint="larger models keep their weights in external data files")
        apart = None
        if status.st_size >= LARGE and os.pread(descriptor, 1, 0) == _FIRST:
            apart = split(descriptor)
            os.lseek(descriptor, 0, os.SEEK_SET)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return Apart(file.read(), {}) if apart is None else apart
    finally:
        os.close(descriptor)


def _parse(content: bytes, name: str) -> ModelProto:
    model = ModelProto()
    if not content:
        raise ImportModelError(f"{name}: not an ONNX file: it is empty")
    for magic, what in _MAGIC.items():
        if content.startswith(magic):
            raise ImportModelError(f"{name}: not an ONNX file: it is {what}")
    if content[4:8] == b"TFL3":
        raise ImportModelError(f"{name}: not an ONNX file: it is a TensorFlow Lite file")
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise _damaged(name) if content[:1] == _FIRST else _foreign(name) from None
    if not model.ir_version and not model.HasField("graph"):
        raise _foreign(name)
    return model


def _foreign(name: str) -> ImportModelError:
    return ImportModelError(f"{name}: not an ONNX file: its first bytes are no ONNX model")


def _damaged(name: str, what: str = "") -> ImportModelError:
    hint = "compare its size and checksum with the original's"
    return ImportModelError(f"{name}: truncated or corrupt ONNX file{what}", hint=hint)


def _checked(
    model: ModelProto, name: str, folder: Folder | None, weights: Mapping[int, NDArray[np.uint8]] | None = None
) -> Source:
    if not model.HasField("graph"):
        raise _damaged(name, ": it has no graph")
    if not model.opset_import and not 0 < model.ir_version < 3:
        hint = "a model says in opset_import of which operator sets its nodes are; onnx.helper.make_model writes it"
        raise ImportModelError(f"{name}: the model names no operator set", hint=hint)
    if model.ir_version > IR_VERSION:
        import onnx  # only for this

        message = f"{name}: ONNX IR version {model.ir_version}, but version {IR_VERSION} is the newest known"
        raise UnsupportedError(message, hint=f"a newer onnx package may know it (onnx {onnx.__version__} is installed)")
    if not all(isinstance(text, str) for text in _names(model)):  # protobuf gives bytes where they are not UTF-8
        raise _damaged(name, ": a name in it is not UTF-8")
    opsets = opsets_of(model) or {"": 1}  # that of the files which do not name one: version 3 of the format brought it
    _check_default_opset(opsets.get(""), name)
    return Source(model, name, folder, opsets, weights or {})


def _names(model: ModelProto) -> Iterator[str]:
    """Every text in the model that an import reads."""
    yield from (model.producer_name, model.producer_version)
    yield from (entry.domain for entry in model.opset_import)
    graphs, nodes = [model.graph], []
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
        yield from (*function.attribute, *(entry.domain for entry in function.opset_import))
        nodes += function.node
    while graphs or nodes:
        if nodes:
            node = nodes.pop()
            yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
            for attribute in node.attribute:
                yield from (attribute.name, attribute.ref_attr_name)
            graphs += subgraphs(node)
            continue
        graph = graphs.pop()
        yield graph.name
        for value in (*graph.input, *graph.output):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        for tensor in graph.initializer:
            yield from (tensor.name, *(text for e in tensor.external_data for text in (e.key, e.value)))
        for sparse in graph.sparse_initializer:
            yield from (sparse.values.name, sparse.indices.name)
        nodes += graph.node


def data_files(path: Path) -> frozenset[str]:
    """What a model file names as files of external data, as it names them; none where it cannot be read."""
    try:
        waiting: list[Any] = [read(path).model]
    except LegatoError:
        return frozenset()
    found = set()
    while waiting:
        for kind, value in waiting.pop().ListFields():
            if kind.message_type is None:
                continue
            parts = value if isinstance(value, Sequence) else (value,)
            if kind.name == "external_data":
                found |= {entry.value for entry in parts if entry.key == "location"}
            else:
                waiting += parts
    return frozenset(found)


def opsets_of(proto: ModelProto | FunctionProto) -> dict[str, int]:
    """Operator set versions by domain; "ai.onnx" is the default domain, ""."""
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in proto.opset_import}


def version_of(opsets: Mapping[str, int], domain: str) -> int:
    """The version of a domain's operators; 0 where nothing names it."""
    return opsets.get(domain, 1 if domain == MICROSOFT else 0)


def _check_default_opset(version: int | None, name: str) -> None:
    if version is None or MIN_OPSET <= version <= MAX_OPSET:
        return
    message = f"{name}: ONNX operator set {version}, but {MIN_OPSET} to {MAX_OPSET} are read"
    hint = "they count from 1" if version < MIN_OPSET else "a newer Legato may know it"
    raise UnsupportedError(message, hint=hint)
