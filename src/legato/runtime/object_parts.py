"""Tensors in objects of data types, for one combination of dims: as callers give them, and as programs make them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

import numpy as np

from legato.base.dtype import dtype
from legato.base.errors import InternalError
from legato.base.strings import is_text, string_array
from legato.runtime.arrays import as_array, empty, extent_array
from legato.runtime.datatypes import TensorField
from legato.runtime.signature import fault
from legato.runtime.size import compile_size
from legato.runtime.strings import Strings

__all__ = ["WORD", "Extent", "OwnPart", "Part"]

WORD: Final = 8  # bytes
_ASKED: Final = 256  # combinations of dims that a part remembers


class Part:
    """A tensor in an object, for one combination of dims. `integer`: what int() makes the word of, if any scalar is."""

    __slots__ = ("integer", "is_text", "kind", "scalar_type", "shape", "size", "text")

    def __init__(self, field: TensorField, dims: Sequence[str], env: Sequence[int]) -> None:
        self.kind = dtype(field.dtype).numpy
        self.is_text = dtype(field.dtype).is_string
        self.scalar_type = None if self.kind.names else self.kind.type  # records of any fields are of one type
        self.integer = self.kind.type if self.kind.kind in "ib" else None
        self.shape = tuple(compile_size(size, dims)(env) for size in field.shape)
        self.size = int(np.prod(self.shape, dtype=object)) * self.kind.itemsize
        self.text = f"{field.dtype}[{', '.join(map(str, self.shape))}]"

    def array(self, value: object, where: str, strings: Strings | None = None) -> np.ndarray:
        """`value` as an array of this dtype and shape, contiguous, numbers in place of `strings`; RunError if it is
        another."""
        found = value if type(value) is np.ndarray else as_array(value, where)
        if self.is_text and is_text(found):
            found = np.asarray(found, self.kind)
        if found.dtype != self.kind or found.shape != self.shape:
            got = f"{found.dtype}[{', '.join(map(str, found.shape))}]"
            raise fault(f'input "{where}": wrong shape or dtype', got, self.text)
        if self.is_text:
            assert strings is not None, "a program that has strings has a table of them"
            return strings.numbers(string_array(found, f'input "{where}"'))
        return found if found.flags.c_contiguous and found.flags.aligned else np.array(found, order="C", copy=True)

    def word(self, value: object, where: str, strings: Strings | None = None) -> int:
        """A scalar in a word."""
        found = value if type(value) is self.scalar_type else self.array(value, where, strings)
        if self.integer or self.is_text:
            return int(found)
        return int.from_bytes(found.tobytes().ljust(WORD, b"\0"), "little", signed=True)

    def read(self, pointer: int, size: int, strings: Strings | None = None) -> np.ndarray:
        """A copy of the tensor at an address, which has `size` bytes; `strings` in place of numbers."""
        if size != self.size:
            raise InternalError(f"the program made a tensor of {size} bytes, wanted {self.size}: {self.text}")
        if not size:
            return empty(self.shape, self.kind)
        memory = memoryview((ctypes.c_char * size).from_address(pointer))
        if self.is_text:
            assert strings is not None, "a program that has strings has a table of them"
            return strings.texts(np.ndarray(self.shape, np.int64, memory))
        return np.ndarray(self.shape, self.kind, memory).copy()


class Extent(Part):
    """An extent of a shape in an object: an integer is an int64 scalar, too."""

    __slots__ = ()

    def array(self, value: object, where: str, strings: Strings | None = None) -> np.ndarray:
        """`value` as an array; RunError if it is no int64 scalar."""
        return super().array(extent_array(value, where), where)


class OwnPart:
    """A tensor in an object whose shape has dims of the object's own."""

    __slots__ = ("_env", "_field", "_names", "_own", "_parts")

    def __init__(self, field: TensorField, dims: Sequence[str], env: Sequence[int], own: Sequence[str]) -> None:
        self._field, self._names, self._env, self._own = field, (*dims, *own), env, own
        self._parts: dict[tuple[int, ...], Part] = {}

    def at(self, values: tuple[int, ...]) -> Part:
        """The tensor in an object with these dims."""
        found = self._parts.get(values)
        if found is None:
            if len(self._parts) >= _ASKED:
                self._parts.clear()
            found = self._parts[values] = Part(self._field, self._names, (*self._env, *values))
        return found

    def tell(self, value: object, where: str, known: dict[str, int]) -> None:
        """Notes the dims of the object that `value` has as plain sizes."""
        shape = as_array(value, where).shape
        for size, extent in zip(self._field.shape, shape, strict=False):
            if isinstance(size, str) and size in self._own:
                known.setdefault(size, extent)
