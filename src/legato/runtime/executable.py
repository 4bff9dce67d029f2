"""Compiled programs, ready to run."""

from __future__ import annotations

from _signal import getsignal  # type: ignore[import-not-found]  # signal's own wraps the answer in an enum: 100 times slower
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGINT, default_int_handler
from threading import get_ident, main_thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np

from legato.base.config import config
from legato.base.errors import InternalError, InterruptError, LegatoError, PlatformError, RunError
from legato.base.precision import Precision
from legato.base.target import missing_features, target
from legato.runtime import artifact
from legato.runtime.arrays import as_array, by_name, check_out, check_overlap, pack, ready
from legato.runtime.binding import MAX_THREADS, CodeImage, address, cpu_count, library
from legato.runtime.parts import Constants, Parts, join_constants
from legato.runtime.program import HostOpInfo, Program, TensorInfo
from legato.runtime.signature import Plan, Shape, Signature
from legato.runtime.size import Formula
from legato.runtime.workspace import Failure, HostRunner, Workspace, host_callback

if TYPE_CHECKING:
    from legato.runtime.kernels import KernelInfo

__all__ = ["Executable", "load"]

MAX_PLANS: Final = 256  # combinations of input shapes whose plans are kept

# lg_status and the flags of lg_run
_OK, _MEMORY, _INTERRUPT, _HOST_OP, _DEPTH, _CHECK = 0, 1, 2, 3, 4, 256
_RUN_SIGINT = 1


class Executable:
    """A compiled program: immutable, and called from any number of threads at once.

    Call it with arrays (NumPy's, or anything with __dlpack__) in the order of `inputs`; it returns one array, or
    tuples of them as the program's result has it. `run` takes and returns arrays by name.
    """

    __slots__ = ("_callback", "_code", "_entry", "_free", "_host_ops", "_limit", "_parts", "_plans", "_run",
                 "_signature", "function", "program", "threads")  # fmt: skip

    def __init__(
        self,
        parts: Parts,
        *,
        function: str = "main",
        threads: int | None = None,
        memory_limit: int = 0,
        host_ops: HostRunner | None = None,
        code: CodeImage | None = None,
    ) -> None:
        """An executable of entry point `function` of `parts`; `code` is its code if it is mapped already.

        threads: what kernels run on; None: LEGATO_THREADS, else as many as CPU affinity and cgroup quota allow.
        memory_limit: of the workspace of one call in bytes; 0: none. host_ops: runs operators without native code.
        """
        program = parts.program
        if function not in program.functions:
            raise RunError(f"the program has no function {function!r}; it has {', '.join(program.functions)}")
        self.program = program
        self.function = function
        self.threads = _thread_count(threads)
        self._parts = parts
        self._limit = memory_limit
        self._code = code or CodeImage(parts.image, parts.code_size, parts.relocations)
        self._entry = self._code.address + program.functions[function].offset
        self._signature = Signature(program.functions[function])
        self._callback = host_callback(program.host_ops, host_ops or _refuse_op) if program.host_ops else None
        self._plans: dict[tuple[Shape, ...], Plan] = {}
        self._free: list[Workspace] = []
        self._run = library().lg_run
        self._host_ops = host_ops

    @classmethod
    def from_parts(
        cls,
        program: Program,
        image: bytes,
        code_size: int,
        relocations: Sequence[int],
        constants: Constants | Sequence[tuple[str, np.ndarray]],
        *,
        function: str = "main",
        threads: int | None = None,
        memory_limit: int = 0,
        host_ops: HostRunner | None = None,
    ) -> Executable:
        """An executable of what the compiler has just made.

        image: position-independent code, executable in its first `code_size` bytes, read-only data behind;
        relocations: offsets of 8-byte words in it that hold offsets into it and are to become addresses; constants
        lie at `constant_offsets(constants)` in the segment that the code sees, or where the finished one has them. The
        other arguments as for Executable.
        """
        problem = program.problem()
        if problem is not None:
            raise InternalError(f"the compiled program is inconsistent: {problem}")
        joined = constants if isinstance(constants, Constants) else join_constants(constants)
        parts = Parts(
            program=program,
            image=np.frombuffer(image, np.uint8),
            code_size=code_size,
            relocations=np.array(relocations, np.int64),
            constants=joined.infos,
            segment=joined.segment,
            owner=joined.owner,
        )
        return cls(parts, function=function, threads=threads, memory_limit=memory_limit, host_ops=host_ops)

    # ------------------------------------------------------------------------------------------------ calls

    def __call__(self, *inputs: object) -> object:
        """The program's result on `inputs`: an array, or tuples as `structure` nests them. Outputs are fresh arrays."""
        arrays = self._arrays(inputs)
        plan = self._plan(arrays)
        outputs = [_empty(shape, kind) for shape, kind in plan.outputs]
        self._invoke(plan, arrays, outputs)
        return pack(self._signature.info.structure, outputs)

    def run(
        self, inputs: Mapping[str, object], *, out: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs by name, for inputs by name; those named in `out` are written there (C order, no overlap)."""
        info = self._signature.info
        arrays = self._arrays(by_name("input", info.inputs, inputs, complete=True))
        plan = self._plan(arrays)
        given = by_name("output", info.outputs, out or {}, complete=False)
        outputs = [
            _empty(shape, kind) if array is None else check_out(array, tensor, shape, kind)
            for tensor, (shape, kind), array in zip(info.outputs, plan.outputs, given, strict=True)
        ]
        if out:
            check_overlap(info, arrays, [None if g is None else o for g, o in zip(given, outputs, strict=True)])
        self._invoke(plan, arrays, outputs)
        return {tensor.name: array for tensor, array in zip(info.outputs, outputs, strict=True)}

    def _arrays(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """The inputs as arrays that native code can read: of the right dtypes, contiguous and aligned."""
        signature = self._signature
        tensors = signature.info.inputs
        if len(inputs) != len(tensors):
            names = ", ".join(map(str, tensors)) or "nothing"
            raise RunError(f"{self.function}: got {len(inputs)} inputs, wanted {len(tensors)}: {names}")
        arrays = []
        for value, tensor, kind in zip(inputs, tensors, signature.dtypes, strict=True):
            array = value if type(value) is np.ndarray else as_array(value, tensor.name)
            flags = array.flags
            if array.dtype is not kind or not flags.c_contiguous or not flags.aligned:
                array = ready(array, tensor, kind)
            arrays.append(array)
        return arrays

    def _plan(self, arrays: list[np.ndarray]) -> Plan:
        shapes = tuple([array.shape for array in arrays])
        plan = self._plans.get(shapes)
        if plan is None:
            plan = self._signature.plan(shapes)
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            self._plans[shapes] = plan
        return plan

    def _invoke(self, plan: Plan, arrays: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        """Run native code in a workspace of our own; RunError if it fails."""
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = self._new_workspace()
        words, signature = workspace.words, self._signature
        if workspace.plan is not plan:
            workspace.plan = plan
            for word, value in plan.dims:
                words[word] = value
        for word, i in signature.input_words:
            words[word] = address(arrays[i])
        for word, i in signature.output_words:
            words[word] = address(outputs[i])
        on_main = get_ident() == main_thread().ident and getsignal(SIGINT) is default_int_handler
        status = self._run(
            workspace.handle, self._entry, workspace.words_address, plan.workspace, self.threads, on_main
        )
        failure = workspace.failures.pop() if workspace.failures else None
        self._free.append(workspace)
        if status:
            self._fail(status, failure, plan)

    def _new_workspace(self) -> Workspace:
        # Checked here, not earlier: an executable for another machine may be made, looked at and saved.
        missing = missing_features(target(self.program.target))
        if missing:
            raise PlatformError(f"compiled for {self.target}, but this CPU lacks {', '.join(missing)}")
        return Workspace(len(self._signature.info.words), self._parts.constants_address, self._limit, self._callback)

    def _fail(self, status: int, failure: Failure | None, plan: Plan) -> NoReturn:
        """Raise what `status` stands for."""
        checks = self.program.checks
        if status == _INTERRUPT:
            raise InterruptError("interrupted by Ctrl-C")
        if status == _HOST_OP and failure is not None:
            raise _host_error(*failure) from failure[1]
        if status == _MEMORY:
            raise RunError(self._memory_message(plan))
        if status == _DEPTH:
            raise RunError("calls nest too deeply: the recursion of the program does not end, or too late")
        if _CHECK <= status < _CHECK + len(checks):
            raise RunError(checks[status - _CHECK])
        raise InternalError(f"native code returned the unknown status {status}")

    def _memory_message(self, plan: Plan) -> str:
        need = f"out of memory: this call's workspace is planned at {plan.workspace} bytes"
        if not self._limit:
            return need
        return f"{need}; memory_limit is {self._limit}\n  hint: smaller inputs, or a higher limit"

    # ------------------------------------------------------------------------------------------------ facts

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, dtype and shape (sizes over named dims) of each input."""
        return self._signature.info.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, dtype and shape of each output."""
        return self._signature.info.outputs

    @property
    def peak_memory(self) -> Formula:
        """Bytes of workspace that one call needs, as a formula in the dims; weights and outputs are not in it.

        Where `stats["recursive"]` is 1, each further level of a function that calls itself adds its frame.
        """
        return Formula(self._signature.info.workspace)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the constant segment."""
        return int(self._parts.segment.size)

    @property
    def stats(self) -> Mapping[str, object]:
        """What the compiler noted: kernels, operators run by their reference, times."""
        return MappingProxyType(dict(self.program.stats))

    @property
    def target(self) -> str:
        """The instruction set that the code is for."""
        return self.program.target

    @property
    def precision(self) -> Precision:
        """What it was compiled with: how much its results may differ from those of the program's own dtypes."""
        return Precision(self.program.precision)

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """The kernels of the program: their names, and what each has to do as formulas in its dims."""
        from legato.runtime.kernels import kernels_from_text  # only where it is asked for

        return kernels_from_text(self.program.kernels, self._parts.code_size)

    @property
    def code_address(self) -> int:
        """Where the code is mapped."""
        return self._code.address

    def module_after(self, stage: str) -> str:
        """The program's text after pass `stage`; RunError unless compile was asked to keep it."""
        if stage not in self.program.stages:
            kept = ", ".join(self.program.stages) or "none"
            raise RunError(f"the program after {stage!r} was not kept; kept: {kept}")
        return self.program.stages[stage]

    def __repr__(self) -> str:
        arrow = " -> ".join(", ".join(map(str, tensors)) for tensors in (self.inputs, self.outputs))
        return f"<executable {self.function}({arrow}) for {self.target}, {self.threads} threads>"

    # ------------------------------------------------------------------------------------------------ variants

    def with_threads(self, threads: int | None) -> Executable:
        """This executable with another number of threads; code and weights are shared. Results are the same bits."""
        return self._variant(self.function, threads)

    def recorded(self, record: int) -> Executable:
        """This executable, made to record its runs in the lg_profile at that address, for one caller at a time."""
        found = self._variant(self.function, self.threads)
        workspace = found._new_workspace()
        workspace.profile(record)
        found._free.append(workspace)
        return found

    def entry(self, function: str) -> Executable:
        """Another entry point of the same program; code and weights are shared."""
        return self._variant(function, self.threads)

    def _variant(self, function: str, threads: int | None) -> Executable:
        return Executable(
            self._parts, function=function, threads=threads, memory_limit=self._limit, host_ops=self._host_ops,
            code=self._code,
        )  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write everything into one file that `load` reads; it appears complete or not at all. ArtifactError if not."""
        artifact.write(Path(path), self._parts)


def load(
    path: str | Path,
    *,
    function: str = "main",
    threads: int | None = None,
    memory_limit: int = 0,
    host_ops: HostRunner | None = None,
) -> Executable:
    """The executable in the file `path`, checked; its weights stay in the file and are mapped. Arguments as above.

    ArtifactError for anything that is not a whole artifact of this version for this machine. Nothing is compiled.
    """
    parts = artifact.read(Path(path))
    return Executable(parts, function=function, threads=threads, memory_limit=memory_limit, host_ops=host_ops)


def _thread_count(threads: int | None) -> int:
    count = cpu_count() if threads is None and not config().threads else threads or config().threads
    if not 1 <= count <= MAX_THREADS:
        raise RunError(f"threads: got {count}, wanted 1 to {MAX_THREADS}")
    return count


def _empty(shape: Shape, kind: np.dtype[np.generic]) -> np.ndarray:
    try:
        return np.empty(shape, kind)
    except MemoryError as error:
        raise RunError(f"out of memory: no room for an output {kind}{list(shape)}") from error


def _refuse_op(info: HostOpInfo, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    raise RunError(
        "it has no native code and is run by its reference, which was not given\n"
        "  hint: load the artifact with legato.load, in an installation that has the compiler"
    )


def _host_error(op: str, failure: BaseException) -> RunError:
    if isinstance(failure, KeyboardInterrupt):
        return InterruptError("interrupted by Ctrl-C")
    kind = "" if isinstance(failure, LegatoError) else f"{type(failure).__name__}: "
    return RunError(f"operator {op} failed: {kind}{failure}")
