"""The words of a HostOp as arrays: compiled code passes addresses of inputs and outputs, and dims behind these.

Strings are numbers in memory (`runtime.strings`): inputs of them are arrays of strings, made for the call.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from legato.base.dtype import dtype
from legato.base.strings import string_array
from legato.runtime.program import HostOpInfo
from legato.runtime.size import compile_size
from legato.runtime.strings import Strings

__all__ = ["HostArrays", "Lent", "Words"]

Lent = list["weakref.ref[Any]"]  # what arrays lie in, as long as anybody has one of them


class Words(Protocol):
    """A C array of 8-byte words."""

    def __getitem__(self, index: int, /) -> int: ...


class HostArrays:
    """What a HostOp is given: called with its words, the inputs, which may only be read, and the outputs."""

    __slots__ = ("_dims", "_inputs", "_tensors", "_texts", "kinds")

    def __init__(self, info: HostOpInfo) -> None:
        self._inputs, self._dims = len(info.inputs), len(info.dims)
        self._tensors = [
            (dtype(tensor.dtype).stored, [compile_size(size, info.dims) for size in tensor.shape])
            for tensor in (*info.inputs, *info.outputs)
        ]
        self._texts = [n for n, tensor in enumerate(info.inputs) if dtype(tensor.dtype).is_string]
        self.kinds = [dtype(tensor.dtype).numpy for tensor in info.outputs]  # what is stored in outputs

    def __call__(
        self, words: Words, strings: Strings | None, lent: Lent | None = None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Arrays over the memory that the words point to; `lent` gets what each of them lies in."""
        count = len(self._tensors)
        env = [words[count + i] for i in range(self._dims)]
        arrays = [
            _view(words[i], tuple(size(env) for size in sizes), kind, lent)
            for i, (kind, sizes) in enumerate(self._tensors)
        ]
        inputs, outputs = arrays[: self._inputs], arrays[self._inputs :]
        for n in self._texts:
            assert strings is not None, "a program that has strings has a table of them"
            inputs[n] = strings.texts(inputs[n])
        for array in inputs:
            array.flags.writeable = False
        return inputs, outputs

    def store(self, outputs: Sequence[np.ndarray], results: Sequence[np.ndarray], strings: Strings | None) -> None:
        """Stores results of the `kinds` in the outputs."""
        for out, result, kind in zip(outputs, results, self.kinds, strict=True):
            if kind == out.dtype:
                out[...] = result
            else:
                assert strings is not None, "a program that has strings has a table of them"
                out[...] = strings.numbers(string_array(result, "a result"))


def _view(pointer: int, shape: tuple[int, ...], kind: np.dtype[np.generic], lent: Lent | None) -> np.ndarray:
    """The array at an address."""
    size = kind.itemsize
    for extent in shape:
        size *= extent
    if not size:
        return np.empty(shape, kind)
    data = (ctypes.c_uint8 * size).from_address(pointer)
    if lent is not None:
        lent.append(weakref.ref(data))
    return np.frombuffer(memoryview(data), kind).reshape(shape)
