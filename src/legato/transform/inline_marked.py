"""Functions of the module with the attribute Inline are written in place of their calls, and disappear.

    def @f(%x: float32, Inline=1) { exp(%x) }; @f(%y)      =>      let %x = %y; exp(%x)

A function that calls itself stays, and so do @main and one with constraints: these are checked where it is entered.
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.base.graph import components
from legato.ir.expr import Function, GlobalVar
from legato.ir.module import Module
from legato.transform._call_graph import callees, reachable_from, values
from legato.transform._inline import Inliner
from legato.transform.pass_ import Pass

__all__ = ["InlineMarked"]

_STAYS = ("Compiler", "Primitive", "constraints")  # attributes of functions that are more than their bodies


@dataclass(frozen=True, slots=True)
class InlineMarked(Pass):
    """Module → module without calls of functions that are marked."""

    name = "inline-marked"

    def __call__(self, mod: Module) -> Module:
        calls = callees(mod)
        named = (gv for gv, func in mod.graph_functions() if _is_marked(gv, func))
        marked = {gv for gv in named if gv not in reachable_from(calls[gv], calls)}
        if not marked:
            return mod
        functions = dict(mod.functions)
        inliner = Inliner({})
        for gv in (gv for component in components(calls) for gv in component):  # callees first
            func = functions[gv]
            assert isinstance(func, Function)
            functions[gv] = func = inliner(func, rounds=1)
            if gv in marked:
                inliner.add(gv, func)
        new = mod.with_functions(functions)
        live = reachable_from({gv for gv in calls if gv not in marked} | values(new), callees(new))
        kept = {gv: f for gv, f in functions.items() if gv not in marked or gv in live}
        return new if len(kept) == len(functions) else new.with_functions(kept)


def _is_marked(gv: GlobalVar, func: Function) -> bool:
    return bool(func.attrs.get("Inline")) and gv.name != "main" and not any(func.attrs.get(a) for a in _STAYS)
