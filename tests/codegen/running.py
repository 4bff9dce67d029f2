"""Runs compiled functions in this process: the image is mapped executable and called through ctypes."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from legato.base.target import Target
from legato.codegen.compile import compile_object
from legato.codegen.emit import emit_module
from legato.codegen.link import Image, link
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func

Array = np.ndarray[Any, Any]


class Mapped:
    """An image in memory."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.map = mmap.mmap(-1, len(image.data), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        data = bytearray(image.data)
        for slot in image.relocations:
            (value,) = struct.unpack_from("<q", data, slot)
            struct.pack_into("<q", data, slot, value + self.base)
        self.map[:] = bytes(data)

    def kernel(self, name: str) -> Any:
        """The kernel `name` as a Python function of (words, tid, nt)."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        return kind(self.base + self.image.exports[name])


def build(funcs: Sequence[Func], target: Target, offsets: Mapping[str, int] | None = None) -> Mapped:
    """Compiles, links and maps functions."""
    text = emit_module(funcs, target, offsets or {})
    return Mapped(link([compile_object(text, target)], [f.name for f in funcs]))


def full_shape(buffer: Buffer, shape: Sequence[int]) -> tuple[int, ...]:
    """Extents in memory, outermost first."""
    order = buffer.layout.order
    full = [shape[d] + sum(buffer.layout.halo_of(d)) for d in order]
    if full:
        full[-1] += buffer.layout.pad
    return tuple(full)


def to_memory(buffer: Buffer, array: Array) -> Array:
    """A logical array as it lies in memory, in the middle of guard bytes."""
    full = full_shape(buffer, array.shape)
    memory = np.full(full, buffer.layout.halo_value, array.dtype)
    logical(buffer, memory, array.shape)[...] = array
    return memory


def logical(buffer: Buffer, memory: Array, shape: Sequence[int]) -> Array:
    """The logical part of memory (a view)."""
    order = buffer.layout.order
    before = [buffer.layout.halo_of(d)[0] for d in range(len(order))]
    view = memory.transpose([order.index(d) for d in range(len(order))])
    inner = (..., *(slice(b, b + n) for b, n in zip(before, shape, strict=True)))
    return view[inner]


def run(func: Func, args: Sequence[Any], target: Target, *, threads: int = 1) -> int:
    """Compiles and runs a kernel on arrays (changed in place) and ints; every thread's share in turn."""
    code = build([func], target)
    kernel = code.kernel(func.name)
    memories = [to_memory(p, a) if isinstance(p, Buffer) else a for p, a in zip(func.params, args, strict=True)]
    words = (ctypes.c_int64 * max(1, len(args)))()
    for n, m in enumerate(memories):
        words[n] = m.ctypes.data if isinstance(m, np.ndarray) else m
    status = 0
    for tid in range(threads):
        status = status or kernel(ctypes.addressof(words), tid, threads)
    for param, arg, memory in zip(func.params, args, memories, strict=True):
        if isinstance(param, Buffer):
            arg[...] = logical(param, memory, arg.shape)
    return int(status)
