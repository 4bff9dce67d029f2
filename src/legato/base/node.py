"""What all trees share: children, rebuilding, and iterative walks.

A node class says which of its fields hold nodes through `children()`, and how to rebuild itself through
`with_children(new)`. Everything else here is generic. Walks never recurse, so depth is bounded by memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, Self, TypeVar

__all__ = ["Node", "post_order", "rebuild", "transform"]


class Node(Protocol):
    """A tree or DAG node. Nodes are immutable; sharing by identity is meaningful."""

    def children(self) -> tuple[Self, ...]:
        """The sub-nodes, in evaluation order."""

    def with_children(self, children: tuple[Self, ...]) -> Self:
        """A node like this one with other sub-nodes (same number and order as `children()`)."""


N = TypeVar("N", bound=Node)


def post_order(roots: Iterable[N], enter: Callable[[N], bool] | None = None) -> Iterator[N]:
    """Every node reachable from `roots`, children before parents, each once (by identity), left to right.

    Where `enter(node)` is false the node is yielded but its children are not visited.
    """
    seen: set[int] = set()
    for root in roots:
        stack: list[N | None] = [root]  # None: the node below it is done
        while stack:
            node = stack.pop()
            if node is None:
                done = stack.pop()
                assert done is not None
                yield done
                continue
            key = id(node)
            if key in seen:
                continue
            seen.add(key)
            children = node.children() if enter is None or enter(node) else ()
            if not children:  # as half of all nodes are
                yield node
                continue
            stack += (node, None)
            stack += children[::-1]


def rebuild(node: N, new: dict[int, N]) -> N:
    """`node` with its children replaced through `new` (keyed by identity); the same object where none changed."""
    old = node.children()
    kids = tuple(new.get(id(child), child) for child in old)
    if all(a is b for a, b in zip(old, kids, strict=True)):
        return node
    return node.with_children(kids)


def transform(root: N, f: Callable[[N], N | None], enter: Callable[[N], bool] | None = None) -> N:
    """`root` rewritten bottom-up, each shared node once: `f(node)` sees a node with new children; None keeps it.

    What is in a node where `enter(node)` is false stays.
    """
    new: dict[int, N] = {}
    for node in post_order([root], enter):
        fresh = rebuild(node, new)
        replaced = f(fresh)
        new[id(node)] = fresh if replaced is None else replaced
    return new[id(root)]
