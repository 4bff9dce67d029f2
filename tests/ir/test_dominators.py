"""Dominators of random graphs: what a node cannot be reached without."""

from __future__ import annotations

from random import Random

import pytest

from legato.ir.dominators import DominatorTree, post_dominators
from legato.ir.expr import Expr, Tuple, Var
from legato.ir.scope import operands, post_order


class Node:
    """A node with those before it."""

    def __init__(self, before: list[Node]) -> None:
        self.before = before


def reachable(node: Node, without: Node) -> bool:
    """Whether a path from a node with nothing before it leads to `node` past `without`."""
    if node is without:
        return False
    return not node.before or any(reachable(b, without) for b in node.before)


@pytest.mark.parametrize("seed", range(30))
def test_dominators_by_taking_nodes_out(seed: int) -> None:
    random = Random(seed)
    nodes: list[Node] = []
    for _ in range(random.randint(1, 10)):
        nodes.append(Node(random.sample(nodes, min(len(nodes), random.randrange(3)))))
    tree = DominatorTree(nodes, lambda n: n.before)
    for n in nodes:
        above = [d for d in nodes if not reachable(n, d)]
        assert [d for d in nodes if tree.dominates(d, n)] == above
        assert tree.depth(n) == len(above)
        proper = [d for d in above if d is not n]
        assert tree.parent(n) is (max(proper, key=tree.depth) if proper else None)


def test_post_dominators_of_an_expression() -> None:
    x = Var("x")
    left, right = Tuple((x,)), Tuple((x, x))
    both = Tuple((left, right))
    root = Tuple((both, left))
    tree = post_dominators(list(post_order(root)))
    assert (tree.parent(right), tree.parent(both)) == (both, root)
    assert tree.parent(left) is tree.parent(x) is root
    assert tree.parent(root) is None


def test_a_long_chain_with_skips_is_walked_over_once() -> None:
    """Each node uses the one before and the first: no walk up a chain per node."""
    first: Expr = Var("x")
    chain = Tuple((first,))
    for _ in range(20_000):
        chain = Tuple((chain, first))
    order = list(post_order(chain))
    tree = DominatorTree(order, operands)
    assert tree.parent(chain) is first
    assert tree.depth(chain) == 2
