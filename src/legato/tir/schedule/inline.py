"""A stage computed wherever it is read."""

from __future__ import annotations

from legato.arith.expr import Expr, Var
from legato.arith.substitute import substitute
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.schedule._edit import replaced
from legato.tir.schedule._stage import Stage, find_stage, without_stage
from legato.tir.stmt import For, Func, Store
from legato.tir.walk import loads, rewrite_loads

__all__ = ["inline"]


def inline(func: Func, buffer: Buffer) -> Func:
    """Replaces every read of an intermediate buffer by the expression that computes the element.

        alloc t[n]; for i in n: t[i] = f(i); for j in n: y[j] = t[j] + 1   ->   for j in n: y[j] = f(j) + 1

    The stage must be one store of every element in a plain nest, not a reduction.
    """
    stage = find_stage(func, buffer, "inline")
    store = _only_store(stage)
    first = stage.stmts.index(stage.producers[0])
    if any(x.buffer is buffer for s in stage.stmts[:first] for x in loads(s)):
        raise ScheduleError(f"inline: {buffer.name} is read before it is complete")
    body = stage.body(without_stage(stage))

    def load(x: Load) -> Expr | None:
        if x.buffer is not buffer:
            return None
        at = {v: i for v, i in zip(store.indices, x.indices, strict=True) if isinstance(v, Var)}
        return substitute(store.value, at)

    return replaced(func, stage.path, rewrite_loads(body, load))


def _only_store(stage: Stage) -> Store:
    name = stage.buffer.name
    if len(stage.producers) != 1:
        raise ScheduleError(f"inline: {name} is computed by {len(stage.producers)} nests, wanted one")
    s = stage.producers[0]
    while isinstance(s, For):
        if s.var not in stage.axes:
            raise ScheduleError(
                f"inline: {name} is computed in a loop over {s.var.name}, which is none of its dimensions"
            )
        s = s.body
    if not isinstance(s, Store):
        raise ScheduleError(f"inline: {name} is not computed by a single store", hint="reductions cannot be inlined")
    if any(x.buffer is stage.buffer for x in loads(s)):
        raise ScheduleError(f"inline: {name} is computed from itself")
    return s
