"""Casts without new dims: what `match_cast` calls a dim is told by the type of the value.

    fn (%x: Tensor[(n, 6), float32]) {                        fn (%x: Tensor[(n, 6), float32]) {
      let %y = match_cast(%x, Tensor[(3 * k, m), …]);    =>     let %y = match_cast(%x, Tensor[(3 * (n // 3), 6), …]);
      shape[k, m]                                               shape[n // 3, 6]

What is left of a cast are equalities to check when it is reached; one that always holds is gone.
"""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.substitute import substitute, variables
from legato.base.dataclass import dataclass
from legato.base.node import post_order as reached
from legato.base.node import transform
from legato.ir._dims import free_dims
from legato.ir.contents import body_nodes
from legato.ir.dim_values import dim_pairs, solved
from legato.ir.effects import is_sure
from legato.ir.expr import Expr, Function, If, Match, MatchCast
from legato.ir.module import Module
from legato.ir.scope import pattern_vars, post_order
from legato.ir.types import Dim
from legato.transform._copy import Copy
from legato.transform._types import bound_dims
from legato.transform.pass_ import FunctionPass

__all__ = ["ResolveCasts"]


@dataclass(frozen=True, slots=True)
class ResolveCasts(FunctionPass):
    """Module → module whose casts have no dims of their own, where the type of the value tells them."""

    name = "resolve-casts"

    def function(self, func: Function, mod: Module) -> Function:
        if not any(isinstance(node, MatchCast) for node in body_nodes(func)):
            return func
        found = _named(_told(func), _bound(func))
        if found:
            copy = Copy(dims=found).expr(func)
            assert isinstance(copy, Function)
            func = copy
        body = _without_sure(func.body)
        return func if body is func.body else replace(func, body=body)


def _told(func: Function) -> dict[DimVar, Dim]:
    """What the new dims of the casts in `func` stand for, in the order of evaluation.

    A dim that a result or a part of a data type has brought before is not new: there the cast is a check. Nor is one in
    a branch of which an operator there demands something: told, the demand would be one of every call.
    """
    known = _bound(func) | (_demanded(func) & _in_branches(func))
    found: dict[DimVar, Dim] = {}
    for node in post_order(func.body):
        if isinstance(node, MatchCast) and node.value.ty is not None:
            for got, wanted in dim_pairs(node.value.ty, node.target):
                got, wanted = substitute(got, found), substitute(wanted, found)
                new = [v for v in variables(wanted) if v not in known and v not in variables(got)]
                if len(new) == 1:
                    value = solved(new[0], wanted, got)
                    found.update({} if value is None else {new[0]: value})
        if node.ty is not None:
            known |= bound_dims([node.ty])
    return found


def _named(found: dict[DimVar, Dim], bound: set[DimVar]) -> dict[DimVar, Dim]:
    """`found`, with the names that casts give dims, the last one each, for those that operators and calls have
    brought."""
    names = {
        value: fresh(new.name, value.lo, value.hi)
        for new, value in found.items()
        if isinstance(value, DimVar) and value not in bound
    }
    return {**{new: substitute(value, names) for new, value in found.items()}, **names}


def _bound(func: Function) -> set[DimVar]:
    """The dims that functions and patterns in `func` bind."""
    found: set[DimVar] = set()
    for node in post_order(func):
        if isinstance(node, Function):
            found.update(d for d in node.type_params if isinstance(d, DimVar))
        elif isinstance(node, Match) and node.data.ty is not None:
            own = bound_dims(var.ty for c in node.clauses for var in pattern_vars(c.pattern) if var.ty is not None)
            found |= own.difference(free_dims(node.data.ty))
    return found


def _demanded(func: Function) -> set[DimVar]:
    """The dims that constraints are about."""
    functions = [node for node in post_order(func) if isinstance(node, Function)]
    return {v for f in functions for c in f.attrs.get("constraints", ()) for v in variables(c.a, c.b)}


def _in_branches(func: Function) -> set[DimVar]:
    """The dims of casts that are reached in some runs only."""
    branches: list[Expr] = []
    for node in post_order(func.body):
        if isinstance(node, If):
            branches += (node.then, node.orelse)
        elif isinstance(node, Match):
            branches += (clause.body for clause in node.clauses)
    return bound_dims(node.target for node in reached(branches) if isinstance(node, MatchCast))


def _without_sure(body: Expr) -> Expr:
    """`body` without the casts that cannot fail."""
    return transform(body, lambda node: node.value if isinstance(node, MatchCast) and is_sure(node) else None)
