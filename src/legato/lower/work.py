"""What a kernel has to do, as data: the counts of `tir.cost` as sizes over the kernel's dims, for the runtime."""

from __future__ import annotations

from typing import Any

from legato.arith.expr import Var
from legato.base.target import Target
from legato.lower.sizes import size_of, unique
from legato.runtime.size import Size
from legato.tir._count import Count, as_expr
from legato.tir.buffer import Buffer
from legato.tir.cost import Cost, kernel_cost
from legato.tir.stmt import Func

__all__ = ["COUNTS", "kernel_work"]

COUNTS = ("flops", "slots", "masked", "narrow", "scalar", "loads", "gathered", "stores", "divisions", "parallel",
          "past_l1", "past_l2", "stepped", "step")  # fmt: skip
L1_BYTES = 32 << 10  # the nominal size of a core's first cache


def kernel_work(func: Func, target: Target) -> dict[str, Any]:
    """The work of kernel `func`, compiled for `target`, as JSON data; `runtime.kernels` reads it.

    params: in the order of the words, a dim's name, or [name, bytes read, bytes written] of a buffer; counts: those
    that are not 0; calls: how often intrinsics are computed. Sizes are over the names of dims.
    """
    cost = kernel_cost(func, target.vector_bytes, (L1_BYTES, target.l2_bytes))
    dims = [p for p in func.params if isinstance(p, Var)]
    names = dict(zip(dims, unique([d.name for d in dims]), strict=True))
    buffers = iter(cost.buffers)
    params: list[object] = []
    for p in func.params:
        if isinstance(p, Buffer):
            b = next(buffers)
            params.append([b.name, _size(b.read, names), _size(b.written, names)])
        else:
            params.append(names[p])
    return {"params": params, "counts": _counts(cost, names), "calls": _sizes(cost.calls, names)}


def _counts(cost: Cost, names: dict[Var, str]) -> dict[str, Size]:
    return _sizes({name: getattr(cost, name) for name in COUNTS}, names)


def _sizes(counts: dict[str, Count], names: dict[Var, str]) -> dict[str, Size]:
    return {name: _size(count, names) for name, count in counts.items() if count}


def _size(count: Count, names: dict[Var, str]) -> Size:
    return count if isinstance(count, int) else size_of(as_expr(count), names)
