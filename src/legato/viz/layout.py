"""Where nodes and clusters lie in a picture: layers from top to bottom, in the manner of Sugiyama.

Each cluster is laid out by itself, the clusters in it as boxes; so a page can close one, and the rest keeps its order.
Within a cluster a unit (a node, or a cluster in it) lies one rank below the lowest of those that it reads; what
computes nothing lies directly above its first reader. Edges between clusters count for ranks until the ways up to the
cluster around both ends have taken `_CROSS` steps, all in all: beyond that, with thousands of branches in each other,
boxes may lie above what they read. In a rank units are ordered by where those lie that they read, and moved as little
as possible from below these (regression with pooled neighbours). All of it takes n log n steps, and no recursion.
Lengths are in points, of text in a font whose characters are `CHARACTER` wide.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from legato.base.dataclass import dataclass
from legato.viz.graph import LEAVES, Cluster, Graph, Node, contents
from legato.viz.style import share_text

__all__ = ["CHARACTER", "HEAD", "Box", "Layout", "Plan", "curve", "lay_out", "plan", "shortened", "title"]

CHARACTER: Final = 6.6  # the width of one, of 11 points
HEAD: Final = 20.0  # the height of a cluster's title
LONGEST: Final = 44  # characters of a text that are shown
_LINE, _PAD, _GAP, _BETWEEN = 14.0, 10.0, 16.0, 26.0
_SWEEPS = 3
_CROSS = 2_000_000  # steps up the clusters that edges may take, all in all

Unit = tuple[str, int]  # ("node" or "cluster", its number)


@dataclass(frozen=True, slots=True)
class Plan:
    """ranks: for each cluster and, last, for the module: its units rank by rank, in order; edges: between such."""

    ranks: list[list[list[Unit]]]
    edges: list[list[tuple[Unit, Unit]]]


@dataclass(frozen=True, slots=True)
class Box:
    """A place: of its left upper corner, and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by number; what is not drawn has none. `edges` are pairs of nodes, with the number of the input."""

    width: float
    height: float
    nodes: Mapping[int, Box]
    clusters: Mapping[int, Box]
    edges: list[tuple[int, int, int]] = field(default_factory=list)


def shortened(text: str) -> str:
    """`text` as far as it is shown."""
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 1]}…"


def title(part: Node | Cluster) -> str:
    """What stands in a box in bold: what it is, and its share of the time."""
    return f"{shortened(part.label)}{share_text(part.share)}"


def plan(graph: Graph, hidden: frozenset[str] = frozenset()) -> Plan:
    """The ranks of every cluster, without nodes of the kinds `hidden`."""
    nodes, inner = contents(graph, hidden)
    lifted = _lifted(graph, hidden)
    module = len(graph.clusters)
    ranks: list[list[list[Unit]]] = []
    for c in range(module + 1):
        units: list[Unit] = [*(("node", n) for n in nodes[c]), *(("cluster", k) for k in inner[c])]
        if c == module:
            ranks.append([[unit] for unit in units])  # functions below each other
        else:
            ranks.append(_ranked(graph, units, lifted[c]))
    return Plan(ranks, lifted)


def _lifted(graph: Graph, hidden: frozenset[str]) -> list[list[tuple[Unit, Unit]]]:
    """The edges by the innermost cluster that holds both ends, between units of it."""
    depth: list[int] = []
    for cluster in graph.clusters:
        depth.append(0 if cluster.parent < 0 else depth[cluster.parent] + 1)
    found: list[dict[tuple[Unit, Unit], None]] = [{} for _ in range(len(graph.clusters) + 1)]
    steps = 0
    for n, node in enumerate(graph.nodes):
        for source in node.inputs if node.kind not in hidden else ():
            a, b = graph.nodes[source].cluster, node.cluster
            if graph.nodes[source].kind in hidden or (a != b and steps > _CROSS):
                continue
            left: Unit = ("node", source)
            right: Unit = ("node", n)
            while a != b:
                steps += 1
                if b < 0 or (a >= 0 and depth[a] >= depth[b]):
                    left, a = ("cluster", a), graph.clusters[a].parent
                else:
                    right, b = ("cluster", b), graph.clusters[b].parent
            if left != right:
                found[a][left, right] = None
    return [list(edges) for edges in found]


def _ranked(graph: Graph, units: Sequence[Unit], edges: Sequence[tuple[Unit, Unit]]) -> list[list[Unit]]:
    """The units of a cluster in ranks, those of a rank in order."""
    readers: dict[Unit, list[Unit]] = {unit: [] for unit in units}
    read: dict[Unit, list[Unit]] = {unit: [] for unit in units}
    for a, b in edges:
        readers[a].append(b)
        read[b].append(a)
    rank = _depths(units, readers, read)
    for unit in units:
        kind, number = unit
        if kind == "node" and graph.nodes[number].kind in LEAVES and readers[unit]:
            rank[unit] = min(rank[r] for r in readers[unit]) - 1
    lowest = min(rank.values(), default=0)
    ranks: list[list[Unit]] = [[] for _ in range(max(rank.values(), default=-1) + 1 - lowest)]
    for unit in units:
        ranks[rank[unit] - lowest].append(unit)
    for sweep in range(_SWEEPS):
        _sort(ranks if sweep % 2 == 0 else ranks[::-1], read if sweep % 2 == 0 else readers)
    return [units for units in ranks if units]


def _depths(
    units: Sequence[Unit], readers: Mapping[Unit, Sequence[Unit]], read: Mapping[Unit, Sequence[Unit]]
) -> dict[Unit, int]:
    """One more than the greatest of those read. What lies on a circle, if anything does, comes last."""
    rank = dict.fromkeys(units, 0)
    missing = {unit: len(read[unit]) for unit in units}
    ready = [unit for unit in units if not missing[unit]]
    for unit in ready:  # which grows
        for reader in readers[unit]:
            rank[reader] = max(rank[reader], rank[unit] + 1)
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return rank


def _sort(ranks: Sequence[list[Unit]], towards: Mapping[Unit, Sequence[Unit]]) -> None:
    """Orders each rank by the mean place of those units that it is turned to, and that have one by then."""
    place: dict[Unit, float] = {}
    for units in ranks:
        for n, unit in enumerate(units):
            place[unit] = n / len(units)
        wanted: dict[Unit, float] = {}
        for unit in units:
            near = [place[other] for other in towards[unit] if other in place]
            wanted[unit] = sum(near) / len(near) if near else place[unit]
        units.sort(key=lambda unit: wanted[unit])
        for n, unit in enumerate(units):
            place[unit] = n / len(units)


# ------------------------------------------------------------------ lengths


def lay_out(graph: Graph, hidden: frozenset[str] = frozenset()) -> Layout:
    """Places for everything but the nodes of kinds that are `hidden`, every cluster open."""
    planned = plan(graph, hidden)
    module = len(graph.clusters)
    sizes: dict[Unit, tuple[float, float]] = {}
    inside: dict[int, dict[Unit, tuple[float, float]]] = {}  # places of units, by cluster
    for n, node in enumerate(graph.nodes):
        width = CHARACTER * max(len(title(node)), len(shortened(node.type))) + 2 * _PAD
        sizes["node", n] = width, _LINE * (1 + bool(node.type)) + 8
    for c in (*reversed(range(module)), module):  # those inside come first
        inside[c], (width, height) = _arranged(planned.ranks[c], planned.edges[c], sizes)
        if c < module:
            least = CHARACTER * len(title(graph.clusters[c])) + 2 * _PAD
            sizes["cluster", c] = max(width, least) + 2 * _PAD, height + HEAD + 2 * _PAD
        else:
            total = width + 2 * _PAD, height + 2 * _PAD
    corners: dict[int, tuple[float, float]] = {module: (_PAD, _PAD)}
    nodes: dict[int, Box] = {}
    clusters: dict[int, Box] = {}
    for c in (module, *range(module)):  # those around come first
        if c not in corners:
            continue
        left, top = corners[c]
        for (kind, number), (x, y) in inside[c].items():
            box = Box(left + x, top + y, *sizes[kind, number])
            if kind == "node":
                nodes[number] = box
            else:
                clusters[number] = box
                corners[number] = box.x + _PAD, box.y + HEAD + _PAD
    edges = [
        (source, n, k)
        for n in nodes
        for k, source in enumerate(graph.nodes[n].inputs)
        if source in nodes
    ]  # fmt: skip
    return Layout(*total, nodes, clusters, edges)


def _arranged(
    ranks: Sequence[Sequence[Unit]], edges: Sequence[tuple[Unit, Unit]], sizes: Mapping[Unit, tuple[float, float]]
) -> tuple[dict[Unit, tuple[float, float]], tuple[float, float]]:
    """The left upper corner of every unit, and the size of all together."""
    near: dict[Unit, list[Unit]] = {}
    for a, b in edges:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    middle: dict[Unit, float] = {}
    for line in (*ranks, *reversed(ranks)):
        wanted = []
        for unit in line:
            known = [middle[other] for other in near.get(unit, ()) if other in middle]
            wanted.append(sum(known) / len(known) if known else middle.get(unit, 0.0))
        middle.update(zip(line, _apart(wanted, [sizes[unit][0] for unit in line]), strict=True))
    left = min((x - sizes[unit][0] / 2 for unit, x in middle.items()), default=0.0)
    right = max((x + sizes[unit][0] / 2 for unit, x in middle.items()), default=0.0)
    places: dict[Unit, tuple[float, float]] = {}
    y = 0.0
    for line in ranks:
        height = max(sizes[unit][1] for unit in line)
        for unit in line:
            places[unit] = middle[unit] - sizes[unit][0] / 2 - left, y + (height - sizes[unit][1]) / 2
        y += height + _BETWEEN
    return places, (right - left, max(0.0, y - _BETWEEN))


def _apart(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Middles that keep the order and leave gaps, with the least sum of squared distances from those `wanted`."""
    offsets = [0.0]
    for a, b in itertools.pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + _GAP)
    blocks: list[tuple[float, int]] = []  # the mean of a block of neighbours that touch, and how many they are
    for x, offset in zip(wanted, offsets, strict=False):
        mean, count = x - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, more = blocks.pop()
            mean, count = (before * more + mean * count) / (more + count), more + count
        blocks.append((mean, count))
    found = [mean for mean, count in blocks for _ in range(count)]
    return [x + offset for x, offset in zip(found, offsets, strict=False)]


def curve(a: Box, b: Box, port: int, ports: int) -> tuple[float, float, float, float, float, float, float, float]:
    """The Bézier curve of an edge: from the middle below `a` to one of the ports above `b`. One that would run straight
    through what lies between bends to the side."""
    x, y = a.x + a.width / 2, a.y + a.height
    u, v = b.x + b.width * (port + 1) / (ports + 1), b.y
    drop = max(12.0, (v - y) / 3)
    side = 0.0
    if v - y > 2 * _BETWEEN + 2 * _LINE and abs(u - x) < 60:
        side = max(a.width, b.width) / 2 + min(120.0, 20 + (v - y) / 12)
    return x, y, x + side, y + drop, u + side, v - drop, u, v
