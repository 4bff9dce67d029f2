"""Programs that store to their inputs, in destination-passing style.

    kernel @k(x, y, n) { … x[i] = x[i] + y[i]; }
    kernel @k(x, y, out, n) { … out[i] = x[i]; … out[i] = out[i] + y[i]; }          what becomes of it

A value never changes: what is stored to an input goes to a copy of it, which is an output.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Expr, Var
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import For, Func, LoopKind, Stmt, Store, block
from legato.tir.walk import buffers_written, copy_buffer, loops, replace_buffer

__all__ = ["with_copies"]


def with_copies(func: Func, inputs: int, places: Sequence[int], name: str) -> Func:
    """The program called `name` that leaves its first `inputs` buffers as they are.

    places: for each output, the number of the input that it begins as, or -1 for memory of its own: these come behind
    the inputs in `func`. TypeCheckError where these do not fit `func`, or it stores to another input.
    """
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    own = buffers[inputs:]
    if len(own) != places.count(-1) or not all(-1 <= p < inputs for p in places):
        raise TypeCheckError(f"@{func.name} has {len(buffers)} buffers: {inputs} inputs, and {len(own)} outputs")
    if len({p for p in places if p >= 0}) < len(places) - places.count(-1):
        raise TypeCheckError(f"two outputs of @{func.name} begin as the same input")
    stored = set(buffers_written(func))
    odd = next((b for n, b in enumerate(buffers[:inputs]) if b in stored and n not in places), None)
    if odd is not None:
        raise TypeCheckError(f"@{func.name} stores to its input {odd.name}, which is no output of the call")
    copies = {buffers[p]: copy_buffer(buffers[p], name=f"{buffers[p].name}_out") for p in places if p >= 0}
    fresh = iter(own)
    outputs = [next(fresh) if p < 0 else copies[buffers[p]] for p in places]
    is_parallel = any(s.kind is LoopKind.PARALLEL for s in loops(func))
    first = [_copied(b, c, is_parallel) for b, c in copies.items()]
    body = block(*first, replace_buffer(func.body, copies))  # `threads` keeps the parts apart
    dims = [p for p in func.params if not isinstance(p, Buffer)]
    return Func(name, (*buffers[:inputs], *outputs, *dims), body, span=func.span)


def _copied(source: Buffer, target: Buffer, is_parallel: bool) -> Stmt:
    """A loop nest that copies a buffer."""
    axes = [Var(f"c{d}", dt.index, 0) for d in range(source.rank)]
    indices: tuple[Expr, ...] = tuple(axes)
    body: Stmt = Store(target, indices, Load(source, indices))
    for d in reversed(range(source.rank)):
        kind = LoopKind.PARALLEL if is_parallel and d == 0 else LoopKind.SERIAL
        body = For(axes[d], source.shape[d], body, kind)
    return body
