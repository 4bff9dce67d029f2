"""Shares of a run's time, as a profile found them, at the groups and kernels of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from legato.profile.report import Profile
from legato.viz.graph import Graph, with_shares

__all__ = ["shares_of"]


def shares_of(profile: Profile) -> Callable[[Graph], Graph]:
    """What puts shares of time into a graph: at the calls of kernels; at fused groups, by the place of the model that
    they and the kernels come from; and at functions that hold such. Several of one name or place share its time."""
    total = profile.total

    def add(graph: Graph) -> Graph:
        if not total:
            return graph
        nodes = _of_kernels(graph, profile, total)
        clusters = _of_groups(graph, profile, total)
        inside: dict[int, float] = {}
        for n, share in nodes.items():
            inside[graph.nodes[n].cluster] = inside.get(graph.nodes[n].cluster, 0.0) + share
        for c in reversed(range(len(graph.clusters))):
            found = clusters.get(c, 0.0) + inside.get(c, 0.0)
            if found:
                clusters[c] = found
                parent = graph.clusters[c].parent
                inside[parent] = inside.get(parent, 0.0) + found
        return with_shares(graph, nodes, clusters)

    return add


def _of_kernels(graph: Graph, profile: Profile, total: float) -> dict[int, float]:
    seconds = {f"@{k.name}": k.seconds for k in profile.kernels}
    calls = Counter(node.label for node in graph.nodes if node.kind == "kernel")
    return {
        n: seconds[node.label] / calls[node.label] / total
        for n, node in enumerate(graph.nodes)
        if node.kind == "kernel" and node.label in seconds
    }


def _of_groups(graph: Graph, profile: Profile, total: float) -> dict[int, float]:
    groups = [c for c, cluster in enumerate(graph.clusters) if cluster.kind == "group"]
    at: dict[str, list[int]] = {}
    for c in groups:
        at.setdefault(graph.clusters[c].span, []).append(c)
    found: dict[int, float] = {}
    for kernel in profile.kernels:
        for site in kernel.sites:
            near = at.get(site, [])
            alike = [c for c in near if set(graph.clusters[c].operators) <= set(kernel.operators)] or near
            for c in alike:
                found[c] = found.get(c, 0.0) + kernel.seconds / len(kernel.sites) / len(alike) / total
    return found
