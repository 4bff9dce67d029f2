"""What reads an argument of a call in place comes before that call, so that nobody needs the old value behind it.

    let %z = call_tir(@k, (%y,), inplace=[0]); let %s = sum(%y); …
    let %s = sum(%y); let %z = call_tir(@k, (%y,), inplace=[0]); …

Only groups move: they give values and do nothing else. Where another reader is left, all stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.ir import expr as ir
from legato.ir.call_tir import CALL_TIR
from legato.ir.let import Binding
from legato.ir.visit import free_vars

__all__ = ["with_early_reads"]


def with_early_reads(
    bindings: Sequence[Binding], result: ir.Expr, may_move: Callable[[ir.Expr], bool]
) -> list[Binding]:
    """`bindings` of a block whose value is `result`; `may_move` says which may be computed anywhere behind what they
    use."""
    order = list(bindings)
    if not any(_changed(value) for _, value in order):
        return order
    uses = {var: frozenset(free_vars(value)) for var, value in order}
    ends = frozenset(free_vars(result))
    for call in [var for var, value in order if _changed(value)]:
        at = next(n for n, (var, _) in enumerate(order) if var is call)
        for changed in _changed(order[at][1]):
            behind = order[at + 1 :]
            moved = _readers(changed, call, behind, uses, may_move)
            if changed in ends or any(changed in uses[var] and var not in moved for var, _ in behind):
                continue
            order[at:] = [*(b for b in behind if b[0] in moved), order[at], *(b for b in behind if b[0] not in moved)]
            at += len(moved)
    return order


def _changed(value: ir.Expr) -> list[ir.Var]:
    """The arguments in place of which a call leaves its results."""
    if not isinstance(value, ir.Call) or value.op is not CALL_TIR or not value.attrs.begins:
        return []
    args = value.args[1]
    fields = args.fields if isinstance(args, ir.Tuple) else ()
    found = [fields[n] for n in value.attrs.begins if n < len(fields)]
    return [v for v in found if isinstance(v, ir.Var)]


def _readers(
    changed: ir.Var,
    call: ir.Var,
    behind: Sequence[Binding],
    uses: dict[ir.Var, frozenset[ir.Var]],
    may_move: Callable[[ir.Expr], bool],
) -> set[ir.Var]:
    """Those of the bindings `behind` a call that read what it changes and may come before it, and what they need."""
    late = {call}
    for var, value in behind:
        if not uses[var].isdisjoint(late) or not may_move(value):
            late.add(var)
    wanted: set[ir.Var] = set()
    for var, _ in reversed(behind):
        if var not in late and (changed in uses[var] or var in wanted):
            wanted |= {var, *uses[var]}
    return {var for var, _ in behind if var in wanted}
