"""What one call at a time works in: the arguments in words, the arena, the callback for operators run in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np

from legato.base.dtype import dtype
from legato.base.errors import RunError
from legato.runtime.binding import HOST_OP, library
from legato.runtime.floats import float_environment
from legato.runtime.program import HostOpInfo
from legato.runtime.size import compile_size

__all__ = ["MAX_KEPT", "TRIM", "Failure", "HostRunner", "Keeper", "Workspace", "host_callback"]

MAX_KEPT: Final = 8  # workspaces of calls that ran at the same time, which are kept for the next ones
TRIM: Final = 256  # calls after which workspaces are given back that none of them has used, or needed that large
SPARE: Final = 8 << 20  # bytes that a workspace may have beyond twice what was needed

# Runs an operator by its reference: its record and inputs (to be read only) give its outputs.
HostRunner = Callable[[HostOpInfo, Sequence[np.ndarray]], Sequence[np.ndarray]]


class Words(Protocol):
    """A C array of 8-byte words."""

    def __getitem__(self, index: int, /) -> int: ...


Failure = tuple[str, BaseException]
Callback = Callable[[list[Failure], int, Words], int]

_OK, _HOST_OP_FAILED = 0, 3  # LG_OK, LG_HOST_OP


class Workspace:
    """One call's state, reused from call to call.

    words: the array of arguments; plan: whose dims are in it. failures: what operators run in Python have raised;
    report: what a test that failed has left.
    """

    __slots__ = (
        "__weakref__",
        "_callback",
        "_free",
        "call",
        "failures",
        "handle",
        "plan",
        "report",
        "words",
        "words_address",
    )

    def __init__(
        self,
        words: int,
        constants: int,
        limit: int,
        callback: Callback | None,
        report_words: Sequence[tuple[int, int]] = (),
    ) -> None:
        lib = library()
        self._free = lib.lg_workspace_free
        self.words = (ctypes.c_int64 * max(words, 1))()
        self.words_address = ctypes.addressof(self.words)
        self.plan: object = None
        self.call = 0
        self.report: ctypes.Array[ctypes.c_int64] | tuple[()] = ()
        for word, size in report_words:
            report = (ctypes.c_int64 * size)()
            self.words[word] = ctypes.addressof(report)
            self.report = report
        self.failures: list[Failure] = []
        failures = self.failures  # not self: a cycle would keep the arena until the next garbage collection
        self._callback = None if callback is None else HOST_OP(lambda user, op, args: callback(failures, op, args))
        self.handle: int = lib.lg_workspace_new(constants, limit, self._callback, None) or 0
        if not self.handle:
            raise RunError("out of memory: no room for a workspace")

    def profile(self, record: int) -> None:
        """From the next run on, record in the lg_profile at that address."""
        library().lg_workspace_profile(self.handle, record)

    @property
    def peak(self) -> int:
        """The most bytes that frames have occupied at once in any call so far."""
        return int(library().lg_workspace_peak(self.handle))

    def refused(self) -> tuple[int, int]:
        """What the call that has just run out of memory had no room for: so many bytes, beside those in use."""
        found = (ctypes.c_int64 * 2)()
        at = ctypes.addressof(found)
        library().lg_workspace_refused(self.handle, at, at + 8)
        return found[0], found[1]

    def end_objects(self, handles: Sequence[int]) -> None:
        """Releases `handles`, and ends the objects that are left."""
        library().lg_objects_end(self.handle, (ctypes.c_int64 * len(handles))(*handles), len(handles))

    @property
    def leaked(self) -> int:
        """How many objects were left when successful calls ended: those in circles, and what the program forgot."""
        return int(library().lg_objects_leaked(self.handle))

    @property
    def held(self) -> int:
        """The bytes that are kept between calls."""
        return int(library().lg_workspace_held(self.handle))

    def __del__(self) -> None:
        if getattr(self, "handle", 0):
            self._free(self.handle)


class Keeper:
    """Keeps workspaces of calls that have ended in the list `free`, and gives back what is not used any more.

    Any thread may call it, and take workspaces out of the list. Calls are counted without a lock: some may be missed.
    """

    __slots__ = ("_calls", "_free", "_most")

    def __init__(self, free: list[Workspace]) -> None:
        self._free = free
        self._calls = 0
        self._most = 0  # bytes that a call has needed since workspaces were given back

    def keep(self, workspace: Workspace, needed: int) -> None:
        """Takes the workspace of a call that needed so many bytes."""
        self._calls = calls = self._calls + 1
        workspace.call = calls
        if needed > self._most:
            self._most = needed
        if len(self._free) < MAX_KEPT:
            self._free.append(workspace)
        if not calls % TRIM:
            self._trim(calls - TRIM)

    def _trim(self, before: int) -> None:
        most, self._most = 2 * self._most + SPARE, 0
        for _ in range(len(self._free)):
            try:
                workspace = self._free.pop(0)  # nobody else has it now
            except IndexError:
                return
            if workspace.call > before and workspace.held <= most:
                self._free.append(workspace)


def host_callback(ops: Sequence[HostOpInfo], run: HostRunner, *, flush: bool) -> Callback:
    """What a workspace calls for operator `op`: it reads the words (inputs, outputs, dims) and stores the outputs.
    Floats are those of the kernels around it: with `flush`, subnormal numbers count as 0."""
    kernels = [_HostOp(op, run) for op in ops]

    def callback(failures: list[Failure], op: int, args: Words) -> int:
        try:
            with float_environment(flush=flush):
                kernels[op](args)
        except BaseException as error:  # nothing may pass through C: the call fails, and raises it then
            failures.append((ops[op].op, error))
            return _HOST_OP_FAILED
        return _OK

    return callback


class _HostOp:
    """One operator of the table, ready to be run on words."""

    __slots__ = ("_info", "_run", "_tensors")

    def __init__(self, info: HostOpInfo, run: HostRunner) -> None:
        self._info, self._run = info, run
        self._tensors = [
            (dtype(tensor.dtype).numpy, [compile_size(size, info.dims) for size in tensor.shape])
            for tensor in (*info.inputs, *info.outputs)
        ]

    def __call__(self, args: Words) -> None:
        info, count = self._info, len(self._tensors)
        env = [args[count + i] for i in range(len(info.dims))]
        arrays = [
            _view(args[i], tuple(size(env) for size in sizes), kind) for i, (kind, sizes) in enumerate(self._tensors)
        ]
        inputs, outputs = arrays[: len(info.inputs)], arrays[len(info.inputs) :]
        for array in inputs:
            array.flags.writeable = False
        results = self._run(info, inputs)
        if len(results) != len(outputs):
            raise RunError(f"gave {len(results)} results; its type has {len(outputs)}")
        made = [_checked(np.asarray(result), out) for out, result in zip(outputs, results, strict=True)]
        for out, result in zip(outputs, made, strict=True):
            out[...] = result


def _view(pointer: int, shape: tuple[int, ...], kind: np.dtype[np.generic]) -> np.ndarray:
    """The array at an address."""
    size = kind.itemsize
    for extent in shape:
        size *= extent
    if not size:
        return np.empty(shape, kind)
    data = (ctypes.c_uint8 * size).from_address(pointer)
    return np.frombuffer(memoryview(data), kind).reshape(shape)


def _checked(result: np.ndarray, out: np.ndarray) -> np.ndarray:
    """`result`, which is to be stored in `out`."""
    if result.shape != out.shape or result.dtype != out.dtype:
        raise RunError(f"gave {result.dtype}{list(result.shape)}; its type says {out.dtype}{list(out.shape)}")
    return result
