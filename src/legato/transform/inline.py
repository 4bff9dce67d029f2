"""Short functions are written in place of their calls, and functions that call each other in a circle become loops.

    def @even(%n) { if (%n == 0) { True } else { @odd(%n - 1) } }
    def @odd(%n) { if (%n == 0) { False } else { @even(%n - 1) } }
        =>
    def @even(%n) { if (%n == 0) { True } else { let %m = %n - 1; if (%m == 0) { False } else { @even(%m - 1) } } }

Of a circle some functions stay, so that the others do not call each other; these are written in place of their calls
where they are short, or are called once. A function with constraints stays: they are checked where it is entered.
Functions that are no longer called disappear.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.graph import components
from legato.ir.expr import Function, GlobalVar
from legato.ir.module import Module
from legato.transform._call_graph import broken, callees, reachable_from, values
from legato.transform._external import is_own
from legato.transform._inline import Inliner, may_inline
from legato.transform.pass_ import Pass

__all__ = ["Inline"]

SHORT: Final = 20  # nodes of a function that is written in place of every call
LONG: Final = 1000  # nodes of a function of a circle that is written in place of its only call
MAX_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Inline(Pass):
    """Module → module with fewer calls."""

    name = "inline"

    def __call__(self, mod: Module) -> Module:
        for _ in range(MAX_ROUNDS):
            new = _inlined(mod)
            if new is mod:
                break
            mod = new
        return mod


def _inlined(mod: Module) -> Module:
    """The module with bodies in place of calls, callees first; functions that nothing calls any more are gone."""
    functions = dict(mod.functions)
    calls = callees(mod)
    count = Counter(callee for called in calls.values() for callee in called)
    named = values(mod)
    inliner = Inliner({})
    gone: set[GlobalVar] = set()
    for component in components(calls) if len(calls) > 1 else ():
        stay, others = broken(calls, component)
        free = set(others)
        for gv in (*others, *stay):
            func = functions[gv]
            if not is_own(func):
                continue
            functions[gv] = func = inliner(func, rounds=1)
            size = LONG if len(component) > 1 and count[gv] == 1 else SHORT
            if gv in free and gv not in named and count[gv] and gv.name != "main" and may_inline(func, size):
                inliner.add(gv, func)
                gone.add(gv)
    new = mod.with_functions(functions)
    if new is mod:
        return mod
    live = reachable_from([gv for gv in calls if gv not in gone], callees(new))  # those that are values stay
    return new.with_functions({gv: f for gv, f in functions.items() if gv in live or not isinstance(f, Function)})
