"""`RelayVisualizer(mod).render("name")`: the graph of a module as a PDF, an SVG, a page, or for Graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from legato.base.dataclass import dataclass
from legato.base.errors import ArtifactError, CompileError, UnsupportedError
from legato.base.files import replace_file
from legato.base.target import host
from legato.driver import CompileOptions
from legato.ir.module import Module
from legato.transform.infer_types import InferTypes
from legato.viz import Graph, Node, dot, graph_of, page, pdf, stages, svg, tree

__all__ = ["Plotter", "RelayVisualizer", "VizEdge", "VizGraph", "VizNode"]

FORMATS: Final = ("pdf", "svg", "dot", "html")


@dataclass(frozen=True, slots=True)
class VizNode:
    """A node that a plotter is given: its number as text, what it is, and the rest in words."""

    identity: str
    type_name: str
    detail: str


@dataclass(frozen=True, slots=True)
class VizEdge:
    """That node `end` reads node `start`."""

    start: str
    end: str


class VizGraph(Protocol):
    """What a plotter draws a function into."""

    def node(self, viz_node: VizNode) -> None:
        """Adds a node."""

    def edge(self, viz_edge: VizEdge) -> None:
        """Adds an edge between nodes."""


class Plotter(Protocol):
    """Something else that draws."""

    def create_graph(self, name: str) -> VizGraph:
        """The graph of function `name`."""

    def render(self, filename: str | None) -> None:
        """Draws what was added."""


class RelayVisualizer:
    """Draws `relay_mod`, a module, whose types are inferred first.

    relay_param: parameters by name, which are marked as such; plotter: what draws instead, given nodes and edges.
    CompileError for names that no parameter has; UnsupportedError for a parser: which nodes there are is not to be
    chosen.
    """

    def __init__(
        self,
        relay_mod: Any,
        relay_param: Mapping[str, Any] | None = None,
        plotter: Plotter | None = None,
        parser: object = None,
    ) -> None:
        held = getattr(relay_mod, "module", relay_mod)
        if not isinstance(held, Module):
            raise CompileError(f"RelayVisualizer draws a module, got a {type(relay_mod).__name__}")
        if parser is not None:
            hint = "legato.viz.graph_of(mod) gives nodes and edges as data: draw these, or give a plotter"
            raise UnsupportedError("parsers of one's own are not supported", hint=hint)
        if relay_param is not None and not isinstance(relay_param, Mapping):
            raise CompileError(f"relay_param: got a {type(relay_param).__name__}, wanted arrays by name")
        self._module = InferTypes()(held)
        self._params = frozenset(relay_param or ())
        self._graph = graph_of(self._module)
        self._plotter = plotter
        known = {_name(node) for node in self._graph.nodes if node.kind == "parameter"}
        if not self._params <= known:
            missing = ", ".join(sorted(map(repr, self._params - known)))
            hint = f"its parameters are {', '.join(sorted(known)) or 'none'}"
            raise CompileError(f"relay_param: the module has no parameter {missing}", hint=hint)

    def render(self, filename: str | None = None, format: str = "pdf") -> str | None:
        """Writes `filename.format` and returns its name; without a name prints a tree. A plotter does as it likes.
        ArtifactError where the file cannot be written."""
        graph = self._with_marks(self._graph)
        if self._plotter is not None:
            _plotted(graph, self._plotter, filename)
            return None
        if format not in FORMATS:
            raise CompileError(f"no format {format!r}", hint=f"one of {', '.join(FORMATS)}")
        if filename is None:
            print(tree(graph))
            return None
        path = Path(f"{filename}.{format}")
        content = self._drawn(graph, format, path.name)
        try:
            replace_file(path, lambda temporary: temporary.write_bytes(content))
        except OSError as error:
            raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
        return str(path)

    def _with_marks(self, graph: Graph) -> Graph:
        return replace(graph, nodes=tuple(self._marked(node) for node in graph.nodes))

    def _marked(self, node: Node) -> Node:
        is_known = node.kind == "parameter" and _name(node) in self._params
        return replace(node, detail="a parameter that is given") if is_known else node

    def _drawn(self, graph: Graph, format: str, title: str) -> bytes:
        if format == "pdf":
            return pdf(graph)
        if format == "html":
            found = stages(self._module, CompileOptions(host()))
            return page(title, found.stages, note=found.note, shares=self._with_marks).encode()
        return {"svg": svg, "dot": dot}[format](graph).encode()


def _name(node: Node) -> str:
    return node.label.removeprefix("%")


def _plotted(graph: Graph, plotter: Plotter, filename: str | None) -> None:
    """Gives each function's nodes and edges to the plotter."""
    root: list[int] = []
    for number, cluster in enumerate(graph.clusters):
        root.append(number if cluster.parent < 0 else root[cluster.parent])
    graphs = {n: plotter.create_graph(c.label.removeprefix("@")) for n, c in enumerate(graph.clusters) if root[n] == n}
    for n, node in enumerate(graph.nodes):
        drawing = graphs[root[node.cluster]]
        detail = "\n".join(filter(None, (node.label, node.type, node.detail)))
        drawing.node(VizNode(str(n), node.kind, detail))
        for source in node.inputs:
            drawing.edge(VizEdge(str(source), str(n)))
    plotter.render(filename)
