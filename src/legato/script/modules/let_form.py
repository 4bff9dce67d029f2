"""Which graph functions are chains of bindings, so that an assignment of their script can stand for a let.

In such a function a node that computes is used once, near where it is written: a value that is used again is bound. Any
other function is written in the form "graph", where an assignment names a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from legato.arith.expr import Var as DimVar
from legato.ir._dims import free_dims
from legato.ir.expr import Dataflow, Expr, Function, If, Let, Match, Tuple, TupleGetItem, Var
from legato.ir.scope import Placement, operands

__all__ = ["MOST_NESTED", "is_let_form", "let_values", "nesting", "outputs_by_name", "results"]

MOST_NESTED: Final = 3  # calls in one line


def nesting(node: Expr, inside: Mapping[int, int]) -> int:
    """How many calls are in each other in the text of a node, where its operands are written out."""
    return 1 + max((inside.get(id(k), 0) for k in operands(node)), default=0)


def let_values(node: Expr) -> tuple[Expr, ...]:
    """What a node binds to variables."""
    match node:
        case Let(_, value):
            return (value,)
        case Dataflow(bindings):
            return tuple(value for _, value in bindings)
        case _:
            return ()


def results(node: Expr) -> tuple[Expr, ...]:
    """What stands at the ends of the blocks of a node; of a dataflow block nothing does."""
    match node:
        case Function(_, body) | Let(_, _, body):
            return (body,)
        case If(_, then, orelse):
            return (then, orelse)
        case Match(_, clauses):
            return tuple(c.body for c in clauses)
        case _:
            return ()


def is_let_form(placement: Placement, wanted: AbstractSet[DimVar] = frozenset()) -> bool:
    """Whether a function can be written as assignments that bind, and a return.

    wanted: dims that data decides, of which a type has to tell; only what is bound states its type.
    """
    bound = {id(v): var for node in placement.order for var, v in _bindings(node)}
    ends = {id(r) for node in placement.order for r in results(node)}
    depth: dict[int, int] = {}
    for node in placement.order[:-1]:
        if not operands(node):
            continue
        if placement.uses[id(node)] > 1 and not _is_projection(node):
            return False
        if wanted and id(node) not in bound and node.ty is not None and not wanted.isdisjoint(free_dims(node.ty)):
            return False
        if isinstance(node, TupleGetItem) and isinstance(node.value, Tuple):
            return False  # in a function of this form, a field that is written out is what it is
        match node:
            case Function() | Dataflow():
                fits = id(node) in bound
            case If() | Match():
                fits = id(node) in ends or (id(node) in bound and bound[id(node)].ty in (None, node.ty))
            case Let():
                fits = id(node) in ends
            case _:
                depth[id(node)] = nesting(node, depth)
                fits = depth[id(node)] <= MOST_NESTED or id(node) in ends or id(node) in bound
        if not fits:
            return False
    return True


def _bindings(node: Expr) -> tuple[tuple[Var, Expr], ...]:
    match node:
        case Let(var, value):
            return ((var, value),)
        case Dataflow(bindings):
            return bindings
        case _:
            return ()


def _is_projection(node: Expr) -> bool:
    """A part of a variable, or a tuple of variables: written wherever it is used."""
    return isinstance(node, Tuple | TupleGetItem) and all(not operands(k) for k in operands(node))


def outputs_by_name(placement: Placement) -> dict[Var, tuple[Var, ...]]:
    """The variables of dataflow blocks of which only parts are used, each a variable of the block: their names stand
    for the parts behind it."""
    found: dict[Var, tuple[Var, ...]] = {}
    parts: dict[Var, int] = {}
    for node in placement.order:
        if isinstance(node, TupleGetItem) and isinstance(node.value, Var):
            parts[node.value] = parts.get(node.value, 0) + 1
        for var, value in _bindings(node):
            if isinstance(value, Dataflow) and placement.uses[id(value)] == 1:
                own = {v for v, _ in value.bindings}
                outputs = tuple(o for o in value.outputs if isinstance(o, Var) and o in own)
                if outputs and len(outputs) == len(value.outputs) == len(set(outputs)) and var.ty in (None, value.ty):
                    found[var] = outputs
    uses: dict[Var, int] = {}
    for node in placement.order:
        for kid in operands(node):
            if isinstance(kid, Var):
                uses[kid] = uses.get(kid, 0) + 1
    return {v: outputs for v, outputs in found.items() if uses.get(v, 0) == parts.get(v, 0)}
