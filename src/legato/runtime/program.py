"""What the runtime must know of a compiled program beside its code: signatures, messages, operators left to Python.

Everything here is a value and survives a round trip through JSON: `Program.to_json` and `program_from_json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from legato.base.dtype import ALL_DTYPES
from legato.base.errors import ArtifactError
from legato.base.precision import Precision
from legato.runtime.reader import Reader
from legato.runtime.size import Size, SizeError, names, parse_size, show

__all__ = ["ABI", "FORMAT", "Constraint", "DimInfo", "FunctionInfo", "HostOpInfo", "Program", "Structure",
           "TensorInfo", "Word", "program_from_json"]  # fmt: skip

FORMAT: Final = 3  # of the artifact file and of the JSON in it
ABI: Final = 3  # LG_ABI_VERSION of legato.h

# How outputs are returned: the number of an output, or a tuple of structures.
Structure = int | tuple["Structure", ...]
# One 8-byte argument of an entry point: ("input", i), ("output", i) or ("dim", name).
Word = tuple[str, int | str]

_DTYPES: Final = frozenset(d.name for d in ALL_DTYPES)
_PRECISIONS: Final = frozenset(p.value for p in Precision)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output: its shape consists of sizes over the function's dims."""

    name: str
    dtype: str
    shape: tuple[Size, ...]

    @property
    def type(self) -> str:
        """`float32[n, 3, 2*m]`."""
        return f"{self.dtype}[{', '.join(map(show, self.shape))}]"

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


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


@dataclass(frozen=True, slots=True)
class Constraint:
    """Two sizes that must be equal for a call; `what` says in words what that is for."""

    a: Size
    b: Size
    what: str


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """An entry point: where its code begins in the image, its signature, and the order of its arguments in words."""

    offset: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    structure: Structure
    dims: tuple[DimInfo, ...]
    words: tuple[Word, ...]
    workspace: Size = 0  # bytes that all frames of a call occupy at most; what recursion adds is not in it
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class HostOpInfo:
    """A call of an operator that has no native code: run by its reference. The words are inputs, outputs, dims."""

    op: str
    attrs: str  # JSON, opaque to the runtime
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    dims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program without its code and constants."""

    target: str
    functions: Mapping[str, FunctionInfo]
    checks: tuple[str, ...] = ()  # messages: status LG_CHECK + n is entry n
    host_ops: tuple[HostOpInfo, ...] = ()
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
        for name, function in self.functions.items():
            for fault in _faults(function):
                return f"function {name!r}: {fault}"
        return None


def _faults(f: FunctionInfo) -> Iterator[str]:
    dims = [dim.name for dim in f.dims]
    plain = {size for tensor in f.inputs for size in tensor.shape if isinstance(size, str)}
    sizes = [size for tensor in (*f.inputs, *f.outputs) for size in tensor.shape] + [f.workspace]
    sizes += [size for constraint in f.constraints for size in (constraint.a, constraint.b)]
    for kind, tensors in (("input", f.inputs), ("output", f.outputs)):
        tensor_names = [tensor.name for tensor in tensors]
        if len(set(tensor_names)) != len(tensor_names):
            yield f"two {kind}s have the same name: {', '.join(tensor_names)}"
        yield from (f"{kind} {t.name!r} has unknown dtype {t.dtype!r}" for t in tensors if t.dtype not in _DTYPES)
    if len(set(dims)) != len(dims):
        yield f"two dims have the same name: {', '.join(dims)}"
    yield from (f"dim {name!r} is not the plain size of any input" for name in dims if name not in plain)
    yield from filter(None, map(_too_big, sizes))
    yield from (f"{show(size)} mentions unknown dim {n!r}" for size in sizes for n in names(size) if n not in dims)
    if sorted(_leaves(f.structure)) != list(range(len(f.outputs))):
        yield f"the output structure {f.structure} does not list each of {len(f.outputs)} outputs once"
    tensors_of = {"input": len(f.inputs), "output": len(f.outputs)}
    for kind, which in f.words:
        if which not in dims if kind == "dim" else which not in range(tensors_of.get(kind, 0)):
            yield f"argument word ({kind}, {which}) refers to nothing"


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
            stack += node


def program_from_json(data: Reader, source: str = "", stages: Mapping[str, str] | None = None) -> Program:
    """The program that `to_json` gave; ArtifactError where the data is not such."""
    stats = data["stats"]
    program = Program(
        target=data["target"].text(),
        functions={name: _function(value) for name, value in data["functions"].items()},
        checks=tuple(message.text() for message in data["checks"].list()),
        host_ops=tuple(map(_host_op, data["host_ops"].list())),
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
        structure=_structure(data["structure"], 32),
        dims=tuple(map(_dim, data["dims"].list())),
        words=tuple(map(_word, data["words"].list())),
        workspace=data["workspace"].size(),
        constraints=tuple(
            Constraint(c["a"].size(), c["b"].size(), c["what"].text()) for c in data["constraints"].list()
        ),
    )


def _tensors(data: Reader) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(t["name"].text(), t["dtype"].text(), tuple(s.size() for s in t["shape"].list()))
        for t in data.list()
    )  # fmt: skip


def _dim(data: Reader) -> DimInfo:
    hi = data["hi"]
    return DimInfo(data["name"].text(), data["lo"].int(), None if hi.value is None else hi.int())


def _word(data: Reader) -> Word:
    kind, which = data.list(2)
    return (kind.text(), which.text() if kind.value == "dim" else which.int())


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
        if tensor.dtype not in _DTYPES:
            raise ArtifactError(f"{data.where}: {tensor.name} has unknown dtype {tensor.dtype!r}")
    return found
