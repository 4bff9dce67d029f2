"""The graph of a module as plain data, from which everything is drawn: nodes, what they read, and what they lie in.

A node is what computes a value: a call, a constant, a parameter, a branch. Its inputs are nodes before it, so that the
nodes are in an order of evaluation. A cluster is a scope that people see: a function, a fused group, a closure, a
branch or a clause; its parent is a cluster before it. Names that a let binds are no nodes: edges go to the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass

__all__ = ["LEAVES", "Cluster", "Graph", "Node", "contents", "with_shares"]

LEAVES = frozenset({"constant", "parameter", "shape", "global"})  # nodes that compute nothing


@dataclass(frozen=True, slots=True)
class Node:
    """kind: constant, parameter, operator, kernel, call, construct, function, if, match, tuple, field, reference, cast,
    shape, pattern, global (a function or operator that is a value), or recursion (a closure's own name in it).

    inputs: numbers of nodes; cluster: the number of the innermost that it lies in; line: of the text, from 0; -1: none;
    share: of the time of a run, where that was measured; data: the array of a constant.
    """

    kind: str
    label: str
    type: str = ""
    detail: str = ""
    span: str = ""
    inputs: tuple[int, ...] = ()
    cluster: int = -1
    line: int = -1
    share: float | None = None
    data: np.ndarray[Any, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """kind: function, group, closure, branch or clause; parent: a cluster, -1: the module; result: the node that it
    gives; operators: the names of what a group is made of."""

    kind: str
    label: str
    parent: int = -1
    type: str = ""
    detail: str = ""
    span: str = ""
    result: int = -1
    line: int = -1
    operators: tuple[str, ...] = ()
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A module: `programs` are the names of its loop-level functions, whose insides are no graphs."""

    nodes: tuple[Node, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    programs: tuple[str, ...] = field(default=())

    @property
    def functions(self) -> int:
        """How many functions it has."""
        return sum(c.kind == "function" for c in self.clusters)

    @property
    def computing(self) -> int:
        """How many nodes compute something."""
        return sum(n.kind not in LEAVES for n in self.nodes)


def contents(graph: Graph, hidden: frozenset[str] = frozenset()) -> tuple[list[list[int]], list[list[int]]]:
    """For each cluster and, last, for the module: the nodes directly in it, of kinds that are not hidden, and the
    clusters directly in it that hold any, both in the order of evaluation."""
    nodes: list[list[int]] = [[] for _ in range(len(graph.clusters) + 1)]
    inner: list[list[int]] = [[] for _ in range(len(graph.clusters) + 1)]
    first = [len(graph.nodes)] * len(graph.clusters)
    for n, node in enumerate(graph.nodes):
        if node.kind not in hidden:
            nodes[node.cluster].append(n)
            if node.cluster >= 0:
                first[node.cluster] = min(first[node.cluster], n)
    for c in reversed(range(len(graph.clusters))):
        parent = graph.clusters[c].parent
        if parent >= 0:
            first[parent] = min(first[parent], first[c])
    for c in sorted(range(len(graph.clusters)), key=lambda c: (first[c], c)):
        if first[c] < len(graph.nodes):
            inner[graph.clusters[c].parent].append(c)
    return nodes, inner


def with_shares(graph: Graph, nodes: Mapping[int, float], clusters: Mapping[int, float]) -> Graph:
    """`graph` with the shares of time of nodes and clusters, by number."""
    return replace(
        graph,
        nodes=tuple(replace(v, share=nodes[n]) if n in nodes else v for n, v in enumerate(graph.nodes)),
        clusters=tuple(replace(c, share=clusters[n]) if n in clusters else c for n, c in enumerate(graph.clusters)),
    )
