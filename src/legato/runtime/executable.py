"""Compiled programs, ready to run."""

from __future__ import annotations

import os
from _signal import getsignal  # type: ignore[import-not-found]  # signal's own wraps the answer in an enum: 100 times slower
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGINT, default_int_handler
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from legato.base.errors import ArtifactError, GeneratorError, InternalError, LegatoError, PlatformError, RunError
from legato.base.precision import Precision
from legato.base.target import missing_features, target
from legato.runtime import artifact
from legato.runtime.arrays import argument, by_name, check_donated, check_out, check_overlap, empty, ready
from legato.runtime.binding import CodeImage, address, library
from legato.runtime.bodies import choose
from legato.runtime.datatypes import ObjectInfo
from legato.runtime.engines import Engine, with_engines
from legato.runtime.exchange import Exchange, ObjectCall
from legato.runtime.facts import Facts, entry_point
from legato.runtime.options import checked_limit, thread_count
from legato.runtime.parts import Constants, Parts, join_constants
from legato.runtime.program import HostOpInfo, Program, TensorInfo
from legato.runtime.signature import Plan, Shape, Signature
from legato.runtime.status import MEMORY, Room, error_of
from legato.runtime.strings import Strings
from legato.runtime.workspace import HostRunner, Keeper, Workspace, host_callback

if TYPE_CHECKING:
    pass

__all__ = ["Executable", "load"]

MAX_PLANS: Final = 256  # combinations of input shapes whose plans are kept

# flags of lg_run
_RUN_SIGINT, _RUN_FLUSH = 1, 8


class Executable(Facts):
    """A compiled program: immutable, and called from any number of threads at once.

    Call it with arrays (NumPy's, or anything with __dlpack__) and values of data types (`Data`, made by constructors of
    a module or by those in `constructors`) in the order of `arguments`; it returns one array or value, or tuples of
    them as the program's result has it. Tuples among the arguments may nest as the program's do, or be taken apart;
    a shape is a tuple of extents, which may be integers.
    `run` takes and returns them by name.
    """

    __slots__ = ("__weakref__", "_asked", "_bodies", "_body_of", "_callback", "_code", "_entry", "_exchanges", "_flags",
                 "_free", "_host_ops", "_keep", "_limit", "_numbers", "_packed", "_parts", "_plans", "_run",
                 "_signature", "function", "program", "threads")  # fmt: skip

    _bodies: tuple[Executable, ...]

    def __init__(
        self,
        parts: Parts,
        *,
        function: str = "main",
        threads: int | None = None,
        memory_limit: int = 0,
        host_ops: HostRunner | None = None,
        packed: Mapping[str, object] | None = None,
        code: CodeImage | None = None,
    ) -> None:
        """An executable of entry point `function` of `parts`; `code` is its code if it is mapped already.

        threads: what kernels run on; None: LEGATO_THREADS, else as many as CPU affinity and cgroup quota allow.
        memory_limit: of the workspace of one call in bytes; 0: none. host_ops: runs operators without native code.
        packed: the packed functions that it calls, by name; PackedError where one is missing or does not fit.
        """
        program = parts.program
        info = entry_point(program, function)
        self.program = program
        self.function = function
        self.threads = thread_count(threads)
        self._asked = threads
        self._parts = parts
        self._limit = checked_limit(memory_limit)
        self._code = code or CodeImage(parts.image, parts.code_size, parts.relocations)
        self._entry = self._code.address + info.offset
        self._signature = Signature(info)
        flush = self.precision is not Precision.EXACT
        self._flags = self._signature.flags | (_RUN_FLUSH if flush else 0)
        run = host_ops or _refuse_op
        self._callback = host_callback(program.host_ops, run, packed, flush=flush) if program.host_ops else None
        self._plans: dict[tuple[Shape, ...], Plan] = {}
        self._exchanges: dict[Plan, Exchange] = {}
        self._free: list[Workspace] = []
        self._keep = Keeper(self._free).keep
        self._run = library().lg_run
        self._host_ops = host_ops
        self._packed = packed
        self._numbers = {text: n for n, text in enumerate(program.strings)}
        self._bodies = tuple(self._variant(name, self.threads) for name in info.bodies)
        self._body_of: dict[Plan, Executable] = {}

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
        packed: Mapping[str, object] | None = None,
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
        return cls(
            parts, function=function, threads=threads, memory_limit=memory_limit, host_ops=host_ops, packed=packed
        )

    # ------------------------------------------------------------------------------------------------ calls

    def __call__(self, *inputs: object) -> Any:
        """The program's result on `inputs`: an array or value, or tuples as `structure` nests them. All are fresh."""
        if tuple in map(type, inputs):
            inputs = tuple(_leaves(inputs))
        return self._signature.pack(self._call(inputs))

    def run(
        self,
        inputs: Mapping[str, object],
        *,
        out: Mapping[str, np.ndarray] | None = None,
        donate: Iterable[str] | None = None,
    ) -> dict[str, Any]:
        """Outputs by name, for inputs by name; tensors named in `out` are written there (C order, no overlap).

        A call that fails leaves them as they are, unless it was interrupted. `donate` names the inputs whose arrays
        the caller gives up (None: as compile was told): outputs may be computed in them (see `in_place`) and are these
        arrays then. What is in them if the call fails is undefined.
        """
        info, signature = self._signature.info, self._signature
        values = by_name("input", info.arguments, inputs, complete=True)
        given = by_name("output", signature.returned, out, complete=False) if out else None
        outputs = self._call(values, given, None if donate is None else signature.donation(donate))
        return {name: outputs[n] for name, n in signature.named}

    def _call(
        self,
        inputs: Sequence[object],
        out: Sequence[object] | None = None,
        donated: Collection[int] | None = None,
    ) -> list[Any]:
        """All outputs for all inputs, tensors before other values; `out`: arrays to write into, None for fresh ones;
        donated: numbers of inputs, None: as the program has it.

        Straight on, for what it takes is what small models wait for: each function more that is called here is some
        microseconds where weights have just passed through the caches and taken its place.
        """
        signature = self._signature
        objects: Sequence[object] = ()
        if signature.info.objects:
            inputs, objects = self._apart(inputs)
        if len(inputs) != len(signature.tensors):
            raise self._wrong_count(inputs, signature.info.inputs)
        arrays = []
        for value, (tensor, kind) in zip(inputs, signature.tensors, strict=True):
            array = value if type(value) is np.ndarray else argument(value, tensor)
            flags = array.flags
            if array.dtype is not kind or not flags.c_contiguous or not flags.aligned:
                array = ready(array, tensor, kind)
            arrays.append(array)
        shapes = tuple([array.shape for array in arrays])
        if signature.values:
            shapes = signature.with_values(shapes, arrays)
        if signature.data_dims:
            shapes = (*shapes, signature.told(objects))
        plan = self._plans.get(shapes) or self._new_plan(shapes)
        if donated is None:
            donated = signature.donated
        if donated:
            check_donated(signature.info, inputs, arrays, donated)
        if out is not None or donated:
            return self._call_into(plan, arrays, objects, out or [None] * len(signature.returned), donated)
        outputs = [empty(*leaf) for leaf in plan.outputs]
        results = self._invoke(plan, arrays, outputs, objects)
        return [*outputs, *results] if results else outputs

    def _call_into(
        self,
        plan: Plan,
        arrays: list[np.ndarray],
        objects: Sequence[object],
        out: Sequence[object],
        donated: Collection[int],
    ) -> list[Any]:
        """All outputs, as `_call` gives them, in the arrays of `out`; where it has none, in those of the inputs
        `donated`, as far as possible. What is deferred is copied to `out` at the end, and so are tensors whose shapes
        only the call tells."""
        signature = self._signature
        shapes = [*(shape for shape, _ in plan.outputs), *[None] * len(signature.info.results)]
        into = self._checked(out, shapes)
        check_overlap(signature.info, arrays, into)
        places: list[np.ndarray | None] = [None if n in signature.deferred else array for n, array in enumerate(into)]
        for n, output in signature.info.in_place if donated else ():
            if n in donated and into[output] is None:
                places[output] = arrays[n]
        outputs = [empty(*leaf) if place is None else place for leaf, place in zip(plan.outputs, places, strict=False)]
        made = [*outputs, *self._invoke(plan, arrays, outputs, objects)]
        self._checked(into, [None if array is None else made[n].shape for n, array in enumerate(into)])
        for n, array in enumerate(into):
            if array is not None and array is not made[n]:
                array[...] = made[n]
                made[n] = array
        return made

    def _checked(self, out: Sequence[object], shapes: Sequence[Shape | None]) -> list[np.ndarray | None]:
        """The arrays in `out`, each for an output of that shape, None: not known yet."""
        leaves = self._signature.returned
        return [
            None if array is None else check_out(array, leaf, shape)
            for array, leaf, shape in zip(out, leaves, shapes, strict=True)
        ]

    def _apart(self, inputs: Sequence[object]) -> tuple[Sequence[object], Sequence[object]]:
        """The inputs that are tensors, and those that are values of data types."""
        info = self._signature.info
        if len(inputs) != len(info.arguments):
            raise self._wrong_count(inputs, info.arguments)
        given = list(zip(info.arguments, inputs, strict=True))
        return (
            [value for leaf, value in given if isinstance(leaf, TensorInfo)],
            [value for leaf, value in given if isinstance(leaf, ObjectInfo)],
        )

    def _wrong_count(self, inputs: Sequence[object], wanted: Sequence[TensorInfo | ObjectInfo]) -> RunError:
        names = ", ".join(map(str, wanted)) or "nothing"
        return RunError(f"{self.function}: got {len(inputs)} inputs, wanted {len(wanted)}: {names}")

    def _new_plan(self, shapes: tuple[Shape, ...]) -> Plan:
        """What follows from the shapes of inputs, to be kept; RunError where they do not fit."""
        plan = self._signature.plan(shapes)
        body = self._body(shapes)
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
            self._exchanges.clear()
            self._body_of.clear()
        if body is not None:
            self._body_of[plan] = body
        self._plans[shapes] = plan
        return plan

    def _body(self, shapes: Sequence[Shape]) -> Executable | None:
        """The body that takes inputs of these shapes; None where the function itself does."""
        if not self._bodies:
            return None
        return self._bodies[choose(self._signature.info, [b._signature.info for b in self._bodies], shapes)]

    def _exchange(self, plan: Plan) -> Exchange:
        found = self._exchanges.get(plan)
        if found is None:
            info = self._signature.info
            found = self._exchanges[plan] = Exchange(info, plan.env)
        return found

    def _invoke(
        self, plan: Plan, arrays: list[np.ndarray], outputs: list[np.ndarray], objects: Sequence[object] = ()
    ) -> Sequence[Any]:
        """Run native code in a workspace of our own, and return the results that are values; RunError if it fails."""
        if self._bodies:
            body = self._body_of.get(plan) or self._body(plan.shapes)
            assert body is not None
            own = body._plans.get(plan.shapes) or body._new_plan(plan.shapes)
            return body._invoke(own, arrays, outputs, objects)
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = self._new_workspace()
        words, signature, strings = workspace.words, self._signature, workspace.strings
        places = outputs
        if strings is not None:
            arrays, places = strings.entered(arrays, signature.names), strings.places(outputs)
        if workspace.plan is not plan:
            workspace.plan = plan
            for word, value in plan.dims:
                words[word] = value
        for word, i in signature.input_words:
            words[word] = address(arrays[i])
        for word, i in signature.output_words:
            words[word] = address(places[i])
        on_main = get_ident() == main_thread().ident and getsignal(SIGINT) is default_int_handler
        results: Sequence[Any] = ()
        try:
            if signature.has_objects:
                call = ObjectCall(self._exchange(plan), signature, workspace, objects)
            status = self._run(
                workspace.handle, self._entry, workspace.words_address, plan.workspace, self.threads,
                self._flags | on_main,
            )  # fmt: skip
            if status:
                raise self._error(status, workspace, plan)
            if signature.has_objects:
                results = call.results()
            if strings is not None:
                strings.left(places, outputs)
        finally:
            self._keep(workspace, plan.workspace)
        return results

    def _error(self, status: int, workspace: Workspace, plan: Plan) -> BaseException:
        """Why a call has failed."""
        failure = workspace.failures.pop() if workspace.failures else None
        refused = workspace.refused() if status == MEMORY else (0, 0)
        room = Room(*refused, plan.workspace, self._limit)
        workspace.waiting.clear()
        error = error_of(status, self.program, room, failure, tuple(workspace.report))
        if isinstance(error, LegatoError):
            error.begun = True
        return error

    def _new_workspace(self) -> Workspace:
        # Checked here, not earlier: an executable for another machine may be made, looked at and saved.
        missing = missing_features(target(self.program.target))
        if missing:
            raise PlatformError(f"compiled for {self.target}, but this CPU lacks {', '.join(missing)}")
        return Workspace(
            len(self._signature.info.words),
            self._parts.constants_address,
            self._limit,
            self._callback,
            self._signature.report_words,
            Strings(self.program.strings, self._numbers) if self._numbers else None,
        )

    def __repr__(self) -> str:
        sides = (self._signature.info.arguments, self.results)
        arrow = " -> ".join(", ".join(map(str, leaves)) for leaves in sides)
        return f"<executable {self.function}({arrow}) for {self.target}, {self.threads} threads>"

    # ------------------------------------------------------------------------------------------------ memory

    def release(self) -> None:
        """Gives the memory back that calls have worked in and that is kept for the next ones.

        From any thread, at any time: calls that run keep theirs.
        """
        for each in (self, *self._bodies):
            each._free.clear()

    def __copy__(self) -> Executable:
        return self  # immutable

    def __deepcopy__(self, memo: object) -> Executable:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """As an artifact, with the options that it was made with. Like any pickle, it is for those whom one trusts."""
        return _restored, self.pickled()

    def pickled(self) -> tuple[bytes, dict[str, Any]]:
        """The artifact, and the options that it was made with, as its constructor takes them."""
        options = {"function": self.function, "threads": self._asked, "memory_limit": self._limit}
        return artifact.to_bytes(self._parts), {**options, "host_ops": self._host_ops, "packed": self._packed}

    @property
    def code_address(self) -> int:
        """Where the code is mapped."""
        return self._code.address

    @property
    def leaked(self) -> int:
        """How many objects the program has forgotten in its calls so far: 0, unless the compiler is wrong."""
        return sum(workspace.leaked for each in (self, *self._bodies) for workspace in each._free)

    # ------------------------------------------------------------------------------------------------ variants

    def with_threads(self, threads: int | None) -> Executable:
        """This executable with another number of threads; code and weights are shared. Results are the same bits."""
        return self._variant(self.function, threads)

    def keeping(self) -> Executable:
        """This executable, whose calls give up no inputs unless they say so; code and weights are shared."""
        found = self._variant(self.function, self.threads)
        found._signature.donated = frozenset()
        return found

    def recorded(self, record: int) -> Executable:
        """This executable, made to record its runs in the lg_profile at that address, for one caller at a time."""
        found = self.keeping()
        for each in found._bodies or (found,):
            workspace = each._new_workspace()
            workspace.profile(record)
            each._free.append(workspace)
        return found

    def entry(self, function: str) -> Executable:
        """Another entry point of the same program; code and weights are shared."""
        return self._variant(function, self.threads)

    def _variant(self, function: str, threads: int | None) -> Executable:
        return Executable(
            self._parts, function=function, threads=threads, memory_limit=self._limit, host_ops=self._host_ops,
            packed=self._packed, code=self._code,
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
    packed: Mapping[str, object] | None = None,
    generators: Iterable[Any] = (),
    compiled: Callable[[Any, str, bytes], Engine] | None = None,
    mapped: bool = False,
) -> Executable:
    """The executable in the file `path`, checked; its weights are read into memory. Arguments as above.

    generators: of functions that engines run; `compiled` makes such an engine of a function that is stored as such.
    mapped: the weights stay the file's pages, which processes share: see `artifact.read`.
    ArtifactError for anything that is not a whole artifact of this version for this machine. Nothing else is compiled.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArtifactError(f"load: got a {type(path).__name__}, wanted the path of a file")
    parts = artifact.read(Path(path), mapped=mapped)
    packed = with_engines(parts, packed, generators, compiled or _refuse_function)
    return Executable(
        parts, function=function, threads=threads, memory_limit=memory_limit, host_ops=host_ops, packed=packed
    )


def _restored(data: bytes, options: dict[str, Any]) -> Executable:
    """The executable that was pickled."""
    return Executable(artifact.from_bytes(data), **options)


def _leaves(values: Sequence[object]) -> Iterator[object]:
    """What tuples nest, in order."""
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if type(value) is tuple:
            stack += reversed(value)
        else:
            yield value


def _refuse_function(generator: Any, symbol: str, data: bytes) -> Engine:
    hint = "load the artifact with legato.load, in an installation that has the compiler"
    raise GeneratorError(
        f"generator {generator.name!r} is to compile @{symbol}, which needs the compiler\n  hint: {hint}"
    )


def _refuse_op(info: HostOpInfo, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    raise RunError(
        "it has no native code and is run by its reference, which was not given\n"
        "  hint: load the artifact with legato.load, in an installation that has the compiler"
    )
