"""Facts of a buffer: where it lives and how it lies there."""

from __future__ import annotations

from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.schedule._edit import alloc_path, check_scope
from legato.tir.stmt import Func
from legato.tir.walk import replace_buffer

__all__ = ["set_layout", "set_scope"]


def set_scope(func: Func, buffer: Buffer, scope: Scope) -> tuple[Func, Buffer]:
    """Puts an intermediate buffer into GLOBAL, LOCAL or REGISTER memory. Returns (func, the new buffer).

    alloc t[4]: global   ->   alloc t[4]: register
    """
    alloc_path(func, buffer)
    new = Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.layout, scope)
    check_scope(new, "set_scope")
    return _with(func, buffer, new)


def set_layout(func: Func, buffer: Buffer, layout: Layout) -> tuple[Func, Buffer]:
    """Lays a parameter or intermediate buffer out in another way; subscripts are logical and stay.

    x: float32[n, c, h, w]   ->   x: float32[n, c, h, w] in the order n, h, w, c

    The caller of the function must hand over memory of that layout. Returns (func, the new buffer).
    """
    lengths = {len(layout.halo), len(layout.pad)}
    if sorted(layout.order) != list(range(buffer.rank)) or not lengths <= {0, buffer.rank}:
        raise ScheduleError(f"set_layout: {layout} is no layout of {buffer.rank} dimensions")
    if buffer not in func.params:
        alloc_path(func, buffer)
    return _with(func, buffer, Buffer(buffer.name, buffer.shape, buffer.dtype, layout, buffer.scope))


def _with(func: Func, old: Buffer, new: Buffer) -> tuple[Func, Buffer]:
    params = tuple(new if p is old else p for p in func.params)
    body = replace_buffer(func.body, {old: new})
    return Func(func.name, params, body, func.kind, func.constants, func.span), new
