"""Groups that fusion made become their operators again.

%0 = fn (%p: …, Primitive=1) { exp(tanh(%p)) }; %0(%x)      =>      exp(tanh(%x))
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import post_order, transform
from legato.ir.atoms import is_primitive
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function
from legato.ir.let import Binding, lets
from legato.ir.module import Module
from legato.ir.op import Op
from legato.transform._copy import Copy
from legato.transform._types import split
from legato.transform._values import of_type
from legato.transform.pass_ import FunctionPass

__all__ = ["Defuse"]


@dataclass(frozen=True, slots=True)
class Defuse(FunctionPass):
    """Module → module without primitive functions. A group that is called twice is computed twice, as before.

    only: the operators of the groups that are taken apart; none: all groups are.
    """

    name = "defuse"
    only: frozenset[str] = frozenset()

    def function(self, func: Function, mod: Module) -> Function:
        effects = Effects(func, mod)
        body = transform(func.body, lambda node: _defused(node, effects, self.only))
        return func if body is func.body else replace(func, body=body)


def _defused(node: Expr, effects: Effects, only: frozenset[str]) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Function) or not is_primitive(node.op):
        return None
    if only and not only.issuperset(_operators(node.op)):
        return None
    func, bound = node.op, list[Binding]()
    copy = Copy(*split(func.type_params, node.type_args))
    if any(map(effects.inside, node.args)):  # once each, and in this order
        bound = [(copy.bind(p), a) for p, a in zip(func.params, node.args, strict=True)]
    else:
        copy.vars.update(zip(func.params, node.args, strict=True))
    return lets(bound, of_type(copy.expr(func.body), node.ty))


def _operators(group: Function) -> set[str]:
    calls = (node for node in post_order([group.body]) if isinstance(node, Call))
    return {node.op.name if isinstance(node.op, Op) else "" for node in calls}
