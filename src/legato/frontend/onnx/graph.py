"""The order of a graph's nodes: checked names, no cycles, only what the outputs need. Nothing here recurses."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError
from legato.frontend.onnx.proto import AttributeProto, GraphProto, NodeProto

__all__ = ["Step", "label", "reads", "schedule", "subgraphs"]


@dataclass(frozen=True, slots=True)
class Step:
    """A node and its place in the file."""

    index: int
    node: NodeProto

    def __str__(self) -> str:
        return label(self.node, self.index)


def label(node: NodeProto, index: int) -> str:
    """What to call a node in messages and spans."""
    return node.name or f"Op_{index} ({node.op_type})"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among the attributes of `node`."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def schedule(nodes: Sequence[NodeProto], given: Container[str], wanted: Iterable[str], where: str) -> tuple[Step, ...]:
    """The nodes that `wanted` needs, each after those that it reads; as in the file where that order is right.

    `given` are the names that exist before. ImportModelError where a name is defined twice or never, or nodes form a
    cycle; `where` names the graph in messages.
    """
    steps = [Step(index, node) for index, node in enumerate(nodes)]
    needs = [reads(node) for node in nodes]
    maker = _makers(steps, given, where)
    for step, names in zip(steps, needs, strict=True):
        for name in names:
            if name not in maker and name not in given:
                raise ImportModelError(f"{where}: {step} reads {name!r}, which nothing defines")
    wanted = list(wanted)
    for name in wanted:
        if name not in maker and name not in given:
            raise ImportModelError(f"{where}: the output {name!r} is defined by nothing")
    order = _order(steps, needs, maker, where)
    live = _live(wanted, needs, maker)
    return tuple(steps[n] for n in order if n in live)


def reads(node: NodeProto) -> list[str]:
    """The names that `node` reads, those that its subgraphs take from outside included.

    A name that a graph defines is its own, and that of graphs inside it; elsewhere it is another.
    """
    found = dict.fromkeys(name for name in node.input if name)
    inner: list[tuple[GraphProto, frozenset[str]]] = [(graph, frozenset()) for graph in subgraphs(node)]
    while inner:
        graph, outer = inner.pop()
        own = outer | {name for made in graph.node for name in made.output}
        own |= {*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)}
        own |= {sparse.values.name for sparse in graph.sparse_initializer}
        read = [value.name for value in graph.output]
        for sub in graph.node:
            read += sub.input
            inner += [(below, own) for below in subgraphs(sub)]
        found.update((name, None) for name in read if name and name not in own)
    return list(found)


def _makers(steps: Sequence[Step], given: Container[str], where: str) -> dict[str, int]:
    """The index of the node that defines each name."""
    maker: dict[str, int] = {}
    for step in steps:
        for name in step.node.output:
            if not name:
                continue
            if name in given:
                raise ImportModelError(f"{where}: {step} defines {name!r}, which is an input or initializer already")
            if name in maker:
                raise ImportModelError(f"{where}: {name!r} is defined twice, by {steps[maker[name]]} and by {step}")
            maker[name] = step.index
    return maker


def _order(
    steps: Sequence[Step], needs: Sequence[Sequence[str]], maker: Mapping[str, int], where: str
) -> Sequence[int]:
    """Indices with every node after those that it reads, otherwise as in the file (Kahn's algorithm)."""
    before = [{maker[name] for name in names if name in maker} for names in needs]
    if all(all(m < n for m in earlier) for n, earlier in enumerate(before)):
        return range(len(steps))
    after: list[list[int]] = [[] for _ in steps]
    for n, earlier in enumerate(before):
        for m in earlier:
            after[m].append(n)
    waiting = [len(earlier) for earlier in before]
    ready = [n for n, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        n = heapq.heappop(ready)
        order.append(n)
        for later in after[n]:
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, later)
    if len(order) < len(steps):
        raise _cycle(steps, before, set(range(len(steps))) - set(order), where)
    return order


def _cycle(steps: Sequence[Step], before: Sequence[set[int]], stuck: set[int], where: str) -> ImportModelError:
    """The error that names one cycle among the nodes `stuck`, each of which waits for another of them."""
    here, seen = min(stuck), dict[int, int]()
    while here not in seen:
        seen[here] = len(seen)
        here = min(before[here] & stuck)
    path = [n for n in seen if seen[n] >= seen[here]][::-1]
    shown = [str(steps[n]) for n in path[:8]] + ["…"] * (len(path) > 8)
    return ImportModelError(f"{where}: nodes form a cycle: {' → '.join([*shown, str(steps[path[0]])])}")


def _live(wanted: Iterable[str], needs: Sequence[Sequence[str]], maker: Mapping[str, int]) -> set[int]:
    """The nodes that the names `wanted` depend on."""
    live: set[int] = set()
    names = list(wanted)
    while names:
        n = maker.get(names.pop())
        if n is not None and n not in live:
            live.add(n)
            names += needs[n]
    return live
