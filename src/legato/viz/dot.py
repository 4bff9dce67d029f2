"""A graph in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from legato.viz.graph import Graph, Node, contents
from legato.viz.style import CLUSTERS, NODES, share_text

__all__ = ["dot"]


def dot(graph: Graph) -> str:
    """The graph, functions and groups as clusters: for `dot -Tpdf`."""
    lines = ["digraph module {", "  rankdir=TB;", '  node [shape=box, style="rounded,filled", fontname="monospace"];']
    lines += _inside(graph)
    for n, node in enumerate(graph.nodes):
        lines += [f"  n{source} -> n{n};" for source in node.inputs]
    return "\n".join([*lines, "}"]) + "\n"


def _inside(graph: Graph) -> Iterator[str]:
    """Nodes and clusters, each in what is around it."""
    nodes, inner = contents(graph)
    todo: list[int | str] = list(reversed(inner[len(graph.clusters)]))
    while todo:
        top = todo.pop()
        if isinstance(top, str):
            yield top
            continue
        cluster = graph.clusters[top]
        ground, edge = CLUSTERS[cluster.kind]
        yield f"  subgraph cluster_{top} {{"
        yield f"    label={_quoted(cluster.label + share_text(cluster.share))}; style=rounded; "
        yield f'    color="{edge}"; bgcolor="{ground}"; fontname="monospace";'
        yield from (f"    {_node(n, graph.nodes[n])}" for n in nodes[top])
        todo += ["  }", *reversed(inner[top])]


def _node(n: int, node: Node) -> str:
    ground, edge = NODES[node.kind]
    texts = [node.label + share_text(node.share), node.type, node.detail]
    label = "\\n".join(_escaped(text) for text in texts if text)
    return f'n{n} [label="{label}", fillcolor="{ground}", color="{edge}"];'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """A backslash begins an escape in labels; others than \\n are none of ours."""
    return " ".join(text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "").split())
