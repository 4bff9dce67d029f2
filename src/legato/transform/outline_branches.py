"""Branches that nest deeply become functions: those of 50 ifs in one another go on in a function of its own.

if (%a) { … } else { … if (%z) { … } … }
    =>
if (%a) { … } else { … let %branch = fn () { if (%z) { … } … }; %branch() }
"""

from __future__ import annotations

from typing import Final

from legato.base.dataclass import dataclass
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, Function, If, Let, Match, Var
from legato.ir.module import Module
from legato.ir.scope import operands, post_order
from legato.ir.types import FuncType
from legato.transform._values import with_operands
from legato.transform.pass_ import FunctionPass
from legato.transform.place_shared import PlaceShared
from legato.transform.to_a_normal import ToANormal

__all__ = ["OutlineBranches"]

DEEPEST: Final = 50  # branches and clauses in one another, of one function


@dataclass(frozen=True, slots=True)
class OutlineBranches(FunctionPass):
    """Module → module whose branches nest less deeply; a function with others comes out in A-normal form."""

    name = "outline-branches"

    def prepared(self, mod: Module) -> Module:
        """Nodes with effects have one place."""
        return PlaceShared()(mod)

    def function(self, func: Function, mod: Module) -> Function:
        if not any(isinstance(node, If | Match) for node in body_nodes(func)) or max(_depths(func).values()) <= DEEPEST:
            return func
        normal = ToANormal().function(func, mod)
        depths = _depths(normal)
        new: dict[int, Expr] = {}
        for node in post_order(normal):
            kids = [new[id(kid)] for kid in operands(node)]
            if isinstance(node, If | Match) and depths[id(node)] % DEEPEST == DEEPEST - 1:
                kids[1:] = map(_outlined, kids[1:])
            new[id(node)] = with_operands(node, kids)
        made = new[id(normal)]
        assert isinstance(made, Function)
        return made


def _depths(func: Function) -> dict[int, int]:
    """How many branches and clauses are around each node, by id, counted from the innermost function."""
    found = {id(func): 0}
    for node in reversed(list(post_order(func))):  # parents first
        own = 0 if isinstance(node, Function) else found[id(node)]
        for n, kid in enumerate(operands(node)):
            inner = own + (n > 0 and isinstance(node, If | Match))
            found[id(kid)] = max(found.get(id(kid), 0), inner)
    return found


def _outlined(body: Expr) -> Expr:
    """`body` as the body of a function that is called there; what is no more than a name stays."""
    if not isinstance(body, Let) or body.ty is None:
        return body
    ty = FuncType((), body.ty)
    branch, result = Var("branch", ty=ty, span=body.span), Var("y", ty=body.ty, span=body.span)
    function = Function((), body, body.ty, ty=ty, span=body.span)
    call = Call(branch, (), None, (), ty=body.ty, span=body.span)
    return Let(branch, function, Let(result, call, result, ty=body.ty, span=body.span), ty=body.ty, span=body.span)
