"""The large weights of an ONNX file, apart from the rest of its message.

Most of a file are weights. Parsed with the rest they are copied three times: into memory, into the message, out of it.
Here the fields of the file are walked first, by their lengths alone: what protobuf's parser gets is the message without
the bytes of large initializers, and these are read from the file into one array, aligned, each byte once.

    ModelProto: field 7, GraphProto: field 5, TensorProto: field 9, raw_data          (https://protobuf.dev/programming-guides/encoding)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from legato.base.dataclass import dataclass

__all__ = ["Apart", "split"]

Bytes = NDArray[np.uint8]

LARGE = 1 << 12  # bytes from which a weight is worth the trouble
_ALIGN = 64
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Apart:
    """A file's message without the data of large initializers; that, by their numbers in the graph."""

    message: bytes
    weights: dict[int, Bytes]


def split(descriptor: int) -> Apart | None:
    """The file in parts; None where it is not laid out as exporters do it: then the parser must judge it as a whole."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        size = os.fstat(descriptor).st_size
        places: dict[int, tuple[int, int]] = {}
        try:
            message = _Splitter(file, places).model(size)
        except _UnusualError:
            return None
    ends = np.cumsum([-(-length // _ALIGN) * _ALIGN for _, length in places.values()])
    memory = np.empty(int(ends[-1]) if places else 0, np.uint8)
    weights: dict[int, Bytes] = {}
    for (number, (offset, length)), end in zip(places.items(), ends.tolist(), strict=True):
        start = end - -(-length // _ALIGN) * _ALIGN
        weights[number] = memory[start : start + length]
        if not _fill(descriptor, weights[number], offset):
            return None
        weights[number].setflags(write=False)
    memory.setflags(write=False)
    return Apart(message, weights)


def _fill(descriptor: int, array: Bytes, offset: int) -> bool:
    """Reads `array` from `offset` of the file on; False if the file ends before."""
    done = 0
    while done < array.size:
        got = os.preadv(descriptor, [array[done:].data], offset + done)
        if not got:
            return False
        done += got
    return True


class _UnusualError(Exception):
    """The file is damaged, or has what no exporter writes."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field: where its tag begins, its content begins, and it ends."""

    number: int
    kind: int
    start: int
    content: int
    end: int


@dataclass(frozen=True, slots=True)
class _Splitter:
    """Walks `file`, and notes the places (offset, length) of large weights."""

    file: IO[bytes]
    places: dict[int, tuple[int, int]]

    def model(self, size: int) -> bytes:
        """The message of the model without large weights."""
        parts: list[bytes] = []
        graphs = 0
        for field in self._fields(0, size):
            if field.number == _GRAPH and field.kind == _DELIMITED:
                graphs += 1
                inner = self._graph(field)
                parts += (bytes([_GRAPH << 3 | _DELIMITED]), _varint(len(inner)), inner)
            else:
                parts.append(self._bytes(field.start, field.end))
        if graphs != 1:
            raise _UnusualError
        return b"".join(parts)

    def _graph(self, graph: _Field) -> bytes:
        parts: list[bytes] = []
        number = 0
        for field in self._fields(graph.content, graph.end):
            if field.number == _INITIALIZER and field.kind == _DELIMITED:
                parts.append(self._initializer(field, number))
                number += 1
            else:
                parts.append(self._bytes(field.start, field.end))
        return b"".join(parts)

    def _initializer(self, tensor: _Field, number: int) -> bytes:
        if tensor.end - tensor.content < LARGE:
            return self._bytes(tensor.start, tensor.end)
        fields = list(self._fields(tensor.content, tensor.end))
        raw = [f for f in fields if f.number == _RAW_DATA and f.kind == _DELIMITED]
        if len(raw) != 1 or raw[0].end - raw[0].content < LARGE:
            return self._bytes(tensor.start, tensor.end)
        self.places[number] = raw[0].content, raw[0].end - raw[0].content
        inner = b"".join(self._bytes(f.start, f.end) for f in fields if f is not raw[0])
        return bytes([_INITIALIZER << 3 | _DELIMITED]) + _varint(len(inner)) + inner

    def _bytes(self, start: int, end: int) -> bytes:
        self.file.seek(start)
        return self.file.read(end - start)

    def _fields(self, at: int, end: int) -> Iterator[_Field]:
        """The fields between two places, which they must fill."""
        while at < end:
            self.file.seek(at)
            head = self.file.read(min(20, end - at))  # a tag and a length, at most
            tag, used = _read_varint(head, 0)
            content, kind = at + used, tag & 7
            if kind == _VARINT:
                stop = at + _read_varint(head, used)[1]
            elif kind == _DELIMITED:
                length, used = _read_varint(head, used)
                content = at + used
                stop = content + length
            elif kind in (_FIXED32, _FIXED64):
                stop = content + (4 if kind == _FIXED32 else 8)
            else:
                raise _UnusualError
            if stop > end:
                raise _UnusualError
            yield _Field(tag >> 3, kind, at, content, stop)
            at = stop


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise _UnusualError


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
