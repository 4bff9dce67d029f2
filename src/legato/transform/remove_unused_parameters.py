"""Parameters that a function does not use disappear, with what is passed for them.

    def @f(%x, %y) { exp(%x) }; @f(%a, %b)      =>      def @f(%x) { exp(%x) }; @f(%a)

Of functions that have the attribute `private` and are only called. A parameter stays where the values of dims follow
from it alone, or where computing what is passed for it does more than give a value.
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.infer import infer
from legato.ir._dims import free_dims
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function, GlobalVar
from legato.ir.module import GlobalFunc, Module
from legato.ir.scope import post_order
from legato.ir.visit import free_vars
from legato.transform._call_graph import reopened, values
from legato.transform.pass_ import Pass

__all__ = ["RemoveUnusedParameters"]


@dataclass(frozen=True, slots=True)
class RemoveUnusedParameters(Pass):
    """Typed module → typed module."""

    name = "remove-unused-parameters"

    def __call__(self, mod: Module) -> Module:
        unused = {gv: found for gv in _candidates(mod) if (found := _unused(mod.functions[gv]))}
        for func in (f for _, f in mod.graph_functions() if unused):
            effects = Effects(func, mod)
            for node in post_order(func.body):
                if isinstance(node, Call) and node.op in unused and isinstance(node.op, GlobalVar):
                    unused[node.op] -= {n for n in unused[node.op] if effects.inside(node.args[n])}
        unused = {gv: found for gv, found in unused.items() if found}
        if not unused:
            return mod
        return infer(mod.with_functions({gv: _without(gv, f, unused) for gv, f in mod.functions.items()}))


def _candidates(mod: Module) -> list[GlobalVar]:
    passed = values(mod)
    return [gv for gv, f in mod.graph_functions() if f.attrs.get("private") and gv not in passed]


def _unused(func: GlobalFunc) -> set[int]:
    """The numbers of parameters whose dims others tell, too, and that the body does not use."""
    assert isinstance(func, Function)
    used = set(free_vars(func.body))
    kept = [p for p in func.params if p in used]
    told = {d for p in kept if p.ty is not None for d in free_dims(p.ty)}
    odd = [n for n, p in enumerate(func.params) if p not in used]
    return {n for n in odd if (ty := func.params[n].ty) is not None and told.issuperset(free_dims(ty))}


def _without(gv: GlobalVar, func: GlobalFunc, unused: dict[GlobalVar, set[int]]) -> GlobalFunc:
    if not isinstance(func, Function):
        return func

    def step(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, GlobalVar) or node.op not in unused:
            return None
        gone = unused[node.op]
        return reopened(node, (a for n, a in enumerate(node.args) if n not in gone))

    body = transform(func.body, step)
    params = tuple(p for n, p in enumerate(func.params) if n not in unused.get(gv, ()))
    if body is func.body and len(params) == len(func.params):
        return func
    return replace(func, params=params, body=body, ty=None)
