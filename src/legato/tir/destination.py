"""Programs that store to their inputs, in destination-passing style.

    kernel @k(x, y, n) { … x[i] = x[i] + y[i]; }
    kernel @k(x, y, out, n) { … out[i] = x[i]; … out[i] = out[i] + y[i]; }          what becomes of it

A value never changes: what is stored to an input goes to a copy of it, which is an output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.arith.expr import Expr, Var
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.base.node import transform
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.prove_access import prove_accesses
from legato.tir.stmt import Barrier, Check, For, Func, LoopKind, Stmt, Store, block
from legato.tir.threads import settled
from legato.tir.walk import buffers_written, copy_buffer, loops, replace_buffer, statements

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
    func = settled(func)
    copies = {buffers[p]: copy_buffer(buffers[p], name=f"{buffers[p].name}_out") for p in places if p >= 0}
    fresh = iter(own)
    outputs = [next(fresh) if p < 0 else copies[buffers[p]] for p in places]
    is_parallel = _runs_on_threads(func)
    first = [_copied(b, c, is_parallel) for b, c in copies.items()]
    rest = replace_buffer(func.body, copies)
    body = block(*first, Barrier(), rest) if is_parallel else block(*first, _on_one_thread(rest))
    dims = [p for p in func.params if not isinstance(p, Buffer)]
    return Func(name, (*buffers[:inputs], *outputs, *dims), body, span=func.span)


def _runs_on_threads(func: Func) -> bool:
    """Whether threads may wait for each other in the program: it is divided among them, and nothing leaves it early."""
    if not any(s.kind is LoopKind.PARALLEL for s in loops(func)) or any(isinstance(s, Check) for s in statements(func)):
        return False
    return all(f.reason is None for f in prove_accesses(func))


def _on_one_thread(stmt: Stmt) -> Stmt:
    """The statement without what divides it among threads."""

    def step(s: Stmt) -> Stmt | None:
        if isinstance(s, Barrier):
            return block()
        return replace(s, kind=LoopKind.SERIAL) if isinstance(s, For) and s.kind is LoopKind.PARALLEL else None

    return transform(stmt, step)


def _copied(source: Buffer, target: Buffer, is_parallel: bool) -> Stmt:
    """A loop nest that copies a buffer."""
    axes = [Var(f"c{d}", dt.index, 0) for d in range(source.rank)]
    indices: tuple[Expr, ...] = tuple(axes)
    body: Stmt = Store(target, indices, Load(source, indices))
    for d in reversed(range(source.rank)):
        kind = LoopKind.PARALLEL if is_parallel and d == 0 else LoopKind.SERIAL
        body = For(axes[d], source.shape[d], body, kind)
    return body
