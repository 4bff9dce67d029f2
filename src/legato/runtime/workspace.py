"""What one call at a time works in: the arguments in words, the arena, the callback for operators run in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from legato.base.errors import LegatoError, RunError
from legato.runtime.binding import HOST_OP, library
from legato.runtime.floats import float_environment
from legato.runtime.host_words import HostArrays, Words
from legato.runtime.program import HostOpInfo
from legato.runtime.strings import Strings

__all__ = ["MAX_KEPT", "TRIM", "Failure", "HostRunner", "Keeper", "Workspace", "host_callback"]

MAX_KEPT: Final = 8  # workspaces of calls that ran at the same time, which are kept for the next ones
TRIM: Final = 256  # calls after which workspaces are given back that none of them has used, or needed that large
SPARE: Final = 8 << 20  # bytes that a workspace may have beyond twice what was needed

# Runs an operator by its reference: its record and inputs (to be read only) give its outputs.
HostRunner = Callable[[HostOpInfo, Sequence[np.ndarray]], Sequence[np.ndarray]]


Failure = tuple[str | None, BaseException]  # what has failed, in words (None: the error says it), and how
Callback = Callable[[list[Failure], list[np.ndarray], "Strings | None", int, Words], int]

_OK, _HOST_OP_FAILED = 0, 3  # LG_OK, LG_HOST_OP


class Workspace:
    """One call's state, reused from call to call.

    words: the array of arguments; plan: whose dims are in it. failures: what operators run in Python have raised;
    waiting: what a packed function has given that is still to be stored; report: what a test that failed has left;
    strings: those of the call, if the program has any.
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
        "strings",
        "waiting",
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
        strings: Strings | None = None,
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
        self.waiting: list[np.ndarray] = []
        self.strings = strings
        run = None if callback is None else partial(callback, self.failures, self.waiting, strings)
        # not self: a cycle would keep the arena until the next garbage collection
        self._callback = None if run is None else HOST_OP(lambda user, op, args: run(op, args))
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
        if workspace.strings is not None:
            workspace.strings.clear()
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


def host_callback(
    ops: Sequence[HostOpInfo], run: HostRunner, packed: Mapping[str, object] | None = None, *, flush: bool
) -> Callback:
    """What a workspace calls for operator `op`: it reads the words (inputs, outputs, dims) and stores the outputs.
    In references floats are those of the kernels around them: with `flush`, subnormal numbers count as 0. PackedError
    where functions of `packed` do not fit."""
    from legato.runtime.outside import outside_ops  # on use: most programs run no operator in Python

    outside = outside_ops(ops, packed)
    kernels = [outside.get(n) or _HostOp(op, run, flush=flush) for n, op in enumerate(ops)]

    def callback(
        failures: list[Failure], waiting: list[np.ndarray], strings: Strings | None, op: int, words: Words
    ) -> int:
        try:
            kernels[op](words, waiting, strings)
        except BaseException as error:  # nothing may pass through C: the call fails, and raises it then
            is_told = op in outside and isinstance(error, LegatoError)
            failures.append((None if is_told else f"operator {ops[op].op}", error))
            return _HOST_OP_FAILED
        return _OK

    return callback


class _HostOp:
    """One operator of the table that is run by its reference, ready to be run on words."""

    __slots__ = ("_arrays", "_flush", "_info", "_run")

    def __init__(self, info: HostOpInfo, run: HostRunner, *, flush: bool) -> None:
        self._info, self._run, self._arrays, self._flush = info, run, HostArrays(info), flush

    def __call__(self, words: Words, waiting: list[np.ndarray], strings: Strings | None) -> None:
        inputs, outputs = self._arrays(words, strings)
        with float_environment(flush=self._flush):
            results = self._run(self._info, inputs)
            if len(results) != len(outputs):
                raise RunError(f"gave {len(results)} results; its type has {len(outputs)}")
            given = zip(results, outputs, self._arrays.kinds, strict=True)
            made = [_checked(np.asarray(result), out.shape, kind) for result, out, kind in given]
            self._arrays.store(outputs, made, strings)


def _checked(result: np.ndarray, shape: tuple[int, ...], kind: np.dtype[np.generic]) -> np.ndarray:
    """`result`, which is to be stored as an output of that shape and dtype."""
    if result.shape != shape or result.dtype != kind:
        raise RunError(f"gave {result.dtype}{list(result.shape)}; its type says {kind}{list(shape)}")
    return result
