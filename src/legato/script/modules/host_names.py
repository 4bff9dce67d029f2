"""The names of `T` that host functions have beside those of kernels: what `tir`, the last stage of the compiler, gives.

@T.prim_func(host=True)
def main(x: T.Buffer(("n",), "float32"), out: T.Buffer(("n",), "float32")):
    n = T.int64()
    arena = T.alloc_buffer((n * 4,), "uint8")
    y = T.view(arena, 0, (n,), "float32")       bytes of `arena`, from byte 0 on
    T.launch("double", x, y, n)                 a kernel, over all threads
    T.invoke("finish", y, out)                  another host function
"""

from __future__ import annotations

from typing import Any

from legato.arith.expr import Expr
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.script.modules import options
from legato.script.modules.buffer_forms import Buffer as BufferOf
from legato.script.modules.forms import BufferForm, ScalarType
from legato.tir import scalars
from legato.tir.buffer import Buffer
from legato.tir.expr import Address, Size, Tag
from legato.tir.objects import Release, Retain
from legato.tir.stmt import Arg, HostOp, Invoke, Launch, Switch

__all__ = ["ObjectForm", "OpenForm", "ViewForm", "address", "host_op", "invoke", "launch", "object", "open",
           "payload_bytes", "reference", "release", "resize", "retain", "switch", "tag", "view"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ViewForm:
    """`T.view(base, offset, shape, dtype)`: a buffer that is bytes of another one."""

    base: Buffer
    offset: Expr
    form: BufferForm


@dataclass(frozen=True, slots=True)
class ObjectForm:
    """`T.object(shape, dtype, tag=, pointers=)`: the payload of a new object."""

    form: BufferForm
    tag: int
    pointers: int


@dataclass(frozen=True, slots=True)
class OpenForm:
    """`T.open(handle, shape, dtype)`, `T.resize(…)`: the payload of an object, which is resized before."""

    handle: Expr
    form: BufferForm
    is_resized: bool


def view(base: Any, offset: Any, shape: Any, dtype: Any = "float32", **layout: Any) -> ViewForm:
    """In a host function: the bytes of a buffer from `offset` on, as a buffer."""
    if not isinstance(base, Buffer):
        raise TypeCheckError("T.view is of a buffer")
    return ViewForm(base, scalars.as_index(offset, "an offset"), BufferOf(shape, dtype, **layout))


def object(shape: Any, dtype: Any, *, tag: int, pointers: int, **layout: Any) -> ObjectForm:
    """In a host function: the payload of a new object, whose first `pointers` words are handles."""
    form = BufferOf(shape, dtype, **layout)
    return ObjectForm(form, options.number(tag, "a tag"), options.number(pointers, "pointers"))


def open(handle: Any, shape: Any, dtype: Any, **layout: Any) -> OpenForm:
    """In a host function: the payload of an object."""
    return OpenForm(scalars.as_scalar(handle), BufferOf(shape, dtype, **layout), False)


def resize(handle: Any, shape: Any, dtype: Any, **layout: Any) -> OpenForm:
    """In a host function: the payload of an object that has another size from now on."""
    return OpenForm(scalars.as_scalar(handle), BufferOf(shape, dtype, **layout), True)


reference = ScalarType(dt.handle)  # a handle of an object; `T.handle` is a parameter that `T.match_buffer` tells


def _args(given: tuple[Any, ...]) -> tuple[Arg, ...]:
    return tuple(a if isinstance(a, Buffer) else scalars.as_scalar(a) for a in given)


def launch(kernel: str, *args: Any) -> Launch:
    """Runs a kernel over the thread pool, and waits for it; args are buffers and scalars, as its parameters."""
    return Launch(_args(args), options.name(kernel, "a kernel"))


def invoke(function: str, *args: Any) -> Invoke:
    """Calls another host function."""
    return Invoke(_args(args), options.name(function, "a function"))


def host_op(number: int, *args: Any) -> HostOp:
    """Runs operator `number` of the artifact by its reference."""
    return HostOp(_args(args), options.number(number, "an operator"))


def retain(handle: Any) -> Retain:
    """One reference to an object more."""
    return Retain(_handle(handle))


def release(handle: Any) -> Release:
    """One reference to an object less; without any, it ends."""
    return Release(_handle(handle))


def address(buffer: Any) -> Expr:
    """The handle of the object whose payload a buffer is."""
    if not isinstance(buffer, Buffer):
        raise TypeCheckError("T.address takes the payload of an object")
    return Address(buffer)


def tag(handle: Any) -> Expr:
    """The tag of what a handle refers to."""
    return Tag(_handle(handle))


def payload_bytes(handle: Any) -> Expr:
    """The bytes of the payload of an object."""
    return Size(_handle(handle))


def switch(value: Any) -> Switch:
    """A choice with no case: `match value:` has cases."""
    return Switch(scalars.as_scalar(value), ())


def _handle(value: Any) -> Expr:
    e = scalars.as_scalar(value)
    if e.dtype != dt.handle:
        raise TypeCheckError(f"got a scalar of {e.dtype}, wanted a handle")
    return e
