"""The C library of the runtime, bound with ctypes. `native/legato_rt.h` documents the functions."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from ctypes import c_char_p, c_double, c_int32, c_int64, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, Final

import numpy as np

from legato.base.errors import InternalError, PlatformError, RunError
from legato.runtime.program import ABI

__all__ = ["HOST_OP", "MAX_THREADS", "CodeImage", "Memory", "address", "cpu_count", "crc32c_chunks", "in_two",
           "library"]  # fmt: skip

MAX_THREADS: Final = 256  # LG_MAX_THREADS
LARGE: Final = 32 << 20  # bytes that are summed up by two threads
LIBRARY: Final = Path(__file__).parent / "native" / "liblegato_rt.so"

# lg_host_op: (user, op, args) -> status
HOST_OP: Final = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, ctypes.POINTER(c_int64))

_byte_at: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer

_SIGNATURES: Final[dict[str, tuple[object, tuple[object, ...]]]] = {
    "lg_abi_version": (c_int32, ()),
    "lg_cpu_count": (c_int32, ()),
    "lg_cgroup_cpus": (c_double, (c_char_p,)),
    "lg_pool_workers": (c_int32, ()),
    "lg_image_load": (c_void_p, (c_void_p, c_int64, c_int64, c_void_p, c_int64)),
    "lg_image_unload": (None, (c_void_p, c_int64)),
    "lg_alloc": (c_void_p, (c_int64,)),
    "lg_free": (None, (c_void_p, c_int64)),
    "lg_crc32c": (c_uint32, (c_uint32, c_void_p, c_int64)),
    "lg_crc32c_chunks": (None, (c_void_p, c_int64, c_int64, c_void_p)),
    "lg_workspace_new": (c_void_p, (c_void_p, c_int64, c_void_p, c_void_p)),
    "lg_workspace_free": (None, (c_void_p,)),
    "lg_workspace_peak": (c_int64, (c_void_p,)),
    "lg_workspace_refused": (None, (c_void_p, c_void_p, c_void_p)),
    "lg_workspace_held": (c_int64, (c_void_p,)),
    "lg_workspace_profile": (None, (c_void_p, c_void_p)),
    "lg_run": (c_int32, (c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_int32)),
    "lg_interrupt": (None, (c_void_p,)),
    "lg_floats_enter": (c_uint32, (c_int32,)),
    "lg_floats_leave": (None, (c_uint32,)),
    "lg_objects_new": (c_int32, (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64)),
    "lg_objects_read": (c_int32, (c_void_p, c_void_p, c_int64, c_void_p, c_void_p)),
    "lg_objects_end": (None, (c_void_p, c_void_p, c_int64)),
    "lg_objects_leaked": (c_int64, (c_void_p,)),
}


def _library_path() -> str:
    """Where the system finds the library: in the package, or in memory, where that is imported from an archive."""
    if LIBRARY.exists():
        return str(LIBRARY)
    try:
        data = globals()["__loader__"].get_data(str(LIBRARY))
    except (AttributeError, OSError):
        raise PlatformError(
            f"the runtime library {LIBRARY} is missing\n"
            "  hint: it is built when Legato is installed; in a source tree run: pip install --editable ."
        ) from None
    with os.fdopen(
        os.memfd_create(LIBRARY.name), "wb", closefd=False
    ) as file:  # open for good: a path in /proc names it
        file.write(data)
        return f"/proc/self/fd/{file.fileno()}"


@cache
def library() -> ctypes.CDLL:
    """The library, its functions typed; PlatformError where it cannot be had. Calls release Python's global lock."""
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in ("x86_64", "AMD64"):
        raise PlatformError(f"Legato runs on Linux on x86-64 only so far; this is {system} on {machine}")
    try:
        lib = ctypes.CDLL(_library_path(), use_errno=True)
    except OSError as error:
        raise PlatformError(f"the runtime library cannot be loaded: {error}") from error
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(lib, name)
        except AttributeError as error:
            raise _stale() from error
        function.restype, function.argtypes = result, arguments
    if lib.lg_abi_version() != ABI:
        raise _stale()
    return lib


def _stale() -> PlatformError:
    return PlatformError(
        f"the runtime library {LIBRARY} belongs to another version of Legato\n  hint: install Legato again"
    )


def cpu_count() -> int:
    """How many threads run at once here: by CPU affinity and cgroup quota."""
    return int(library().lg_cpu_count())


def address(array: np.ndarray) -> int:
    """Where the elements of `array` begin."""
    try:  # four times as fast as the other way
        return ctypes.addressof(_byte_at(array))
    except (TypeError, ValueError):  # read-only, empty, or of a dtype that no buffer has
        return int(array.ctypes.data)


def crc32c_chunks(data: np.ndarray, chunk: int) -> np.ndarray:
    """CRC32C of each `chunk` bytes of a contiguous uint8 array, as uint32[ceil(size / chunk)]."""
    sums = np.empty(-(-data.size // chunk), np.uint32)
    in_two(lambda a, b: _crc32c(data[a * chunk : b * chunk], chunk, sums[a:b]), sums.size, data.size)
    return sums


def in_two(work: Callable[[int, int], None], count: int, size: int) -> None:
    """work(0, count), in halves at once where `size` bytes are worth it and the system has a thread for it."""
    half = count // 2
    failures: list[Exception] = []

    def first() -> None:
        try:
            work(0, half)
        except Exception as error:
            failures.append(error)

    other = Thread(target=first) if size >= LARGE and cpu_count() > 1 else None
    try:
        if other is not None:
            other.start()
    except RuntimeError:  # no more threads
        other = None
    try:
        work(0 if other is None else half, count)
    finally:
        if other is not None:
            other.join()
    for failure in failures:
        raise failure


def _crc32c(data: np.ndarray, chunk: int, sums: np.ndarray) -> None:
    library().lg_crc32c_chunks(address(data), data.size, chunk, address(sums))


class Memory:
    """Zeroed bytes, 64-byte aligned, on huge pages where they are large; RunError if there are not so many."""

    __slots__ = ("__weakref__", "_free", "address", "size")

    def __init__(self, size: int) -> None:
        lib = library()
        self._free = lib.lg_free
        self.size = size
        self.address: int = lib.lg_alloc(size) or 0 if size else 0
        if size and not self.address:
            raise RunError(f"out of memory: {size} bytes for constants")

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self._free(self.address, self.size)


class CodeImage:
    """Machine code, mapped to be executed for as long as this object lives.

    bytes: uint8; the first `code_size` become executable, the rest read-only data. relocations: int64, offsets of
    8-byte words that hold offsets into the image.
    """

    __slots__ = ("__weakref__", "_unload", "address", "size")

    def __init__(self, image: np.ndarray, code_size: int, relocations: np.ndarray) -> None:
        lib = library()
        self._unload = lib.lg_image_unload
        self.size = int(image.size)
        self.address: int = (
            lib.lg_image_load(address(image), image.size, code_size, address(relocations), relocations.size) or 0
        )
        if not self.address:
            self._refuse(ctypes.get_errno())

    @staticmethod
    def _refuse(errno: int) -> None:
        import errno as codes
        import os

        if errno == codes.EINVAL:
            raise InternalError("the code image or its relocations are malformed")
        if errno == codes.ENOMEM:
            raise RunError("out of memory: no room to map the code")
        raise PlatformError(
            f"the system refuses to make memory executable ({os.strerror(errno)})\n"
            "  hint: allow it for this process; a hardened kernel or sandbox is in the way"
        )

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self._unload(self.address, self.size)
