"""A graph as an SVG that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from legato.viz.graph import Cluster, Graph, Node
from legato.viz.layout import Box, curve, lay_out, shortened, title
from legato.viz.style import CLUSTERS, EDGE, NODES, TEXT

__all__ = ["svg"]

# What XML cannot hold: most control characters, halves of characters.
_FOREIGN: Final = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(55296, 57344), 65534, 65535), "�")


def svg(graph: Graph) -> str:
    """The picture: text is selectable, and the pointer shows attributes and places of the model."""
    layout = lay_out(graph)
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'{head} font-family="monospace" font-size="11" fill="{TEXT}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for c, box in sorted(layout.clusters.items()):
        parts += _cluster(graph.clusters[c], box)
    for source, target, port in layout.edges:
        x = curve(layout.nodes[source], layout.nodes[target], port, len(graph.nodes[target].inputs))
        place = "M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}".format(*x)
        parts.append(f'<path d="{place}" fill="none" stroke="{EDGE}"/>')
    for n, box in layout.nodes.items():
        parts += _node(graph.nodes[n], box)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _cluster(cluster: Cluster, box: Box) -> Iterator[str]:
    yield _box(cluster, box, CLUSTERS[cluster.kind])
    yield f'<text x="{box.x + 8:.1f}" y="{box.y + 15:.1f}" font-weight="bold">{_text(title(cluster))}</text></g>'


def _node(node: Node, box: Box) -> Iterator[str]:
    middle = f'x="{box.x + box.width / 2:.1f}" text-anchor="middle"'
    yield _box(node, box, NODES[node.kind])
    yield f'<text {middle} y="{box.y + 15:.1f}" font-weight="bold">{_text(title(node))}</text>'
    if node.type:
        yield f'<text {middle} y="{box.y + 29:.1f}" fill="#5a6068">{_text(shortened(node.type))}</text>'
    yield "</g>"


def _box(part: Node | Cluster, box: Box, colours: tuple[str, str]) -> str:
    ground, edge = colours
    told = _text("\n".join(filter(None, (part.label, part.type, part.detail, part.span))))
    return (
        f'<g><title>{told}</title><rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="4" fill="{ground}" stroke="{edge}"/>'
    )


def _text(text: str) -> str:
    return escape(text.translate(_FOREIGN))
