"""Rows of a batch through a program: which batches it takes, rows stacked along the first dim, results taken apart.

A row is what a batch has one of for each element: input `x: float32[n, 3, 224, 224]` takes rows of the shape 3×224×224.
That a row's result does not depend on the rows beside it is the program's affair; its signature cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.base.arrays import as_array
from legato.base.dataclass import dataclass
from legato.base.dtype import dtype
from legato.base.errors import InternalError, LegatoError, PlatformError, RunError, no_room
from legato.base.strings import is_text
from legato.runtime.executable import Executable
from legato.runtime.fill import fill
from legato.runtime.program import Constraint, FunctionInfo
from legato.runtime.size import Size, compile_size, names, show

__all__ = ["Array", "Row", "Rows", "Sizes", "batch_sizes", "pieces", "require_names", "stacked"]

Array = np.ndarray[Any, Any]
Row = Mapping[str, Array]
_TRIED: Final = 128  # numbers of rows
_OTHERS: Final = (1, 2, 3, 4, 8)  # values of other dims


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of rows, both ends included; `hi` None: any from `lo` on."""

    lo: int
    hi: int | None


def batch_sizes(info: FunctionInfo, bodies: Sequence[FunctionInfo] = ()) -> tuple[Sizes, ...]:
    """How many rows one call of a function takes, whose `bodies` do its work; RunError where its inputs and outputs do
    not all have one row for each element of a batch."""
    _require_rows(info)
    for each in (info, *bodies):
        _require_any_number(each)
    return tuple(_sizes(each) for each in bodies or (info,))


def _sizes(info: FunctionInfo) -> Sizes:
    first = info.inputs[0].shape[0]
    if isinstance(first, int):
        return Sizes(first, first)
    (dim,) = (dim for dim in info.dims if dim.name == first)
    return Sizes(max(dim.lo, 1), dim.hi)


def _require_rows(info: FunctionInfo) -> None:
    others = [str(leaf) for leaf in (*info.objects, *info.results)]
    others += [str(tensor) for tensor in info.inputs if tensor.value is not None]
    if others:
        raise _no_batch(f"what is no tensor of a known shape has no rows: {', '.join(others)}")
    tensors = (*info.inputs, *info.outputs)
    if not info.inputs or not info.outputs:
        raise _no_batch("it has no inputs, or no outputs")
    scalars = [str(tensor) for tensor in tensors if not tensor.shape]
    if scalars:
        raise _no_batch(f"there are no rows in {', '.join(scalars)}")
    first = info.inputs[0].shape[0]
    if not isinstance(first, int | str):
        raise _no_batch(f"the first dim of {info.inputs[0]} is computed")
    unlike = [str(tensor) for tensor in tensors if tensor.shape[0] != first]
    if unlike:
        raise _no_batch(f"the first dim of {info.inputs[0]} is {show(first)}, and that of {', '.join(unlike)} is not")
    again = [str(tensor) for tensor in tensors if any(_mentions(size, first) for size in tensor.shape[1:])]
    if again:
        raise _no_batch(f"{first} is more than the number of rows in {', '.join(again)}")


def _require_any_number(info: FunctionInfo) -> None:
    """RunError where calls take some numbers of rows and not those beside them."""
    first, sizes = info.inputs[0].shape[0], _sizes(info)
    if not isinstance(first, str):
        return
    bound = [c.what for c in info.constraints if _binds(c, first, sizes)]
    if bound:
        raise _no_batch(f"not every number {first} of rows fits: {', '.join(bound)}")


def _binds(constraint: Constraint, first: str, sizes: Sizes) -> bool:
    """Whether a constraint, with other dims as they may be, holds for some numbers of rows and not for others."""
    a, b = constraint.a, constraint.b
    others = sorted({*names(a), *names(b)} - {first})
    if first not in {*names(a), *names(b)} or (isinstance(b, tuple) and b[:2] == ("min", a)):
        return False  # no more than some bytes: batches that are too large are halved
    left, right = (compile_size(size, [first, *others]) for size in (a, b))
    end = sizes.lo + _TRIED if sizes.hi is None else min(sizes.lo + _TRIED, sizes.hi + 1)
    for value in _OTHERS if others else _OTHERS[:1]:
        rest = [value] * len(others)
        holds = {left([n, *rest]) == right([n, *rest]) for n in range(sizes.lo, end)}
        if len(holds) > 1 or (not others and False in holds):
            return True
    return False


def _mentions(size: Size, first: int | str) -> bool:
    return isinstance(first, str) and first in names(size)


def _no_batch(why: str) -> RunError:
    hint = "compile the model with a first dim of its own, as in shapes={'x': ('n', 3, 224, 224)}"
    return RunError(f"the program takes no batches: {why}\n  hint: {hint}")


def pieces(count: int, sizes: Sequence[Sizes]) -> Iterator[tuple[int, int]]:
    """How `count` rows are given to calls that take such sizes: (rows, size of the call), the largest calls first. A
    call of more rows than are left is filled up."""
    left = count
    while left:
        taken = max((left if s.hi is None else min(left, s.hi) for s in sizes if s.lo <= left), default=0)
        yield (taken, taken) if taken else (left, min(s.lo for s in sizes))
        left -= taken or left


class Rows:
    """A program that takes batches, given any number of rows."""

    def __init__(self, exe: Executable) -> None:
        """RunError where the program takes none."""
        functions = exe.program.functions
        self._exe = exe.keeping()  # what it is given is somebody else's
        self.info = functions[exe.function]
        self.sizes = batch_sizes(self.info, [functions[name] for name in self.info.bodies])
        self._text = {tensor.name for tensor in self.info.inputs if dtype(tensor.dtype).is_string}

    def of_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name for whole inputs by name, one row for each. An array of objects has rows that may differ
        in shape: so may those of the outputs then.

        RunError where names or shapes are wrong; it names the first row at fault.
        """
        require_names(columns, self.info)
        counts = {name: len(column) for name, column in columns.items()}
        if len(set(counts.values())) > 1:
            raise RunError(f"the columns have different numbers of rows: {counts}")
        count = next(iter(counts.values()))
        if count and any(column.dtype == object and name not in self._text for name, column in columns.items()):
            return self._of_objects(columns, count)
        return self._dense(columns, count)

    def of_rows(self, rows: Sequence[Row]) -> list[dict[str, Array] | LegatoError]:
        """The outputs for each row, or why it has none, in order: rows of one shape make one batch. One at fault does
        the others no harm."""
        found: list[dict[str, Array] | LegatoError] = [RunError("not computed")] * len(rows)
        known: dict[int, Row] = {}
        alike: dict[object, list[int]] = {}
        for n, given in enumerate(rows):
            try:
                require_names(given, self.info)
                row = known[n] = {name: as_array(value, f'input "{name}"') for name, value in given.items()}
            except RunError as error:
                found[n] = error
            else:
                key = tuple((row[t.name].shape, self._kind(t.name, row[t.name])) for t in self.info.inputs)
                alike.setdefault(key, []).append(n)
        for numbers in alike.values():
            self._solve(known, numbers, found)
        return found

    def _kind(self, name: str, array: Array) -> object:
        """What rows of an input share that make one array: the dtype; texts of any width are alike."""
        return "text" if name in self._text and is_text(array) else array.dtype

    def is_well(self) -> bool:
        """Whether a call of zeros meets no bug of ours, and no lack of the machine's: then a row was what met it."""
        try:
            self._exe.run(fill(self.info, "zeros"))
        except (InternalError, PlatformError):
            return False
        except (LegatoError, MemoryError):
            pass
        return True

    def _solve(
        self, rows: Mapping[int, Row], numbers: Sequence[int], found: list[dict[str, Array] | LegatoError]
    ) -> None:
        """The outputs of rows of one shape; where they cannot be computed together, of each half."""
        waiting = [numbers]
        while waiting:
            together = waiting.pop()
            try:
                batch = {t.name: np.stack([rows[n][t.name] for n in together]) for t in self.info.inputs}
                outputs = self._dense(batch, len(together))
            except (LegatoError, MemoryError) as error:
                if len(together) == 1:
                    found[together[0]] = error if isinstance(error, LegatoError) else no_room(f"out of memory: {error}")
                else:
                    half = len(together) // 2
                    waiting += [together[half:], together[:half]]
            else:
                for at, n in enumerate(together):
                    found[n] = {name: array[at] for name, array in outputs.items()}

    def _of_objects(self, columns: Mapping[str, Array], count: int) -> dict[str, Array]:
        each = self.of_rows([{name: np.asarray(column[n]) for name, column in columns.items()} for n in range(count)])
        for n, outputs in enumerate(each):
            if isinstance(outputs, LegatoError):
                raise RunError(f"row {n} of the batch: {outputs}") from outputs
        right = [outputs for outputs in each if not isinstance(outputs, LegatoError)]
        return {tensor.name: stacked([outputs[tensor.name] for outputs in right]) for tensor in self.info.outputs}

    def _dense(self, columns: Mapping[str, Array], count: int) -> dict[str, Array]:
        parts, start = list[dict[str, Array]](), 0
        for rows, size in pieces(count, self.sizes) if count else [(0, self.sizes[0].lo)]:
            piece = {name: _filled(column[start : start + rows], size) for name, column in columns.items()}
            outputs = self._exe.run(piece)
            parts.append({name: array[:rows] for name, array in outputs.items()})
            start += rows
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def require_names(given: Mapping[str, object], info: FunctionInfo) -> None:
    """RunError where other inputs are given than a function has."""
    if given.keys() != {tensor.name for tensor in info.inputs}:
        raise RunError(f"inputs: got {', '.join(map(str, given)) or 'none'}, wanted {', '.join(map(str, info.inputs))}")


def _filled(rows: Array, size: int) -> Array:
    """`rows`, and the last of them again until there are `size`; zeros where there are none, of strings empty ones."""
    if len(rows) == size:
        return rows
    if not len(rows):
        return np.full((size, *rows.shape[1:]), "" if rows.dtype == object else 0, rows.dtype)
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


def stacked(rows: Sequence[Array]) -> Array:
    """One array of the rows; an array of objects, each a row, where their shapes differ."""
    if len({row.shape for row in rows}) == 1:
        return np.stack(rows)
    found = np.empty(len(rows), object)
    for n, row in enumerate(rows):
        found[n] = row
    return found
