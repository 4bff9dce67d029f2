"""What compiled programs call outside of them: packed functions, and what prints and tests values.

Tensors are passed where they lie, for the time of the call: who keeps one would see whatever lies there later, or
nothing at all, so that is an error.
"""

from __future__ import annotations

import enum
import gc
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.dtype import BY_NAME, dtype
from legato.base.errors import PackedError
from legato.runtime import messages
from legato.runtime.host_words import HostArrays, Lent, Words
from legato.runtime.packed import (
    DIM,
    Packed,
    PackedType,
    Parts,
    Slot,
    Wanted,
    call,
    fault,
    given,
    is_c_function,
    leaves,
)
from legato.runtime.program import HostOpInfo
from legato.runtime.reader import Reader, parse_json
from legato.runtime.strings import Strings, uses_strings

__all__ = ["Message", "PackedCall", "Step", "outside_ops"]

_OUTSIDE: Final = frozenset({"call_packed", "call_pure_packed", "call_dps_packed", "print", "assert_op"})
_MAX_NESTED: Final = 200  # tuples in tuples that are passed


class Step(enum.StrEnum):
    """What is done at one place: the whole call; or the call, for the extents of its results; then these."""

    CALL = "call"
    EXTENTS = "extents"
    RESULTS = "results"


@dataclass(frozen=True, slots=True)
class PackedCall:
    """A call of the packed function `name`."""

    name: str
    type: PackedType
    step: Step = Step.CALL

    def at(self, step: Step) -> PackedCall:
        """This call, in two steps."""
        return replace(self, step=step)


@dataclass(frozen=True, slots=True)
class Message:
    """A call that prints values, or tests the first one."""

    format: str
    args: tuple[Parts, ...]


Run = Callable[[Words, list[np.ndarray], "Strings | None"], None]


def outside_ops(ops: Sequence[HostOpInfo], packed: Mapping[str, object] | None) -> dict[int, Run]:
    """What runs those of `ops` that call something outside, by their places in the table.

    PackedError for functions that are missing, with all that are, and for what does not fit the calls.
    """
    read = {n: _read(info) for n, info in enumerate(ops) if info.op in _OUTSIDE}
    calls = {n: attrs for n, attrs in read.items() if isinstance(attrs, PackedCall)}
    functions = given(packed, {c.name for c in calls.values()})
    found = [(c.name, fault(functions[c.name], c.type, is_pure=ops[n].op != "call_packed")) for n, c in calls.items()]
    faults = [f"packed function {name!r}: {what}" for name, what in found if what is not None]
    if faults:
        raise PackedError("\n".join(dict.fromkeys(faults)))
    return {
        n: _told(ops[n], attrs) if isinstance(attrs, Message)
        else _stored(ops[n], attrs) if attrs.step is Step.RESULTS
        else _packed_run(ops[n], attrs, functions[attrs.name])
        for n, attrs in read.items()
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------- running


def _packed_run(info: HostOpInfo, made: PackedCall, packed: Packed) -> Run:
    arrays = HostArrays(info)
    fills = made.step is Step.CALL and (info.op == "call_dps_packed" or is_c_function(packed.function))

    def run(words: Words, waiting: list[np.ndarray], lent: Lent) -> None:
        inputs, outputs = arrays(words, None, lent)
        args = _nested(made.type.args, iter(inputs))
        if made.step is Step.CALL:
            wanted = [Wanted(out.dtype, out.shape) for out in outputs]
            results = call(packed, made.name, args, wanted, outputs if fills else None)
            for out, result in zip(outputs, results, strict=True):
                if out is not result:
                    out[...] = result
            return
        results = call(packed, made.name, args, [_wanted(slot) for slot in made.type.results], None)
        waiting[:] = [np.array(r, order="C") for r in results]
        extents = [n for slot, r in zip(made.type.results, waiting, strict=True)
                   for d, n in zip(slot.shape, r.shape, strict=True) if d is None]  # fmt: skip
        for out, extent in zip(outputs, extents, strict=True):
            out[...] = extent

    return partial(_lending, run, packed, made.name)


def _stored(info: HostOpInfo, made: PackedCall) -> Run:
    """Puts results where they belong."""
    arrays = HostArrays(info)

    def run(words: Words, waiting: list[np.ndarray], strings: Strings | None) -> None:
        _, outputs = arrays(words, None)
        if len(outputs) != len(waiting):
            raise PackedError(f"packed function {made.name!r}: {len(waiting)} results are there, wanted {len(outputs)}")
        for n, (out, result) in enumerate(zip(outputs, waiting, strict=True)):
            if out.shape != result.shape:
                got, wanted = Wanted(result.dtype, result.shape), Wanted(out.dtype, out.shape)
                raise PackedError(f"packed function {made.name!r}: result {n} is {got}, wanted {wanted}")
            out[...] = result
        waiting.clear()

    return run


def _told(info: HostOpInfo, message: Message) -> Run:
    """Prints, or tests."""
    arrays = HostArrays(info)

    def run(words: Words, waiting: list[np.ndarray], strings: Strings | None) -> None:
        inputs, _ = arrays(words, strings)
        *condition, values = _nested(message.args, iter(inputs))
        if condition:
            messages.check(condition[0], message.format, values)
        else:
            messages.show(message.format, values)

    return run


def _wanted(slot: Slot) -> Wanted:
    """What of a result is known before the call."""
    return Wanted(dtype(slot.dtype).numpy, tuple(n if isinstance(n, int) else None for n in slot.shape))


def _nested(args: Sequence[Parts], arrays: Iterator[np.ndarray]) -> tuple[Any, ...]:
    """Arguments, tuples nested; a dim is a number."""
    found: list[Any] = []
    for part in args:
        if isinstance(part, Slot):
            array = next(arrays)
            found.append(int(array) if part.dtype == DIM else array)
        else:
            found.append(_nested(part, arrays))
    return tuple(found)


def _lending(
    run: Callable[[Words, list[np.ndarray], Lent], None],
    packed: Packed,
    name: str,
    words: Words,
    waiting: list[np.ndarray],
    strings: Strings | None,
) -> None:
    """Runs a function on memory of the call; an error where somebody keeps a part of it."""
    lent: Lent = []
    failure: BaseException | None = None
    try:
        run(words, waiting, lent)
    except BaseException as error:
        _forget(error)
        failure = error
    if failure is not None and not isinstance(failure, Exception):
        raise failure
    if failure is not None and _is_kept(lent):
        _forget(failure, places=True)
    if _is_kept(lent):
        hint = "it is there during the call: keep a copy"
        raise packed.error(name, f": it keeps a tensor that it was given\n  hint: {hint}") from failure
    if failure is not None:
        raise failure


def _is_kept(lent: Lent) -> bool:
    """Whether somebody still has an array of the memory that was lent; cycles that nobody refers to are no such."""
    if all(memory() is None for memory in lent):
        return False
    gc.collect()
    return any(memory() is not None for memory in lent)


def _forget(error: BaseException, *, places: bool = False) -> None:
    """Clears the variables of functions that have ended by an error, or by those that led to it: whoever looks at these
    later would look into memory that is not there any more. With `places` they are forgotten themselves: what a
    closure holds (a comprehension is one) ends only with its frame."""
    todo, met = [error], set[int]()
    while todo:
        each = todo.pop()
        if id(each) not in met:
            met.add(id(each))
            traceback.clear_frames(each.__traceback__)
            each.__traceback__ = None if places else each.__traceback__
            todo += [e for e in (each.__cause__, each.__context__) if e is not None]


# ---------------------------------------------------------------------------------------------------- reading


def _read(info: HostOpInfo) -> PackedCall | Message:
    """What an entry of an artifact's table says; ArtifactError for what cannot be."""
    data = parse_json(info.attrs, f"{info.op}: attributes")
    if info.op in ("print", "assert_op"):
        message = Message(data["format"].text(), _list(data["args"], _MAX_NESTED))
        _require(data, message.args, info)
        values = message.args[-1] if message.args else None
        if not isinstance(values, tuple) or messages.format_fault(message.format, len(values)) is not None:
            data["format"].fail("a format of the values")
        return message
    step = data["step"].text()
    if step not in set(Step):
        data["step"].fail("a step of a call")
    ty = PackedType(_list(data["type"]["args"], _MAX_NESTED), tuple(map(_slot, data["type"]["results"].list())))
    if any(slot.dtype == DIM for slot in ty.results):
        data["type"].fail("results that are tensors")
    if uses_strings((*leaves(ty.args), *ty.results)):
        data["type"].fail("no strings: packed functions take none")
    if step != Step.RESULTS:
        _require(data, ty.args, info)
    count = sum(d is None for slot in ty.results for d in slot.shape) if step == Step.EXTENTS else len(ty.results)
    if count != len(info.outputs):
        data.fail(f"{len(info.outputs)} results")
    return PackedCall(data["name"].text(), ty, Step(step))


def _require(data: Reader, args: Parts, info: HostOpInfo) -> None:
    if len(list(leaves(args))) != len(info.inputs):
        data.fail(f"{len(info.inputs)} arguments")


def _list(data: Reader, depth: int) -> tuple[Parts, ...]:
    if not depth:
        data.fail(f"tuples nested {_MAX_NESTED} deep at most")
    return tuple(_list(part, depth - 1) if isinstance(part.value, list) else _slot(part) for part in data.list())


def _slot(data: Reader) -> Slot:
    extents = [
        None if d.value is None else d.value if isinstance(d.value, str) else d.int() for d in data["shape"].list()
    ]
    found = Slot(data["dtype"].text(), tuple(extents))
    if found.dtype != DIM and found.dtype not in BY_NAME:
        data.fail("a dtype")
    return found
