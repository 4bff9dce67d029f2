"""Programs that have several bodies, each for some sizes: the first that takes the sizes of a call runs it."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.errors import RunError
from legato.runtime.program import FunctionInfo
from legato.runtime.signature import Shape, fault, place_of
from legato.runtime.size import names

__all__ = ["choose", "ranges"]


def choose(info: FunctionInfo, bodies: Sequence[FunctionInfo], shapes: Sequence[Shape]) -> int:
    """The number of the first of `bodies`, which have the inputs of `info`, that takes these shapes; RunError if none
    does."""
    for n, body in enumerate(bodies):
        if _takes(body, shapes):
            return n
    raise _untaken(info, bodies, shapes)


def _takes(body: FunctionInfo, shapes: Sequence[Shape]) -> bool:
    dims = {dim.name: dim for dim in body.dims}
    for tensor, shape in zip(body.inputs, shapes, strict=True):
        for size, got in zip(tensor.sizes, shape, strict=True):
            if isinstance(size, int) and size != got:
                return False
            if isinstance(size, str) and not dims[size].holds(got):
                return False
    return True


def _untaken(info: FunctionInfo, bodies: Sequence[FunctionInfo], shapes: Sequence[Shape]) -> RunError:
    got: dict[str, str] = {}
    for tensor, shape in zip(info.inputs, shapes, strict=True):
        for axis, size in enumerate(tensor.sizes):
            if isinstance(size, str):
                got.setdefault(size, f"{size} = {shape[axis]} ({place_of(tensor, axis)})")
    wanted = "; ".join(dict.fromkeys(", ".join(_sizes(info, body).values()) for body in bodies))
    return fault("the program was not compiled for these sizes", ", ".join(got.values()), wanted)


def _sizes(info: FunctionInfo, body: FunctionInfo) -> dict[str, str]:
    """What each dim of `info` is in `body`, in words; what may be anything is not listed."""
    dims = {dim.name: dim for dim in body.dims}
    found: dict[str, str] = {}
    for general, own in zip(info.inputs, body.inputs, strict=True):
        for name, size in zip(general.sizes, own.sizes, strict=True):
            if isinstance(name, str) and isinstance(size, int):
                found[name] = f"{name} = {size}"
            elif isinstance(name, str) and isinstance(size, str) and dims[size].is_limited:
                found[name] = dims[size].range
    return found


def ranges(info: FunctionInfo, bodies: Sequence[FunctionInfo]) -> list[str]:
    """For each input of `info`, the values that its dims may have, in words; nothing of those that may have any."""
    every = [_sizes(info, body) for body in bodies or (info,)]
    found = []
    for tensor in info.inputs:
        dims = dict.fromkeys(name for size in tensor.sizes for name in names(size))
        choices = [list(dict.fromkeys(sizes.get(name, f"any {name}") for sizes in every)) for name in dims]
        told = [" or ".join(c) for name, c in zip(dims, choices, strict=True) if c != [f"any {name}"]]
        found.append(", ".join(told))
    return found
