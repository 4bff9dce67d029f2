"""Signatures at work: from the shapes of a call's inputs to the values of dims, checked, and the shapes of outputs.

A dim takes its value from the first input that has it as a plain extent, else from the first whose value it is, or else
from the first tensor inside a value of a data type that has; then everything is checked: computed sizes, ranges,
constraints. What follows from that alone is a `Plan`, made once for each combination of shapes. The shape of an input
whose value is an extent is that extent here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.dtype import dtype
from legato.base.errors import RunError
from legato.runtime.program import Constraint, FunctionInfo, Structure, TensorInfo
from legato.runtime.size import Size, SizeOverflow, compile_size, names, show
from legato.runtime.told import told
from legato.runtime.violation import REPORT

__all__ = ["Plan", "Signature", "fault", "place_of"]

MAX_BYTES: Final = 2**46
MAX_EXTENT: Final = 2**46  # of an input: products of one dim and what programs multiply it by stay within 64 bits
Shape = tuple[int, ...]
_OPEN: Final = -1  # a dim that no tensor of a call has
_RUN_DEEP, _RUN_OBJECTS = 2, 4  # LG_RUN_DEEP, LG_RUN_OBJECTS


def _packer(structure: Structure) -> Callable[[Sequence[object]], object]:
    """What nests outputs in tuples as `structure` says; where there is one only, it is no Python code that takes it."""
    if isinstance(structure, int):
        return itemgetter(structure)
    flat = [part for part in structure if isinstance(part, int)]
    if len(flat) == len(structure):
        return lambda outputs: tuple([outputs[part] for part in flat])
    steps = _steps(structure)

    def packed(outputs: Sequence[object]) -> object:
        made: list[object] = []
        for of_output, n in steps:
            if of_output:
                made.append(outputs[n])
            else:
                made[len(made) - n :] = [tuple(made[len(made) - n :])]
        return made[0]

    return packed


def _steps(structure: Structure) -> list[tuple[bool, int]]:
    """How to make the value, on a stack: (True, the output to push) and (False, of how many to make a tuple)."""
    steps: list[tuple[bool, int]] = []
    stack = [structure]
    while stack:
        part = stack.pop()
        if isinstance(part, int):
            steps.append((True, part))
        else:
            steps.append((False, len(part)))
            stack += part
    return steps[::-1]  # of each tuple the last part was met first


def fault(what: str, got: object, wanted: object, hint: str | None = None) -> RunError:
    """The error of an argument: what is wrong with which, what was got and wanted, and what to do."""
    lines = [what, f"  got:    {got}", f"  wanted: {wanted}"]
    return RunError("\n".join([*lines, f"  hint: {hint}"] if hint else lines))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What follows from the shapes of a call's inputs, `shapes`."""

    shapes: tuple[Shape, ...]
    env: tuple[int, ...]  # the values of the dims
    dims: tuple[tuple[int, int], ...]  # (word, value)
    outputs: tuple[tuple[Shape, np.dtype[np.generic]], ...]
    workspace: int  # bytes


class Signature:
    """A function's signature, ready to be applied to shapes."""

    __slots__ = ("_constraints", "_output_sizes", "_sizes", "_sources", "_workspace", "data_dims", "deferred",
                 "dim_words", "donated", "extent_words", "flags", "has_objects", "info", "input_words", "named",
                 "names", "object_words", "output_dtypes", "output_words", "pack", "report_words", "result_words",
                 "returned", "tensors", "values")  # fmt: skip

    def __init__(self, info: FunctionInfo) -> None:
        self.info = info
        dims = [dim.name for dim in info.dims]
        self.pack = _packer(info.structure)
        self.tensors = tuple((tensor, dtype(tensor.dtype).numpy) for tensor in info.inputs)
        self.names = tuple(tensor.name for tensor in info.inputs)
        self.values = tuple(n for n, tensor in enumerate(info.inputs) if tensor.value is not None)
        self.output_dtypes = tuple(dtype(tensor.dtype).numpy for tensor in info.outputs)
        self.data_dims = info.data_dims
        self.returned = info.returned
        self.named = [(info.returned[n].name, n) for n in info.order]
        self.deferred = tuple([deferred.output for deferred in info.deferred])
        self.donated = self.donation(info.donated)
        self._sources = [_source(info, name) for name in dims]
        self._sizes = [[compile_size(size, dims) for size in tensor.sizes] for tensor in info.inputs]
        self._output_sizes = [[compile_size(size, dims) for size in tensor.shape] for tensor in info.outputs]
        self._constraints = [(compile_size(c.a, dims), compile_size(c.b, dims), c) for c in info.constraints]
        self._workspace = compile_size(info.workspace, dims)
        words = list(enumerate(info.words))
        self.input_words, self.output_words, self.object_words, self.result_words = (
            tuple((word, int(which)) for word, (kind, which) in words if kind == wanted)
            for wanted in ("input", "output", "object", "result")
        )
        self.has_objects = bool(info.objects or info.results or info.extents)
        self.flags = (_RUN_DEEP if info.is_recursive else 0) | (_RUN_OBJECTS if self.has_objects else 0)
        self.extent_words = tuple(
            (word, info.extents.index(str(which))) for word, (kind, which) in words if kind == "extent"
        )
        self.report_words = tuple((word, int(which)) for word, (kind, which) in words if kind == REPORT)
        self.dim_words = tuple((word, dims.index(str(which))) for word, (kind, which) in words if kind == "dim")

    def donation(self, names: Iterable[str]) -> frozenset[int]:
        """The numbers of the inputs called `names`; RunError where one is no tensor among them."""
        known = {tensor.name: n for n, tensor in enumerate(self.info.inputs)}
        given = (names,) if isinstance(names, str) else tuple(names)
        for name in given:
            if name not in known:
                raise RunError(f"donate: no input that is a tensor is called {name!r}; there are {', '.join(known)}")
        return frozenset(known[name] for name in given)

    def told(self, objects: Sequence[object]) -> Shape:
        """The dims that only values of data types tell, in the order of `data_dims`; -1 where none does, which a call
        may leave open. RunError where it may not."""
        info = self.info
        values = told(info.types, info.objects, objects, self.data_dims)
        for name, value in zip(self.data_dims, values, strict=True):
            if value is None and name not in info.open_dims:
                where = ", ".join(f'"{obj.name}"' for obj in info.objects)
                raise RunError(
                    f"dim {name}: no argument tells it, and the program needs it: no tensor or shape in {where} has it"
                )
        return tuple([_OPEN if value is None else value for value in values])

    def with_values(self, shapes: Sequence[Shape], arrays: list[np.ndarray]) -> tuple[Shape, ...]:
        """The shapes of `arrays`, with extents that are values; RunError where one is no extent. Arrays of these become
        copies: what is in them is what was read here, whoever writes to the caller's arrays during the call."""
        found = list(shapes)
        for n in self.values:
            tensor = self.info.inputs[n]
            if found[n]:
                raise _wrong_rank(tensor, found[n])
            arrays[n] = arrays[n].copy()
            found[n] = (int(arrays[n]),)
            if found[n] < (0,):
                assert tensor.value is not None
                what = f'input "{tensor.name}": an extent below 0'
                raise fault(what, found[n][0], f"{show(tensor.value)}, 0 at least")
        return tuple(found)

    def plan(self, shapes: Sequence[Shape]) -> Plan:
        """The plan for inputs of these shapes; RunError where they do not fit the signature. Behind the shapes come the
        `data_dims`, if there are any."""
        for tensor, shape in zip(self.info.inputs, shapes, strict=not self.data_dims):
            if len(shape) != len(tensor.sizes):
                raise _wrong_rank(tensor, shape)
        given = [shapes[tensor][axis] for tensor, axis in self._sources]
        left = {dim.name for dim, value in zip(self.info.dims, given, strict=True) if value == _OPEN}
        env = [max(value, 0) for value in given]
        try:
            return self._plan(shapes, env, left)
        except SizeOverflow as error:
            raise RunError(f"{error}{self._where([error.size], env)}") from None

    def _plan(self, shapes: Sequence[Shape], env: list[int], left: Collection[str]) -> Plan:
        """The plan for these values of the dims, of which a call leaves some open."""
        self._check_sizes(shapes, env)
        self._check_ranges(env, left)
        for a, b, constraint in self._constraints:
            if a(env) != b(env) and {*names(constraint.a), *names(constraint.b)}.isdisjoint(left):
                raise self._unfit(constraint, env)
        workspace = self._workspace(env)
        if workspace > MAX_BYTES:
            where = self._where([self.info.workspace], env)
            raise RunError(f"this call's workspace is planned at {workspace} bytes: more than {MAX_BYTES}{where}")
        return Plan(
            shapes=tuple(shapes),
            env=tuple(env),
            dims=tuple((word, env[dim]) for word, dim in self.dim_words),
            outputs=tuple(self._output(i, env) for i in range(len(self.info.outputs))),
            workspace=workspace,
        )

    def _unfit(self, constraint: Constraint, env: list[int]) -> RunError:
        a, b, otherwise = _demanded(constraint.a, constraint.b)
        dims = [dim.name for dim in self.info.dims]
        got = f"{compile_size(a, dims)(env)} and {compile_size(b, dims)(env)}"
        wanted = f"{show(a)} = {show(b)}{otherwise}," + self._where((a, b), env)
        return fault(f"{constraint.what}: the sizes do not fit", got, wanted)

    def _check_sizes(self, shapes: Sequence[Shape], env: list[int]) -> None:
        for tensor, sizes, shape in zip(self.info.inputs, self._sizes, shapes, strict=not self.data_dims):
            for axis, (size, got) in enumerate(zip(sizes, shape, strict=True)):
                if size(env) != got:
                    raise self._wrong_size(tensor, axis, shape, env)

    def _check_ranges(self, env: list[int], left: Collection[str]) -> None:
        for dim, value, source in zip(self.info.dims, env, self._sources, strict=True):
            if dim.name not in left and (not dim.holds(value) or value > MAX_EXTENT):
                wanted = dim.range if value <= MAX_EXTENT else "2^46 at most"
                raise fault(f"{self._place(*source)} is out of range", value, wanted)

    def _place(self, index: int, axis: int) -> str:
        if index < len(self.info.inputs):
            tensor = self.info.inputs[index]
            return f'input "{tensor.name}": ' + (f"dimension {axis}" if tensor.value is None else "its value")
        return f"dim {self.data_dims[axis]} of the tensors and shapes in values"

    def _told_by(self, index: int, axis: int) -> str:
        if index < len(self.info.inputs):
            return place_of(self.info.inputs[index], axis)
        return "of a tensor or shape in a value"

    def _wrong_size(self, tensor: TensorInfo, axis: int, shape: Shape, env: list[int]) -> RunError:
        where = self._where([tensor.sizes[axis]], env)
        if tensor.value is not None:
            return fault(f'input "{tensor.name}": wrong value', shape[axis], f"{show(tensor.value)}{where}")
        what = f'input "{tensor.name}": wrong size of dimension {axis}'
        return fault(what, _typed(tensor, shape), tensor.type + where)

    def _where(self, sizes: Iterable[Size], env: Sequence[int]) -> str:
        """What the dims of sizes are, and which inputs tell them."""
        known = {d.name: n for n, d in enumerate(self.info.dims)}
        told = [
            f"{name} = {env[known[name]]} ({self._told_by(*self._sources[known[name]])})"
            for name in dict.fromkeys(n for size in sizes if not isinstance(size, int) for n in names(size))
        ]
        return f" where {', '.join(told)}" if told else ""

    def _output(self, index: int, env: list[int]) -> tuple[Shape, np.dtype[np.generic]]:
        tensor, kind = self.info.outputs[index], self.output_dtypes[index]
        shape = tuple(size(env) for size in self._output_sizes[index])
        if any(extent < 0 for extent in shape):
            where = self._where(tensor.shape, env)
            raise RunError(f'output "{tensor.name}" would have the shape {shape}: {tensor.type}{where}')
        if math.prod(shape) * kind.itemsize > MAX_BYTES:
            what = f'output "{tensor.name}" would have the shape {shape}: more than {MAX_BYTES} bytes'
            raise RunError(f"{what}: {tensor.type}{self._where(tensor.shape, env)}")
        return shape, kind


def _source(info: FunctionInfo, name: str) -> tuple[int, int]:
    """The first (input, axis) whose size is the dim itself, extents of tensors before values; behind the inputs: which
    of the dims that values of data types tell."""
    found = [(i, axis) for i, t in enumerate(info.inputs) for axis, size in enumerate(t.sizes) if size == name]
    found.sort(key=lambda source: info.inputs[source[0]].value is not None)
    return found[0] if found else (len(info.inputs), info.data_dims.index(name))


def place_of(tensor: TensorInfo, axis: int) -> str:
    """Where an input has one of its `sizes`, in words."""
    return f'dimension {axis} of input "{tensor.name}"' if tensor.value is None else f'input "{tensor.name}"'


def _demanded(a: Size, b: Size) -> tuple[Size, Size, str]:
    """The sizes that an equality is about, and what else they may be: of what two sizes broadcast to, the two."""
    if isinstance(a, tuple) and a[0] == "select" and a[1] == ("==", a[3], 1):
        first, second = a[3], a[2]
        if b == ("select", ("==", second, 1), first, second) or (isinstance(second, int) and b == second):
            return first, second, ", or one of them 1"
    return a, b, ""


def _typed(tensor: TensorInfo, shape: Shape) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, shape))}]"


def _wrong_rank(tensor: TensorInfo, shape: Shape) -> RunError:
    hint = None
    if len(shape) == len(tensor.shape) - 1:
        hint = "x[None] puts a dimension of size 1 in front"
    elif len(shape) == len(tensor.shape) + 1 and 1 in shape:
        hint = f"x.squeeze({shape.index(1)}) removes a dimension of size 1"
    return fault(
        f'input "{tensor.name}": {len(shape)} dimensions instead of {len(tensor.shape)}',
        _typed(tensor, shape), tensor.type, hint,
    )  # fmt: skip
