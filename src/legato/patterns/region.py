"""Regions: what a match covers of a graph, and what goes into it.

Inside are the nodes that the pattern has looked into; and, because it cannot be computed anywhere else, all that stands
in a function, a branch, a let or a clause of such a node. Inputs are the other operands: expressions that wildcards
stand for, variables, constants. Operators and functions of the module are named, not passed, and a constant that the
pattern asks for belongs to the region.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from legato.base.dataclass import dataclass
from legato.ir.expr import Constant, Constructor, Expr, Function, GlobalVar, Var
from legato.ir.op import Op
from legato.ir.scope import binders, operands, post_order, slots
from legato.patterns.graph import Graph, is_leaf
from legato.patterns.match import Match

__all__ = ["FROM_PATTERN", "Region", "finished", "region_of"]

FROM_PATTERN: Final = "PartitionedFromPattern"


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A match with the nodes inside, operands first, and its inputs, in the order in which they are evaluated.

    Nothing is inside of a match that has not looked into the expression: that is its own input.
    """

    match: Match
    inside: tuple[Expr, ...]
    inputs: tuple[Expr, ...]

    def overlaps(self, taken: Container[int]) -> bool:
        """Whether one of its nodes is among `taken` (ids)."""
        return any(id(node) in taken for node in self.inside)

    def is_used_outside(self, graph: Graph) -> bool:
        """Whether a value inside, other than the result, is used by nodes that are not."""
        own = {id(node) for node in self.inside}
        inner = (node for node in self.inside if node is not self.match.root)
        return any(id(user) not in own for node in inner for user in graph.users[id(node)])


def region_of(match: Match) -> Region:
    """The region of a match."""
    own = _inside(match)
    written = _written(match)
    inside: list[Expr] = []
    inputs: dict[int | Var, Expr] = {}
    bound: set[Var] = set()
    for node in post_order(match.root, lambda e: id(e) in own):
        if id(node) in own:
            inside.append(node)
            bound.update(v for scope in binders(node) for v in scope)
        elif not isinstance(node, Op | GlobalVar | Constructor) and id(node) not in written:
            inputs.setdefault(node if isinstance(node, Var) else id(node), node)
    for var in bound:
        inputs.pop(var, None)
    return Region(match, tuple(inside), tuple(inputs.values()))


def finished(graph: Graph) -> set[int]:
    """The ids of what is in functions that are primitive or come from a pattern: nothing matches there."""
    functions = (node for node in graph.order if isinstance(node, Function) and node is not graph.root)
    done = [f for f in functions if any(f.attrs.get(name) for name in (FROM_PATTERN, "Primitive"))]
    return {id(inner) for f in done for inner in post_order(f)}


def _inside(match: Match) -> set[int]:
    """The ids of the nodes inside."""
    own = set(match.opened)
    todo = [match.root]
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if id(node) in seen or id(node) not in own:
            continue
        seen.add(id(node))
        for operand, slot in zip(operands(node), slots(node), strict=True):
            if slot >= 0:
                own.update(id(inner) for inner in post_order(operand) if not is_leaf(inner))
            todo.append(operand)
    return own


def _written(match: Match) -> set[int]:
    """The ids of the constants that the pattern asks for."""
    asked = [es for part, es in match.found.items() if part.asks]
    return {id(e) for es in asked for e in es if isinstance(e, Constant)}
