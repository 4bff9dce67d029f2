"""The operators of a model as a table: how many nodes there are of each, and what of it cannot be compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.frontend.onnx.graph import subgraphs
from legato.frontend.onnx.proto import ModelProto, NodeProto
from legato.frontend.onnx.reader import opsets_of, version_of
from legato.frontend.onnx.report import Unsupported

__all__ = ["Key", "Use", "by_operator", "census", "domain_of"]

Key = tuple[str, str, int]  # domain ("" is ONNX's own), operator, operator set


@dataclass(frozen=True, slots=True)
class Use:
    """An operator of a model: how many nodes there are of it, in all graphs and functions of the file, how many were
    refused (a node of a function once for each call), and why."""

    domain: str
    operator: str
    opset: int
    count: int
    refused: int
    reasons: tuple[str, ...]

    @property
    def is_supported(self) -> bool:
        """Whether no node was refused."""
        return not self.refused


def domain_of(domain: str) -> str:
    """A domain as keys have it."""
    return "" if domain == "ai.onnx" else domain


def census(model: ModelProto, opsets: Mapping[str, int]) -> Counter[Key]:
    """How many nodes there are of each operator, those in subgraphs and local functions included."""
    found: Counter[Key] = Counter()
    bodies = [(model.graph.node, opsets), *((f.node, opsets_of(f)) for f in model.functions)]
    for nodes, known in bodies:
        for node in _within(nodes):
            domain = domain_of(node.domain)
            found[domain, node.op_type, version_of(known, domain)] += 1
    return found


def _within(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        left += [inner for graph in subgraphs(node) for inner in graph.node]


def by_operator(counts: Mapping[Key, int], unsupported: Sequence[Unsupported]) -> tuple[Use, ...]:
    """The table: what is refused first, then what there is most of."""
    refused: dict[Key, list[str]] = {}
    for item in unsupported:
        refused.setdefault((item.domain, item.operator, item.opset), []).append(item.reason)
    rows = [
        Use(*key, count, len(why := refused.get(key, [])), tuple(dict.fromkeys(why))) for key, count in counts.items()
    ]
    return tuple(sorted(rows, key=lambda use: (use.is_supported, -use.count, use.domain, use.operator, use.opset)))
