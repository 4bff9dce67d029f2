"""A graph cut into parts that become programs, around the nodes that run in eager.

Eager nodes stay in the order of the graph, since some draw random numbers. Part n has what can be computed behind the
first n of them; the last one takes all that no eager node needs.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import fx

from legato.base.dataclass import dataclass

__all__ = ["Part", "cut", "join"]


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that become one program: `inputs` and `results` are nodes of the whole graph, `names` what the nodes of
    `module` are called there."""

    module: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    names: Mapping[str, str]

    @property
    def key(self) -> object:
        """The same for parts of one graph that are the same."""
        return frozenset(self.names.values()), self.results


def cut(graph_module: fx.GraphModule, refused: Collection[str]) -> tuple[list[fx.Node], dict[int, Part]]:
    """The nodes that run in eager, in order, and the parts by the number of eager nodes before them."""
    eager = _eager(graph_module.graph, refused)
    order = {node: n for n, node in enumerate(eager, 1)}
    needed = _needed(graph_module.graph, order)
    levels: dict[fx.Node, int] = {}
    members: dict[int, list[fx.Node]] = {}
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or node in order or not node.users:
            continue
        before = [order.get(n, levels.get(n, 0)) for n in node.all_input_nodes]
        is_item = node.target is operator.getitem and node.args[0] in levels  # no program gives the tuple
        levels[node] = max(before, default=0) if node in needed or is_item else len(eager)
        members.setdefault(levels[node], []).append(node)
    return eager, {n: _part(graph_module, nodes) for n, nodes in members.items()}


def _eager(graph: fx.Graph, refused: Collection[str]) -> list[fx.Node]:
    """The refused nodes, with what takes their tuples apart; truth values of sizes, which are no program's result."""
    found: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        is_item = node.target is operator.getitem and node.args[0] in found
        if node.name in refused or is_item or isinstance(node.meta.get("val"), torch.SymBool):
            found[node] = None
    return list(found)


def _needed(graph: fx.Graph, eager: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes that eager ones need, and these."""
    found = set(eager)
    for node in reversed(graph.nodes):
        if node in found:
            found.update(node.all_input_nodes)
    return found


def _part(graph_module: fx.GraphModule, nodes: list[fx.Node]) -> Part:
    own = set(nodes)
    used = dict.fromkeys(i for n in nodes for i in n.all_input_nodes if i not in own)
    inputs = tuple(n for n in used if n.op != "get_attr")
    results = tuple(n for n in nodes if any(user not in own for user in n.users))
    graph, copies = fx.Graph(), {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in [*(n for n in used if n.op == "get_attr"), *nodes]:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[n] for n in results))
    names = {made.name: node.name for node, made in copies.items()}
    return Part(fx.GraphModule(graph_module, graph), inputs, results, names)


def join(
    graph_module: fx.GraphModule, eager: list[fx.Node], parts: Mapping[int, Part], made: Mapping[int, Any]
) -> fx.GraphModule:
    """The whole graph again, in which `made` stands for the parts."""
    graph, values = fx.Graph(), {}
    root = torch.nn.Module()
    for node in graph_module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            values[node] = graph.node_copy(node)
        if node.op == "get_attr":
            _hold(root, str(node.target), graph_module)
    for n, node in enumerate([None, *eager]):
        if node is not None:
            values[node] = graph.node_copy(node, values.__getitem__)
        if (part := parts.get(n)) is None:
            continue
        root.add_module(f"part_{n}", made[n])
        call = graph.call_module(f"part_{n}", tuple(values[i] for i in part.inputs))
        values |= {node: graph.call_function(operator.getitem, (call, i)) for i, node in enumerate(part.results)}
    (output,) = (n for n in graph_module.graph.nodes if n.op == "output")
    graph.node_copy(output, values.__getitem__)
    return fx.GraphModule(root, graph)


def _hold(root: torch.nn.Module, path: str, source: torch.nn.Module) -> None:
    """What `source` has at a path, in `root`."""
    value: Any = source
    *above, name = path.split(".")
    for part in path.split("."):
        value = getattr(value, part)
    for part in above:
        if not hasattr(root, part):
            setattr(root, part, torch.nn.Module())
        root = getattr(root, part)
    setattr(root, name, value)
