"""Updates come right before what needs them, so that whatever reads the old value has done so."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.node import post_order
from legato.ir import expr as ir
from legato.ir.let import Binding
from legato.ir.updates import UPDATES

__all__ = ["is_update", "with_late_updates"]


def is_update(value: ir.Expr) -> bool:
    """True for calls of `append` and `put`."""
    return isinstance(value, ir.Call) and value.op in UPDATES


def with_late_updates(bindings: Sequence[Binding]) -> list[Binding]:
    """`bindings` of a block with its updates as late as they may be."""
    waiting = {var: (var, value) for var, value in bindings if is_update(value)}
    if not waiting:
        return list(bindings)
    found: list[Binding] = []
    for var, value in bindings:
        if var not in waiting:
            found += _needed(value, waiting)
            found.append((var, value))
    return [*found, *waiting.values()]


def _needed(value: ir.Expr, waiting: dict[ir.Var, Binding]) -> list[Binding]:
    """The updates that `value` needs, in order; they wait no more."""
    found: list[Binding] = []
    todo = [value]
    while todo:
        used = [v for v in post_order([todo.pop()]) if isinstance(v, ir.Var) and v in waiting]
        new = [waiting.pop(v) for v in reversed(used)]
        found += new
        todo += [update for _, update in new]
    return found[::-1]
