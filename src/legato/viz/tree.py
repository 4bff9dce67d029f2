"""A graph as a tree of text: functions, what is in them, fused groups, operators with their types."""

from __future__ import annotations

from legato.viz.graph import LEAVES, Graph, contents
from legato.viz.layout import shortened
from legato.viz.style import share_text

__all__ = ["tree"]

_DEEPEST = 40  # deeper clusters are indented no further, so that the text stays linear in the program
_NAMED = 6  # loop programs whose names are shown


def tree(graph: Graph) -> str:
    """A line for each cluster and each node that computes something, in the order of evaluation."""
    return "\n".join(_Tree(graph).lines())


class _Tree:
    """What is where: `places` says where a cluster stands among nodes, `params` has the parameters of functions."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes, self.inner = contents(graph, LEAVES)
        self.places = [c.result for c in graph.clusters]
        self.params: list[list[str]] = [[] for _ in graph.clusters]
        for n, node in enumerate(graph.nodes):
            if node.kind == "parameter":
                self.params[node.cluster].append(f"{node.label}: {node.type}" if node.type else node.label)
            elif graph.clusters[node.cluster].result < 0:  # a branch stands where its last node does
                self.places[node.cluster] = n
        for c in reversed(range(len(graph.clusters))):
            parent = graph.clusters[c].parent
            if parent >= 0 and graph.clusters[parent].result < 0:
                self.places[parent] = max(self.places[parent], self.places[c])

    def lines(self) -> list[str]:
        """The lines, top down."""
        found: list[str] = []
        # What is still to be written, last first: a node or a cluster, the bars before it, whether it is the last.
        todo = [("cluster", c, "", True) for c in reversed(self._roots())]
        while todo:
            kind, number, bars, is_last = todo.pop()
            if kind == "node":
                found.append(f"{bars}{_corner(is_last)}{self._node(number)}")
                continue
            is_root = self.graph.clusters[number].parent < 0
            found.append(f"{'' if is_root else bars + _corner(is_last)}{self._cluster(number)}")
            deeper = not is_root and len(bars) < 3 * _DEEPEST
            below = bars + ("   " if is_last else "│  ") * deeper
            todo += [(k, n, below, not i) for i, (k, n) in enumerate(reversed(self._members(number)))]
        programs = self.graph.programs
        if programs:
            names = ", ".join(f"@{name}" for name in programs[:_NAMED])
            more = f" and {len(programs) - _NAMED} more" if len(programs) > _NAMED else ""
            found.append(f"loop programs: {names}{more}")
        return found

    def _roots(self) -> list[int]:
        return [c for c, cluster in enumerate(self.graph.clusters) if cluster.parent < 0]

    def _members(self, cluster: int) -> list[tuple[str, int]]:
        """What is directly in a cluster, in the order of evaluation."""
        places = [(n, "node", n) for n in self.nodes[cluster]]
        places += [(self.places[c], "cluster", c) for c in self.inner[cluster]]
        return [(kind, number) for _, kind, number in sorted(places)]

    def _node(self, number: int) -> str:
        node = self.graph.nodes[number]
        return _line(node.label, node.type, node.detail, node.share)

    def _cluster(self, number: int) -> str:
        cluster = self.graph.clusters[number]
        if cluster.kind in ("function", "closure"):
            result = f" -> {cluster.type}" if cluster.type else ""
            return f"{cluster.label}({', '.join(self.params[number])}){result}{share_text(cluster.share)}"
        label = f"fused: {cluster.label}" if cluster.kind == "group" else cluster.label
        return _line(label, cluster.type, "", cluster.share)


def _corner(is_last: bool) -> str:
    return "└─ " if is_last else "├─ "


def _line(label: str, ty: str, detail: str, share: float | None) -> str:
    parts = [label, ty, f"{{{shortened(detail)}}}" if detail else ""]
    return "  ".join(filter(None, parts)) + share_text(share)
