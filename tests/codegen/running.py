"""Runs compiled functions in this process: images are mapped by the runtime, kernels are called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from legato.base.target import Target
from legato.codegen.compile import compile_object
from legato.codegen.emit import emit_module
from legato.codegen.link import Image, link
from legato.runtime.binding import HOST_OP, CodeImage, library
from legato.tir import interp
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func
from tests.machines import LEVELS

Array = np.ndarray[Any, Any]
HostOpCallback = Callable[[int, Any], int]
RUNNABLE = LEVELS
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Mapped:
    """An image in memory."""

    def __init__(self, image: Image) -> None:
        self.image = image
        data = np.frombuffer(image.data, np.uint8)
        self.code = CodeImage(data, image.code_size, np.array(image.relocations, np.int64))

    def kernel(self, name: str) -> Any:
        """The kernel `name` as a Python function of (words, tid, nt)."""
        return _KERNEL(self.code.address + self.image.exports[name])

    def run_host(
        self, name: str, words: Array, constants: Array | None = None, host_op: HostOpCallback | None = None
    ) -> int:
        """Status of the host function `name`, run by the runtime on two threads. It leaves no object behind."""
        lib = library()
        callback = HOST_OP(lambda _, op, args: host_op(op, args) if host_op else 3)
        base = constants.ctypes.data if constants is not None else 0
        workspace = lib.lg_workspace_new(base, 1 << 24, callback, None)
        status = lib.lg_run(workspace, self.code.address + self.image.exports[name], words.ctypes.data, 0, 2, 0)
        assert not lib.lg_objects_leaked(workspace)
        lib.lg_workspace_free(workspace)
        return int(status)


def build(funcs: Sequence[Func], target: Target, offsets: Mapping[str, int] | None = None) -> Mapped:
    """Compiles, links and maps functions."""
    text = emit_module(funcs, target, offsets or {})
    return Mapped(link([compile_object(text, target)], [f.name for f in funcs]))


def _in_memory(buffer: Buffer, array: Array) -> tuple[Array, Array]:
    """The flat memory of a buffer (undefined where it has no data) and the view of it that is the logical array."""
    memory = interp._physical(buffer, array, buffer.name)
    return memory, interp._logical(buffer, memory, array.shape)


def run(func: Func, args: Sequence[Any], target: Target, *, threads: int = 1) -> int:
    """Compiles and runs a kernel on arrays (changed in place) and ints; every thread's share in turn."""
    kernel = build([func], target).kernel
    places = [_in_memory(p, a) if isinstance(p, Buffer) else a for p, a in zip(func.params, args, strict=True)]
    words = np.array([p[0].ctypes.data if isinstance(p, tuple) else p for p in places] or [0], np.int64)
    code = kernel(func.name)
    status = 0
    for tid in range(threads):
        status = status or code(words.ctypes.data, tid, threads)
    for arg, place in zip(args, places, strict=True):
        if isinstance(place, tuple):
            arg[...] = place[1]
    return int(status)


def copies(args: Sequence[Any]) -> list[Any]:
    """The same arguments in memory of their own."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def check(
    func: Func,
    args: Sequence[Any],
    *,
    threads: int = 1,
    rtol: float = 0.0,
    atol: float = 0.0,
    targets: Sequence[Target] = RUNNABLE,
) -> int:
    """Runs `func` in the interpreter and compiled for every target that this machine runs, and compares the results.

    Exactly, unless tolerances are given. The arguments are changed as the interpreter says; returns its status.
    """
    got = [copies(args) for _ in targets]
    status = interp.run(func, args)
    for target, mine in zip(targets, got, strict=True):
        assert run(func, mine, target, threads=threads) == status, target.name
        for actual, expected, param in zip(mine, args, func.params, strict=True):
            if isinstance(actual, np.ndarray):
                compare(actual, expected, f"{param.name} on {target.name}", rtol, atol)
    return status


def compare(actual: Array, expected: Array, what: str, rtol: float, atol: float) -> None:
    """AssertionError where the arrays differ by more than the tolerances; NaN equals NaN."""
    if actual.dtype.kind in "fV":
        wide = [x.astype(np.float64) for x in (actual, expected)]
        np.testing.assert_allclose(*wide, rtol=rtol, atol=atol, err_msg=what, equal_nan=True)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
