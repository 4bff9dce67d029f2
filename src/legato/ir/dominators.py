"""Dominators of a graph without circles: what lies on every path to a node, or from it.

A node `d` dominates `n` if every path from where the graph begins to `n` leads through `d`; a node dominates itself.
With users in the place of operands, these are the post-dominators: `d` is met on every way from `n` to the result.

The tree is made of scopes, which know a far ancestor each (`ir.scope`), so it takes n log n steps for any graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Generic, TypeVar

from legato.ir.expr import Expr
from legato.ir.scope import Scope, operands

__all__ = ["DominatorTree", "post_dominators", "users"]

N = TypeVar("N")


class DominatorTree(Generic[N]):
    """The dominators of nodes in `order`, in which each comes behind those `before` it; nodes are told by identity.

    What has nothing before it begins a path.
    """

    def __init__(self, order: Iterable[N], before: Callable[[N], Iterable[N]]) -> None:
        self._begin = Scope()
        self._scope: dict[int, Scope] = {}
        self._node: dict[Scope, N] = {}
        for node in order:
            found = [self._scope[id(b)] for b in before(node)]
            own = Scope(reduce(Scope.common, found) if found else self._begin)
            self._scope[id(node)] = own
            self._node[own] = node

    def parent(self, node: N) -> N | None:
        """The nearest other node that dominates `node`; None where no single one does."""
        above = self._scope[id(node)].parent
        return None if above is None else self._node.get(above)

    def depth(self, node: N) -> int:
        """How many nodes dominate `node`, itself counted."""
        return self._scope[id(node)].depth

    def dominates(self, a: N, b: N) -> bool:
        """Whether `a` dominates `b`."""
        return self._scope[id(a)].encloses(self._scope[id(b)])


def users(order: Sequence[Expr]) -> dict[int, list[Expr]]:
    """The nodes that each node of an expression is an operand of, once for each time, by id."""
    found: dict[int, list[Expr]] = {id(node): [] for node in order}
    for node in order:
        for operand in operands(node):
            found[id(operand)].append(node)
    return found


def post_dominators(order: Sequence[Expr]) -> DominatorTree[Expr]:
    """The post-dominators in an expression whose nodes are `order`, operands first (`ir.scope.post_order`)."""
    used = users(order)
    return DominatorTree(reversed(order), lambda node: used[id(node)])
