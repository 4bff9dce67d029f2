"""The meaning of loop programs: runs a function on NumPy arrays, one scalar at a time.

    status = run(func, [x, y, n])       arrays are logical values and are changed in place; ints for scalar params

What it defines beyond the grammar in `tir.stmt`:

* Memory is physical. An array is copied into memory laid out as its buffer says, halo filled with the halo's value and
  stride padding undefined, so a read at logical index -1 finds the halo. An access outside data and halo is a bug.
* Memory of a fresh Alloc is undefined; here it is poisoned (NaN, or 0x5a in every byte) so that a read shows.
* Integers wrap, every float operation rounds to its own dtype, a cast from float to integer truncates and saturates.
* Of a Select, only the chosen side reads memory: a guard may protect a Load.
* An object is found by its handle in a table (`Objects`): what has ended is not found any more. It ends with the last
  reference to it; objects that refer to each other in a circle, whose counts never become 0, end with the run.
* PARALLEL and VECTOR iterations run in order, or backwards with `backwards=True`: a correct program cannot tell.

A function is translated to Python source once (`source(func)` shows it) and executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.base.dtype import DType
from legato.base.errors import InternalError, RunError
from legato.tir._interp_source import Generated, generate
from legato.tir._objects import Objects
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func

__all__ = ["HostOpRunner", "Objects", "run", "source"]

HostOpRunner = Callable[[int, Sequence["np.ndarray[Any, Any] | int"]], int | None]
Argument = Any  # an array for a Buffer param, an int for a Var
Memory = Any  # a flat NumPy array: the elements of a buffer as they lie in memory

_POISON_BYTE = 0x5A


def run(
    func: Func,
    args: Sequence[Argument],
    *,
    functions: Mapping[str, Func] | None = None,
    host_op: HostOpRunner | None = None,
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
    backwards: bool = False,
    objects: Objects | None = None,
) -> int:
    """Runs `func` on `args` (as `func.params`) and returns its status: 0, or FIRST_CHECK and the code of
    the Check that failed.

    Arrays have the buffer's shape and dtype and receive what the function stores; the same array given twice, for
    buffers that lie alike, is the same memory. `functions` holds the targets of
    Launch and Invoke, `constants` the arrays of `func.constants`; `host_op(index, args)` runs a HostOp on logical
    arrays (changed in place) and returns a status or None. `objects` are what handles among the arguments refer to, and
    receives what is returned; without it, only circles may be left of a run that succeeds. A run that fails ends all.
    InternalError for ill-formed programs and arguments.
    """
    if len(args) != len(func.params):
        raise InternalError(f"{func.name} takes {len(func.params)} arguments, got {len(args)}")
    heap = Objects() if objects is None else objects
    machine = _Machine(functions or {}, host_op, constants or {}, backwards, heap)
    shared: dict[object, Memory] = {}
    values = [_argument(func, p, a, shared) for p, a in zip(func.params, args, strict=True)]
    with np.errstate(all="ignore"):
        status = machine.call(func, values)
    for param, arg, memory in zip(func.params, args, values, strict=True):
        if isinstance(param, Buffer) and arg.flags.writeable:
            arg[...] = _logical(param, memory, arg.shape)
    if not status and objects is None and not heap.only_circles():
        raise InternalError(f"{func.name} left {heap.live} objects behind")
    if status or objects is None:
        heap.clear()
    return status


def source(func: Func, *, backwards: bool = False) -> str:
    """The Python text that `run` executes for `func`."""
    return _translated(func, backwards).text


@lru_cache(maxsize=128)
def _translated(func: Func, backwards: bool) -> Generated:
    return generate(func, backwards)


class _Machine:
    """What generated code calls back: other functions, memory, and errors."""

    def __init__(
        self,
        functions: Mapping[str, Func],
        host_op: HostOpRunner | None,
        constants: Mapping[str, np.ndarray[Any, Any]],
        backwards: bool,
        objects: Objects,
    ) -> None:
        self.functions, self.runner, self.named, self.backwards = functions, host_op, constants, backwards
        self.objects = objects
        self.compiled: dict[Func, Callable[..., int]] = {}

    def call(self, func: Func, values: Sequence[Any]) -> int:
        """Status of `func` on flat memories and ints."""
        code = self.compiled.get(func)
        if code is None:
            generated = _translated(func, self.backwards)
            space = {**generated.namespace, "machine": self, "np": np}
            exec(generated.code, space)
            code = self.compiled[func] = space["function"]
        constants = (_physical(b, self._constant(func, name), name) for b, name in func.constants)
        return code(*values, *constants)

    def _constant(self, func: Func, name: str) -> np.ndarray[Any, Any]:
        if name not in self.named:
            raise InternalError(f"{func.name} needs the constant {name!r}, which was not given")
        return self.named[name]

    def invoke(self, name: str, args: Sequence[Any]) -> int:
        """Status of the function called `name`."""
        func = self.functions.get(name)
        if func is None:
            raise InternalError(f"call of the unknown function {name!r}")
        if len(args) != len(func.params):
            raise InternalError(f"{name} takes {len(func.params)} arguments, got {len(args)}")
        for param, arg in zip(func.params, args, strict=True):
            if isinstance(param, Buffer) != isinstance(arg, np.ndarray):
                raise InternalError(f"argument {param!r} of {name} got {arg!r}")
            if isinstance(param, Buffer) and arg.dtype != param.dtype.stored:
                raise InternalError(f"argument {param.name} of {name} got {arg.dtype}, wanted {param.dtype}")
        return self.call(func, args)

    def host_op(self, index: int, args: Sequence[tuple[Buffer, Memory, tuple[int, ...]] | int]) -> int:
        """Status of operator `index` on the logical arrays of `args`."""
        if self.runner is None:
            raise InternalError(f"operator {index} needs host_op=")
        return self.runner(index, [a if isinstance(a, int) else _logical(*a) for a in args]) or 0

    @staticmethod
    def natural(name: str, extents: Sequence[int]) -> None:
        """RunError for the shape of a buffer that no memory has."""
        if min(extents, default=0) < 0:
            raise RunError(f"{name} has an extent below 0")

    @staticmethod
    def alloc(dtype: DType, elements: int) -> Memory:
        """Undefined memory."""
        if dtype.is_float:
            return np.full(elements, math.nan, dtype.numpy)
        return np.full(elements * dtype.bytes, 1 if dtype.is_bool else _POISON_BYTE, np.uint8).view(dtype.stored)

    def new(self, dtype: DType, elements: int, tag: int, pointers: int) -> tuple[int, Memory]:
        """The handle and the payload of a new object."""
        handle = self.objects.new(elements * dtype.bytes, tag, pointers)
        return handle, self.objects.payload(handle, dtype, elements)

    def resized(self, dtype: DType, elements: int, handle: int) -> tuple[int, Memory]:
        """The handle and the payload of what an object becomes with another size."""
        handle = self.objects.resize(handle, elements * dtype.bytes)
        return handle, self.objects.payload(handle, dtype, elements)

    @staticmethod
    def view(name: str, base: Memory, offset: int, dtype: DType, elements: int) -> Memory:
        """The memory of `base` from byte `offset` on as `elements` of `dtype`."""
        raw = base.view(np.uint8)
        end = offset + elements * dtype.bytes
        if offset < 0 or end > raw.size:
            raise InternalError(f"view {name} covers bytes {offset}..{end} of memory of {raw.size} bytes")
        return raw[offset:end].view(dtype.stored)

    @staticmethod
    def outside(name: str, indices: tuple[int, ...], bounds: tuple[tuple[int, int], ...]) -> None:
        """An access out of bounds."""
        ranges = ", ".join(f"{lo}..{hi - 1}" for lo, hi in bounds)
        raise InternalError(f"{name}[{', '.join(map(str, indices))}] is out of bounds; wanted [{ranges}]")

    @staticmethod
    def too_small(name: str, got: int, wanted: int) -> None:
        """Memory handed to a function that is smaller than its buffer."""
        raise InternalError(f"buffer {name} occupies {wanted} elements, got memory of {got}")


def _argument(func: Func, param: Any, arg: Any, shared: dict[object, Memory]) -> Any:
    if isinstance(param, Buffer):
        if not isinstance(arg, np.ndarray):
            raise InternalError(f"argument {param.name} of {func.name} must be an array, got {type(arg).__name__}")
        memory = _physical(param, arg, param.name)
        return shared.setdefault((id(arg), param.layout), memory)
    if isinstance(arg, np.ndarray):
        raise InternalError(f"argument {param.name} of {func.name} must be an int, got an array")
    return int(arg)


def _full_shape(buffer: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Physical extents, outermost first: halo and stride padding included."""
    layout = buffer.layout
    pads = [layout.pad_of(d) if n else 0 for n, d in enumerate(layout.order)]
    return tuple(shape[d] + sum(layout.halo_of(d)) + pad for d, pad in zip(layout.order, pads, strict=True))


def _logical(buffer: Buffer, memory: Memory, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The logical array of `shape` inside flat `memory` (a view)."""
    order = buffer.layout.order
    full = _full_shape(buffer, shape)
    array = memory[: math.prod(full)].reshape(full).transpose([order.index(d) for d in range(len(order))])
    before = [buffer.layout.halo_of(d)[0] for d in range(len(order))]
    inner = (..., *(slice(b, b + n) for b, n in zip(before, shape, strict=True)))  # … keeps rank 0 an array
    result: np.ndarray[Any, Any] = array[inner]
    return result


def _physical(buffer: Buffer, array: np.ndarray[Any, Any], name: str) -> Memory:
    """A copy of a logical array as it lies in memory."""
    if array.ndim != buffer.rank or array.dtype != buffer.dtype.stored:
        wanted = f"{buffer.dtype} of rank {buffer.rank}"
        raise InternalError(f"array for {name} is {array.dtype} of rank {array.ndim}, wanted {wanted}")
    for dim, (extent, got) in enumerate(zip(buffer.shape, array.shape, strict=True)):
        if isinstance(extent, Const) and extent.value != got:
            raise InternalError(f"array for {name} has extent {got} in dimension {dim}, wanted {extent.value}")
    full = _full_shape(buffer, array.shape)
    flat = _Machine.alloc(buffer.dtype, math.prod(full))
    if full:
        own = tuple(slice(0, array.shape[d] + sum(buffer.layout.halo_of(d))) for d in buffer.layout.order)
        flat.reshape(full)[own] = buffer.layout.halo_value
    _logical(buffer, flat, array.shape)[...] = array
    return flat
