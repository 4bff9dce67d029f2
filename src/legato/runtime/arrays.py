"""Arguments of a call: whatever holds an array becomes a NumPy array, without a copy where that is possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import numpy as np

from legato.base.arrays import kind_of, viewed
from legato.base.codes import as_kind, has_codes, restored
from legato.base.dtype import DType, dtype, int64
from legato.base.errors import RunError, no_room
from legato.base.strings import is_text
from legato.runtime.binding import address
from legato.runtime.datatypes import ObjectInfo
from legato.runtime.program import FunctionInfo, TensorInfo
from legato.runtime.signature import Shape, fault

__all__ = ["argument", "as_array", "by_name", "check_donated", "check_out", "check_overlap", "empty", "extent_array",
           "ready", "typed"]  # fmt: skip


def empty(shape: Sequence[int], kind: np.dtype[np.generic]) -> np.ndarray:
    """An array to be filled. RunError where there is no room, or where NumPy has no such array, also of no elements."""
    try:
        return np.empty(shape, kind)
    except (MemoryError, ValueError) as error:
        raise no_room(f"out of memory: no room for an output {_name(kind)}{list(shape)}") from error


def as_array(value: object, name: str) -> np.ndarray:
    """`value` as a NumPy array over the same memory, if it has __dlpack__ or NumPy's array protocol; else RunError.

    Lists and numbers are refused: they have no dtype of their own. So is what an array would be without, see
    `materialized`.
    """
    array = viewed(value, f'input "{name}"')
    if array is not None:
        return array
    raise fault(
        f'input "{name}": not an array', kind_of(value), "a NumPy array or anything with __dlpack__",
        "numpy.asarray(x, dtype=…)",
    )  # fmt: skip


def argument(value: object, tensor: TensorInfo) -> np.ndarray:
    """`value`, given for input `tensor`, as `as_array` or `extent_array` has it."""
    return as_array(value, tensor.name) if tensor.value is None else extent_array(value, tensor.name)


def extent_array(value: object, name: str) -> np.ndarray:
    """`value`, an extent that is given in input `name`, as `as_array` has it; integers are int64 scalars, too."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        number = int(value)
        if not int64.min <= number <= int64.max:
            raise fault(f'input "{name}": out of range', number, "an extent within 64 bits")
        return np.array(number, np.int64)
    array = viewed(value, f'input "{name}"')
    if array is None:
        raise fault(f'input "{name}": no extent', kind_of(value), "an integer, or an int64 array of no dimension")
    return array


def typed(kind: DType | np.dtype[np.generic] | str, shape: Shape) -> str:
    """A tensor's type as text."""
    return f"{kind if isinstance(kind, str) else _name(kind)}[{', '.join(map(str, shape))}]"


def _name(kind: DType | np.dtype[np.generic]) -> str:
    """The name of a dtype; of records of codes that of what they are codes of."""
    names = kind.names if isinstance(kind, np.dtype) else None
    return f"codes of {names[0]}" if names is not None and len(names) == 1 else str(kind)


def ready(array: np.ndarray, tensor: TensorInfo, kind: np.dtype[np.generic]) -> np.ndarray:
    """`array` contiguous and aligned, copied if it was not; RunError if its dtype is another than `kind`."""
    if array.dtype != kind:
        if kind.kind == "O" and is_text(array):
            return np.array(array, kind, order="C")
        if array.dtype.newbyteorder() == kind:
            return np.ascontiguousarray(array, kind).reshape(array.shape)
        wanted = dtype(tensor.dtype)
        if (codes := restored(array, wanted)) is not array:
            return ready(codes, tensor, kind)
        if has_codes(wanted) and array.dtype == wanted.codes:
            return ready(as_kind(array, wanted), tensor, kind)
        hint = f"x.astype({tensor.dtype!r}) converts it"
        if kind.names is not None:
            hint = (
                f"legato.runtime.encode(x, {tensor.dtype!r}) converts numbers; x.view({kind.descr}) takes their codes"
            )
        raise fault(f'input "{tensor.name}": wrong dtype', typed(array.dtype, array.shape), tensor.type, hint)
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        return array
    return np.array(array, order="C", copy=True)


def check_out(out: object, leaf: TensorInfo | ObjectInfo, shape: Shape | None) -> np.ndarray:
    """`out`, if the output `leaf` of this shape (None: not known yet) can be written into it; else RunError."""
    if isinstance(leaf, ObjectInfo):
        hint = "leave it out: what run returns has it"
        raise RunError(f"no array can be given for output {leaf}: the program makes it\n  hint: {hint}")
    what, wanted = f'out "{leaf.name}"', leaf.type if shape is None else typed(leaf.dtype, shape)
    if not isinstance(out, np.ndarray):
        raise fault(f"{what}: not a NumPy array", kind_of(out), wanted)
    fits = out.ndim == len(leaf.shape) if shape is None else out.shape == shape
    if out.dtype != dtype(leaf.dtype).numpy or not fits:
        raise fault(f"{what}: wrong shape or dtype", typed(out.dtype, out.shape), wanted)
    if not out.flags.c_contiguous or not out.flags.aligned:
        raise fault(f"{what}: not contiguous", f"strides of {out.strides} bytes", f"{wanted} in C order, aligned")
    if isinstance(out, np.ma.MaskedArray):
        raise fault(f"{what}: a masked array", "a mask that would stay as it is", wanted)
    if not out.flags.writeable:
        raise fault(f"{what}: not writable", "a read-only array", "an array to write into")
    return out


def check_overlap(info: FunctionInfo, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray | None]) -> None:
    """RunError if an array to write into (None: none was given) shares memory with an input or with another one."""
    taken = [(f'input "{tensor.name}"', array) for tensor, array in zip(info.inputs, inputs, strict=True)]
    for tensor, out in zip(info.returned, outs, strict=True):
        if out is None:
            continue
        for other, array in taken:
            if np.may_share_memory(out, array):
                raise RunError(
                    f'out "{tensor.name}" shares memory with {other}\n'
                    "  hint: inputs are still read while outputs are written; give an array of its own"
                )
        taken.append((f'out "{tensor.name}"', out))


def check_donated(
    info: FunctionInfo, values: Sequence[object], inputs: Sequence[np.ndarray], donated: Collection[int]
) -> None:
    """RunError unless the inputs of these numbers can be written where they are: `values` is what was given, `inputs`
    the arrays that became of it, in C order."""
    apart = _lie_apart(inputs)
    for n in donated:
        tensor, array = info.inputs[n], inputs[n]
        what, given = f'donated input "{tensor.name}"', argument(values[n], tensor)
        if given.dtype is not array.dtype or not given.flags.c_contiguous or not given.flags.aligned:
            strides = f"strides of {given.strides} bytes"
            raise fault(f"{what}: not contiguous", strides, f"{tensor.type} in C order, aligned, in native byte order")
        if not array.flags.writeable:
            raise fault(f"{what}: not writable", "a read-only array", "an array to write into", "x.copy() is one")
        for other, it in enumerate(() if apart else inputs):
            if other != n and np.may_share_memory(array, it):
                raise RunError(
                    f'{what} shares memory with input "{info.inputs[other].name}"\n'
                    "  hint: inputs are still read while outputs are written; give an array of its own"
                )


def _lie_apart(arrays: Sequence[np.ndarray]) -> bool:
    """Whether no two arrays in C order share memory: a training step has some hundred, and as many pairs squared."""
    spans = sorted((begin := address(array), begin + array.nbytes) for array in arrays if array.nbytes)
    return all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def by_name(
    kind: str,
    tensors: Sequence[TensorInfo | ObjectInfo],
    values: Mapping[str, object],
    *,
    complete: bool,
) -> list[object | None]:
    """`values` in the order of `tensors`, None for absent ones; RunError for unknown and (`complete`) absent ones."""
    known = {tensor.name: tensor for tensor in tensors}
    if not isinstance(values, Mapping):
        raise fault(
            f"the {kind}s: not by name", kind_of(values), "a dict", "called as a function, it takes them in order"
        )
    if not values.keys() <= known.keys():
        from difflib import get_close_matches  # only for mistakes

        name = next(name for name in values if name not in known)
        close = get_close_matches(str(name), known, n=1)
        hint = f"\n  hint: did you mean {close[0]!r}?" if close else ""
        parts = [leaf for leaf in known if leaf.startswith(f"{name}.")]
        hint = f"\n  hint: parts of a tuple are given by their names, {', '.join(parts)}" if parts else hint
        raise RunError(f"no {kind} is called {name!r}; there are {', '.join(map(str, tensors))}{hint}")
    if complete and len(values) < len(known):
        missing = [str(tensor) for name, tensor in known.items() if name not in values]
        raise RunError(f"missing {kind}s: {', '.join(missing)}")
    return [values.get(name) for name in known]
