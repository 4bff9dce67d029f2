"""Arrays that fit a signature, made up: what to run a program on when one has no data at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from legato.base.codes import encode, has_codes
from legato.base.dataclass import dataclass
from legato.base.dtype import DType, dtype
from legato.base.errors import RunError
from legato.base.spelling import ELLIPSIS, written
from legato.runtime.arrays import as_array
from legato.runtime.program import DimInfo, FunctionInfo, TensorInfo
from legato.runtime.signature import Signature
from legato.runtime.size import Evaluator, compile_size
from legato.runtime.size import names as size_names

__all__ = ["Fill", "feeds", "fill", "fill_array"]

Fill = Literal["random", "zeros", "ones"]
_STARTS: Final = 40  # from which dims that fit are looked for
_STEPS: Final = 32  # changes of one dim on the way there
_SEARCHED: Final = 4097  # numbers below this are tried
_SEARCHED_AGAIN: Final = 65  # from another start
_WORDS: Final = ("", "a", "b", "Legato", "legato", "two words", "é")
DEFAULT_DIM: Final = 4  # of a dim that nothing is said about, where its range allows it


def fill(
    info: FunctionInfo, how: Fill = "random", *, dims: Mapping[str, int] | None = None, seed: int = 0
) -> dict[str, np.ndarray]:
    """An array for each input of a function, by name.

    dims: values of symbolic dims; others are 4, or the next number that their range allows, or what the function's
    constraints ask for. Inputs whose values are extents have these. random: floats are normally distributed, bytes
    uniform over their range, other integers 0 or 1: valid indices of whatever there is. RunError for dims that the
    function does not have, values out of their range or too large, and where none are found that fit the function.
    """
    values = _solved(info, _values(info, dims or {}), [dim.name in (dims or {}) for dim in info.dims])
    names = [dim.name for dim in info.dims]
    shapes = [tuple(compile_size(s, names)(values) for s in tensor.sizes) for tensor in info.inputs]
    made_up = [f"{name} = {n}" for name, n in zip(names, values, strict=True) if name not in (dims or {})]
    rng = np.random.default_rng(seed)
    try:
        if made_up:
            Signature(info).plan(shapes)
        return {t.name: _fill(rng, t, shape, how) for t, shape in zip(info.inputs, shapes, strict=True)}
    except RunError as error:
        if not made_up:
            raise
        name = next(name for name in names if name not in (dims or {}))
        hint = f"{', '.join(made_up)} by default; give what fits, as in {written('dims', name, ELLIPSIS)}"
        raise RunError(f"{error}\n  hint: {hint}") from error


def feeds(
    info: FunctionInfo,
    given: Mapping[str, Any] | Sequence[Any] | None,
    how: Fill = "random",
    *,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Inputs by name: those `given`, by name or in order, else made up by `fill`.

    RunError where there are too few, too many, or unknown names; whether arrays fit is checked when they are used.
    RunError for a function that takes values of data types, too: there is no array for these.
    """
    if info.objects:
        hint = "in Python, constructors of the program make such values"
        raise RunError(f"inputs that are no arrays: {', '.join(map(str, info.objects))}\n  hint: {hint}")
    if given is None:
        return fill(info, how, dims=dims, seed=seed)
    names = [tensor.name for tensor in info.inputs]
    got = list(given) if isinstance(given, Mapping) else names[: len(given)]
    if set(got) != set(names) or len(given) != len(names):
        shown = ", ".join(got) if isinstance(given, Mapping) else f"{len(given)} arrays"
        raise RunError(f"inputs: got {shown or 'none'}, wanted {', '.join(map(str, info.inputs)) or 'none'}")
    arrays = given.values() if isinstance(given, Mapping) else given
    return {name: _given(array, name) for name, array in zip(got, arrays, strict=True)}


def _given(value: object, name: str) -> np.ndarray:
    """What was given as an array; numbers and lists, too: whether they have the right dtype is checked later."""
    return np.asarray(value) if isinstance(value, int | float | list) else as_array(value, name)


def _fill(rng: np.random.Generator, tensor: TensorInfo, shape: tuple[int, ...], how: Fill) -> np.ndarray:
    if tensor.value is not None:
        return np.array(shape[0], np.int64)
    try:
        return fill_array(rng, dtype(tensor.dtype), shape, how)
    except (MemoryError, ValueError, OverflowError) as error:  # too large, or negative
        raise RunError(f'input "{tensor.name}": there can be no {tensor.type} of the shape {shape}') from error


def fill_array(rng: np.random.Generator, kind: DType, shape: Sequence[int], how: Fill) -> np.ndarray:
    """An array of that dtype and shape."""
    if kind.is_string:
        return rng.choice(_WORDS if how == "random" else [""], shape).astype(kind.numpy)
    if how == "zeros":
        return np.zeros(shape, kind.numpy)
    if how == "ones":
        return encode(np.ones(shape, np.float32), kind) if has_codes(kind) else np.ones(shape, kind.numpy)
    if kind.is_float or kind.is_storage:
        return encode(rng.standard_normal(shape, np.float32), kind)
    if kind.is_int and kind.bits == 8:
        return rng.integers(0, 256, shape, np.uint8).view(kind.numpy)
    return rng.integers(0, 2, shape).astype(kind.numpy)


@dataclass(frozen=True, slots=True)
class _Equality:
    """A constraint as functions of the values of all dims, and the dims in it that may be chosen."""

    left: Evaluator
    right: Evaluator
    free: Sequence[int]

    def holds(self, values: Sequence[int]) -> bool:
        return self.left(values) == self.right(values)


def _solved(info: FunctionInfo, values: list[int], given: Sequence[bool]) -> list[int]:
    """`values` changed, but for those `given`, until the function's constraints hold; as they were where none is found.

    Looked for from the values as they are, then from random ones.
    """
    names = [dim.name for dim in info.dims]
    equalities = [
        _Equality(
            compile_size(c.a, names),
            compile_size(c.b, names),
            sorted({names.index(n) for size in (c.a, c.b) for n in size_names(size)} - {*np.flatnonzero(given)}),
        )
        for c in info.constraints
    ]
    rng, start, numbers = np.random.default_rng(0), values, _SEARCHED
    for _ in range(_STARTS if equalities else 1):
        found = _descended(info.dims, equalities, start, numbers)
        if found is not None:
            return found
        drawn = [_value(dim, None) + int(rng.integers(0, 16)) for dim in info.dims]
        start = [v if fixed else n for v, n, fixed in zip(values, drawn, given, strict=True)]
        numbers = _SEARCHED_AGAIN
    return values


def _descended(
    dims: Sequence[DimInfo], equalities: Sequence[_Equality], start: Sequence[int], numbers: int
) -> list[int] | None:
    """From `start`, one dim at a time changed to the nearest number with which an equality holds that did not."""
    found, last = list(start), -1
    for _ in range(_STEPS):
        broken = next((e for e in equalities if not e.holds(found)), None)
        if broken is None:
            return found if all(dim.holds(v) for dim, v in zip(dims, found, strict=True)) else None
        for at in sorted(broken.free, key=lambda d: d == last):  # another one each time
            number = _fitting(dims[at], broken, found, at, numbers)
            if number is not None:
                last, found[at] = at, number
                break
        else:
            return None
    return None


def _fitting(dim: DimInfo, equality: _Equality, values: Sequence[int], at: int, numbers: int) -> int | None:
    """The number below `numbers`, or equal to a side, nearest to that of dim `at`, with which the equality holds."""
    tried: set[int] = {*range(numbers), equality.left(values), equality.right(values)}
    for number in sorted(tried, key=lambda n: abs(n - values[at])):
        if dim.holds(number) and equality.holds([number if d == at else v for d, v in enumerate(values)]):
            return number
    return None


def _values(info: FunctionInfo, given: Mapping[str, int]) -> list[int]:
    known = {dim.name for dim in info.dims}
    for name in given:
        if name not in known:
            what = "computed by the program" if name in info.extents else "not a dim of an input"
            raise RunError(
                f"{name!r} is {what}\n  hint: the inputs' dims are {', '.join(sorted(known)) or 'all fixed'}"
            )
    return [_value(dim, given.get(dim.name)) for dim in info.dims]


def _value(dim: DimInfo, given: int | None) -> int:
    if given is None:
        value = max(dim.lo, DEFAULT_DIM)
        return value if dim.hi is None else min(value, dim.hi)
    if not dim.holds(given):
        raise RunError(f"dim {dim.name}: got {given}, wanted {dim.range}")
    return given
