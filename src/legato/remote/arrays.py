"""Arrays by name as bytes: JSON that says what they are, behind its length, and their elements. Every dtype, strings
too, comes back as it was."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from legato.base.dtype import BY_NAME, dtype
from legato.base.errors import RunError

__all__ = ["pack", "unpack"]

_LENGTH: Final = struct.Struct(">Q")
_CODES: Final = "codes"  # in the place of a dtype: bytes of a file of NumPy's, of which the program says what they are
_BYTE: Final = np.dtype("V1")


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of the arrays."""
    heads: list[list[Any]] = []
    bodies: list[bytes] = []
    for name, array in arrays.items():
        if array.dtype == _BYTE:
            heads.append([name, _CODES, list(array.shape), None])
            bodies.append(array.tobytes())
            continue
        kind = dtype(array.dtype)
        texts = array.ravel().tolist() if kind.is_string else None
        heads.append([name, kind.name, list(array.shape), texts])
        if texts is None:
            bodies.append(np.asarray(array, array.dtype.newbyteorder("=")).tobytes())
    head = json.dumps(heads).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *bodies])


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """The arrays that `pack` was given; RunError for other bytes."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + length
        found: dict[str, np.ndarray] = {}
        for name, kind, shape, texts in json.loads(data[_LENGTH.size : start]):
            if not isinstance(name, str) or not all(isinstance(text, str) for text in texts or ()):
                raise TypeError("names and texts are strings")
            if texts is None:
                numpy, count = _BYTE if kind == _CODES else BY_NAME[kind].numpy, math.prod(shape)
                found[name] = np.frombuffer(data, numpy, count, start).reshape(shape).copy()
                start += count * numpy.itemsize
            else:
                array = np.empty(len(texts), object)
                array[:] = texts
                found[name] = array.reshape(shape)
    except (struct.error, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise RunError(f"the arrays that were sent cannot be read: {error}") from error
    return found
