"""Groups of operators that have names are written where they are called.

    let %f = fn (%p: float32, Primitive=1) { exp(%p) };      =>      %0 = fn (%p: float32, Primitive=1) { exp(%p) };
    %f(%x)                                                           %0(%x)

Names are variables, which may stand for others, and functions of the module with the attribute Primitive. Those that
nothing uses any more are gone, with other bindings that nothing uses.
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.ir.atoms import is_primitive
from legato.ir.callees import Callees
from legato.ir.expr import Call, Expr, Function, GlobalVar
from legato.ir.module import Module
from legato.ir.types import FuncType
from legato.transform._call_graph import callees, reachable_from, values
from legato.transform._copy import Copy
from legato.transform._external import is_external, is_own
from legato.transform._types import split
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.pass_ import Pass

__all__ = ["InlinePrimitives"]


@dataclass(frozen=True, slots=True)
class InlinePrimitives(Pass):
    """Module → module whose groups are called in place."""

    name = "inline-primitives"

    def __call__(self, mod: Module) -> Module:
        known = Callees(mod.functions)

        def step(node: Expr) -> Expr | None:
            group = known.of(node.op) if isinstance(node, Call) and not isinstance(node.op, Function) else None
            if not isinstance(node, Call) or not isinstance(group, Function) or not _is_group(group):
                return None
            return replace(node, op=_for_call(group, node), type_args=())

        functions = dict(mod.functions)
        for gv, func in ((gv, f) for gv, f in mod.functions.items() if is_own(f)):
            body = transform(func.body, step)
            functions[gv] = func if body is func.body else replace(func, body=body)
        new = mod.with_functions(functions)
        return mod if new is mod else EliminateDead()(_without_groups(new))


def _is_group(func: Function) -> bool:
    return is_primitive(func) and not is_external(func)


def _for_call(group: Function, call: Call) -> Function:
    """A copy of the group for the types and dims of a call."""
    copy = Copy(*split(group.type_params, call.type_args))
    params = tuple(copy.bind(p) for p in group.params)
    types = tuple(p.ty for p in params if p.ty is not None)
    body = copy.expr(group.body)
    ty = FuncType(types, call.ty) if call.ty is not None and len(types) == len(params) else None
    return replace(group, params=params, body=body, ret_type=call.ty, type_params=(), ty=ty)


def _without_groups(mod: Module) -> Module:
    """The module without groups among its functions that nothing names."""
    kept = {gv for gv, func in mod.graph_functions() if not _is_group(func) or gv.name == "main"}
    live: set[GlobalVar] = reachable_from(kept | values(mod), callees(mod))
    return mod.with_functions({gv: f for gv, f in mod.functions.items() if gv in live or not isinstance(f, Function)})
