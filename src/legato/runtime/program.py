"""What the runtime must know of a compiled program beside its code: signatures, messages, operators left to Python.

Everything here is a value and survives a round trip through JSON: `Program.to_json` and `program_from_json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.dtype import BY_NAME
from legato.base.errors import ArtifactError
from legato.base.precision import Precision
from legato.runtime.datatypes import (
    MAX_DEPTH,
    DataInfo,
    ObjectInfo,
    TensorField,
    data_types,
    faults,
    object_infos,
    parts_of,
    without_sizes,
)
from legato.runtime.reader import Reader
from legato.runtime.size import Size, SizeError, names, parse_size, show
from legato.runtime.strings import table_fault, uses_strings
from legato.runtime.told import data_dims
from legato.runtime.violation import REPORT, AccessInfo

__all__ = ["ABI", "FORMAT", "Constraint", "Deferred", "DimInfo", "ExternalInfo", "FunctionInfo", "HostOpInfo",
           "Program", "Structure", "TensorInfo", "Word", "program_from_json"]  # fmt: skip

FORMAT: Final = 12  # of the artifact file and of the JSON in it
ABI: Final = 6  # LG_ABI_VERSION of legato.h

# How outputs are returned: the number of an output (tensors first, then objects), or a tuple of structures.
Structure = int | tuple["Structure", ...]
# One 8-byte argument of an entry point: ("input", i), ("output", i), ("object", i), ("result", i), ("dim", name), or
# ("extent", name): where the value of a dim of the results goes; or ("report", n): n words for what a test tells.
Word = tuple[str, int | str]

_MOST_REPORTED: Final = 64  # words of a report
_PRECISIONS: Final = frozenset(p.value for p in Precision)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output: its shape consists of sizes over the function's dims, of which `where` says, if anything,
    what values they may have. `value`: the size that the element of an input is, an int64 scalar; None: any number."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    where: str = ""
    value: Size | None = None

    @property
    def type(self) -> str:
        """`float32[n, 3, 2*m]`."""
        return f"{self.dtype}[{', '.join(map(show, self.shape))}]"

    @property
    def sizes(self) -> tuple[Size, ...]:
        """What a call tells of the input: its extents, or the one that is its value."""
        return self.shape if self.value is None else (self.value,)

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {show(self.value)}"
        return f"{self.name}: {self.type}{value}" + (f" where {self.where}" if self.where else "")


@dataclass(frozen=True, slots=True)
class DimInfo:
    """A symbolic dim and the values it may have, both ends included; `hi` None: any."""

    name: str
    lo: int = 0
    hi: int | None = None

    @property
    def range(self) -> str:
        """`1 <= n <= 8`."""
        return f"{self.lo} <= {self.name}" + ("" if self.hi is None else f" <= {self.hi}")

    @property
    def is_limited(self) -> bool:
        """Whether anything but emptiness is excluded."""
        return self.lo > 1 or self.hi is not None

    def holds(self, value: int) -> bool:
        """Whether the dim may be `value`."""
        return self.lo <= value and (self.hi is None or value <= self.hi)


@dataclass(frozen=True, slots=True)
class Constraint:
    """Two sizes that must be equal for a call; `what` says in words what that is for."""

    a: Size
    b: Size
    what: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """A tensor output, by its number, that may be written while the call can still fail, and for what."""

    output: int
    why: str


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """An entry point: where its code begins in the image, its signature, and the order of its arguments in words.

    `inputs` and `outputs` are tensors; `objects` are the inputs, and `results` the outputs, that are values of the data
    types `types`, or tensors whose shapes mention `extents`: dims that come with the results. Arguments are given in
    the order of their words. `open_dims` are those that only values of `objects` tell and that a call may leave open:
    without a tensor that has them nothing is computed with them. `is_recursive`: it runs on a stack of its own. Memory
    that the caller gives for the outputs `deferred` is written when the call has succeeded. `in_place` are pairs of an
    input and an output, made of it, that may have its memory; `donated` are inputs that calls give up if they do not
    say otherwise.
    """

    offset: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    structure: Structure
    dims: tuple[DimInfo, ...]
    words: tuple[Word, ...]
    workspace: Size = 0  # bytes that all frames of a call occupy at most; what recursion adds is not in it
    constraints: tuple[Constraint, ...] = ()
    types: tuple[DataInfo, ...] = ()
    objects: tuple[ObjectInfo, ...] = ()
    results: tuple[ObjectInfo, ...] = ()
    is_recursive: bool = False
    extents: tuple[str, ...] = ()
    open_dims: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()  # functions that do the work, each for some sizes: the first that takes a call's
    deferred: tuple[Deferred, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    donated: tuple[str, ...] = ()

    @property
    def data_dims(self) -> tuple[str, ...]:
        """The dims that no tensor input has as a plain size: values of data types tell them."""
        plain = {size for tensor in self.inputs for size in tensor.sizes}
        return tuple(dim.name for dim in self.dims if dim.name not in plain)

    @property
    def arguments(self) -> tuple[TensorInfo | ObjectInfo, ...]:
        """All inputs, in the order in which they are given."""
        of: dict[str, Sequence[TensorInfo | ObjectInfo]] = {"input": self.inputs, "object": self.objects}
        return tuple(of[kind][int(which)] for kind, which in self.words if kind in of)

    @property
    def tensors(self) -> tuple[TensorInfo | TensorField, ...]:
        """All tensors of its signature, those in values of data types, too."""
        fields = [t for data in self.types for c in data.constructors for t in parts_of(c.fields)]
        leaves = [*fields, *(o.data for o in (*self.objects, *self.results))]
        return (*self.inputs, *self.outputs, *(t for t in leaves if isinstance(t, TensorField)))

    @property
    def returned(self) -> tuple[TensorInfo | ObjectInfo, ...]:
        """All outputs: tensors, and behind them the `results`, as a call's words have them."""
        return (*self.outputs, *map(_as_tensor, self.results))

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers of the outputs in the order in which they are returned."""
        return tuple(_leaves(self.structure))


@dataclass(frozen=True, slots=True)
class HostOpInfo:
    """A call of an operator that has no native code: run by its reference. The words are inputs, outputs, dims."""

    op: str
    attrs: str  # JSON, opaque to the runtime
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    dims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalInfo:
    """A function that the engine of a generator runs, and what of it is in the program's file: the "engine", as its
    generator stores it, or the "function", which the generator compiles again."""

    generator: str
    function: str
    stored: str

    @property
    def name(self) -> str:
        """What the program calls."""
        return f"{self.generator}.{self.function}"

    @property
    def constant(self) -> str:
        """The constant that holds it."""
        return f"external {self.name}"


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program without its code and constants."""

    target: str
    functions: Mapping[str, FunctionInfo]
    checks: tuple[str, ...] = ()  # messages: status LG_CHECK + n is entry n
    tests: tuple[AccessInfo, ...] = ()  # of accesses: status LG_CHECK + len(checks) + n is entry n
    host_ops: tuple[HostOpInfo, ...] = ()
    externals: tuple[ExternalInfo, ...] = ()
    strings: tuple[str, ...] = ()  # by number, see `runtime.strings`; () where it has no tensor of strings
    stats: Mapping[str, object] = field(default_factory=dict)  # any JSON
    precision: str = Precision.DEFAULT.value  # what it was compiled with
    kernels: str = "[]"  # what `runtime.kernels` reads
    source: str = ""  # the program as text
    stages: Mapping[str, str] = field(default_factory=dict)  # text after named passes, where it was asked for
    version: str = ""  # of the Legato that compiled it
    format: int = FORMAT
    abi: int = ABI

    def to_json(self) -> dict[str, object]:
        """Everything but `source` and `stages`, which files keep apart, as JSON data."""
        data = asdict(self)
        del data["source"], data["stages"]
        return data

    def problem(self) -> str | None:
        """What is inconsistent in it, or None."""
        if self.precision not in _PRECISIONS:
            return f"unknown precision {self.precision!r}"
        if found := table_fault(self.strings):
            return found
        if not self.strings and self._uses_strings():
            return "it has a tensor of strings, and no strings"
        for name, function in self.functions.items():
            for fault in (*_faults(function), *_body_faults(function, self.functions)):
                return f"function {name!r}: {fault}"
        return None

    def with_strings(self, texts: tuple[str, ...]) -> Program:
        """This program with the strings of its constants."""
        return replace(self, strings=texts or (("",) if self._uses_strings() else ()))

    def _uses_strings(self) -> bool:
        tensors = [t for f in self.functions.values() for t in f.tensors]
        return uses_strings([*tensors, *(t for op in self.host_ops for t in (*op.inputs, *op.outputs))])


def _body_faults(f: FunctionInfo, functions: Mapping[str, FunctionInfo]) -> Iterator[str]:
    """What is wrong with the bodies of `f`, if it has any: they have its inputs and outputs, but for the sizes."""

    def alike(info: FunctionInfo) -> tuple[object, ...]:
        tensors = [(t.name, t.dtype, len(t.shape), t.value is None) for t in (*info.inputs, *info.outputs)]
        types = [[(c.name, c.tag, without_sizes(c.fields), c.dims) for c in data.constructors] for data in info.types]
        objects = [(o.name, without_sizes(o.data)) for o in (*info.objects, *info.results)]
        return tensors, len(info.inputs), types, objects, len(info.objects), info.extents, info.structure

    for name in f.bodies:
        body = functions.get(name)
        if body is None or body.bodies or body.data_dims or alike(body) != alike(f):
            yield f"{name!r} is no body of it"


def _faults(f: FunctionInfo) -> Iterator[str]:
    dims = [dim.name for dim in f.dims]
    sizes = [size for tensor in (*f.inputs, *f.outputs) for size in tensor.sizes] + [f.workspace]
    sizes += [size for constraint in f.constraints for size in (constraint.a, constraint.b)]
    for kind, tensors, objects in (("input", f.inputs, f.objects), ("output", f.outputs, f.results)):
        tensor_names = [tensor.name for tensor in tensors] + [obj.name for obj in objects]
        if len(set(tensor_names)) != len(tensor_names):
            yield f"two {kind}s have the same name: {', '.join(tensor_names)}"
        yield from (f"{kind} {t.name!r} has unknown dtype {t.dtype!r}" for t in tensors if t.dtype not in BY_NAME)
    extents = [tensor for tensor in (*f.inputs, *f.outputs) if tensor.value is not None]
    yield from (f"{t} is no int64 scalar of the inputs" for t in extents if t not in f.inputs or t.type != "int64[]")
    if len(set(dims)) != len(dims):
        yield f"two dims have the same name: {', '.join(dims)}"
    in_values = data_dims(f.types, f.objects)
    yield from (f"dim {name!r} is not the plain size of any input" for name in f.data_dims if name not in in_values)
    yield from (f"dim {name!r} may not be left open" for name in f.open_dims if name not in f.data_dims)
    if f.bodies and f.data_dims:
        yield f"values tell the dims {', '.join(f.data_dims)} of a program with several bodies"
    yield from filter(None, map(_too_big, sizes))
    yield from (f"{show(size)} mentions unknown dim {n!r}" for size in sizes for n in names(size) if n not in dims)
    count = len(f.outputs) + len(f.results)
    if sorted(_leaves(f.structure)) != list(range(count)):
        yield f"the output structure {f.structure} does not list each of {count} outputs once"
    yield from (f"there is no output {d.output} to be deferred" for d in f.deferred if d.output >= len(f.outputs))
    yield from (f"input {i} cannot hold output {o}" for i, o in f.in_place if not _may_hold(f, i, o))
    for numbers in zip(*f.in_place, strict=True):
        if len(set(numbers)) < len(numbers):
            yield f"an input holds two outputs, or an output lies in two inputs: {f.in_place}"
    known = [tensor.name for tensor in f.inputs]
    yield from (f"there is no input {name!r} to be donated" for name in f.donated if name not in known)
    yield from faults(f.types, (*f.objects, *f.results), (*dims, *f.extents))
    yield from (f"{o.name!r} is an input without a data type" for o in f.objects if not isinstance(o.data, int))
    yield from _word_faults(f, dims)


def _may_hold(f: FunctionInfo, number: int, output: int) -> bool:
    if number not in range(len(f.inputs)) or output not in range(len(f.outputs)):
        return False
    a, b = f.inputs[number], f.outputs[output]
    return a.value is None and (a.dtype, a.shape) == (b.dtype, b.shape)


def _word_faults(f: FunctionInfo, dims: Sequence[str]) -> Iterator[str]:
    known = {"input": len(f.inputs), "output": len(f.outputs), "object": len(f.objects), "result": len(f.results)}
    named = {"dim": dims, "extent": f.extents, REPORT: range(1, _MOST_REPORTED + 1)}
    for kind, which in f.words:
        if which not in (named[kind] if kind in named else range(known.get(kind, 0))):
            yield f"argument word ({kind}, {which}) refers to nothing"
    if f.types:  # then the words also say in which order arguments come
        for kind in ("input", "object"):
            if sorted(int(which) for k, which in f.words if k == kind) != list(range(known[kind])):
                yield f"not every {kind} has one argument word"


def _too_big(size: Size) -> str | None:
    try:
        parse_size(size)
    except SizeError as error:
        return str(error)
    return None


def _leaves(structure: Structure) -> Iterator[int]:
    stack = [structure]
    while stack:
        node = stack.pop()
        if isinstance(node, int):
            yield node
        else:
            stack += reversed(node)


def _as_tensor(result: ObjectInfo) -> TensorInfo | ObjectInfo:
    """A result, as a tensor where it is one: its dims are among the function's `extents`, too."""
    data = result.data
    return result if isinstance(data, int) else TensorInfo(result.name, data.dtype, data.shape)


def program_from_json(data: Reader, source: str = "", stages: Mapping[str, str] | None = None) -> Program:
    """The program that `to_json` gave; ArtifactError where the data is not such."""
    stats = data["stats"]
    program = Program(
        target=data["target"].text(),
        functions={name: _function(value) for name, value in data["functions"].items()},
        checks=tuple(message.text() for message in data["checks"].list()),
        tests=_tests(data),
        host_ops=tuple(map(_host_op, data["host_ops"].list())),
        externals=_externals(data),
        strings=tuple(value.text() for value in data["strings"].list()),
        stats={key: value.value for key, value in stats.items()},
        precision=data["precision"].text(),
        kernels=data["kernels"].text(),
        source=source,
        stages=dict(stages or {}),
        version=data["version"].text(),
        format=data["format"].int(),
        abi=data["abi"].int(),
    )
    problem = program.problem()
    if problem is not None:
        raise ArtifactError(f"{data.where}: {problem}")
    return program


def _function(data: Reader) -> FunctionInfo:
    return FunctionInfo(
        offset=data["offset"].int(),
        inputs=_tensors(data["inputs"]),
        outputs=_tensors(data["outputs"]),
        structure=_structure(data["structure"], MAX_DEPTH),
        dims=tuple(map(_dim, data["dims"].list())),
        words=tuple(map(_word, data["words"].list())),
        workspace=data["workspace"].size(),
        constraints=tuple(
            Constraint(c["a"].size(), c["b"].size(), c["what"].text()) for c in data["constraints"].list()
        ),
        types=data_types(data["types"]),
        objects=object_infos(data["objects"]),
        results=object_infos(data["results"]),
        is_recursive=bool(data["is_recursive"].value),
        extents=tuple(name.text() for name in data["extents"].list()),
        open_dims=tuple(name.text() for name in data["open_dims"].list()),
        bodies=tuple(name.text() for name in data["bodies"].list()),
        deferred=tuple(Deferred(d["output"].int(), d["why"].text()) for d in data["deferred"].list()),
        in_place=tuple((number.int(), output.int()) for number, output in (p.list(2) for p in data["in_place"].list())),
        donated=tuple(name.text() for name in data["donated"].list()),
    )


def _tests(data: Reader) -> tuple[AccessInfo, ...]:
    if not isinstance(data.value, dict) or "tests" not in data.value:
        return ()  # what was compiled before there were any
    return tuple(AccessInfo(t["message"].text(), bool(t["is_ours"].value)) for t in data["tests"].list())


def _externals(data: Reader) -> tuple[ExternalInfo, ...]:
    if not isinstance(data.value, dict) or "externals" not in data.value:
        return ()  # what was compiled before there were any
    return tuple(map(_external, data["externals"].list()))


def _external(data: Reader) -> ExternalInfo:
    found = ExternalInfo(data["generator"].text(), data["function"].text(), data["stored"].text())
    if found.stored not in ("engine", "function"):
        data["stored"].fail("engine or function")
    return found


def _tensors(data: Reader) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(t["name"].text(), t["dtype"].text(), tuple(s.size() for s in t["shape"].list()), value=_value(t))
        for t in data.list()
    )  # fmt: skip


def _value(data: Reader) -> Size | None:
    return None if data["value"].value is None else data["value"].size()


def _dim(data: Reader) -> DimInfo:
    hi = data["hi"]
    return DimInfo(data["name"].text(), data["lo"].int(), None if hi.value is None else hi.int())


def _word(data: Reader) -> Word:
    kind, which = data.list(2)
    return (kind.text(), which.text() if kind.value in ("dim", "extent") else which.int())


def _structure(data: Reader, depth: int) -> Structure:
    if isinstance(data.value, list) and depth:
        return tuple(_structure(part, depth - 1) for part in data.list())
    return data.int()


def _host_op(data: Reader) -> HostOpInfo:
    dims = tuple(dim.text() for dim in data["dims"].list())
    found = HostOpInfo(
        data["op"].text(), data["attrs"].text(), _tensors(data["inputs"]), _tensors(data["outputs"]), dims
    )
    for tensor in (*found.inputs, *found.outputs):
        if unknown := [n for size in tensor.shape for n in names(size) if n not in dims]:
            raise ArtifactError(f"{data.where}: {tensor} mentions unknown dim {unknown[0]!r}")
        if tensor.dtype not in BY_NAME:
            raise ArtifactError(f"{data.where}: {tensor.name} has unknown dtype {tensor.dtype!r}")
    return found
