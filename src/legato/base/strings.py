"""Arrays of strings: NumPy's arrays of objects, each of which is a Python str."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from legato.base.errors import RunError

__all__ = ["as_stored", "bits", "is_text", "string_array", "without_zeros"]

Array = np.ndarray[Any, Any]
Error = Callable[[str], Exception]
_OBJECT: Final = np.dtype(object)
_LENGTH: Final = 8  # bytes before each string


def is_text(array: Array) -> bool:
    """Whether an array may be of strings: NumPy's text, or objects."""
    return array.dtype.kind in "OUT"


def string_array(array: Array, what: str, error: Error = RunError) -> Array:
    """An array of text or of objects as one of strings, in C order; itself where it is one.

    An `error` that begins with `what` where an element is something else (None and bytes are), or has no form in UTF-8.
    """
    flat = array.ravel().tolist()
    for value in flat:
        if type(value) is not str and not isinstance(value, str):
            hint = "\n  hint: value.decode() makes text of bytes" if isinstance(value, bytes) else ""
            raise error(f"{what}: an element is a {type(value).__name__}, wanted strings{hint}")
    try:
        "".join(flat).encode()
    except UnicodeEncodeError as fault:
        raise error(f"{what}: an element has no form in UTF-8: {fault.reason}") from None
    if array.dtype == _OBJECT and array.flags.c_contiguous and all(type(value) is str for value in flat):
        return array
    found = np.empty(len(flat), _OBJECT)
    found[:] = list(map(str, flat))
    return found.reshape(array.shape)


def without_zeros(array: Array) -> Array:
    """An array of strings with empty ones in place of NumPy's zeros of objects; others as they are."""
    return np.where(array == 0, "", array) if array.dtype.kind == "O" else array


def as_stored(array: Array, what: str) -> Array:
    """An array as NumPy's files have it without pickles: strings as text of one width. Others as they are.

    RunError that begins with `what` where a string ends with a character that NumPy fills up others with.
    """
    if array.dtype.kind != "O":
        return array
    if any(value.endswith("\0") for value in array.ravel()):
        hint = "\n  hint: a call in Python gives it whole: legato.load(FILE)(…)"
        raise RunError(f"{what}: a string ends with a NUL character, which files of NumPy's do not keep{hint}")
    return array.astype(str)


def bits(array: Array) -> bytes:
    """What tells the elements of two arrays of the same dtype and shape apart: their bytes; of strings, in UTF-8."""
    if array.dtype.kind != "O":
        return array.tobytes()
    encoded = [str(value).encode("utf-8", "surrogatepass") for value in array.ravel()]
    return b"".join(len(data).to_bytes(_LENGTH, "little") + data for data in encoded)
