"""Packed functions: what programs call by name, and are given when they are compiled, loaded or interpreted.

A Python function is given arrays that it may only read (NumPy's, which other libraries view by DLPack), numbers for the
dims of a shape, and tuples of these; it gives an array, or anything with __dlpack__, several in a tuple, or None. One
that fills tensors is given arrays of zeros behind its arguments, and gives None. A C function (`runtime.c_functions`)
always fills. What does not fit is a PackedError that names the function, what was wanted, and what was got.
"""

from __future__ import annotations

from _ctypes import CFuncPtr
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.base.arrays import viewed
from legato.base.dataclass import dataclass
from legato.base.errors import PackedError, RunError
from legato.runtime.c_functions import fill
from legato.runtime.size import Size, compile_size, names, show

__all__ = ["DIM", "Packed", "PackedType", "Parts", "Slot", "Wanted", "call", "fault", "given", "is_c_function",
           "leaves"]  # fmt: skip

DIM: Final = "index"  # the dtype of a slot that is a dim of a shape


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor that is passed or given; an extent None is whatever comes. A dim has the dtype DIM, and its value as
    `shape`."""

    dtype: str
    shape: tuple[Size | None, ...] = ()

    def __str__(self) -> str:
        extents = ", ".join("?" if d is None else show(d) for d in self.shape)
        return f"dim {extents}" if self.dtype == DIM else f"{self.dtype}[{extents}]"


Parts = Slot | tuple["Parts", ...]


@dataclass(frozen=True, slots=True)
class PackedType:
    """What a packed function takes, tuples nested, and the tensors that it gives."""

    args: tuple[Parts, ...]
    results: tuple[Slot, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(_shown, self.args))}) -> ({', '.join(map(str, self.results))})"


def _shown(parts: Parts) -> str:
    return str(parts) if isinstance(parts, Slot) else f"({', '.join(map(_shown, parts))})"


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A function with what is declared of it: its type, whose dims are names or numbers, and whether it has effects.

    None: as the calls say. `legato.packed` makes one.
    """

    function: Callable[..., Any]
    type: PackedType | None = None
    pure: bool | None = None

    def error(self, name: str, what: str) -> RunError:
        """What is wrong with this function, which programs call `name`."""
        return PackedError(f"packed function {name!r}{what}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tensor that a call gives: of this dtype, and of these extents where they are known before."""

    dtype: np.dtype[np.generic]
    shape: tuple[int | None, ...]

    def zeros(self) -> np.ndarray:
        """Such a tensor of zeros, whose extents are known. RunError where there is no room."""
        try:
            return np.zeros([n for n in self.shape if n is not None], self.dtype)
        except (MemoryError, ValueError) as error:
            raise RunError(f"out of memory: no room for {self}") from error

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"


def is_c_function(function: object) -> bool:
    """Whether a function is one of a shared library, as ctypes has it."""
    return isinstance(function, CFuncPtr)


def given(packed: Mapping[str, object] | None, wanted: Collection[str]) -> dict[str, Packed]:
    """The packed functions with the names `wanted`; PackedError for all that are missing, and what is none."""
    if packed is not None and not isinstance(packed, Mapping):
        raise PackedError(f"packed: got a {type(packed).__name__}, wanted a dict of functions by name")
    known = packed or {}
    missing = sorted({name for name in wanted if name not in known})
    if missing:
        from difflib import get_close_matches  # only for mistakes

        close = {name: get_close_matches(name, list(map(str, known)), 1) for name in missing}
        shown = ", ".join(f"{n!r}" + (f" (did you mean {c[0]!r}?)" if c else "") for n, c in close.items())
        hint = f"packed={{{missing[0]!r}: function}} gives a function its name"
        raise PackedError(f"the program calls packed functions that are not given: {shown}\n  hint: {hint}")
    return {name: _packed(name, known[name]) for name in sorted(wanted)}


def _packed(name: str, value: object) -> Packed:
    found = value if isinstance(value, Packed) else Packed(value) if callable(value) else None
    if found is None or not callable(found.function):
        raise PackedError(f"packed function {name!r}: got a {type(value).__name__}, wanted a function")
    if found.type is None and is_c_function(found.function):
        hint = "legato.packed(function, type) declares it: C code cannot tell what it was given"
        raise PackedError(f"packed function {name!r}: a C function without a type\n  hint: {hint}")
    return found


def fault(packed: Packed, called: PackedType, *, is_pure: bool) -> str | None:
    """Why a function cannot be called as the program does, in words; None if it can."""
    if is_pure and packed.pure is False:
        return "is declared to have effects, and the call says that it has none"
    if is_c_function(packed.function) and any(None in slot.shape for slot in called.results):
        return f"is a C function, which fills tensors; the call leaves their extents to it: {called}"
    declared = packed.type
    if declared is not None and not (_may_be(called.args, declared.args) and _may_be(called.results, declared.results)):
        return f"is called as {called}, declared as {declared}"
    return None


def _may_be(called: Parts, declared: Parts) -> bool:
    """Whether values of one type may be of the other."""
    todo = [(called, declared)]
    while todo:
        a, b = todo.pop()
        if isinstance(a, Slot) and isinstance(b, Slot):
            if a.dtype != b.dtype or len(a.shape) != len(b.shape):
                return False
            if any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(a.shape, b.shape, strict=True)):
                return False
        elif isinstance(a, Slot) or isinstance(b, Slot) or len(a) != len(b):
            return False
        else:
            todo += zip(a, b, strict=True)
    return True


# ---------------------------------------------------------------------------------------------------- calls


def call(
    packed: Packed, name: str, args: Sequence[Any], wanted: Sequence[Wanted], outs: Sequence[np.ndarray] | None
) -> list[np.ndarray]:
    """The tensors that the function `name` gives for `args`: those `wanted`. Where it fills tensors, `outs` are these.

    PackedError for what it raises, or gives wrongly.
    """
    _require(packed, name, args, outs)
    results = _results(packed, name, args, wanted, outs)
    if outs is None:
        _require(packed, name, args, results)
    return results


def _results(
    packed: Packed, name: str, args: Sequence[Any], wanted: Sequence[Wanted], outs: Sequence[np.ndarray] | None
) -> list[np.ndarray]:
    if outs is None:
        return _checked(packed, name, _made(packed, name, args), wanted)
    for out in outs:
        out[...] = np.zeros((), out.dtype)
    if is_c_function(packed.function):
        status = fill(packed.function, list(leaves(args)), outs)
        if status:
            raise packed.error(name, f" failed: it returned {status}, wanted 0")
        return list(outs)
    value = _made(packed, name, [*args, *outs])
    if value is not None:
        raise packed.error(name, f": gave {_kind(value)}, wanted None: it fills what it is given last")
    return list(outs)


def _made(packed: Packed, name: str, args: Sequence[Any]) -> object:
    try:
        return packed.function(*args)
    except Exception as error:
        raise packed.error(name, f" failed: {type(error).__name__}: {error}") from error


def _checked(packed: Packed, name: str, value: object, wanted: Sequence[Wanted]) -> list[np.ndarray]:
    """What a function has given, as the arrays that were wanted."""
    if len(wanted) == 1:
        return [_tensor(packed, name, value, wanted[0], "")]
    if not wanted and value is None:
        return []
    if not isinstance(value, tuple | list):
        many = f"a tuple of {len(wanted)} tensors" if wanted else "None"
        raise packed.error(name, f": gave {_kind(value)}, wanted {many}")
    if len(value) != len(wanted):
        raise packed.error(name, f": gave {len(value)} results, wanted {len(wanted)}")
    return [_tensor(packed, name, v, w, f" {n}") for n, (v, w) in enumerate(zip(value, wanted, strict=True))]


def _tensor(packed: Packed, name: str, value: object, wanted: Wanted, which: str) -> np.ndarray:
    what = f": result{which}"
    array = viewed(value, what, lambda text: packed.error(name, text))
    if array is None:
        raise packed.error(name, f"{what} is {_kind(value)}, wanted a tensor {wanted}")
    fits = array.ndim == len(wanted.shape) and all(
        n in (None, m) for n, m in zip(wanted.shape, array.shape, strict=True)
    )
    if array.dtype != wanted.dtype or not fits:
        raise packed.error(name, f"{what} is {_of(array)}, wanted {wanted}")
    return array


def _of(array: np.ndarray) -> str:
    return str(Wanted(array.dtype, array.shape))


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


# ---------------------------------------------------------------------------------------------------- declared types


def _require(packed: Packed, name: str, args: Sequence[Any], results: Sequence[np.ndarray] | None) -> None:
    """Requires the dims of a declared type to be those of arguments, and of results as far as they are there.

    That they are of its structure and dtypes has been found out before.
    """
    declared = packed.type
    if declared is None:
        return
    passed, given = [*leaves(declared.args)], () if results is None else declared.results
    places = [*(f"argument {k}" for k in range(len(passed))), *(f"result {k}" for k in range(len(given)))]
    values = [*leaves(args), *(results or ())]
    shapes = [v.shape if isinstance(v, np.ndarray) else (v,) for v in values]
    dims: dict[str, int] = {}
    for slot, shape in zip((*passed, *given), shapes, strict=True):
        for d, n in zip(slot.shape, shape, strict=True):
            if isinstance(d, str):
                dims.setdefault(d, n)
    for place, slot, shape in zip(places, (*passed, *given), shapes, strict=True):
        if any(_value(d, dims) not in (None, n) for d, n in zip(slot.shape, shape, strict=True)):
            where = ", ".join(f"{d} = {n}" for d, n in dims.items())
            got = f"{Slot(slot.dtype, shape)}, declared as {slot}{where and f', where {where}'}"
            raise packed.error(name, f": {place} is {got}")


def _value(size: Size | None, dims: Mapping[str, int]) -> int | None:
    """An extent; None where its dims have no values."""
    if size is None or isinstance(size, int):
        return size
    used = tuple(dict.fromkeys(names(size)))
    if any(d not in dims for d in used):
        return None
    return compile_size(size, used)([dims[d] for d in used])


def leaves(parts: Any) -> Iterator[Any]:
    """What tuples nest, in order."""
    stack = [parts]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple | list):
            stack += reversed(part)
        else:
            yield part
